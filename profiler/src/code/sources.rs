//! Where the types of the functions come from: the kernel's BTF, and the debug information of programs.

use std::collections::HashMap;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use super::analyse::Types;
use super::text::Found;
use crate::profile::Origin;
use crate::symbolize::Processes;
use crate::types::btf::BtfTypes;
use crate::types::{Prototype, TypeSource};

/// Functions with less than this share of the CPU samples are not looked into.
pub const LEAST_SHARE: f64 = 0.005;
/// Functions that are looked into at most.
pub const MOST_FUNCTIONS: usize = 100;
/// Samples that a function must have: of a few, nothing can be said.
pub const LEAST_SAMPLES: u64 = 3;

/// The types of the running kernel and of the programs that were measured.
pub struct Programs {
    kernel: Option<BtfTypes>,
    programs: HashMap<usize, Box<dyn TypeSource>>,
}

impl Programs {
    /// Reads the types that the functions need.
    pub fn read(found: &[Found], processes: &Processes) -> Self {
        let of_kernel = found.iter().any(|found| found.text.origin == Origin::Kernel);
        let kernel = of_kernel.then(BtfTypes::running).and_then(|types| {
            types.inspect_err(|error| tracing::debug!("types of the kernel: {error}")).ok()
        });
        let mut programs: HashMap<usize, Box<dyn TypeSource>> = HashMap::new();
        for index in found.iter().filter_map(|found| found.binary) {
            let Some(binary) = processes.binaries().get(index).filter(|_| !programs.contains_key(&index)) else {
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

fn program(path: &std::path::Path) -> Option<Box<dyn TypeSource>> {
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
            Some(index) => self.programs.get(&index)?.prototype(symbol),
        }
    }
}
