//! The maps. Sizes are defaults that user space overrides for the machine and its memory limit.
//!
//! Weights and stacks come in two generations: programs write to the one that `GENERATION`
//! names, user space empties the other, so that draining stops nothing.

use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, PerCpuHashMap};
use profiler_common::{
    CpuState, Ends, EndsKey, Frames, Hist, HistKey, InFlight, InodeKey, LockKey, LockTotals, MAX_FRAMES,
    MEMORY_LEN, ReadKey, ReadTotals, ReadaheadTotals, ReclaimTotals, Reclaiming, SLOTS, STREAMS, StreamState,
    Wait, WaitKey, Weight, WeightKey,
};

/// Orders that page allocations are counted by; the buddy allocator's largest is 10.
pub const ORDERS: u32 = 16;

/// Where a program builds its stacks: too large for the 512 bytes of the BPF stack.
#[repr(C)]
pub struct Scratch {
    pub kernel: Frames,
    pub user: Frames,
}

const _: () = assert!(size_of::<Scratch>() == 2 * (MAX_FRAMES + 1) * 8);

/// 0 or 1: the generation that programs write to. Set by user space only.
#[map]
pub static GENERATION: Array<u32> = Array::with_max_entries(1, 0);

/// 0: events are not counted yet, or no more. Probes are attached one after the other; this starts
/// and ends them at the same moment, so that what one counts can be compared with another.
#[map]
pub static RUNNING: Array<u32> = Array::with_max_entries(1, 0);

#[map]
pub static WEIGHTS_0: HashMap<WeightKey, Weight> = HashMap::with_max_entries(16384, 0);
#[map]
pub static WEIGHTS_1: HashMap<WeightKey, Weight> = HashMap::with_max_entries(16384, 0);

#[map]
pub static STACKS_0: HashMap<u64, Frames> = HashMap::with_max_entries(8192, 0);
#[map]
pub static STACKS_1: HashMap<u64, Frames> = HashMap::with_max_entries(8192, 0);

/// Counters and samplers, by stream * SLOTS + slot.
#[map]
pub static STATE: PerCpuArray<StreamState> = PerCpuArray::with_max_entries(STREAMS * SLOTS, 0);

#[map]
pub static CPU: PerCpuArray<CpuState> = PerCpuArray::with_max_entries(1, 0);

/// Stack buffers, by slot.
#[map]
pub static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(SLOTS, 0);

/// Never written; as large as the largest value that is copied from it.
#[map]
pub static ZERO: PerCpuArray<LockTotals> = PerCpuArray::with_max_entries(1, 0);

/// Page allocations by order.
#[map]
pub static ORDER_COUNTS: PerCpuArray<u64> = PerCpuArray::with_max_entries(ORDERS, 0);

#[map]
pub static HISTS: PerCpuHashMap<HistKey, Hist> = PerCpuHashMap::with_max_entries(1024, 0);

/// Waits that go on.
#[map]
pub static WAITS: HashMap<WaitKey, Wait> = HashMap::with_max_entries(16384, 0);

#[map]
pub static LOCKS: HashMap<LockKey, LockTotals> = HashMap::with_max_entries(8192, 0);

#[map]
pub static INODES: HashMap<InodeKey, ReadaheadTotals> = HashMap::with_max_entries(8192, 0);

/// Requests that devices are working on, by the address of the request (or by device and sector).
#[map]
pub static IN_FLIGHT: HashMap<u64, InFlight> = HashMap::with_max_entries(16384, 0);

/// Where the latest requests ended, by device and direction.
#[map]
pub static ENDS: HashMap<EndsKey, Ends> = HashMap::with_max_entries(1024, 0);

/// Reclaim and compaction.
#[map]
pub static RECLAIM: PerCpuArray<ReclaimTotals> = PerCpuArray::with_max_entries(1, 0);

/// Phases of reclaim that go on, by thread id * 4 + cause.
#[map]
pub static RECLAIMING: HashMap<u64, Reclaiming> = HashMap::with_max_entries(16384, 0);

/// Reads asked of file systems.
#[map]
pub static READS: HashMap<ReadKey, ReadTotals> = HashMap::with_max_entries(1024, 0);

/// Locks that this CPU waits for: an interrupt can wait inside another one's wait. Entry 0 counts
/// them, entries 1 to 7 are their addresses. For return probes, which do not see arguments.
#[map]
pub static SPINNING: PerCpuArray<[u64; 16]> = PerCpuArray::with_max_entries(1, 0);

/// Processes that are measured.
#[map]
pub static TARGETS: HashMap<u32, u8> = HashMap::with_max_entries(32768, 0);

/// What `read_memory` has read last.
#[map]
pub static MEMORY: Array<[u8; MEMORY_LEN]> = Array::with_max_entries(1, 0);
