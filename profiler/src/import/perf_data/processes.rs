//! Who had which name and what mapped, as the records tell it in the order of time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use super::bytes::{Bytes, string};
use super::records::Record;
use super::sample::{MISC_COMM_EXEC, Mapped};

/// Threads remembered at most, those that have ended among them.
const MAX_THREADS: usize = 1 << 20;
/// Threads remembered after their end: the kernel samples them until they are really gone.
const MAX_ENDED: usize = 4096;
/// Mappings of a process at most: what the kernel allows unless told otherwise (vm.max_map_count).
const MAX_MAPS: usize = 65_530;
/// Mappings of all processes at most. A forked process shares its parent's until it maps anew.
const MAX_ALL_MAPS: usize = 2 << 20;
/// Files with code at most.
const MAX_OBJECTS: usize = 1 << 18;

/// An executable mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Map {
    start: u64,
    end: u64,
    /// What an address needs to become an offset in the file.
    shift: u64,
    object: u32,
}

/// A file with code, or what else was mapped executable. Everything in it is untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Path or label.
    pub path: Arc<str>,
    /// Build id, empty where the mapping did not have it.
    pub build_id: Box<[u8]>,
    /// Inode number, where the mapping had it.
    pub inode: Option<u64>,
}

#[derive(Debug)]
struct Thread {
    comm: Arc<str>,
    ended: bool,
}

/// All threads and processes.
#[derive(Debug, Default)]
pub struct Processes {
    threads: HashMap<u32, Thread, FxBuildHasher>,
    maps: HashMap<u32, Arc<Vec<Map>>, FxBuildHasher>,
    held_maps: usize,
    ended: VecDeque<(u32, u32)>,
    objects: Vec<Object>,
    known: HashMap<Object, u32, FxBuildHasher>,
    comms: HashMap<Arc<str>, (), FxBuildHasher>,
    /// Whether something did not fit.
    pub overflowed: bool,
}

impl Processes {
    /// `PERF_RECORD_COMM`: a thread has a new name, or a new program.
    pub fn comm(&mut self, record: &Record<'_>) -> Option<()> {
        let mut body = record.body;
        let (pid, tid) = (body.u32()?, body.u32()?);
        let comm = self.intern(&string(body.text()));
        if record.misc & MISC_COMM_EXEC != 0 {
            self.set_maps(pid, Arc::default());
        }
        self.insert(tid, Thread { comm, ended: false });
        Some(())
    }

    /// `PERF_RECORD_FORK`: a new thread, perhaps of a new process.
    pub fn fork(&mut self, mut body: Bytes<'_>) -> Option<()> {
        let (pid, parent_pid) = (body.u32()?, body.u32()?);
        let (tid, parent_tid) = (body.u32()?, body.u32()?);
        if let Some(parent) = self.threads.get(&parent_tid) {
            let comm = parent.comm.clone();
            self.insert(tid, Thread { comm, ended: false });
        }
        if pid != parent_pid {
            let maps = self.maps.get(&parent_pid).cloned().unwrap_or_default();
            self.set_maps(pid, maps);
        }
        Some(())
    }

    /// `PERF_RECORD_EXIT`: a thread ends.
    pub fn exit(&mut self, mut body: Bytes<'_>) -> Option<()> {
        let (pid, _) = (body.u32()?, body.u32()?);
        let tid = body.u32()?;
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.ended = true;
        }
        self.ended.push_back((pid, tid));
        if self.ended.len() > MAX_ENDED
            && let Some((pid, tid)) = self.ended.pop_front()
            && self.threads.get(&tid).is_none_or(|thread| thread.ended)
        {
            self.threads.remove(&tid);
            if pid == tid {
                self.set_maps(pid, Arc::default());
                self.maps.remove(&pid);
            }
        }
        Some(())
    }

    /// `PERF_RECORD_MMAP` and `MMAP2`: a process has mapped code.
    pub fn mapped(&mut self, mapped: &Mapped<'_>) {
        let Some(end) = mapped.start.checked_add(mapped.length) else { return };
        let Some(object) = self.object(mapped) else { return };
        let shift = mapped.offset.wrapping_sub(mapped.start);
        let new = Map { start: mapped.start, end, shift, object };
        let maps = self.maps.entry(mapped.pid).or_default();
        // Copied where it is still shared with the parent.
        let owned = Arc::get_mut(maps).is_some();
        let added = if owned { 2 } else { maps.len() + 2 };
        if maps.len() >= MAX_MAPS || self.held_maps + added > MAX_ALL_MAPS {
            self.overflowed = true;
            return;
        }
        let before = if owned { maps.len() } else { 0 };
        let maps = Arc::make_mut(maps);
        insert(maps, new);
        self.held_maps = self.held_maps + maps.len() - before;
    }

    /// The object that an address of a process lies in, and where in its file.
    pub fn find(&self, pid: u32, address: u64) -> Option<(u32, u64)> {
        let maps = self.maps.get(&pid)?;
        let map = maps.get(maps.partition_point(|map| map.end <= address))?;
        (map.start <= address).then(|| (map.object, address.wrapping_add(map.shift)))
    }

    /// The name of a thread.
    pub fn comm_of(&self, tid: u32) -> Option<&Arc<str>> {
        self.threads.get(&tid).map(|thread| &thread.comm)
    }

    /// What was mapped; [`find`](Self::find) gives indexes into this.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    fn insert(&mut self, tid: u32, thread: Thread) {
        if self.threads.len() < MAX_THREADS || self.threads.contains_key(&tid) {
            self.threads.insert(tid, thread);
        } else {
            self.overflowed = true;
        }
    }

    fn set_maps(&mut self, pid: u32, maps: Arc<Vec<Map>>) {
        if let Some(before) = self.maps.get_mut(&pid) {
            if Arc::get_mut(before).is_some() {
                self.held_maps = self.held_maps.saturating_sub(before.len());
            }
            *before = maps;
        } else if self.maps.len() < MAX_THREADS && !maps.is_empty() {
            self.maps.insert(pid, maps);
        }
    }

    fn object(&mut self, mapped: &Mapped<'_>) -> Option<u32> {
        let object = Object {
            path: self.intern(&string(mapped.path)),
            build_id: mapped.build_id.into(),
            inode: mapped.inode,
        };
        if let Some(index) = self.known.get(&object) {
            return Some(*index);
        }
        if self.objects.len() >= MAX_OBJECTS {
            self.overflowed = true;
            return None;
        }
        let index = self.objects.len() as u32;
        self.objects.push(object.clone());
        self.known.insert(object, index);
        Some(index)
    }

    /// One copy of a text, however often it comes.
    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some((known, ())) = self.comms.get_key_value(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        if self.comms.len() < MAX_OBJECTS {
            self.comms.insert(new.clone(), ());
        }
        new
    }
}

