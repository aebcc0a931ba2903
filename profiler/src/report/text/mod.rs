//! The text report: fits a mail, and has the form in which people post such profiles.

mod distributions;
mod findings;
mod flat;
mod header;
mod histogram;
mod paste;
mod probes;
mod style;
mod table;
mod tree;

use std::io::{self, Write};

use anyhow::Context as _;

pub use style::Style;

pub(super) use self::style::percent;
use crate::diagnose::{Unseen, unseen};
use crate::profile::{self, CallTree, Device, Kind, Session, Unit, View, Weights, units};
use crate::report::escape::sanitize_to;
use crate::report::names;
use crate::report::selection::{Trees, trees};

/// Writes the report of a session: what was measured and what was lost, what is wrong, what the probes counted,
/// the flat profile, the call tree of each kind of stacks with arrows at what the findings are about, and distributions.
///
/// The functions of `view` may be called as the report calls them: escaped, shortened, with the module.
///
/// # Errors
///
/// When `view` is about a function that is in no stack of any kind (the cause is a
/// [`ViewError`](profile::ViewError)), or
/// when writing fails.
pub fn render(session: &Session, view: &View, style: &Style, out: &mut dyn Write) -> anyhow::Result<()> {
    render_with(session, &unseen(session), view, style, out)
}

fn render_with(
    session: &Session,
    unseen: &[Unseen],
    view: &View,
    style: &Style,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let view = names::resolve(&session.profile, view);
    let trees = trees(session, &view)?;
    header::write(session, style, out)
        .and_then(|()| findings::write(session, unseen, style, out))
        .and_then(|()| write_measurements(session, &trees, &view, style, out))
        .context("cannot write the text report")
}

fn write_measurements(
    session: &Session,
    trees: &Trees<'_>,
    view: &View,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    // What fits a screen comes first: what the devices and locks saw, and the hottest functions.
    probes::write(session, style, out)?;
    if session.profile.kinds().contains(&Kind::Cpu) {
        let total = session.profile.total(Kind::Cpu);
        section("Flat profile, CPU time", style, out)?;
        let entries = profile::flat(&session.profile, Kind::Cpu);
        flat::write(&session.profile, &entries, total, view.min_percent, style, out)?;
    }
    for (kind, tree) in trees {
        let total = session.profile.total(*kind);
        let summary = kind_summary(session, *kind, total);
        section(&format!("{}: {summary}", kind.heading()), style, out)?;
        match tree {
            Ok(tree) => {
                if let Some(line) = focus_line(tree, view) {
                    writeln!(out, "{line}")?;
                }
                tree::write(tree, view, &session.findings, style, out)?;
            }
            Err(_) => writeln!(out, "no stack of this kind passes through that function")?,
        }
    }
    distributions::write(session, style, out)?;
    probes::write_details(session, style, out)
}

/// An empty line, a heading and a line under it.
fn section(title: &str, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let line = "-".repeat(title.len().min(style.columns()));
    writeln!(out, "\n{}\n{line}", style.heading(title))
}

/// `1,234 bytes (1.21 KiB)`.
pub(super) fn kind_summary(session: &Session, kind: Kind, total: u64) -> String {
    if session.weights == Weights::Shares {
        return format!("shares only, {} stand for everything", units::grouped(total));
    }
    let page_size = session.host.page_size;
    let unit = kind.unit();
    let people = match unit {
        Unit::Pages if page_size > 0 => format!(" ({})", units::bytes(total as f64 * page_size as f64)),
        Unit::Bytes | Unit::Nanoseconds => format!(" ({})", units::weight(total as f64, unit)),
        _ => String::new(),
    };
    format!("{} {}{people}", units::grouped(total), unit.name())
}

/// For a view of one function: how much of everything it shows.
fn focus_line(tree: &CallTree<'_>, view: &View) -> Option<String> {
    let (what, name) = match (&view.root, &view.callers) {
        (Some(name), _) => ("below", name),
        (None, Some(name)) => ("callers of", name),
        (None, None) => return None,
    };
    let (shown, total) = (tree.shown_total(), tree.total());
    let unit = tree.kind().unit().name();
    Some(format!(
        "{what} {}: {:.3}% of all {unit} ({shown}/{total})",
        sanitize_to(name, 40),
        percent(shown, total)
    ))
}

/// A device for people; for an anonymous one, as btrfs has, what is mounted from it. Not yet escaped.
fn device_name(session: &Session, device: Device) -> String {
    let mount = || session.host.mounts.iter().find(|mount| mount.device == device);
    match session.device(device) {
        Some(_) => session.device_name(device),
        None => mount().map_or_else(|| device.to_string(), |mount| mount.source.clone()),
    }
}

#[cfg(test)]
mod tests;
