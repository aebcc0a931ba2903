//! Differential flame graphs, drawn by inferno: red grew, blue shrank (B. Gregg, Differential Flame Graphs, 2014).

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context as _, bail};
use inferno::flamegraph::{Options, from_lines};

use crate::profile::{Kind, Label, Session};
use crate::report::flamegraph::{LEVELS, MIN_WIDTH};
use crate::report::folded::{Folded, name};

/// What the weights of each side are scaled to, so that colours tell shares: a part in ten million.
const SCALE: f64 = 10_000_000.0;

/// Which of the two gives the frames their widths. What one does not have at all can only be seen in the
/// graph of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Widths {
    /// A: what will become of it.
    OfA,
    /// B: what it has become.
    OfB,
}

/// Writes the differential flame graph of one kind as SVG. In both directions red is what grew from A to B.
/// `normalize` makes function names comparable.
///
/// # Errors
///
/// When one side has no stacks of this kind, or when writing fails.
pub fn write(
    sessions: [&Session; 2],
    kind: Kind,
    widths: Widths,
    normalize: &dyn Fn(&str) -> &str,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut stacks: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    for (side, session) in sessions.into_iter().enumerate() {
        let folded = Folded::new(&session.profile, kind, None, |label| match label {
            Label::Frame(frame) => name(normalize(&frame.name)),
            label => name(&label.name()),
        })?;
        let total = folded.total() as f64;
        if total == 0.0 {
            bail!("there are no {} stacks on side {}", kind.name(), ["A", "B"][side]);
        }
        let least = (total * MIN_WIDTH / 100.0) as u64;
        folded.for_each(least.max(1), LEVELS, |stack, weight| {
            stacks.entry(stack.to_owned()).or_default()[side] += weight as f64 * SCALE / total;
            Ok(())
        })?;
    }
    let mut options = Options::default();
    options.deterministic = true;
    options.min_width = MIN_WIDTH;
    options.count_name = "parts in 10 million".to_owned();
    options.negate_differentials = widths == Widths::OfA;
    let (of, what) = match widths {
        Widths::OfA => ("A", "A; colours: what becomes of it in B"),
        Widths::OfB => ("B", "B; colours: what it has become since A"),
    };
    options.title = format!("{}: A and B, widths of {of}", kind.heading());
    options.subtitle = Some(format!("Shares of {what}. Red grew, blue shrank."));
    let lines: Vec<String> = stacks
        .into_iter()
        .map(|(stack, [a, b])| match widths {
            // The second number gives the width.
            Widths::OfA => format!("{stack} {b:.0} {a:.0}"),
            Widths::OfB => format!("{stack} {a:.0} {b:.0}"),
        })
        .collect();
    from_lines(&mut options, lines.iter().map(String::as_str), out)
        .with_context(|| format!("cannot write the differential {} flame graph", kind.name()))
}