/// Puts a mapping into a sorted list, in place of whatever it covers.
fn insert(maps: &mut Vec<Map>, new: Map) {
    if new.start >= new.end {
        return;
    }
    let first = maps.partition_point(|map| map.end <= new.start);
    let last = maps.partition_point(|map| map.start < new.end);
    let mut pieces = Vec::with_capacity(3);
    if let Some(head) = maps[first..last].first().filter(|map| map.start < new.start) {
        pieces.push(Map { end: new.start, ..*head });
    }
    pieces.push(new);
    if let Some(tail) = maps[first..last].last().filter(|map| map.end > new.end) {
        pieces.push(Map { start: new.end, ..*tail });
    }
    maps.splice(first..last, pieces);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::records::kind;
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn comm(processes: &mut Processes, pid: u32, name: &str, misc: u16) {
        let mut body = words(&[pid, pid]);
        body.extend(name.as_bytes());
        body.push(0);
        let body = Bytes::new(&body, false);
        processes.comm(&Record { kind: kind::COMM, misc, body }).unwrap();
    }

    fn map(processes: &mut Processes, pid: u32, start: u64, path: &str) {
        let path = path.as_bytes();
        processes.mapped(&Mapped { pid, start, length: 0x1000, offset: 0x40, path, ..Mapped::default() });
    }

    #[test]
    fn children_begin_as_their_parents() {
        let mut processes = Processes::default();
        comm(&mut processes, 1, "sh", 0);
        map(&mut processes, 1, 0x1000, "/bin/sh");
        processes.fork(Bytes::new(&words(&[2, 1, 2, 1]), false)).unwrap();
        assert_eq!(processes.comm_of(2).map(|comm| &**comm), Some("sh"));
        assert_eq!(processes.find(2, 0x1010), Some((0, 0x50)));
        map(&mut processes, 2, 0x3000, "/lib/x");
        assert_eq!(processes.find(1, 0x3010), None);
        comm(&mut processes, 2, "ls", MISC_COMM_EXEC);
        assert_eq!(processes.find(2, 0x1010), None);
        assert_eq!(processes.find(1, 0x1010), Some((0, 0x50)));
        // A thread of a process has its mappings.
        processes.fork(Bytes::new(&words(&[1, 1, 9, 1]), false)).unwrap();
        assert_eq!(processes.comm_of(9).map(|comm| &**comm), Some("sh"));
    }

    #[test]
    fn the_dead_are_forgotten_in_time() {
        let mut processes = Processes::default();
        for pid in 1..10_000 {
            comm(&mut processes, pid, "x", 0);
            map(&mut processes, pid, 0x1000, "/bin/x");
            processes.exit(Bytes::new(&words(&[pid, 0, pid, 0]), false)).unwrap();
            assert!(processes.comm_of(pid).is_some());
        }
        assert!(processes.threads.len() <= MAX_ENDED + 1 && processes.maps.len() <= MAX_ENDED + 1);
        assert!(processes.held_maps <= MAX_ENDED + 1, "{}", processes.held_maps);
    }

    proptest! {
        #[test]
        fn mappings_never_overlap(list in prop::collection::vec((0u64..64, 0u64..16), 0..40)) {
            let mut maps = Vec::new();
            let mut bytes = [None; 96];
            for (object, (start, length)) in list.into_iter().enumerate() {
                let object = object as u32;
                insert(&mut maps, Map { start, end: start + length, shift: 0, object });
                bytes[start as usize..(start + length) as usize].fill(Some(object));
            }
            prop_assert!(maps.is_sorted_by(|a, b| a.end <= b.start));
            for (address, expected) in bytes.iter().enumerate() {
                let address = address as u64;
                let found = maps.iter().find(|map| map.start <= address && address < map.end);
                prop_assert_eq!(found.map(|map| map.object), *expected);
            }
        }
    }
}
