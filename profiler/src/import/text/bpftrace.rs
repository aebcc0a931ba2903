//! Maps of bpftrace that have stacks for keys: `@[kstack] = count()`, `@u[ustack, comm] = count()`.
//!
//! ```text
//! @u[
//!     vfs_read+10
//!     ksys_read+111
//! , dd]: 3
//! ```
//!
//! Each map is a session of its own: they may well count the same events.

use std::collections::HashMap;

use super::lines::Head;
use super::{ImportError, Reader};
use crate::import::merge::{Full, Merger};
use crate::import::names;
use crate::profile::{Kind, Labels, LocationId, Session};

/// Most maps, and most frames of a stack, that are read.
const MAX_MAPS: usize = 64;
const MAX_DEPTH: usize = 1024;

pub(super) fn recognises(head: &Head<'_>) -> bool {
    let begins = |line: &&[u8]| line.starts_with(b"@") && line.contains(&b'[');
    let ends = |line: &&[u8]| {
        matches!(line.first(), Some(b']' | b',')) && memchr::memmem::find(line, b"]: ").is_some()
    };
    let opened = head.lines.iter().position(|line| {
        begins(line) && (line.ends_with(b"[") || line.ends_with(b", ") || line.ends_with(b","))
    });
    opened.is_some_and(|at| head.lines[at..].iter().any(|line| ends(line)))
}

/// Reads the maps that have stacks.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<Session>, ImportError> {
    let kernel_maps = kernel_maps(reader.head);
    let mut maps: Vec<(String, Merger)> = Vec::new();
    let mut entry: Option<Entry> = None;
    while let Some(line) = reader.lines.next()? {
        let line = String::from_utf8_lossy(line);
        let Some(open) = &mut entry else {
            entry = Entry::begin(&line);
            continue;
        };
        let Some(count) = open.line(&line) else { continue };
        let Some(done) = entry.take() else { continue };
        let Some(count) = count else {
            reader.warn(|| "the entry has no count; it is skipped".to_owned());
            continue;
        };
        let map = match maps.iter().position(|(name, _)| *name == done.map) {
            Some(map) => map,
            None if maps.len() < MAX_MAPS => {
                maps.push((done.map.clone(), Merger::default()));
                maps.len() - 1
            }
            None => return Err(reader.too_much("maps", MAX_MAPS as u64)),
        };
        let in_kernel = kernel_maps.get(&done.map).copied();
        done.add(in_kernel, count, &mut maps[map].1).map_err(|full| reader.full(full))?;
    }
    let several = maps.len() > 1;
    let mut sessions = Vec::new();
    for (name, merger) in maps {
        let mut session = reader.session();
        session.heading = several.then_some(name);
        session.profile = merger.finish();
        session.blind_spots.push(
            "bpftrace does not say what a map counts, nor which stacks are the kernel's: counts are taken for CPU \
             samples, and kernel stacks are told by the kernel's entry points and addresses."
                .to_owned(),
        );
        sessions.push(session);
    }
    Ok(sessions)
}

/// An entry of a map.
struct Entry {
    map: String,
    /// Parts of the key that are stacks, innermost function first.
    stacks: Vec<Vec<String>>,
    in_stack: bool,
    comm: Option<String>,
}

impl Entry {
    /// `@name[`, or `@name[comm, `. An entry that ends in this line has no stack.
    fn begin(line: &str) -> Option<Self> {
        let (map, rest) = line.strip_prefix('@')?.split_once('[')?;
        if rest.contains("]: ") {
            return None;
        }
        let mut entry = Self { map: format!("@{map}"), stacks: Vec::new(), in_stack: false, comm: None };
        entry.words(rest);
        Some(entry)
    }

    /// A further line. At the end of the entry, the count, if it can be understood.
    fn line(&mut self, line: &str) -> Option<Option<u64>> {
        if line.starts_with([' ', '\t']) {
            if !std::mem::replace(&mut self.in_stack, true) && self.stacks.len() < 8 {
                self.stacks.push(Vec::new());
            }
            if let Some(stack) = self.stacks.last_mut().filter(|stack| stack.len() < MAX_DEPTH) {
                stack.push(line.trim().to_owned());
            }
            return None;
        }
        self.in_stack = false;
        match line.rsplit_once("]: ") {
            Some((words, count)) => {
                self.words(words);
                Some(count.trim().parse().ok())
            }
            None => {
                self.words(line);
                // Without an end, an entry is over when the next one begins.
                line.starts_with('@').then_some(None)
            }
        }
    }

