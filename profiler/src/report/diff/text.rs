//! Two sessions side by side as text.

use std::io::{self, Write};

use anyhow::Context as _;

use super::Comparison;
use crate::profile::diff::{Change, FALSE_DISCOVERIES, FunctionChange, KindDiff, Test};
use crate::profile::{Origin, Session, Source, Subject, Weights, units};
use crate::report::escape::{sanitize, sanitize_to, shorten};
use crate::report::text::Style;
use crate::report::text::table::{Align, Table};

/// Functions shown of a kind.
const FUNCTIONS: usize = 30;
/// Smallest share, on either side, of a function that is shown.
const LEAST: f64 = 0.001;
/// Smallest change of a function that is shown: what would not be printed as 0.00.
const LEAST_CHANGE: f64 = 0.00005;
/// Columns of the numbers before a tree.
const NUMBERS: usize = 27;
/// Columns of a level of the tree.
const INDENT: usize = 4;
/// Columns that a name gets, however deep.
const NAME: usize = 24;
/// Columns of a fact's value.
const VALUE: usize = 60;

/// Writes the comparison.
///
/// # Errors
///
/// When writing fails.
pub fn render(comparison: &Comparison<'_>, style: &Style, out: &mut dyn Write) -> anyhow::Result<()> {
    write_all(comparison, style, out).context("cannot write the comparison")
}

fn write_all(comparison: &Comparison<'_>, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    for (side, (name, session)) in ["A", "B"].iter().zip(comparison.names.iter().zip(comparison.sessions)) {
        let described = shorten(&sanitize(&describe(session)), style.columns() - 3);
        writeln!(out, "{}  {}", style.heading(side), sanitize_to(name, style.columns() - 3))?;
        writeln!(out, "   {described}")?;
    }
    paragraph(
        "Functions and trees are compared by their share of all samples (or bytes, pages, time) of their \
               side, counters by their rate a second; so the length of the runs does not matter.",
        style,
        out,
    )?;
    findings(comparison, style, out)?;
    environment(comparison, style, out)?;
    rates(comparison, style, out)?;
    for kind in &comparison.diff.kinds {
        functions(kind, style, out)?;
        tree(kind, style, out)?;
    }
    for (side, kinds) in ["A", "B"].iter().zip(&comparison.diff.only) {
        if !kinds.is_empty() {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.title()).collect();
            writeln!(out, "\nOnly {side} has stacks of: {}", names.join(", "))?;
        }
    }
    Ok(())
}

/// `perf.data on box, Linux 6.12, 30.0 s`.
fn describe(session: &Session) -> String {
    let mut text = match &session.source {
        Source::Live => "recorded by this program".to_owned(),
        Source::Imported { format } => format!("imported from {format}"),
    };
    if session.weights == Weights::Shares {
        text.push_str(", shares only");
    }
    if !session.host.hostname.is_empty() {
        text.push_str(&format!(", on {}", session.host.hostname));
    }
    if !session.host.kernel.is_empty() {
        text.push_str(&format!(", Linux {}", session.host.kernel));
    }
    if session.duration_ns > 0 {
        text.push_str(&format!(", {}", units::duration(session.duration_ns as f64)));
    }
    text
}

fn section(title: &str, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let line = "-".repeat(title.len().min(style.columns()));
    writeln!(out, "\n{}\n{line}", style.heading(title))
}

