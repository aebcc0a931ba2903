//! docs/benchmarks.md: a section a benchmark, between markers, so that each can be written anew alone.

const TITLE: &str = "# Benchmarks

What the profiler costs, as measured by `cargo xtask bench`, which writes this file. The numbers are of one
machine; run it on yours. No test depends on them.
";

fn markers(name: &str) -> (String, String) {
    (format!("<!-- begin {name} -->"), format!("<!-- end {name} -->"))
}

/// The section of a benchmark in the document, if it has one.
fn section<'d>(document: &'d str, name: &str) -> Option<&'d str> {
    let (begin, end) = markers(name);
    let (_, rest) = document.split_once(&begin)?;
    rest.split_once(&end).map(|(section, _)| section.trim())
}

/// The document with this section in place of the one it had. `order` has the names of all sections; others
/// are dropped, as is everything between sections.
pub fn with_section(document: &str, name: &str, text: &str, order: &[&str]) -> String {
    let mut written = TITLE.to_owned();
    for known in order {
        let text = if *known == name { Some(text.trim()) } else { section(document, known) };
        if let Some(text) = text {
            let (begin, end) = markers(known);
            written.push_str(&format!("\n{begin}\n\n{text}\n\n{end}\n"));
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_others_stay() {
        let order = ["a", "b", "c"];
        let document = with_section("", "c", "## C", &order);
        let document = with_section(&document, "a", "## A", &order);
        assert_eq!((section(&document, "a"), section(&document, "c")), (Some("## A"), Some("## C")));
        assert!(document.starts_with("# Benchmarks") && document.find("## A") < document.find("## C"));
        let again = with_section(&document, "a", "## A, again\n", &order);
        assert_eq!((section(&again, "a"), section(&again, "c")), (Some("## A, again"), Some("## C")));
        assert_eq!(section(&again, "b"), None);
        assert_eq!(section(&with_section(&again, "b", "## B", &["b"]), "a"), None);
    }
}
