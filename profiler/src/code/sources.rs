//! Where the types of the functions come from: the kernel's BTF, and the debug information of programs.

use std::collections::HashMap;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use super::analyse::Types;
use super::text::Found;
use crate::profile::Origin;
use crate::symbolize::Processes;
use crate::types::btf::BtfTypes;
use crate::types::dwarf::DwarfTypes;
use crate::types::{Prototype, TypeSource};

/// Functions with less than this share of the CPU samples are not looked into.
pub const LEAST_SHARE: f64 = 0.005;
/// Functions that are looked into at most.
pub const MOST_FUNCTIONS: usize = 100;
/// Samples that a function must have: of a few, nothing can be said.
pub const LEAST_SAMPLES: u64 = 3;

/// Share of the CPU samples that one function of a program must have, for the debug information of the program to be
/// read: that can take seconds. Half of what a finding needs.
const LEAST_IN_PROGRAM: f64 = 0.05;

/// The types of the running kernel and of the programs that were measured.
pub struct Programs {
    kernel: Option<BtfTypes>,
    programs: HashMap<usize, Box<dyn TypeSource>>,
}

impl Programs {
    /// Reads the types that the functions need: of programs only where a function has its share of `total` samples, or is
    /// the one that is `wanted`.
    pub fn read(found: &[Found], processes: &Processes, total: u64, wanted: Option<&str>) -> Self {
        let of_kernel = found.iter().any(|found| found.text.origin == Origin::Kernel);
        let kernel = of_kernel.then(BtfTypes::running).and_then(|types| {
            types.inspect_err(|error| tracing::debug!("types of the kernel: {error}")).ok()
        });
        let mut programs: HashMap<usize, Box<dyn TypeSource>> = HashMap::new();
        let matters = |found: &&Found| {
            let samples: u64 = found.samples.values().sum();
            samples as f64 >= LEAST_IN_PROGRAM * total as f64 || wanted == Some(&*found.text.name)
        };
        for index in found.iter().filter(matters).filter_map(|found| found.binary) {
            let Some(binary) = processes.binaries().get(index).filter(|_| !programs.contains_key(&index))
            else {
                continue;
            };
            let path = match &binary.file {
                Some(file) => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
                None => binary.path.clone(),
            };
            if let Some(types) = program(&path) {
                programs.insert(index, types);
            }
        }
        Self { kernel, programs }
    }
}

/// The types of a program: from its debug information, or from BTF if it has some.
fn program(path: &Path) -> Option<Box<dyn TypeSource>> {
    match DwarfTypes::open(path) {
        Ok(types) => return Some(Box::new(types)),
        Err(error) => tracing::debug!("{error}"),
    }
    BtfTypes::from_file(path).ok().map(|types| Box::new(types) as Box<dyn TypeSource>)
}

impl Types for Programs {
    fn of(&self, found: &Found) -> Option<&dyn TypeSource> {
        match found.binary {
            None => self.kernel.as_ref().map(|types| types as &dyn TypeSource),
            Some(index) => self.programs.get(&index).map(AsRef::as_ref),
        }
    }

    fn prototype(&self, found: &Found, symbol: &str) -> Option<Prototype> {
        match found.binary {
            None => self.kernel.as_ref()?.prototype_in(found.text.module.as_deref(), symbol),
            // Looking for others takes too long in debug information, which is not sorted by name.
            Some(index) if symbol == found.symbol => self.programs.get(&index)?.prototype(symbol),
            Some(_) => None,
        }
    }
}