fn paragraph(text: &str, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    textwrap::wrap(text, style.columns()).iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn bullet(text: &str, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let text = sanitize(text);
    let options = textwrap::Options::new(style.columns()).initial_indent("  - ").subsequent_indent("    ");
    textwrap::wrap(&text, options).iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn findings(comparison: &Comparison<'_>, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let findings = &comparison.diff.findings;
    if findings.is_empty() {
        return Ok(());
    }
    section("Findings", style, out)?;
    for finding in findings {
        let change = match finding.change {
            Change::Appears => "appears in B",
            Change::Vanishes => "vanishes in B",
            Change::Changes => "changes",
            Change::Stays => "stays the same",
        };
        let about = finding.about.first().map(Subject::parts);
        let about = about.map_or_else(String::new, |(what, name)| format!(" ({what} {name})"));
        let grade = match finding.grades {
            [Some(a), Some(b)] if a != b => {
                format!(": {} {} -> {} {}", a.0.name(), a.1.name(), b.0.name(), b.1.name())
            }
            [Some(grade), _] | [None, Some(grade)] => format!(": {} {}", grade.0.name(), grade.1.name()),
            [None, None] => String::new(),
        };
        let head = format!("{}{about} {change}{grade}", finding.id);
        writeln!(out, "{}", style.alarm(sanitize_to(&head, style.columns())))?;
        if matches!(finding.change, Change::Appears | Change::Vanishes) {
            // One side only: its own words say more than numbers beside nothing.
            for text in finding.evidence.iter().flat_map(|evidence| evidence.texts.iter().flatten()) {
                bullet(text, style, out)?;
            }
            continue;
        }
        let mut table = Table::new(&[("number", Align::Left), ("A", Align::Right), ("B", Align::Right)]);
        for evidence in &finding.evidence {
            let value = |value: Option<f64>| match (value, evidence.unit) {
                (None, _) => "-".to_owned(),
                (Some(value), Some(unit)) => units::weight(value, unit),
                (Some(value), None) => units::number(value),
            };
            let [a, b] = evidence.values;
            table.row(vec![sanitize_to(&evidence.name, 50), value(a), value(b)]);
        }
        if !finding.evidence.is_empty() {
            table.write(style, out)?;
        }
    }
    Ok(())
}

fn environment(comparison: &Comparison<'_>, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    if comparison.diff.environment.is_empty() {
        return Ok(());
    }
    section("Environment, where it differs", style, out)?;
    let mut table = Table::new(&[("what", Align::Left), ("A", Align::Left), ("B", Align::Left)]);
    for fact in &comparison.diff.environment {
        let [a, b] = fact.values.each_ref().map(|value| sanitize_to(value.as_deref().unwrap_or("?"), VALUE));
        table.row(vec![sanitize_to(&fact.what, VALUE), a, b]);
    }
    table.write(style, out)
}

fn rates(comparison: &Comparison<'_>, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    if comparison.diff.rates.is_empty() {
        return Ok(());
    }
    section("Counters, a second", style, out)?;
    let mut table =
        Table::new(&[("what", Align::Left), ("A", Align::Right), ("B", Align::Right), ("B/A", Align::Right)]);
    for rate in &comparison.diff.rates {
        let value = |value: Option<f64>| match (value, rate.unit) {
            (None, _) => "-".to_owned(),
            (Some(value), Some(unit)) => units::rate(value, unit),
            (Some(value), None) => units::bytes(value),
        };
        let [a, b] = rate.values;
        table.row(vec![sanitize_to(&rate.what, VALUE), value(a), value(b), ratio(rate.values)]);
    }
    table.write(style, out)
}

