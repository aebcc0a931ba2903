//! The status line while a measurement runs on a terminal.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use profiler_common::Stream;

use crate::collect::Collector;
use crate::profile::{Probe, ProbeState};

/// One line on standard error. Where that is no terminal it is written once: scripts can wait for it.
pub struct Status {
    bar: Option<ProgressBar>,
    probes: String,
}

impl Status {
    /// A line that names the probes and how they are attached.
    pub fn new(probes: &[Probe]) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            // wide_msg cuts the line to the width of the terminal.
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar
        });
        let probes = probes.iter().filter_map(probe).collect::<Vec<_>>().join(" ");
        if bar.is_none() {
            eprintln!("measuring with {probes}; SIGINT or SIGTERM ends it with a report");
        }
        Self { bar, probes }
    }

    /// How often it is worth updating; `None` if nobody sees it.
    pub fn interval(&self) -> Option<Duration> {
        self.bar.as_ref().map(|_| Duration::from_millis(250))
    }

    /// Shows the present numbers.
    pub fn update(&self, collector: &Collector) {
        let Some(bar) = &self.bar else { return };
        let progress = collector.progress();
        let events = |stream: Stream| progress.events[stream as usize];
        bar.set_message(format!(
            // The right end is cut off on narrow terminals: what to do, and what goes wrong, comes first.
            "{:.0} s, Ctrl-C ends it  {} samples  lost {}  lock {}  block {}  readahead {}  page-alloc {}  reclaim {}  [{}]",
            collector.elapsed().as_secs_f64(),
            short(progress.samples),
            short(progress.lost),
            short(events(Stream::LockSpin) + events(Stream::LockSleep)),
            short(events(Stream::Block)),
            short(events(Stream::Readahead)),
            short(events(Stream::PageAlloc)),
            short(events(Stream::Reclaim)),
            self.probes,
        ));
        bar.tick();
    }

    /// Says that the measurement is over, and that the rest takes a moment.
    pub fn ended(&self) {
        if let Some(bar) = &self.bar {
            bar.set_message("measured; naming functions and writing the report");
            bar.tick();
        }
    }

    /// Removes the line.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn probe(probe: &Probe) -> Option<String> {
    match &probe.state {
        ProbeState::Attached { rung, .. } => Some(format!("{}:{rung}", probe.name)),
        ProbeState::Failed { .. } => Some(format!("{}:failed", probe.name)),
        ProbeState::Off => None,
    }
}

/// A count in at most five characters.
fn short(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..10_000_000 => format!("{}k", count / 1000),
        10_000_000..10_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", count / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn counts_stay_short() {
        for (count, text) in [(0, "0"), (9999, "9999"), (10_000, "10k"), (25_000_000, "25M")] {
            assert_eq!(super::short(count), text);
        }
    }
}
