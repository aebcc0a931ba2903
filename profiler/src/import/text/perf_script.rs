//! `perf script`: a line for each sample, its stack below it, innermost function first.
//!
//! ```text
//! fio 4242/4243 [003] 12926.427332:    2004008 cycles:P:
//!     ffffffff822601ab vfs_read+0xb ([kernel.kallsyms])
//!                d4ad7 __GI___read+0x7 (/usr/lib/x86_64-linux-gnu/libc.so.6)
//! ```
//!
//! Most fields can be missing (`perf script -F`). Texts of gigabytes are usual, so that the lines of frames, nearly
//! all there are, cost one look-up in a table each.

use std::collections::HashMap;

use memchr::{memchr, memrchr};
use rustc_hash::FxBuildHasher;

use super::cache::FrameCache;
use super::headers::{self, is_cpu_event};
use super::lines::Head;
use super::{ImportError, Reader};
use crate::import::merge::{Full, Merger};
use crate::import::names;
use crate::profile::{Kind, Labels, LabelsId, LocationId, Session, Weights};

/// Frames of a stack that are kept: the innermost ones.
const MAX_DEPTH: usize = 1024;
/// Different events that are told apart.
const MAX_EVENTS: usize = 64;

pub(super) fn recognises(head: &Head<'_>) -> bool {
    let mut lines = head.lines.iter().filter(|line| !line.starts_with(b"#")).peekable();
    let mut seen = 0;
    while let Some(line) = lines.next() {
        // A header of a sample with a frame behind it, or with one in the same line.
        if let Some(header) = Header::parse(line)
            && (header.time.is_some() || header.cpu)
            && (!header.rest.is_empty()
                || lines.peek().is_none_or(|next| is_frame(next) || Header::parse(next).is_some()))
        {
            return true;
        }
        seen += 1;
        if seen > 50 {
            return false;
        }
    }
    false
}

/// Reads all samples of one event.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<Session>, ImportError> {
    let mut session = reader.session();
    let mut samples = Samples::new(reader.options.event.clone());
    let mut in_sample = false;
    while let Some(line) = reader.lines.next()? {
        if line.is_empty() {
            in_sample = false;
            samples.end().map_err(|full| reader.full(full))?;
        } else if in_sample && is_surely_frame(line) {
            samples.frame(line).map_err(|full| reader.full(full))?;
        } else if line[0] == b'#' {
            headers::read(&String::from_utf8_lossy(line), &mut session);
        } else if let Some(header) = Header::parse(line) {
            samples.end().and_then(|()| samples.begin(&header)).map_err(|full| reader.full(full))?;
            in_sample = true;
        } else if in_sample && is_frame(line) {
            samples.frame(line).map_err(|full| reader.full(full))?;
        } else if !(line.trim_ascii().is_empty() || in_sample && line[0].is_ascii_whitespace()) {
            // What is indented may be a source line, branch, or argument of a sample.
            reader.warn(|| "neither the header of a sample nor a frame; the line is skipped".to_owned());
        }
    }
    samples.end().map_err(|full| reader.full(full))?;
    if let Some(wanted) = &reader.options.event
        && samples.chosen.is_none()
    {
        let known: Vec<&str> = samples.events.iter().map(|(name, _)| name.as_str()).collect();
        return Err(ImportError::Malformed {
            name: reader.lines.name().to_owned(),
            place: crate::import::Place::Whole,
            problem: format!("there are no samples of the event `{wanted}`, only of {}", known.join(", ")),
        });
    }
    samples.finish(&mut session).map_err(|full| reader.full(full))?;
    Ok(vec![session])
}

/// The first line of a sample.
struct Header<'a> {
    comm: &'a [u8],
    pid: Option<u32>,
    cpu: bool,
    time: Option<f64>,
    period: Option<u64>,
    event: &'a [u8],
    /// What follows the event: a frame, or the fields of a tracepoint.
    rest: &'a [u8],
}

impl<'a> Header<'a> {
    /// Most words of a thread's name: it has 15 bytes.
    const WORDS: usize = 24;

    fn parse(line: &'a [u8]) -> Option<Self> {
        // Only the beginning is looked at: a tracepoint's arguments may be long.
        let mut start = 0;
        for _ in 0..Self::WORDS {
            let (begin, end) = word(line, start)?;
            if begin > 0
                && let Some((pid, _)) = pid_tid(&line[begin..end])
                && let Some(header) = Self::after_pid(line, begin, end, pid)
            {
                return Some(header);
            }
            start = end;
        }
        None
    }

