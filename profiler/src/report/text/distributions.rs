//! Log2 histograms of what the probes counted.

use std::io::{self, Write};

use super::histogram;
use super::style::Style;
use crate::profile::{Histogram, Measure, Session};

/// Histograms of a measure at most, those with the most values: every device has one for each direction,
/// and the tables have the means and percentiles of all.
const OF_A_MEASURE: usize = 2;
/// Every measure, in the order in which they are shown.
const MEASURES: [Measure; 7] = [
    Measure::BioSize,
    Measure::RequestSize,
    Measure::RequestLatency,
    Measure::ReadaheadWanted,
    Measure::ReadaheadIssued,
    Measure::LockWait,
    Measure::PageAllocSize,
];

/// Writes the histograms that are worth a look.
pub(crate) fn write(session: &Session, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let chosen: Vec<(&Histogram, usize)> = MEASURES
        .into_iter()
        .flat_map(|measure| {
            let (chosen, more) = of_measure(session, measure);
            let last = chosen.len().saturating_sub(1);
            chosen.into_iter().enumerate().map(move |(i, one)| (one, if i == last { more } else { 0 }))
        })
        .collect();
    if chosen.is_empty() {
        return Ok(());
    }
    super::section("Distributions", style, out)?;
    for (index, (histogram, more)) in chosen.into_iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        histogram::write(session, histogram, style, out)?;
        if more > 0 {
            writeln!(out, "  ... {more} more of {}", histogram.measure.title())?;
        }
    }
    Ok(())
}

/// The histograms of a measure with the most values, and how many more there are.
fn of_measure(session: &Session, measure: Measure) -> (Vec<&Histogram>, usize) {
    // All zeros, as the sizes of flushes are, is no distribution.
    let says_something = |histogram: &&Histogram| {
        histogram.measure == measure && histogram.buckets.iter().skip(1).any(|n| *n > 0)
    };
    let mut all: Vec<&Histogram> = session.histograms.iter().filter(says_something).collect();
    all.sort_by_key(|histogram| std::cmp::Reverse(histogram.count));
    let more = all.len().saturating_sub(OF_A_MEASURE);
    all.truncate(OF_A_MEASURE);
    (all, more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Device, Source};

    fn histogram(minor: u32, buckets: &[u64]) -> Histogram {
        Histogram {
            measure: Measure::RequestSize,
            device: Some(Device { major: 8, minor }),
            op: None,
            lock_kind: None,
            count: buckets.iter().sum(),
            sum: 0,
            buckets: buckets.to_vec(),
        }
    }

    #[test]
    fn the_busiest_are_chosen() {
        let mut session = Session::new(Source::Live);
        session.histograms =
            vec![histogram(0, &[0, 1]), histogram(1, &[90]), histogram(2, &[0, 0, 7]), histogram(3, &[0, 5])];
        let (chosen, more) = of_measure(&session, Measure::RequestSize);
        let minors: Vec<u32> = chosen.iter().map(|one| one.device.unwrap().minor).collect();
        assert_eq!((minors, more), (vec![2, 3], 1));
        let mut out = Vec::new();
        write(&session, &Style::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("  ... 1 more of request size\n"), "{text}");
    }
}
