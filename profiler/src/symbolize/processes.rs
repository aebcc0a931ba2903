//! What the processes have mapped, noted while they still run: user stacks are symbolised at the
//! end, when many of them are gone.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustc_hash::FxBuildHasher;

use super::recent::{Recent, Reported};

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
    /// What the kernel reported of the latest processes.
    recent: Recent,
}

impl Processes {
    /// A new round of draining begins.
    pub fn next_round(&mut self) {
        self.read_now.clear();
    }

    /// The kernel reports that a process has mapped code.
    pub fn mapped(&mut self, tgid: u32, mapping: Reported) {
        self.recent.mapped(tgid, mapping);
    }

    /// The kernel reports that a process was forked.
    pub fn forked(&mut self, parent: u32, child: u32) {
        self.recent.forked(parent, child);
    }

    /// Notes what a process has mapped, unless the innermost address of its user stack is known
    /// already (the outermost ones of a frame-pointer walk are often rubbish).
    pub fn note(&mut self, tgid: u32, innermost: u64) {
        if self.read_now.contains(&tgid) || self.find(tgid, innermost).is_some() {
            return;
        }
        self.read_now.insert(tgid);
        // /proc knows everything about those that still live; what was reported must do for the others.
        if !self.read(tgid) {
            self.take_reported(tgid);
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

    /// Reads the mappings of a process that lives; false if it does not.
    fn read(&mut self, tgid: u32) -> bool {
        let maps = i32::try_from(tgid)
            .ok()
            .and_then(|pid| procfs::process::Process::new(pid).and_then(|process| process.maps()).ok());
        // A process that has ended, and was not waited for yet, has no mappings.
        let Some(maps) = maps.filter(|maps| maps.iter().next().is_some()) else { return false };
        let mut mappings = Vec::new();
        for map in maps.iter().filter(|map| map.perms.contains(procfs::process::MMPermissions::EXECUTE)) {
            let (start, end) = map.address;
            let object = match &map.pathname {
                procfs::process::MMapPath::Path(path) => {
                    let device = (map.dev.0 as u64) << 32 | map.dev.1 as u64;
                    // Through map_files it is the very file that is mapped, whatever its path has
                    // become and whatever mount namespace the process lives in.
                    let file = format!("/proc/{tgid}/map_files/{start:x}-{end:x}");
                    Object::Binary(self.binary(path, (device, map.inode), || File::open(file).ok()))
                }
                procfs::process::MMapPath::Vdso => Object::Vdso,
                procfs::process::MMapPath::Vsyscall => continue,
                _ => Object::Anonymous,
            };
            mappings.push(Mapping { start, end, offset: map.offset, object });
        }
        self.insert(tgid, mappings);
        true
    }

    /// Takes over what was reported of a process that is gone.
    fn take_reported(&mut self, tgid: u32) {
        let mut mappings = Vec::new();
        for reported in self.recent.mappings(tgid) {
            let object = match reported.path.to_str() {
                Some("[vdso]") => Object::Vdso,
                Some(label) if !label.starts_with('/') => Object::Anonymous,
                _ => {
                    let path = &reported.path;
                    let inode = reported.identity.1;
                    // The path may mean another file here than it did there.
                    let open = || {
                        let file = File::open(path).ok()?;
                        file.metadata().is_ok_and(|known| known.ino() == inode).then_some(file)
                    };
                    Object::Binary(self.binary(path, reported.identity, open))
                }
            };
            mappings.push(Mapping {
                start: reported.start,
                end: reported.end,
                offset: reported.offset,
                object,
            });
        }
        // A child that has executed nothing has its ancestor's mappings, which may be known.
        if let Some(ancestor) = self.recent.oldest_ancestor(tgid) {
            if !self.mappings.contains_key(&ancestor) {
                self.read(ancestor);
            }
            let overlaps = |known: &Mapping, all: &[Mapping]| {
                all.iter().any(|own| known.start < own.end && own.start < known.end)
            };
            for known in self.mappings.get(&ancestor).cloned().unwrap_or_default() {
                if !overlaps(&known, &mappings) {
                    mappings.push(known);
                }
            }
        }
        if mappings.is_empty() {
            tracing::debug!("process {tgid} was gone before its mappings were known");
        } else {
            self.insert(tgid, mappings);
        }
    }

    fn insert(&mut self, tgid: u32, mut mappings: Vec<Mapping>) {
        mappings.sort_by_key(|mapping| mapping.start);
        self.mappings.insert(tgid, mappings);
    }

    /// The index of a file with code, which is opened if it is new.
    fn binary(
        &mut self,
        path: &Path,
        (device, inode): (u64, u64),
        open: impl FnOnce() -> Option<File>,
    ) -> usize {
        let identity = (device, inode, path.to_owned());
        if let Some(index) = self.by_inode.get(&identity) {
            return *index;
        }
        let file = if self.binaries.len() < MAX_FILES { open() } else { None };
        self.binaries.push(Binary { path: path.to_owned(), file });
        self.by_inode.insert(identity, self.binaries.len() - 1);
        self.binaries.len() - 1
    }
}
