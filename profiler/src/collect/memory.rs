//! Reads kernel memory by way of a small eBPF program, since /proc/kcore is not everywhere.

use anyhow::Context as _;
use aya::Ebpf;
use aya::maps::{Array, MapData};
use aya::programs::{Program, RawTracePoint, RawTracePointRunOptions, TestRun as _};
use profiler_common::MEMORY_LEN;

use crate::kernel::memory::KernelMemory;

/// Most bytes that one run of the program reads.
const CHUNK: usize = MEMORY_LEN - 1;

/// The kernel's memory. A read of up to 4095 bytes takes two system calls, about 1 us.
pub struct Memory<'e> {
    program: &'e RawTracePoint,
    map: Array<&'e MapData, [u8; MEMORY_LEN]>,
}

impl<'e> Memory<'e> {
    /// Loads the program, if it is not loaded yet.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it.
    pub fn load(ebpf: &'e mut Ebpf) -> anyhow::Result<Self> {
        const PROGRAM: &str = "read_memory";
        let program = ebpf.program_mut(PROGRAM).context("no read_memory in the eBPF object")?;
        let Program::RawTracePoint(program) = program else {
            anyhow::bail!("read_memory is of another kind")
        };
        if program.fd().is_err() {
            program.load().map_err(|error| anyhow::anyhow!("{}", super::attach::describe(&error)))?;
        }
        let Some(Program::RawTracePoint(program)) = ebpf.program(PROGRAM) else {
            anyhow::bail!("read_memory is of another kind")
        };
        let map = ebpf.map("MEMORY").context("the eBPF object has no map MEMORY")?;
        Ok(Self { program, map: Array::try_from(map)? })
    }

    /// What the program leaves in the map; `None` if it failed.
    fn run(&self, address: u64, length: usize) -> Option<[u8; MEMORY_LEN]> {
        let mut options = RawTracePointRunOptions::new();
        options.args[0] = address;
        options.args[1] = length as u64;
        let ran = self.program.test_run(options).ok()?;
        if ran.return_value == 0 { self.map.get(&0, 0).ok() } else { None }
    }
}

impl KernelMemory for Memory<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let mut at = address;
        into.chunks_mut(CHUNK).all(|part| {
            let Some(bytes) = self.run(at, part.len()) else { return false };
            part.copy_from_slice(&bytes[..part.len()]);
            at = at.wrapping_add(part.len() as u64);
            true
        })
    }

    fn current_task(&self) -> Option<u64> {
        let bytes = self.run(0, 0)?;
        let address = bytes.first_chunk::<8>()?;
        Some(u64::from_ne_bytes(*address)).filter(|address| *address != 0)
    }
}
