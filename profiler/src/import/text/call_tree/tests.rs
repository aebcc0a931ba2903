use crate::import::text::testing::{import, report, text_of};

#[test]
fn placeholder() {
    let imported = import(&text_of("bcachefs-randread.txt"));
    for session in &imported.sessions {
        println!("{:?}\n{}", session.heading, report(session));
    }
    println!("{:?}", imported.warnings);
}
