//! The flat profile as text.

use std::io::{self, Write};

use super::style::{Style, percent};
use crate::profile::{FlatEntry, Origin, Profile};
use crate::report::escape::sanitize_to;

/// Lines at most; what is left out is summed up.
const LINES: usize = 30;
/// Smallest share shown, in percent, as part of the tree's threshold: 0.1 % by default.
const FLOOR: f64 = 0.1;
/// Columns before the name.
const PREFIX: usize = 14;

/// Writes the entries as perf does: share of the total, `[k]` for the kernel or `[.]`, function.
pub(crate) fn write(
    profile: &Profile,
    entries: &[FlatEntry],
    total: u64,
    min_percent: f64,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let least = min_percent.max(0.0) * FLOOR;
    let fits = |entry: &&FlatEntry| percent(entry.weight, total) >= least;
    let imperfect = profile.frames().iter().any(|frame| frame.is_left_out());
    let shown = entries.iter().take(LINES).take_while(fits).count();
    for entry in &entries[..shown] {
        let share = percent(entry.weight, total);
        let (side, name) = match entry.frame.map(|id| profile.frame(id)) {
            Some(frame) => {
                let side = if frame.origin == Origin::Kernel { "[k]" } else { "[.]" };
                (side, sanitize_to(&frame.qualified(), style.columns() - PREFIX))
            }
            None if imperfect => ("[?]", "[not in the source]".to_owned()),
            None => ("[?]", "[no stack]".to_owned()),
        };
        writeln!(out, "{}", style.share(share, format_args!("{share:>7.2}%  {side} {name}")))?;
    }
    let rest = &entries[shown..];
    if !rest.is_empty() {
        let weight = rest.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.weight));
        let functions = if rest.len() == 1 { "function" } else { "functions" };
        writeln!(out, "{:>7.2}%  ... {} more {functions}", percent(weight, total), rest.len())?;
    }
    Ok(())
}
