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

/// The format with this name.
pub(super) fn named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::import::text::testing::text_of;

    #[test]
    fn every_fixture_is_in_the_format_that_recognises_it() {
        for (name, format) in [
            ("bcachefs-randread.txt", "a call tree"),
            ("xfs-agino-range.txt", "perf report"),
            ("perf/script.txt", "perf script"),
            ("perf/report-children.txt", "perf report"),
            ("perf/report-flat.txt", "perf report"),
            ("perf/report-separated.txt", "perf report"),
            ("perf/screen.txt", "perf report"),
            ("perf/top.txt", "perf report"),
            ("bpftrace.txt", "bpftrace maps"),
            ("folded.txt", "folded stacks"),
            ("bcc.txt", "bcc profile"),
        ] {
            let found = recognise(&text_of(name)).map(|format| format.name);
            assert_eq!(found, Some(format), "{name}");
        }
        // Numbers alone are no profile.
        for text in ["readahead-disabled.txt", "../../Cargo.toml", "../../src/main.rs"] {
            assert_eq!(recognise(&text_of(text)).map(|format| format.name), None, "{text}");
        }
    }

    #[test]
    fn windows_and_mails_change_nothing() {
        for name in [
            "bcachefs-randread.txt",
            "xfs-agino-range.txt",
            "perf/report-callee.txt",
            "perf/script.txt",
            "bpftrace.txt",
        ] {
            let text = String::from_utf8(text_of(name)).unwrap();
            let plain = testing::import(text.as_bytes());
            let quoted: String = text.lines().map(|line| format!("> {line}\r\n")).collect();
            let quoted = testing::import(quoted.as_bytes());
            let stacks =
                |imported: &Imported| imported.sessions.iter().map(testing::stacks_of).collect::<Vec<_>>();
            assert_eq!(stacks(&quoted), stacks(&plain), "{name}");
            assert_eq!(quoted.warnings, plain.warnings, "{name}");
        }
    }

    /// Pieces that the readers look for, in any order.
    fn soup() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just("f(50.000% 1/2)".to_owned()),
            Just("  25.83%  [k] f".to_owned()),
            Just("|--7.32%--g".to_owned()),
            Just("            ---h".to_owned()),
            Just("dd 1/2 [000] 1.5: 7 cycles: ".to_owned()),
            Just("\tffffffff81000000 f+0x1 ([xfs])".to_owned()),
            Just("a;b;c_[k] 18446744073709551615".to_owned()),
            Just("@[".to_owned()),
            Just("]: 3".to_owned()),
            Just(", dd]: 18446744073709551615".to_owned()),
            Just("    -   dd (1)".to_owned()),
            Just("        5".to_owned()),
            Just("profiler: 1".to_owned()),
            Just("CPU time: 5 samples".to_owned()),
            Just("[1] continued from depth 3:".to_owned()),
            Just("...".to_owned()),
            Just("# Samples: 2K of event 'cycles'".to_owned()),
            Just("# Overhead  Command  Shared Object  Symbol".to_owned()),
            Just("# ........  .......  ............".to_owned()),
            Just("Heading:".to_owned()),
            "[ \\t]{0,9}[-+|.%()\\[\\]a-c0-9;:@ ,>]{0,24}",
            any::<String>(),
        ];
        let line = (piece, prop_oneof![Just("\n"), Just("\n\n"), Just(" "), Just("\n    "), Just("\n\t")]);
        proptest::collection::vec(line, 0..40).prop_map(|lines| {
            lines.into_iter().map(|(piece, end)| piece + end).collect::<String>().into_bytes()
        })
    }

    proptest! {
        #[test]
        fn no_reader_panics_at_any_text(text in soup()) {
            for format in FORMATS {
                let _ = read(format, &text, &mut &*text, "text", &Options::default());
            }
        }

        #[test]
        fn no_reader_panics_at_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            for format in FORMATS {
                let _ = read(format, &bytes, &mut &*bytes, "text", &Options::default());
            }
            let _ = crate::import::read(&mut &*bytes, "bytes", &Options::default(), &|_, _| {});
        }
    }
}
