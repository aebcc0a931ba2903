//! User addresses: names by blazesym from the symbol tables of the mapped files.

use std::collections::HashMap;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use blazesym::symbolize::source::{Elf, Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use blazesym::{Addr, Pid};
use rustc_hash::FxBuildHasher;

use super::processes::{Object, Processes};
use crate::profile::{Frame, Origin};

/// An address of a process, and where it lies in its file.
type InBinary = ((u32, u64), u64);

/// Names of user addresses, by process.
pub struct UserSymbols {
    symbolizer: Symbolizer,
    known: HashMap<(u32, u64), Frame, FxBuildHasher>,
}

impl UserSymbols {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self { symbolizer: super::names_only(), known: HashMap::default() }
    }

    /// Looks many addresses up at once, as pairs of process and address. Those that lie in no
    /// executable mapping stay unknown: [`get`](Self::get) returns `None` for them.
    pub fn resolve(&mut self, processes: &Processes, addresses: &[(u32, u64)]) {
        let mut by_binary: HashMap<usize, Vec<InBinary>> = HashMap::new();
        let mut generated: HashMap<u32, Vec<Addr>> = HashMap::new();
        for (tgid, address) in addresses.iter().copied() {
            if self.known.contains_key(&(tgid, address)) {
                continue;
            }
            let Some(mapping) = processes.find(tgid, address) else { continue };
            match mapping.object {
                Object::Binary(index) => {
                    let in_file = address - mapping.start + mapping.offset;
                    by_binary.entry(index).or_default().push(((tgid, address), in_file));
                }
                Object::Vdso => {
                    self.known.insert((tgid, address), frame("[vdso]", "[vdso]"));
                }
                Object::Anonymous => generated.entry(tgid).or_default().push(address),
            }
        }
        for (index, wanted) in by_binary {
            self.resolve_in_binary(processes, index, &wanted);
        }
        for (tgid, wanted) in generated {
            self.resolve_generated(tgid, &wanted);
        }
    }

    /// The name of an address that was resolved before; `None` if it lies in no executable mapping.
    pub fn get(&self, tgid: u32, address: u64) -> Option<&Frame> {
        self.known.get(&(tgid, address))
    }

    fn resolve_in_binary(&mut self, processes: &Processes, index: usize, wanted: &[InBinary]) {
        let Some(binary) = processes.binaries().get(index) else { return };
        let name = binary.path.file_name().map_or_else(
            || binary.path.to_string_lossy().into_owned(),
            |name| name.to_string_lossy().into_owned(),
        );
        let path = match &binary.file {
            Some(file) => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
            None => binary.path.clone(),
        };
        let offsets: Vec<u64> = wanted.iter().map(|(_, offset)| *offset).collect();
        let frames = frames_in(&self.symbolizer, &path, &name, &offsets);
        for ((key, _), frame) in wanted.iter().zip(frames) {
            self.known.insert(*key, frame);
        }
    }

    /// Code that the program has generated has names if it writes a perf map.
    fn resolve_generated(&mut self, tgid: u32, wanted: &[Addr]) {
        let mut process = Process::new(Pid::from(tgid));
        process.debug_syms = false;
        let symbols = self.symbolizer.symbolize(&Source::Process(process), Input::AbsAddr(wanted));
        let symbols = symbols.unwrap_or_default();
        for (i, address) in wanted.iter().enumerate() {
            let frame = match symbols.get(i) {
                Some(Symbolized::Sym(symbol)) => frame(&symbol.name, "[generated]"),
                _ => frame("[generated code]", "[generated]"),
            };
            self.known.insert((tgid, *address), frame);
        }
    }
}

impl Default for UserSymbols {
    fn default() -> Self {
        Self::new()
    }
}

/// The functions at these offsets in a file, which is called `binary`.
pub fn file_frames(path: &Path, binary: &str, offsets: &[u64]) -> Vec<Frame> {
    frames_in(&super::names_only(), path, binary, offsets)
}

fn frames_in(symbolizer: &Symbolizer, path: &Path, binary: &str, offsets: &[u64]) -> Vec<Frame> {
    let mut elf = Elf::new(path);
    elf.debug_syms = false;
    let symbols = symbolizer.symbolize(&Source::Elf(elf), Input::FileOffset(offsets));
    let symbols = symbols.unwrap_or_else(|error| {
        tracing::debug!("{}: {error}", path.display());
        Vec::new()
    });
    let frame = |(index, offset)| match symbols.get(index) {
        Some(Symbolized::Sym(symbol)) => frame(&symbol.name, binary),
        // Stripped: the place in the file is what addr2line wants later.
        _ => frame(&format!("{binary}+{offset:#x}"), binary),
    };
    offsets.iter().enumerate().map(frame).collect()
}

fn frame(name: &str, binary: &str) -> Frame {
    Frame { name: name.into(), module: Some(binary.into()), origin: Origin::User }
}