    fn after_pid(line: &'a [u8], begin: usize, end: usize, pid: Option<u32>) -> Option<Self> {
        let comm = line[..begin].trim_ascii();
        let mut header = Header { comm, pid, cpu: false, time: None, period: None, event: b"", rest: b"" };
        let mut next = word(line, end)?;
        let text = |(begin, end): (usize, usize)| &line[begin..end];
        if is_cpu(text(next)) {
            header.cpu = true;
            next = word(line, next.1)?;
        }
        // Flags of `perf script -F +flags`, `+misc`: a few letters.
        if let Some(time) = time(text(next)) {
            header.time = Some(time);
            next = word(line, next.1)?;
        }
        if let Some(period) = number(text(next)) {
            header.period = Some(period);
            next = word(line, next.1)?;
        }
        let event = text(next);
        let event = event.strip_suffix(b":")?;
        if event.is_empty() || !event[0].is_ascii_alphabetic() {
            return None;
        }
        header.event = event;
        header.rest = line[next.1..].trim_ascii();
        // Prose has numbers and colons, too.
        let sure = header.time.is_some() || header.cpu || header.period.is_some() || header.rest.is_empty();
        sure.then_some(header)
    }
}

/// The next word from `start` on.
fn word(line: &[u8], start: usize) -> Option<(usize, usize)> {
    let begin = start + line[start..].iter().position(|byte| !byte.is_ascii_whitespace())?;
    let length = line[begin..].iter().position(u8::is_ascii_whitespace);
    Some((begin, length.map_or(line.len(), |length| begin + length)))
}

fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}

/// `PID/TID`, or a thread id alone, which does not tell the process. perf gives -1 for what is gone.
fn pid_tid(text: &[u8]) -> Option<(Option<u32>, Option<u32>)> {
    let id = |text: &[u8]| match text {
        b"-1" => Some(None),
        text => number(text).map(|id| u32::try_from(id).ok()),
    };
    match memchr(b'/', text) {
        Some(at) => Some((id(&text[..at])?, id(&text[at + 1..])?)),
        None => Some((None, id(text)?)),
    }
}

fn is_cpu(text: &[u8]) -> bool {
    text.strip_prefix(b"[")
        .and_then(|rest| rest.strip_suffix(b"]"))
        .is_some_and(|digits| number(digits).is_some())
}

/// Seconds, as `12926.427332:`.
fn time(text: &[u8]) -> Option<f64> {
    let text = text.strip_suffix(b":")?;
    let dot = memchr(b'.', text)?;
    number(&text[..dot])?;
    number(&text[dot + 1..])?;
    str::from_utf8(text).ok()?.parse().ok()
}

/// Whether a line is a frame as perf itself writes it, with a tab before it.
fn is_surely_frame(line: &[u8]) -> bool {
    line[0] == b'\t'
}

/// Whether a line is `  ADDRESS SYMBOL`, whatever stands before it.
fn is_frame(line: &[u8]) -> bool {
    line.first().is_some_and(u8::is_ascii_whitespace) && address(line.trim_ascii_start()).is_some()
}

/// The address at the beginning of a frame: where it ends, and whether the kernel is there.
fn address(frame: &[u8]) -> Option<(usize, bool)> {
    let digits = frame.iter().take(17).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let ends = frame.get(digits).is_none_or(|byte| *byte == b' ');
    // The kernel is in the upper half of the 64-bit addresses.
    let kernel = digits == 16 && frame[0] >= b'8';
    (ends && (1..=16).contains(&digits)).then_some((digits, kernel))
}

/// Samples of one event, or of two as long as none of CPU time has come.
struct Samples {
    wanted: Option<String>,
    /// The names of the events so far, with the number of samples.
    events: Vec<(String, u64)>,
    other_events: u64,
    /// The event that is taken, in `events`.
    chosen: Option<usize>,
    merger: Merger,
    cache: FrameCache,
    labels: HashMap<Box<[u8]>, LabelsId, FxBuildHasher>,
    /// Of the sample that is being read.
    current: Option<Current>,
    frames: Vec<LocationId>,
    /// Functions that were inlined into the frame that comes next.
    inlined: Vec<(usize, String)>,
    cut: u64,
    first: f64,
    last: f64,
    /// Smallest and largest period; samples without one have the period 1.
    periods: (u64, u64),
    without_stack: u64,
    samples: u64,
}

