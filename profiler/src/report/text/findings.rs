//! What is wrong, for those who read nothing else.

use std::io::{self, Write};

use super::paste;
use super::style::Style;
use crate::diagnose::Unseen;
use crate::profile::{Finding, Session};
use crate::report::escape::{sanitize, sanitize_to};

/// Findings shown at most.
const FINDINGS: usize = 20;
/// Items shown of any list of a finding.
const ITEMS: usize = 20;
/// Columns of an id.
const ID: usize = 40;
/// Columns after which any other text is cut.
const TEXT: usize = 2000;

/// Writes the findings of a session, and about which pathologies it cannot say anything.
pub(crate) fn write(
    session: &Session,
    unseen: &[Unseen],
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    super::section("Findings", style, out)?;
    let mut section = Section { style, out };
    let findings = &session.findings;
    if findings.is_empty() {
        section.item(0, "", "nothing was found")?;
    }
    for (index, finding) in findings.iter().take(FINDINGS).enumerate() {
        if index > 0 {
            writeln!(section.out)?;
        }
        section.finding(finding)?;
    }
    if findings.len() > FINDINGS {
        writeln!(section.out, "\n... {} more", findings.len() - FINDINGS)?;
    }
    if !unseen.is_empty() && !findings.is_empty() {
        writeln!(section.out)?;
    }
    for unseen in unseen {
        section.item(0, "- ", &unseen_text(unseen))?;
    }
    Ok(())
}

/// `without the probe readahead, readahead-disabled can at most be suspected`.
fn unseen_text(unseen: &Unseen) -> String {
    let without = match &*unseen.probes {
        [] => "without probes".to_owned(),
        [probe] => format!("without the probe {probe}"),
        probes => format!("without the probes {}", and(probes)),
    };
    let what = if unseen.suspected { "can at most be suspected" } else { "cannot be seen" };
    format!("{without}, {} {what}", and(&unseen.ids))
}

/// `a, b and c`.
fn and(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

struct Section<'a> {
    style: &'a Style,
    out: &'a mut dyn Write,
}

impl Section<'_> {
    fn finding(&mut self, finding: &Finding) -> io::Result<()> {
        self.head(finding)?;
        self.item(2, "", &finding.title)?;
        if !finding.about.is_empty() {
            let about: Vec<String> =
                finding.about.iter().take(ITEMS).map(|subject| named(subject.parts())).collect();
            self.item(2, "about: ", &about.join(", "))?;
        }
        for evidence in finding.evidence.iter().take(ITEMS) {
            self.item(2, "- ", &evidence.text)?;
        }
        if !finding.why.is_empty() {
            writeln!(self.out)?;
            self.item(2, "why: ", &finding.why)?;
        }
        for (index, advice) in finding.advice.iter().take(ITEMS).enumerate() {
            if index == 0 {
                writeln!(self.out)?;
            }
            self.item(2, &format!("{}. ", index + 1), &advice.text)?;
            if let Some(paste) = &advice.paste {
                writeln!(self.out)?;
                paste::write(paste, self.style, self.out)?;
                if index + 1 < finding.advice.len() {
                    writeln!(self.out)?;
                }
            }
        }
        Ok(())
    }

    /// `CRITICAL read-amplification, confirmed: 93.8% of device bandwidth`.
    fn head(&mut self, finding: &Finding) -> io::Result<()> {
        let severity = finding.severity.name().to_uppercase();
        let share = finding.impact.share.clamp(0.0, 1.0) * 100.0;
        // Some findings cost nothing that could be measured.
        let impact = if share > 0.0 {
            format!(": {share:.1}% of {}", finding.impact.of.name())
        } else {
            String::new()
        };
        let text =
            format!("{severity} {}, {}{impact}", sanitize_to(&finding.id, ID), finding.confidence.name());
        for line in self.style.wrap(&text, 0) {
            writeln!(self.out, "{}", self.style.severity(finding.severity, line))?;
        }
        Ok(())
    }

    /// `text`, which may come from anywhere, behind `lead` and wrapped under itself.
    fn item(&mut self, indent: usize, lead: &str, text: &str) -> io::Result<()> {
        let under = indent + lead.len();
        let text = sanitize_to(text, TEXT);
        for (index, line) in self.style.wrap(&text, under).iter().enumerate() {
            if index == 0 {
                writeln!(self.out, "{:indent$}{lead}{line}", "")?;
            } else {
                writeln!(self.out, "{:under$}{line}", "")?;
            }
        }
        Ok(())
    }
}

fn named((what, name): (&str, &str)) -> String {
    format!("{what} {}", sanitize(name))
}
