//! What processes have mapped, as the kernel reported it while it happened: for those that live
//! too short to be looked at in /proc.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;

use rustc_hash::FxBuildHasher;

/// Processes remembered at most, the latest ones.
const MAX_PROCESSES: usize = 8192;

/// Mappings of one process at most.
const MAX_MAPPINGS: usize = 512;

/// Forks are followed back this far: a shell's subshell's child.
const MAX_ANCESTORS: usize = 8;

/// An executable mapping as reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset in the file of `start`.
    pub offset: u64,
    /// Path, or a label in brackets.
    pub path: PathBuf,
    /// Device and inode number of the file.
    pub identity: (u64, u64),
}

/// The latest processes and what they have mapped.
#[derive(Debug, Default)]
pub struct Recent {
    processes: HashMap<u32, Process, FxBuildHasher>,
    /// In the order in which they appeared.
    order: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct Process {
    /// Whom it was forked from: until it executes something, it has the same mappings.
    parent: Option<u32>,
    mappings: Vec<Reported>,
}

impl Recent {
    /// Process `tgid` has mapped code. Older mappings in its place are gone by that; those of the
    /// program before an exec stay, and hurt only where addresses coincide.
    pub fn mapped(&mut self, tgid: u32, mapping: Reported) {
        let process = self.process(tgid);
        process.mappings.retain(|known| known.end <= mapping.start || known.start >= mapping.end);
        if process.mappings.len() < MAX_MAPPINGS {
            process.mappings.push(mapping);
        }
    }

    /// Process `child` was forked from `parent`.
    pub fn forked(&mut self, parent: u32, child: u32) {
        if parent != child {
            // What is known stays: reports of different CPUs come in any order, so that the child's
            // mappings may be here before it.
            self.process(child).parent = Some(parent);
        }
    }

    /// Everything that process `tgid` has mapped, its own first, then what it inherited.
    pub fn mappings(&self, tgid: u32) -> Vec<Reported> {
        let mut all: Vec<Reported> = Vec::new();
        let mut next = Some(tgid);
        for _ in 0..MAX_ANCESTORS {
            let Some(process) = next.and_then(|tgid| self.processes.get(&tgid)) else { break };
            for mapping in &process.mappings {
                if all.iter().all(|known| known.end <= mapping.start || known.start >= mapping.end) {
                    all.push(mapping.clone());
                }
            }
            next = process.parent;
        }
        all
    }

    /// The first ancestor of `tgid` that nothing was reported of: its mappings are to be had elsewhere.
    pub fn oldest_ancestor(&self, tgid: u32) -> Option<u32> {
        let mut oldest = None;
        let mut next = self.processes.get(&tgid)?.parent;
        for _ in 0..MAX_ANCESTORS {
            let Some(tgid) = next else { break };
            oldest = Some(tgid);
            next = self.processes.get(&tgid).and_then(|process| process.parent);
        }
        oldest
    }

    fn process(&mut self, tgid: u32) -> &mut Process {
        if !self.processes.contains_key(&tgid) {
            if self.order.len() >= MAX_PROCESSES
                && let Some(oldest) = self.order.pop_front()
            {
                self.processes.remove(&oldest);
            }
            self.order.push_back(tgid);
        }
        self.processes.entry(tgid).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, path: &str) -> Reported {
        Reported { start, end: start + 0x1000, offset: 0, path: path.into(), identity: (1, start) }
    }

    #[test]
    fn children_inherit_and_replace() {
        let mut recent = Recent::default();
        recent.mapped(1, mapping(0x1000, "/bin/sh"));
        recent.mapped(1, mapping(0x8000, "/lib/libc.so"));
        recent.forked(1, 2);
        assert_eq!(recent.mappings(2).len(), 2);
        recent.mapped(2, mapping(0x1000, "/bin/true"));
        let mappings = recent.mappings(2);
        assert_eq!(mappings[0].path, PathBuf::from("/bin/true"));
        assert_eq!(mappings.len(), 2);
        assert_eq!(recent.mappings(1)[0].path, PathBuf::from("/bin/sh"));
        assert_eq!(recent.mappings(3), []);
        assert_eq!(recent.oldest_ancestor(2), Some(1));
    }

    #[test]
    fn memory_is_bounded() {
        let mut recent = Recent::default();
        for tgid in 0..3 * MAX_PROCESSES as u32 {
            recent.forked(1, tgid + 2);
            recent.mapped(tgid + 2, mapping(0x1000, "/bin/true"));
        }
        assert!(recent.processes.len() <= MAX_PROCESSES + 1);
        assert_eq!(recent.order.len(), MAX_PROCESSES);
    }

    #[test]
    fn a_loop_of_parents_ends() {
        let mut recent = Recent::default();
        recent.forked(1, 2);
        recent.forked(2, 1);
        assert_eq!(recent.mappings(1), []);
        assert!(recent.oldest_ancestor(1).is_some());
    }
}