struct Current {
    labels: LabelsId,
    period: u64,
}

impl Samples {
    fn new(wanted: Option<String>) -> Self {
        Self {
            wanted,
            events: Vec::new(),
            other_events: 0,
            chosen: None,
            merger: Merger::default(),
            cache: FrameCache::default(),
            labels: HashMap::default(),
            current: None,
            frames: Vec::new(),
            inlined: Vec::new(),
            cut: 0,
            first: f64::INFINITY,
            last: f64::NEG_INFINITY,
            periods: (u64::MAX, 0),
            without_stack: 0,
            samples: 0,
        }
    }

    /// Whether samples of this event are taken.
    fn takes(&mut self, event: &[u8]) -> bool {
        let position = self.events.iter().position(|(name, _)| name.as_bytes() == event);
        let index = match position {
            Some(index) => index,
            None if self.events.len() < MAX_EVENTS => {
                self.events.push((String::from_utf8_lossy(event).into_owned(), 0));
                self.events.len() - 1
            }
            None => {
                self.other_events += 1;
                return false;
            }
        };
        self.events[index].1 += 1;
        if self.chosen == Some(index) {
            return true;
        }
        let name = &self.events[index].0;
        let better = match (&self.wanted, self.chosen) {
            (Some(wanted), _) => {
                self.chosen.is_none() && (name == wanted || headers::event_name(name) == wanted)
            }
            (None, None) => true,
            // The first event was a stopgap until one of CPU time comes.
            (None, Some(chosen)) => is_cpu_event(name) && !is_cpu_event(&self.events[chosen].0),
        };
        if better {
            let wanted = self.wanted.take();
            let events = std::mem::take(&mut self.events);
            *self = Self {
                wanted,
                events,
                other_events: self.other_events,
                chosen: Some(index),
                ..Self::new(None)
            };
        }
        better
    }

    fn begin(&mut self, header: &Header<'_>) -> Result<(), Full> {
        if !self.takes(header.event) {
            return Ok(());
        }
        if let Some(time) = header.time {
            self.first = self.first.min(time);
            self.last = self.last.max(time);
        }
        let period = header.period.unwrap_or(1);
        self.periods = (self.periods.0.min(period), self.periods.1.max(period));
        let labels = self.labels_of(header.comm, header.pid)?;
        self.current = Some(Current { labels, period });
        // Without -g, the one frame stands behind the event.
        if address(header.rest).is_some_and(|(end, _)| end < header.rest.len()) {
            self.frame(header.rest)?;
        }
        Ok(())
    }

    fn labels_of(&mut self, comm: &[u8], pid: Option<u32>) -> Result<LabelsId, Full> {
        let mut key = [0; 64];
        let length = comm.len().min(60);
        key[..length].copy_from_slice(&comm[..length]);
        key[60..].copy_from_slice(&pid.unwrap_or(u32::MAX).to_ne_bytes());
        if let Some(id) = self.labels.get(&key[..]) {
            return Ok(*id);
        }
        let name = String::from_utf8_lossy(&comm[..length]);
        let id = self.merger.labels(Labels { comm: Some(name.into()), pid, ..Labels::default() })?;
        self.labels.insert(key.into(), id);
        Ok(id)
    }

    fn frame(&mut self, line: &[u8]) -> Result<(), Full> {
        if self.current.is_none() {
            return Ok(());
        }
        let line = line.trim_ascii_start();
        let Some((end, kernel)) = address(line) else { return Ok(()) };
        if self.frames.len() == MAX_DEPTH {
            self.cut += 1;
            return Ok(());
        }
        let rest = &line[end..];
        let known = self.cache.get(rest, kernel);
        if let Some(id) = known
            && self.inlined.is_empty()
        {
            self.frames.push(id);
            return Ok(());
        }
        let (symbol, binary) = split(rest);
        let kernel = kernel.then_some(true);
        if binary == Some(b"inlined") {
            self.inlined.push((self.frames.len(), String::from_utf8_lossy(symbol).into_owned()));
            // Replaced when the function that it was inlined into is known.
            self.frames.push(LocationId(u32::MAX));
            return Ok(());
        }
        let symbol = String::from_utf8_lossy(symbol);
        let binary = binary.map(String::from_utf8_lossy);
        let binary = binary.as_deref();
        let id = self.merger.frame(names::frame(&symbol, binary, kernel))?;
        if known.is_none() {
            self.cache.insert(rest, kernel.is_some(), id);
        }
        self.inline(binary, kernel)?;
        self.frames.push(id);
        Ok(())
    }

