//! Reading the maps that only grow: counters, histograms, totals by lock and inode.

use std::collections::HashMap;
use std::io;

use aya::Ebpf;
use aya::maps::{PerCpuArray, PerCpuHashMap};
use profiler_common::{
    BUCKETS, CpuState, Hist, HistKey, InodeKey, LockKey, LockTotals, ReadKey, ReadTotals, ReadaheadTotals,
    ReclaimTotals, Reclaiming, SLOTS, STREAMS, Stream, StreamState,
};

use super::batch;
use super::drain::map_fd;

/// Everything that the probes have counted so far.
#[derive(Debug, Default)]
pub struct Totals {
    /// Counters by stream, summed over CPUs and slots.
    pub streams: [StreamState; STREAMS as usize],
    /// Events that found no free slot, by stream.
    pub no_slot: [u64; STREAMS as usize],
    /// Page allocations by order.
    pub orders: Vec<u64>,
    /// Histograms, summed over CPUs.
    pub histograms: HashMap<HistKey, Hist>,
    /// Locks.
    pub locks: HashMap<LockKey, LockTotals>,
    /// Files read ahead.
    pub inodes: HashMap<InodeKey, ReadaheadTotals>,
    /// Reads asked of file systems.
    pub reads: HashMap<ReadKey, ReadTotals>,
    /// Reclaim, summed over CPUs.
    pub reclaim: ReclaimTotals,
    /// Phases of reclaim that have begun and not ended.
    pub reclaiming: u64,
    /// Waits that have begun and not ended.
    pub waiting: u64,
}

impl Totals {
    /// Reads them all.
    ///
    /// # Errors
    ///
    /// What bpf(2) reports.
    pub fn read(ebpf: &mut Ebpf) -> io::Result<Self> {
        let mut totals = Self { streams: streams(ebpf)?, ..Self::default() };
        for cpu in &per_cpu::<CpuState>(ebpf, "CPU", 0)? {
            for (sum, lost) in totals.no_slot.iter_mut().zip(cpu.no_slot) {
                *sum += lost;
            }
        }
        for order in 0.. {
            match per_cpu::<u64>(ebpf, "ORDER_COUNTS", order) {
                Ok(counts) => totals.orders.push(counts.iter().sum()),
                Err(_) => break,
            }
        }
        let map = ebpf.map("HISTS").ok_or_else(|| missing("HISTS"))?;
        let map = PerCpuHashMap::<_, HistKey, Hist>::try_from(map).map_err(io::Error::other)?;
        for entry in map.iter() {
            let (key, values) = entry.map_err(io::Error::other)?;
            let mut sum = Hist { count: 0, sum: 0, buckets: [0; BUCKETS] };
            for value in values.iter() {
                sum.count += value.count;
                sum.sum += value.sum;
                for (bucket, count) in sum.buckets.iter_mut().zip(value.buckets) {
                    *bucket += count;
                }
            }
            totals.histograms.insert(key, sum);
        }
        for cpu in &per_cpu::<ReclaimTotals>(ebpf, "RECLAIM", 0)? {
            for (sum, phases) in totals.reclaim.by_cause.iter_mut().zip(cpu.by_cause) {
                sum.count += phases.count;
                sum.ns += phases.ns;
                sum.pages += phases.pages;
            }
            totals.reclaim.kswapd_wakes += cpu.kswapd_wakes;
        }
        batch::read(map_fd(ebpf, "RECLAIMING")?, |_: &u64, _: &Reclaiming| totals.reclaiming += 1)?;
        batch::read(map_fd(ebpf, "LOCKS")?, |key: &LockKey, value: &LockTotals| {
            totals.locks.insert(*key, *value);
        })?;
        batch::read(map_fd(ebpf, "INODES")?, |key: &InodeKey, value: &ReadaheadTotals| {
            totals.inodes.insert(*key, *value);
        })?;
        batch::read(map_fd(ebpf, "READS")?, |key: &ReadKey, value: &ReadTotals| {
            totals.reads.insert(*key, *value);
        })?;
        batch::read(map_fd(ebpf, "WAITS")?, |_: &profiler_common::WaitKey, _: &profiler_common::Wait| {
            totals.waiting += 1
        })?;
        Ok(totals)
    }
}

/// Counters by stream, summed over CPUs and slots.
///
/// # Errors
///
/// What bpf(2) reports.
pub fn streams(ebpf: &Ebpf) -> io::Result<[StreamState; STREAMS as usize]> {
    let mut sums = [StreamState::default(); STREAMS as usize];
    for stream in Stream::ALL {
        for slot in 0..SLOTS {
            for state in &per_cpu::<StreamState>(ebpf, "STATE", stream as u32 * SLOTS + slot)? {
                add(&mut sums[stream as usize], state);
            }
        }
    }
    Ok(sums)
}

/// Adds up counters; what the samplers keep for themselves makes no sense as a sum and is left
/// out, but for what they still hold back.
fn add(sum: &mut StreamState, state: &StreamState) {
    sum.events = sum.events.saturating_add(state.events);
    sum.weight = sum.weight.saturating_add(state.weight);
    sum.stacks = sum.stacks.saturating_add(state.stacks);
    sum.pending_events = sum.pending_events.saturating_add(state.pending_events);
    sum.pending_weight = sum.pending_weight.saturating_add(state.pending_weight);
    sum.lost_weights = sum.lost_weights.saturating_add(state.lost_weights);
    sum.lost_stacks = sum.lost_stacks.saturating_add(state.lost_stacks);
    sum.lost_walks = sum.lost_walks.saturating_add(state.lost_walks);
    sum.own = sum.own.saturating_add(state.own);
    for (sum, value) in sum.aux.iter_mut().zip(state.aux) {
        *sum = sum.saturating_add(value);
    }
}

fn per_cpu<V: aya::Pod>(ebpf: &Ebpf, name: &'static str, index: u32) -> io::Result<Vec<V>> {
    let map = ebpf.map(name).ok_or_else(|| missing(name))?;
    let map = PerCpuArray::<_, V>::try_from(map).map_err(io::Error::other)?;
    Ok(map.get(&index, 0).map_err(io::Error::other)?.to_vec())
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("the eBPF object has no map {name}"))
}
