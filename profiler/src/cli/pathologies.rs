//! `profiler pathologies`: what can be found, and what it means.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;

use crate::diagnose::{self, About, EXPLAINED, NEVER_SUSPECTED};

/// Options of `profiler pathologies`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Explain this one; without it, all are listed.
    #[arg(value_name = "ID", value_parser = ids())]
    id: Option<String>,
}

fn ids() -> PossibleValuesParser {
    PossibleValuesParser::new(diagnose::ALL.iter().map(|pathology| pathology.about().id))
}

/// Prints the list, or the explanation.
///
/// # Errors
///
/// If standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let about = args.id.as_deref().and_then(diagnose::pathology).map(|pathology| pathology.about());
    let printed = match about {
        Some(about) => explain(about, &mut out),
        None => list(diagnose::ALL.iter().map(|pathology| pathology.about()), &mut out),
    };
    match printed.and_then(|()| out.flush()) {
        // `| head` has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Columns of the text.
const WIDTH: usize = 100;
/// Columns before paragraphs.
const INDENT: usize = 2;

fn list(abouts: impl Iterator<Item = &'static About>, out: &mut dyn io::Write) -> io::Result<()> {
    let abouts: Vec<&About> = abouts.collect();
    let longest = abouts.iter().map(|about| about.id.len()).max().unwrap_or(0);
    for about in abouts {
        writeln!(out, "{:<longest$}  {}", about.id, about.title)?;
    }
    Ok(())
}

fn explain(about: &About, out: &mut dyn io::Write) -> io::Result<()> {
    paragraph("", &format!("{}: {}", about.id, about.title), 0, out)?;
    section("How it shows", &[about.symptom], out)?;
    section("Why", &[about.why], out)?;
    section("What to do", about.cures, out)?;
    section("Confirmed by", &[about.confirmed_by], out)?;
    let suspected = if about.suspected_by.is_empty() { NEVER_SUSPECTED } else { about.suspected_by };
    section("Suspected by", &[suspected], out)?;
    if !about.explained_by.is_empty() {
        let causes = format!("{EXPLAINED} {}", about.explained_by.join(", "));
        section("Not reported", &[&causes], out)?;
    }
    let thresholds: Vec<String> = about
        .thresholds
        .iter()
        .map(|threshold| format!("{}: {} ({})", threshold.what, threshold.value, threshold.reason))
        .collect();
    section("Thresholds", &thresholds, out)
}

/// A heading with paragraphs, as a list where there are several; nothing without any.
fn section<T: AsRef<str>>(heading: &str, paragraphs: &[T], out: &mut dyn io::Write) -> io::Result<()> {
    if paragraphs.is_empty() {
        return Ok(());
    }
    let lead = if paragraphs.len() > 1 { "- " } else { "" };
    writeln!(out, "\n{heading}")?;
    paragraphs.iter().try_for_each(|text| paragraph(lead, text.as_ref(), INDENT, out))
}

fn paragraph(lead: &str, text: &str, indent: usize, out: &mut dyn io::Write) -> io::Result<()> {
    let first = format!("{:indent$}{lead}", "");
    let under = " ".repeat(first.len());
    let options = textwrap::Options::new(WIDTH)
        .initial_indent(&first)
        .subsequent_indent(&under)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    writeln!(out, "{}", textwrap::fill(text, options))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::Threshold;
    use crate::testing::about;

    const THRESHOLDS: &[Threshold] = &[
        Threshold { what: "pages a call", value: 1.25, reason: "healthy runs have 32, broken ones 1" },
        Threshold { what: "calls", value: 1000.0, reason: "what is rare does not cost" },
    ];
    const SOME: About = About {
        why: "Somebody turned it off, because random reads had read far more than they were asked for, and did not \
              turn it on again when the work had changed.",
        thresholds: THRESHOLDS,
        explained_by: &["read-amplification"],
        ..about("readahead-disabled")
    };
    const OTHER: About = About { suspected_by: "", ..about("patience") };

    #[test]
    fn texts() {
        let mut out = Vec::new();
        list([&SOME, &OTHER].into_iter(), &mut out).unwrap();
        for about in [&SOME, &OTHER] {
            out.extend(b"\n--------\n");
            explain(about, &mut out).unwrap();
        }
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
