//! Lines of a text, in bounded memory.

use std::io::Read;
use std::ops::Range;

use memchr::memchr;

use crate::import::{ImportError, Place};

/// Longest line that is read. Stacks of a hundred C++ templates stay below it.
pub(super) const MAX_LINE: usize = 1 << 20;
const BUFFER: usize = 2 * MAX_LINE;

/// Reads a text line by line; the lines lie in one buffer and are never copied.
pub(crate) struct Lines<'a> {
    input: &'a mut dyn Read,
    name: String,
    buffer: Vec<u8>,
    unread: Range<usize>,
    ended: bool,
    number: u64,
    /// The line that is to be read once more.
    again: Option<Range<usize>>,
    last: Range<usize>,
    quoted: bool,
}

impl<'a> Lines<'a> {
    /// The lines of `input`. `quoted`: they may have `> ` before them, as in answers to mails.
    pub fn new(input: &'a mut dyn Read, name: &str, quoted: bool) -> Self {
        Self {
            input,
            name: name.to_owned(),
            buffer: vec![0; BUFFER],
            unread: 0..0,
            ended: false,
            number: 0,
            again: None,
            last: 0..0,
            quoted,
        }
    }

    /// The number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The place of the line that was read last.
    pub fn place(&self) -> Place {
        Place::Line(self.number)
    }

    /// What error messages call the input.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next line, without its end. `None` at the end of the text.
    pub fn next(&mut self) -> Result<Option<&[u8]>, ImportError> {
        let found = match self.again.take() {
            Some(line) => Some(line),
            None => self.find()?,
        };
        let Some(line) = found else { return Ok(None) };
        self.number += 1;
        self.last = line.clone();
        Ok(Some(strip(&self.buffer[line], self.quoted)))
    }

    /// Makes [`next`](Self::next) return the line that it returned last once more.
    pub fn push_back(&mut self) {
        self.again = Some(self.last.clone());
        self.number -= 1;
    }

    fn find(&mut self) -> Result<Option<Range<usize>>, ImportError> {
        let mut searched = self.unread.start;
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[searched..self.unread.end]) {
                let line = self.unread.start..searched + at;
                self.unread.start = line.end + 1;
                return Ok(Some(line));
            }
            if self.unread.len() > MAX_LINE {
                return Err(ImportError::TooMuch {
                    name: self.name.clone(),
                    place: Place::Line(self.number + 1),
                    what: "bytes in a line",
                    limit: MAX_LINE as u64,
                });
            }
            if self.ended {
                let line = self.unread.clone();
                self.unread.start = self.unread.end;
                return Ok((!line.is_empty()).then_some(line));
            }
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            searched = self.unread.end;
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<(), ImportError> {
        loop {
            match self.input.read(&mut self.buffer[self.unread.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.unread.end += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(ImportError::Io { name: self.name.clone(), source }),
            }
            return Ok(());
        }
    }
}

/// A line without a carriage return at its end, and without marks of quotation.
fn strip(line: &[u8], quoted: bool) -> &[u8] {
    let mut line = line.strip_suffix(b"\r").unwrap_or(line);
    while quoted && let Some(rest) = line.strip_prefix(b">") {
        line = rest.strip_prefix(b" ").unwrap_or(rest);
    }
    line
}

/// The lines of the beginning of a text, by which its format is recognised.
pub(crate) struct Head<'a> {
    /// Lines that are not empty.
    pub lines: Vec<&'a [u8]>,
    /// Whether most of them are quoted as in a mail.
    pub quoted: bool,
}

impl<'a> Head<'a> {
    /// Most lines that are looked at.
    const LINES: usize = 4000;

    pub fn new(head: &'a [u8]) -> Self {
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let lines = || {
            head.split(|byte| *byte == b'\n')
                .map(|line| strip(line, false))
                .filter(|line| !line.trim_ascii().is_empty())
                .take(Self::LINES)
        };
        let marked = lines().filter(|line| line.starts_with(b">")).count();
        let quoted = marked * 2 > lines().count();
        let lines = lines().map(|line| strip(line, quoted)).filter(|line| !line.trim_ascii().is_empty());
        Self { lines: lines.collect(), quoted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8], quoted: bool) -> Result<Vec<Vec<u8>>, ImportError> {
        let mut input = text;
        let mut lines = Lines::new(&mut input, "text", quoted);
        let mut all = Vec::new();
        while let Some(line) = lines.next()? {
            all.push(line.to_vec());
        }
        Ok(all)
    }

    #[test]
    fn lines_end_in_many_ways() {
        assert_eq!(all(b"a\r\n\nb\nc", false).unwrap(), [&b"a"[..], b"", b"b", b"c"]);
        assert_eq!(all(b"> > a\n>b\nc\n>\n", true).unwrap(), [&b"a"[..], b"b", b"c", b""]);
        assert!(all(b"", false).unwrap().is_empty());
    }

    #[test]
    fn a_line_can_be_put_back() {
        let mut input = &b"a\nb\n"[..];
        let mut lines = Lines::new(&mut input, "text", false);
        assert_eq!(lines.next().unwrap(), Some(&b"a"[..]));
        lines.push_back();
        assert_eq!(lines.next().unwrap(), Some(&b"a"[..]));
        assert_eq!(lines.number(), 1);
        assert_eq!(lines.next().unwrap(), Some(&b"b"[..]));
    }

    #[test]
    fn an_endless_line_is_an_error_with_its_number() {
        let mut text = vec![b'a', b'\n'];
        text.resize(5 << 20, b'x');
        let error = all(&text, false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`text`: line 2: more than 1048576 bytes in a line, the most that is read"
        );
        let mut long = vec![b'x'; MAX_LINE];
        long.push(b'\n');
        assert_eq!(all(&long, false).unwrap()[0].len(), MAX_LINE);
    }
}