    /// Parts of the key that are no stacks: what is no number is the name of a thread.
    fn words(&mut self, text: &str) {
        let words =
            text.split(", ").map(|word| word.trim().trim_matches(',')).filter(|word| !word.is_empty());
        for word in words {
            if self.comm.is_none() && word.parse::<i64>().is_err() {
                self.comm = Some(word.to_owned());
            }
        }
    }

    fn add(&self, in_kernel: Option<bool>, count: u64, merger: &mut Merger) -> Result<(), Full> {
        let labels = Labels { comm: self.comm.as_deref().map(Into::into), ..Labels::default() };
        let labels = merger.labels(labels)?;
        // Outermost first: user code before the kernel's.
        let mut sides: Vec<(bool, &Vec<String>)> = self
            .stacks
            .iter()
            .map(|stack| (is_kernel_stack(stack).or(in_kernel).unwrap_or(false), stack))
            .collect();
        sides.sort_by_key(|(kernel, _)| *kernel);
        let mut frames: Vec<LocationId> = Vec::new();
        for (kernel, stack) in sides {
            for line in stack.iter().rev() {
                let (symbol, binary) = symbol(line);
                frames.push(merger.frame(names::frame(symbol, binary, Some(kernel)))?);
            }
        }
        merger.add(Kind::Cpu, labels, &frames, count, count)
    }
}

/// Whether a stack is the kernel's, where its frames tell.
fn is_kernel_stack(stack: &[String]) -> Option<bool> {
    for line in stack {
        if let Some((address, _)) = line.split_once(' ')
            && let Ok(address) = u64::from_str_radix(address, 16)
        {
            return Some(address >> 63 == 1);
        }
        let (symbol, _) = symbol(line);
        if names::is_kernel_entry(symbol) {
            return Some(true);
        }
        if let Some(address) = symbol.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
            return Some(address >> 63 == 1);
        }
    }
    None
}

/// The function of `name+541` or, with `ustack(perf)`, of `7f3cfd402ce3 name+541 (binary)`.
fn symbol(line: &str) -> (&str, Option<&str>) {
    let (line, binary) = match line.split_once(' ') {
        Some((address, rest)) if u64::from_str_radix(address, 16).is_ok() => match rest.rsplit_once(" (") {
            Some((symbol, binary)) => (symbol, binary.strip_suffix(')')),
            None => (rest, None),
        },
        _ => (line, None),
    };
    let symbol = match line.rsplit_once('+') {
        Some((name, offset)) if !name.is_empty() && offset.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => line,
    };
    (symbol, binary)
}

/// Which maps have stacks of the kernel's, as far as the beginning of the text tells: stacks that are cut off above
/// (`kstack(3)`) do not tell themselves.
fn kernel_maps(head: &[u8]) -> HashMap<String, bool> {
    let mut maps: HashMap<String, bool> = HashMap::new();
    let mut entry: Option<Entry> = None;
    for line in head.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let Some(open) = &mut entry else {
            entry = Entry::begin(&line);
            continue;
        };
        if open.line(&line).is_some()
            && let Some(done) = entry.take()
            && let [stack] = &*done.stacks
            && let Some(kernel) = is_kernel_stack(stack)
            && maps.len() < MAX_MAPS
        {
            *maps.entry(done.map).or_default() |= kernel;
        }
    }
    maps
}

#[cfg(test)]
mod tests {
    use crate::import::text::testing::{import, stacks_of};

    #[test]
    fn maps_are_sessions() {
        let text = b"Attaching 2 probes...\n\n@[\n    vfs_read+10\n    do_syscall_64+113\n]: 3\n@[\n    idle+1\n]: 1\n\
            @agg[dd]: 7\n\
            @u[\n    0x7f22ebafdb17\n    main+5\n, dd, 42]: 2\n\
            @both[, \n\tffffffff822618a8 memcpy+8\n\tffffffff8138bf9c work+3\n, kworker/u8:5, 6757]: 7\n\
            @both[\n\t7f3da282f58a read+39 (/usr/lib/libc.so.6)\n, \n\tffffffff822618a8 memcpy+8\n, dd]: 1\n";
        let imported = import(text);
        let all: Vec<_> = imported
            .sessions
            .iter()
            .map(|session| (session.heading.clone().unwrap(), stacks_of(session)))
            .collect();
        assert_eq!(all[0].0, "@");
        assert_eq!(all[0].1, ["do_syscall_64_[k];vfs_read_[k] 3", "idle_[k] 1"]);
        assert_eq!(all[1], ("@u".to_owned(), vec!["dd;main;0x7f22ebafdb17 2".to_owned()]));
        assert_eq!(all[2].1, ["kworker/u8:5;work_[k];memcpy_[k] 7", "dd;read;memcpy_[k] 1"]);
        assert_eq!(all.len(), 3);
    }
}
