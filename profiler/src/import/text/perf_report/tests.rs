use crate::import::text::testing::{import, report, text_of};

#[test]
fn placeholder() {
    for name in ["xfs-agino-range.txt"] {
        let imported = import(&text_of(name));
        for session in &imported.sessions {
            println!("{:?}\n{}", session.heading, report(session));
        }
        println!("{:?}", imported.warnings);
    }
}