    /// Names the functions that were inlined into one of `binary`.
    fn inline(&mut self, binary: Option<&str>, kernel: Option<bool>) -> Result<(), Full> {
        for (at, name) in self.inlined.drain(..) {
            self.frames[at] = self.merger.frame(names::frame(&name, binary, kernel))?;
        }
        Ok(())
    }

    /// Ends the sample that is being read.
    fn end(&mut self) -> Result<(), Full> {
        let Some(current) = self.current.take() else { return Ok(()) };
        self.inline(None, None)?;
        self.samples += 1;
        self.without_stack += u64::from(self.frames.is_empty());
        self.frames.reverse();
        self.merger.add(Kind::Cpu, current.labels, &self.frames, 1, current.period)?;
        self.frames.clear();
        Ok(())
    }

    fn finish(mut self, session: &mut Session) -> Result<(), Full> {
        if self.last > self.first {
            session.duration_ns = ((self.last - self.first) * 1e9) as u64;
        }
        let notes = &mut session.blind_spots;
        let Some(chosen) = self.chosen else { return Ok(()) };
        let (event, _) = self.events.remove(chosen);
        if !is_cpu_event(&event) {
            notes.push(format!(
                "The samples are of the event {event}: what is called CPU time here is no time."
            ));
        } else if headers::event_name(&event).ends_with("-clock") {
            notes.push(format!(
                "Sampling used {event}: code that runs with interrupts off is invisible, and its time lands on the \
                 instruction that enables them."
            ));
        }
        if !self.events.is_empty() {
            let others: Vec<String> =
                self.events.iter().map(|(name, count)| format!("{name} ({count} samples)")).collect();
            let more = if self.other_events > 0 {
                format!(", and {} samples of still others", self.other_events)
            } else {
                String::new()
            };
            notes.push(format!("Only samples of {event} were taken, not of {}{more}.", others.join(", ")));
        }
        if self.without_stack > 0 {
            notes.push(format!("{} of {} samples have no stack.", self.without_stack, self.samples));
        }
        if self.cut > 0 {
            notes.push(format!("{} outer frames beyond the {MAX_DEPTH}th were left out.", self.cut));
        }
        let labels = self.merger.labels(Labels::default())?;
        session.profile = if self.periods.0 == self.periods.1 {
            self.merger.finish_counts()
        } else {
            notes.push(
                "The samples have different periods, and weigh as much as theirs: weights are shares."
                    .to_owned(),
            );
            session.weights = Weights::Shares;
            self.merger.finish_shares(0, labels)?
        };
        Ok(())
    }
}

/// Splits ` sym+0x1f (binary)` into symbol and binary.
fn split(rest: &[u8]) -> (&[u8], Option<&[u8]>) {
    let rest = rest.trim_ascii();
    let (symbol, binary) = match rest.strip_suffix(b")") {
        // Binaries may have parentheses in their names: the outermost pair is it.
        Some(before) => match open_parenthesis(before) {
            Some(at) => (rest[..at].trim_ascii_end(), Some(&before[at + 1..])),
            None => (rest, None),
        },
        None => (rest, None),
    };
    match memrchr(b'+', symbol) {
        Some(at) if symbol[at + 1..].starts_with(b"0x") && at > 0 => (&symbol[..at], binary),
        _ => (symbol, binary),
    }
}

/// Where the parenthesis is opened that the end of `text` closes: a binary's name may have some itself, such as
/// `/memfd:jit (deleted)`. A space comes before it.
fn open_parenthesis(text: &[u8]) -> Option<usize> {
    let mut depth = 1;
    for (at, byte) in text.iter().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' if depth == 1 => return (at == 0 || text[at - 1] == b' ').then_some(at),
            b'(' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
#[path = "perf_script_tests.rs"]
mod tests;
