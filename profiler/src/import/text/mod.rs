//! The text formats: recognised by their first lines, read line by line.

mod bcc;
mod bpftrace;
mod cache;
mod call_tree;
mod folded;
mod headers;
mod heading;
mod lines;
mod perf_report;
mod perf_script;
#[cfg(test)]
mod testing;

use std::io::Read;

use self::lines::{Head, Lines};
use super::merge::Full;
use super::{ImportError, Imported, Options, Warnings};
use crate::profile::{Session, Source};

/// A text format.
pub(super) struct Format {
    /// Its name, for people.
    pub name: &'static str,
    /// Whether a text that begins so is in it.
    recognises: fn(&Head<'_>) -> bool,
    /// Reads a whole text.
    read: fn(&mut Reader<'_>) -> Result<Vec<Session>, ImportError>,
}

/// All of them; a text is in the first one that recognises it.
const FORMATS: &[Format] = &[
    Format { name: "a call tree", recognises: call_tree::recognises, read: call_tree::read },
    Format { name: "perf script", recognises: perf_script::recognises, read: perf_script::read },
    Format { name: "perf report", recognises: perf_report::recognises, read: perf_report::read },
    Format { name: "bpftrace maps", recognises: bpftrace::recognises, read: bpftrace::read },
    Format { name: "bcc profile", recognises: bcc::recognises, read: bcc::read },
    Format { name: "folded stacks", recognises: folded::recognises, read: folded::read },
];

/// The names of all formats.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.name)
}

/// The format of a text that begins with `head`.
pub(super) fn recognise(head: &[u8]) -> Option<&'static Format> {
    let head = Head::new(head);
    FORMATS.iter().find(|format| (format.recognises)(&head))
}

/// Reads a text. `input` begins with `head` again.
pub(super) fn read(
    format: &'static Format,
    head: &[u8],
    input: &mut dyn Read,
    name: &str,
    options: &Options,
) -> Result<Imported, ImportError> {
    let lines = Lines::new(input, name, Head::new(head).quoted);
    let mut reader = Reader { lines, warnings: Warnings::default(), options, format: format.name, head };
    let mut sessions = (format.read)(&mut reader)?;
    sessions.retain(|session| !session.profile.stacks().is_empty());
    if sessions.is_empty() {
        return Err(ImportError::NoSamples {
            name: name.to_owned(),
            format: format.name,
            hint: String::new(),
        });
    }
    Ok(Imported { sessions, warnings: reader.warnings.finish() })
}

/// A text that is being read.
struct Reader<'a> {
    lines: Lines<'a>,
    warnings: Warnings,
    options: &'a Options,
    format: &'static str,
    /// How it begins.
    head: &'a [u8],
}

impl Reader<'_> {
    /// A session of the format that is being read.
    fn session(&self) -> Session {
        Session::new(Source::Imported { format: self.format.to_owned() })
    }

    /// A warning about the line that was read last.
    fn warn(&mut self, text: impl FnOnce() -> String) {
        self.warnings.add(self.lines.place(), text);
    }

    fn full(&self, full: Full) -> ImportError {
        self.too_much(full.what, full.limit)
    }

    fn too_much(&self, what: &'static str, limit: u64) -> ImportError {
        ImportError::TooMuch { name: self.lines.name().to_owned(), place: self.lines.place(), what, limit }
    }
}
