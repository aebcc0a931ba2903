//! What the processes have mapped, noted while they still run: user stacks are symbolised at the
//! end, when many of them are gone.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;

use rustc_hash::FxBuildHasher;

/// Files kept open at most; more binaries than this are found again by their path.
const MAX_FILES: usize = 512;

/// An executable mapping of a process.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset in the file of `start`.
    pub offset: u64,
    /// What is mapped.
    pub object: Object,
}

/// What an executable mapping shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// A file, by its index in [`Processes::binaries`].
    Binary(usize),
    /// The kernel's code for user space.
    Vdso,
    /// Code that a program has generated.
    Anonymous,
}

/// A file with code.
#[derive(Debug)]
pub struct Binary {
    /// Its path, as the process sees it.
    pub path: PathBuf,
    /// The file itself, so that it can be read when the process or its name is gone.
    pub file: Option<File>,
}

/// Mappings of all processes that had user stacks.
#[derive(Debug, Default)]
pub struct Processes {
    mappings: HashMap<u32, Vec<Mapping>, FxBuildHasher>,
    binaries: Vec<Binary>,
    by_inode: HashMap<(u64, u64, PathBuf), usize>,
    /// Processes whose mappings were read in this round; once a round is enough.
    read_now: HashSet<u32, FxBuildHasher>,
    /// Processes that were gone before their mappings could be read.
    pub gone: HashSet<u32, FxBuildHasher>,
}

impl Processes {
    /// A new round of draining begins.
    pub fn next_round(&mut self) {
        self.read_now.clear();
    }

    /// Notes what a process has mapped, unless the innermost address of its user stack is known
    /// already (the outermost ones of a frame-pointer walk are often rubbish).
    pub fn note(&mut self, tgid: u32, innermost: u64) {
        if !self.read_now.contains(&tgid) && self.find(tgid, innermost).is_none() {
            self.read(tgid);
        }
    }

    /// The mapping of an address in a process.
    pub fn find(&self, tgid: u32, ip: u64) -> Option<&Mapping> {
        let mappings = self.mappings.get(&tgid)?;
        let index = mappings.partition_point(|mapping| mapping.end <= ip);
        mappings.get(index).filter(|mapping| mapping.start <= ip)
    }

    /// The files that mappings refer to.
    pub fn binaries(&self) -> &[Binary] {
        &self.binaries
    }

    fn read(&mut self, tgid: u32) {
        self.read_now.insert(tgid);
        let maps = i32::try_from(tgid)
            .ok()
            .and_then(|pid| procfs::process::Process::new(pid).and_then(|process| process.maps()).ok());
        let Some(maps) = maps else {
            if !self.mappings.contains_key(&tgid) {
                self.gone.insert(tgid);
            }
            return;
        };
        let mut mappings = Vec::new();
        for map in maps.iter().filter(|map| map.perms.contains(procfs::process::MMPermissions::EXECUTE)) {
            let (start, end) = map.address;
            let object = match &map.pathname {
                procfs::process::MMapPath::Path(path) => {
                    Object::Binary(self.binary(tgid, path.clone(), (start, end), map))
                }
                procfs::process::MMapPath::Vdso => Object::Vdso,
                procfs::process::MMapPath::Vsyscall => continue,
                _ => Object::Anonymous,
            };
            mappings.push(Mapping { start, end, offset: map.offset, object });
        }
        mappings.sort_by_key(|mapping| mapping.start);
        self.mappings.insert(tgid, mappings);
        self.gone.remove(&tgid);
    }

    fn binary(
        &mut self,
        tgid: u32,
        path: PathBuf,
        (start, end): (u64, u64),
        map: &procfs::process::MemoryMap,
    ) -> usize {
        let device = (map.dev.0 as u64) << 32 | map.dev.1 as u64;
        let identity = (device, map.inode, path.clone());
        if let Some(index) = self.by_inode.get(&identity) {
            return *index;
        }
        // Through map_files it is the very file that is mapped, whatever its path has become and
        // whatever mount namespace the process lives in.
        let file = if self.binaries.len() < MAX_FILES {
            File::open(format!("/proc/{tgid}/map_files/{start:x}-{end:x}")).ok()
        } else {
            None
        };
        self.binaries.push(Binary { path, file });
        self.by_inode.insert(identity, self.binaries.len() - 1);
        self.binaries.len() - 1
    }
}
