//! docs/pathologies.md: what `profiler pathologies` says, as Markdown.

use super::{ALL, About};

/// All pathologies as Markdown: the part of docs/pathologies.md that is made from [`ALL`].
pub fn document() -> String {
    document_of(ALL.iter().map(|pathology| pathology.about()))
}

fn document_of(abouts: impl Iterator<Item = &'static About>) -> String {
    abouts.map(section).collect::<Vec<String>>().join("\n")
}

fn section(about: &'static About) -> String {
    let mut text = format!("### `{}`: {}\n\n", about.id, about.title);
    let mut paragraph = |what: &str, value: &str| text.push_str(&format!("**{what}:** {value}\n\n"));
    paragraph("How it shows", about.symptom);
    paragraph("Why", about.why);
    paragraph("Confirmed by", about.confirmed_by);
    let suspected = if about.suspected_by.is_empty() { NEVER_SUSPECTED } else { about.suspected_by };
    paragraph("Suspected by", suspected);
    if !about.explained_by.is_empty() {
        let causes: Vec<String> = about.explained_by.iter().map(|id| format!("`{id}`")).collect();
        paragraph("Not reported", &format!("{EXPLAINED} {}", causes.join(", ")));
    }
    text.push_str("**What to do:**\n\n");
    for cure in about.cures {
        text.push_str(&format!("- {cure}\n"));
    }
    if !about.thresholds.is_empty() {
        text.push_str("\n| threshold | value | reason |\n| --- | ---: | --- |\n");
        for threshold in about.thresholds {
            let [what, reason] = [threshold.what, threshold.reason].map(|cell| cell.replace('|', "\\|"));
            text.push_str(&format!("| {what} | {} | {reason} |\n", threshold.value));
        }
    }
    text
}

/// Where [`About::suspected_by`] is empty.
pub const NEVER_SUSPECTED: &str = "nothing: it takes measurements";
/// What stands before the ids of [`About::explained_by`].
pub const EXPLAINED: &str =
    "where one of these was found on the same device, lock or function and explains it:";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::Threshold;
    use crate::testing::about;

    const FULL: About = About {
        thresholds: &[Threshold {
            what: "pages a call, a|b",
            value: 1.25,
            reason: "healthy runs have 32, broken ones 1",
        }],
        explained_by: &["read-amplification"],
        ..about("readahead-disabled")
    };
    const BARE: About = About { suspected_by: "", cures: &["Wait.", "Wait longer."], ..about("patience") };

    #[test]
    fn markdown() {
        insta::assert_snapshot!(document_of([&FULL, &BARE].into_iter()));
    }

    /// Names of the lines that enclose the generated part.
    const BEGIN: &str = "<!-- pathologies -->\n";
    const END: &str = "<!-- /pathologies -->\n";

    #[test]
    fn docs_are_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pathologies.md");
        let file = std::fs::read_to_string(path).unwrap();
        let (before, rest) = file.split_once(BEGIN).expect("docs/pathologies.md has no beginning");
        let (part, after) = rest.split_once(END).expect("docs/pathologies.md has no end");
        let expected = format!("\n{}\n", document());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        } else {
            assert!(
                part == expected,
                "docs/pathologies.md is old: UPDATE_DOCS=1 cargo test -p profiler --lib docs"
            );
        }
    }
}
