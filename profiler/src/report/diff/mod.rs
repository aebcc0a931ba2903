//! Reports of two sessions side by side.

pub mod flamegraph;
#[cfg(test)]
mod tests;
mod text;

use std::io::Write;

use anyhow::Context as _;
use serde::Serialize;

pub use text::render;

use crate::profile::Session;
use crate::profile::diff::Diff;

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// Two sessions, what each is called, and what differs.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'d> {
    /// A and B.
    pub sessions: [&'d Session; 2],
    /// Where they come from: a path, with the heading where a file holds several. Untrusted.
    pub names: [&'d str; 2],
    /// What differs.
    pub diff: &'d Diff,
}

/// Writes it as JSON: pairs are of A and B, shares 0 to 1, rates a second.
///
/// # Errors
///
/// When writing fails.
pub fn write_json(comparison: &Comparison<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Document<'d> {
        schema: u32,
        sides: [SideOf<'d>; 2],
        #[serde(flatten)]
        diff: &'d Diff,
    }
    #[derive(Serialize)]
    struct SideOf<'d> {
        name: &'d str,
        duration_ns: u64,
        weights: crate::profile::Weights,
        host: &'d crate::profile::Host,
    }
    let side = |index: usize| {
        let session = comparison.sessions[index];
        SideOf {
            name: comparison.names[index],
            duration_ns: session.duration_ns,
            weights: session.weights,
            host: &session.host,
        }
    };
    let document = Document { schema: SCHEMA, sides: [side(0), side(1)], diff: comparison.diff };
    serde_json::to_writer_pretty(&mut *out, &document)
        .map_err(std::io::Error::from)
        .and_then(|()| writeln!(out))
        .context("cannot write the comparison")
}
