//! Emptying the maps of weights and stacks, without stopping the probes.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use aya::Ebpf;
use aya::maps::Map;
use profiler_common::{Frames, MAX_FRAMES, Weight, WeightKey};
use rustc_hash::FxBuildHasher;

/// Weights by key, and the stacks they refer to.
#[derive(Debug, Default)]
pub struct Collected {
    /// Weights, summed up over all drains.
    pub weights: HashMap<WeightKey, Weight, FxBuildHasher>,
    /// Stacks by hash, innermost frame first.
    pub stacks: HashMap<u64, Box<[u64]>, FxBuildHasher>,
}

/// Switches between the two generations of maps and empties the one that the probes have left.
pub struct Drain {
    current: u32,
    /// What one drain has brought in at most, to tell how soon the next one is due.
    pub last_stacks: usize,
}

impl Drain {
    /// The probes write to generation 0 first.
    pub fn new() -> Self {
        Self { current: 0, last_stacks: 0 }
    }

    /// Turns the probes to the other generation, waits until none of them still writes to this one,
    /// and moves its contents to `collected`.
    ///
    /// `fresh` is called with each new pair of process and user stack.
    ///
    /// # Errors
    ///
    /// What bpf(2) reports; what was read before is in `collected`.
    pub fn run(
        &mut self,
        ebpf: &mut Ebpf,
        collected: &mut Collected,
        mut fresh: impl FnMut(&WeightKey, &Collected),
    ) -> io::Result<()> {
        let old = self.current;
        self.current = 1 - old;
        set_word(ebpf, "GENERATION", self.current)?;
        wait_for_programs();

        let (weights, stacks) = if old == 0 { ("WEIGHTS_0", "STACKS_0") } else { ("WEIGHTS_1", "STACKS_1") };
        let mut count = 0;
        // Stacks first: a weight must never be there without its stack.
        super::batch::drain(map_fd(ebpf, stacks)?, |hash: &u64, frames: &Frames| {
            count += 1;
            collected.stacks.entry(*hash).or_insert_with(|| {
                let len = (frames.len as usize).min(MAX_FRAMES);
                frames.ips[..len].into()
            });
        })?;
        self.last_stacks = count;
        let mut new_keys = Vec::new();
        super::batch::drain(map_fd(ebpf, weights)?, |key: &WeightKey, weight: &Weight| {
            let known = collected.weights.entry(*key).or_insert_with(|| {
                if key.user_stack != 0 {
                    new_keys.push(*key);
                }
                Weight::default()
            });
            known.count += weight.count;
            known.weight += weight.weight;
        })?;
        for key in &new_keys {
            fresh(key, collected);
        }
        Ok(())
    }
}

/// Waits until every program that was running when this was called has ended.
///
/// eBPF programs are RCU read-side sections; MEMBARRIER_CMD_GLOBAL waits for such a grace period
/// (kernel/sched/membarrier.c). Where it is not to be had, a program that is later than this sleep
/// leaves its weight for the drain after the next, and nothing is lost.
fn wait_for_programs() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: no pointers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if result < 0 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Starts (1) or ends (0) the counting of events, in all probes at once.
///
/// # Errors
///
/// What bpf(2) reports.
pub fn set_running(ebpf: &mut Ebpf, running: u32) -> io::Result<()> {
    set_word(ebpf, "RUNNING", running)
}

fn set_word(ebpf: &mut Ebpf, name: &str, value: u32) -> io::Result<()> {
    let map = ebpf.map_mut(name).ok_or_else(|| missing(name))?;
    let mut map = aya::maps::Array::<_, u32>::try_from(map).map_err(io::Error::other)?;
    map.set(0, value, 0).map_err(io::Error::other)
}

/// The file descriptor of a hash map.
///
/// # Errors
///
/// If the object has no such map.
pub fn map_fd<'a>(ebpf: &'a Ebpf, name: &str) -> io::Result<BorrowedFd<'a>> {
    match ebpf.map(name) {
        Some(Map::HashMap(map) | Map::PerCpuHashMap(map)) => Ok(map.fd().as_fd()),
        _ => Err(missing(name)),
    }
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("the eBPF object has no map {name}"))
}
