//! Log2 histograms as bars.

use std::io::{self, Write};

use super::style::Style;
use crate::profile::units;
use crate::profile::{Histogram, Session};
use crate::report::escape::sanitize_to;

/// Columns of the longest bar, where the width has them.
const BAR: usize = 50;
/// Columns around a bar.
const AROUND: usize = 36;
/// Columns that a device's name gets.
const NAME: usize = 24;

/// Writes a histogram: a line that says what it is, then a bar for each bucket from the first to the
/// last that is not empty.
pub(crate) fn write(
    session: &Session,
    histogram: &Histogram,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let unit = histogram.measure.unit();
    let mut title = histogram.measure.title().to_owned();
    if let Some(device) = histogram.device {
        title.push_str(&format!(", {}", sanitize_to(&super::device_name(session, device), NAME)));
    }
    if let Some(op) = histogram.op {
        title.push_str(&format!(" {}", op.name()));
    }
    if let Some(kind) = histogram.lock_kind {
        title.push_str(&format!(", {}", kind.name()));
    }
    let mean = histogram.mean().map(|mean| format!(", mean {}", units::weight(mean, unit)));
    let count = units::grouped(histogram.count);
    writeln!(
        out,
        "{}",
        style.heading(format_args!(
            "  {title}: {count} value{}{}",
            if histogram.count == 1 { "" } else { "s" },
            mean.unwrap_or_default()
        ))
    )?;

    let Some(first) = histogram.buckets.iter().position(|count| *count > 0) else { return Ok(()) };
    let last = histogram.buckets.iter().rposition(|count| *count > 0).unwrap_or(first);
    let room = BAR.min(style.columns().saturating_sub(AROUND));
    let most = histogram.buckets.iter().copied().max().unwrap_or(1);
    let mut empty = 0;
    for (bucket, &count) in histogram.buckets.iter().enumerate().take(last + 1).skip(first) {
        // Of a long gap one bucket is enough to see that it is one.
        empty = if count == 0 { empty + 1 } else { 0 };
        let next_is_empty = histogram.buckets.get(bucket + 1) == Some(&0);
        match empty {
            2 if next_is_empty => writeln!(out, "  {:>18}", "...")?,
            _ => {}
        }
        if empty >= 2 && (empty > 2 || next_is_empty) {
            continue;
        }
        let range = match bucket {
            0 => "0".to_owned(),
            64.. => format!("[{}, ...)", units::bucket(Histogram::bucket_start(bucket), unit)),
            _ => format!(
                "[{}, {})",
                units::bucket(Histogram::bucket_start(bucket), unit),
                units::bucket(Histogram::bucket_start(bucket + 1), unit)
            ),
        };
        // A bucket that is not empty shows at least one mark.
        let length = (count as f64 / most as f64 * room as f64).round() as usize;
        let bar = "@".repeat(length.max(usize::from(count > 0)).min(room));
        writeln!(out, "  {range:>18} {count:>12} |{bar:<room$}|")?;
    }
    Ok(())
}
