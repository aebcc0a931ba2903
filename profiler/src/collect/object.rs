//! The eBPF object: its maps are created here, its programs loaded one by one by `attach`.

use std::collections::BTreeMap;

use anyhow::Context as _;
use aya::{Ebpf, EbpfLoader};

use crate::kernel::offsets::Offsets;

/// The compiled programs.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/profiler"));

/// Sizes of the maps, in entries.
#[derive(Clone, Copy, Debug)]
pub struct MapSizes {
    /// Stacks, in each of the two generations (1 KiB an entry).
    pub stacks: u32,
    /// Weights, in each of the two generations (about 130 bytes an entry).
    pub weights: u32,
}

impl MapSizes {
    /// For a machine with this many CPUs: room for what the sampling budget lets in between two
    /// drains, were all of it distinct.
    pub fn for_cpus(cpus: u32) -> Self {
        let stacks = (cpus * 1024).clamp(8192, 65536);
        Self { stacks, weights: stacks * 2 }
    }
}

/// What the programs are told about this run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Values of the 32-bit globals that do not come from [`Offsets`].
    pub words: BTreeMap<&'static str, u32>,
    /// Values of the 64-bit globals.
    pub longs: BTreeMap<&'static str, u64>,
}

/// Creates the maps and prepares the programs.
///
/// # Errors
///
/// If the kernel refuses the maps (no memory, no permission).
pub fn load(settings: &Settings, offsets: &Offsets, sizes: MapSizes, verbose: bool) -> anyhow::Result<Ebpf> {
    let mut loader = EbpfLoader::new();
    for (global, value) in offsets.iter() {
        loader.override_global(global, value, true);
    }
    for (global, value) in &settings.words {
        loader.override_global(global, value, true);
    }
    for (global, value) in &settings.longs {
        loader.override_global(global, value, true);
    }
    // 0 switches the log off, and the verifier drops the code.
    let log_level: u8 = if verbose { log::LevelFilter::Debug as u8 } else { 0 };
    loader.override_global("AYA_LOG_LEVEL", &log_level, false);
    for stacks in ["STACKS_0", "STACKS_1"] {
        loader.map_max_entries(stacks, sizes.stacks);
    }
    for weights in ["WEIGHTS_0", "WEIGHTS_1"] {
        loader.map_max_entries(weights, sizes.weights);
    }
    loader.load(OBJECT).context("the kernel refuses the maps that the probes need")
}