fn functions(kind: &KindDiff, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    section(&format!("{}: functions, the largest change first", kind.kind.heading()), style, out)?;
    let is_shown = |row: &&FunctionChange| {
        row.shares.iter().flatten().any(|share| *share >= LEAST)
            && row.change().is_none_or(|change| change.abs() >= LEAST_CHANGE)
    };
    let shown: Vec<&FunctionChange> = kind.functions.iter().filter(is_shown).take(FUNCTIONS).collect();
    let mut table = Table::new(&[
        ("A", Align::Right),
        ("B", Align::Right),
        ("change", Align::Right),
        ("B/A", Align::Right),
        ("real?", Align::Right),
        ("", Align::Left),
        ("function", Align::Left),
    ]);
    for row in &shown {
        let [a, b] = row.shares;
        let side = match row.origin {
            Some(Origin::Kernel) => "[k]",
            Some(Origin::User) => "[.]",
            None => "[?]",
        };
        let real = match (row.significance, kind.test) {
            (Some(found), _) if found.significant => "yes",
            (Some(_), _) => "no",
            (None, Test::Samples) => "few",
            (None, _) => "-",
        };
        let cells = [share(a), share(b), points(row.shares), ratio(row.shares), real.to_owned()];
        table.row(cells.into_iter().chain([side.to_owned(), function_name(row)]).collect());
    }
    if shown.is_empty() {
        return writeln!(out, "the shares are the same");
    }
    table.write(style, out)?;
    let more = kind.functions.len() - shown.len();
    if more > 0 {
        writeln!(out, "  ... {more} more with less change, or below {}% on both sides", LEAST * 100.0)?;
    }
    let partial = shown.iter().any(|row| row.shares.contains(&None));
    let explained = match kind.test {
        Test::Samples => format!(
            "real?: two-proportion z-test of {} and {} samples, p-values adjusted by Benjamini and Hochberg for \
             {} functions; yes: at most {:.0}% of these are chance. few: too few samples to say.",
            units::grouped(kind.events[0]),
            units::grouped(kind.events[1]),
            kind.functions.iter().filter(|row| row.significance.is_some()).count(),
            FALSE_DISCOVERIES * 100.0
        ),
        Test::OnlyShares => {
            "real?: not claimed, since only shares are known, and not how many samples they are of."
                .to_owned()
        }
        Test::NotSamples => {
            "real?: not claimed, since bytes, pages and waits come in bursts and are no independent samples."
                .to_owned()
        }
    };
    let missing =
        if partial { " - as a share: not in what this side lists; that does not make it 0." } else { "" };
    paragraph(&format!("{explained}{missing}"), style, out)
}

/// As A has it; where B has it otherwise, that too.
fn function_name(row: &FunctionChange) -> String {
    match &row.names {
        [Some(a), Some(b)] if a != b => format!("{} (B: {})", sanitize(a), sanitize(b)),
        [Some(name), _] | [None, Some(name)] => sanitize(name).into_owned(),
        [None, None] => String::new(),
    }
}

fn tree(kind: &KindDiff, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    if kind.tree.is_empty() {
        return Ok(());
    }
    section(&format!("{}: call tree, shares of everything", kind.kind.heading()), style, out)?;
    if kind.changed_nodes > kind.tree.len() {
        writeln!(out, "the {} lines that changed most, of {}:", kind.tree.len(), kind.changed_nodes)?;
    }
    writeln!(out, "{}", style.heading(format!("{:>8} {:>8} {:>8}", "A", "B", "change")))?;
    for node in &kind.tree {
        let [a, b] = node.shares;
        let numbers = format!("{:>8} {:>8} {:>8}", share(a), share(b), points(node.shares));
        // Where it would leave no room for names, depth is no longer indented.
        let deepest = (style.columns() - NUMBERS - NAME) / INDENT;
        let indent = node.depth.min(deepest) * INDENT;
        let name = sanitize_to(&node.name, style.columns() - NUMBERS - indent);
        writeln!(out, "{numbers} {:indent$}{name}", "")?;
    }
    Ok(())
}

fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.2}%", share * 100.0))
}

/// The change in points.
fn points(shares: [Option<f64>; 2]) -> String {
    match shares {
        [Some(a), Some(b)] => format!("{:+.2}", (b - a) * 100.0),
        _ => "?".to_owned(),
    }
}

/// B by A.
fn ratio(values: [Option<f64>; 2]) -> String {
    match values {
        [Some(a), Some(b)] if a > 0.0 && b > 0.0 => match b / a {
            ratio if ratio >= 9999.5 => ">9999".to_owned(),
            ratio if ratio < 0.0005 => "<0.001".to_owned(),
            ratio if ratio >= 99.95 => format!("{ratio:.0}"),
            ratio if ratio >= 0.0995 => format!("{ratio:.2}"),
            ratio => format!("{ratio:.3}"),
        },
        [Some(a), Some(_)] if a > 0.0 => "gone".to_owned(),
        [Some(_), Some(b)] if b > 0.0 => "new".to_owned(),
        _ => "-".to_owned(),
    }
}
