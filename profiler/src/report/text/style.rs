//! Colour and width.

use std::fmt::Display;

use anstyle::{AnsiColor, Effects};
use textwrap::WordSplitter;

use crate::profile::Severity;

/// How a text report may look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to colour. Only ever for a terminal.
    pub color: bool,
    /// Columns of a line.
    pub width: usize,
}

impl Default for Style {
    /// Plain, as wide as a mail bears.
    fn default() -> Self {
        Self { color: false, width: Self::MAX_WIDTH }
    }
}

/// Share of the total from which perf colours a line red, in percent (tools/perf/util/color.h, MIN_RED).
const RED_PERCENT: f64 = 5.0;
/// And from which green (MIN_GREEN).
const GREEN_PERCENT: f64 = 0.5;

impl Style {
    /// No report is wider than this.
    pub const MAX_WIDTH: usize = 100;
    /// Nor narrower: numbers need their room.
    const MIN_WIDTH: usize = 60;

    /// The columns to use, within reason.
    pub(crate) fn columns(&self) -> usize {
        self.width.clamp(Self::MIN_WIDTH, Self::MAX_WIDTH)
    }

    fn paint(&self, style: anstyle::Style, text: impl Display) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_string() }
    }

    /// A heading.
    pub(crate) fn heading(&self, text: impl Display) -> String {
        self.paint(anstyle::Style::new().effects(Effects::BOLD), text)
    }

    /// The arrow at a node that stands out, and anything else that went wrong.
    pub(crate) fn alarm(&self, text: impl Display) -> String {
        self.paint(AnsiColor::Red.on_default().effects(Effects::BOLD), text)
    }

    /// How bad something is.
    pub(crate) fn severity(&self, severity: Severity, text: impl Display) -> String {
        let color = match severity {
            Severity::Info => AnsiColor::Cyan,
            Severity::Warning => AnsiColor::Yellow,
            Severity::Critical => AnsiColor::Red,
        };
        self.paint(color.on_default().effects(Effects::BOLD), text)
    }

    /// `text` in lines that leave room for an indent of so many columns. Names with hyphens stay whole.
    pub(crate) fn wrap(&self, text: &str, indent: usize) -> Vec<String> {
        let options = textwrap::Options::new(self.columns().saturating_sub(indent).max(20))
            .word_splitter(WordSplitter::NoHyphenation);
        textwrap::wrap(text, options).into_iter().map(|line| line.into_owned()).collect()
    }

    /// A line that has this share of the total, coloured as perf does.
    pub(crate) fn share(&self, percent: f64, text: impl Display) -> String {
        let style = match percent {
            p if p >= RED_PERCENT => AnsiColor::Red.on_default(),
            p if p >= GREEN_PERCENT => AnsiColor::Green.on_default(),
            _ => anstyle::Style::new(),
        };
        self.paint(style, text)
    }
}

/// `part` of `whole` in percent; 0 of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
