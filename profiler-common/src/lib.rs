//! The types that the eBPF programs and user space share: map keys and values, and the numbers
//! that index maps. All are `#[repr(C)]` without padding, so that keys compare as bytes.

#![no_std]

/// Most frames kept of one kernel or user stack; the kernel's own default limit
/// (`kernel.perf_event_max_stack` is 127).
pub const MAX_FRAMES: usize = 127;

/// Bytes of kernel memory that user space can have read at a time, and one more; a power of two.
pub const MEMORY_LEN: usize = 4096;

/// Programs that can be on one CPU at a time: task, softirq, hardirq and NMI, and one to spare.
pub const SLOTS: u32 = 5;

/// Buckets of an in-kernel log2 histogram: bucket 0 counts zeros, bucket i values of i bits.
pub const BUCKETS: usize = 64;

/// Bytes of a thread name, with its NUL.
pub const COMM_LEN: usize = 16;

/// The streams of events that are counted and sampled on their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stream {
    /// CPU samples; weight 1.
    Cpu = 0,
    /// Page allocations; weight in pages.
    PageAlloc = 1,
    /// Lock waits that keep the CPU; weight in ns.
    LockSpin = 2,
    /// Lock waits that sleep; weight in ns. Apart from the spins, which they would drown.
    LockSleep = 3,
    /// Readahead; weight in pages asked of the file system.
    Readahead = 4,
    /// Bios queued to a device; weight in bytes.
    Block = 5,
    /// Bios allocated; weight in bytes.
    Bio = 6,
    /// Reads that enter a file system; weight in bytes. Counted, without stacks.
    Read = 7,
    /// Direct reclaim and compaction; weight in ns.
    Reclaim = 8,
}

/// Number of [`Stream`]s.
pub const STREAMS: u32 = 9;

impl Stream {
    /// All streams, in the order of their numbers.
    pub const ALL: [Stream; STREAMS as usize] = [
        Stream::Cpu,
        Stream::PageAlloc,
        Stream::LockSpin,
        Stream::LockSleep,
        Stream::Readahead,
        Stream::Block,
        Stream::Bio,
        Stream::Read,
        Stream::Reclaim,
    ];
}

/// Who is measured ([`FILTER`](self) global of the eBPF object).
pub mod filter {
    /// Everything.
    pub const ALL: u32 = 0;
    /// The processes in the `TARGETS` map.
    pub const PROCESSES: u32 = 1;
    /// The tasks of a control group and those below it.
    pub const CGROUP: u32 = 2;
}

/// What an in-kernel histogram measures ([`HistKey::measure`]).
pub mod measure {
    /// Bytes of a bio, by device and direction.
    pub const BIO_SIZE: u16 = 0;
    /// Bytes of an issued request, by device and direction.
    pub const REQUEST_SIZE: u16 = 1;
    /// Bytes of a completed request, by device and direction.
    pub const COMPLETED_SIZE: u16 = 2;
    /// ns from issue to completion of a request, by device and direction.
    pub const REQUEST_LATENCY: u16 = 3;
    /// ns of a wait, by lock kind (the `LCB_F_*` flags in `op`).
    pub const LOCK_WAIT: u16 = 4;
    /// Pages wanted at a readahead call, by device.
    pub const READAHEAD_WANTED: u16 = 5;
    /// Pages asked of the file system by readahead, by device.
    pub const READAHEAD_ISSUED: u16 = 6;
    /// Bytes of an issued request that begins where another one has just ended, by device and direction.
    pub const CONTIGUOUS_SIZE: u16 = 7;
    /// Bytes of an issued request that is on stable storage once it completes (REQ_FUA), by device and direction.
    pub const FUA_SIZE: u16 = 8;
}

/// Directions of block I/O ([`HistKey::op`], [`WeightKey::sub`]).
pub mod op {
    /// Data from the device.
    pub const READ: u8 = 0;
    /// Data to the device.
    pub const WRITE: u8 = 1;
    /// Discard.
    pub const DISCARD: u8 = 2;
    /// Cache flush.
    pub const FLUSH: u8 = 3;
}

/// What weights are summed up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct WeightKey {
    /// Hash of the kernel stack in the `STACKS` maps; 0: none.
    pub kernel_stack: u64,
    /// Hash of the user stack; 0: none.
    pub user_stack: u64,
    /// Lock: its address. Block and readahead: device number. Page allocation and reclaim: order
    /// ([`reclaim::NO_ORDER`]: not known).
    pub detail: u64,
    /// Control group id (kernfs node id); 0: not known.
    pub cgroup: u64,
    /// Process id.
    pub tgid: u32,
    /// CPU number.
    pub cpu: u16,
    /// A [`Stream`].
    pub stream: u8,
    /// Lock: its `LCB_F_*` flags. Block: direction. Reclaim: a number of [`reclaim`]. Else 0.
    pub sub: u8,
    /// Thread name.
    pub comm: [u8; COMM_LEN],
}

/// What is summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Weight {
    /// Events.
    pub count: u64,
    /// Their weight in the unit of the stream.
    pub weight: u64,
}

/// A stack, innermost frame first.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Frames {
    /// Number of frames that are valid.
    pub len: u64,
    /// Instruction addresses.
    pub ips: [u64; MAX_FRAMES],
}

/// Counters and sampler of one stream on one CPU and slot. Only the program that has claimed
/// the slot touches it, so plain additions are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct StreamState {
    /// Events counted.
    pub events: u64,
    /// Their weight.
    pub weight: u64,
    /// Stacks taken.
    pub stacks: u64,
    /// Sampler: events since the last stack.
    pub pending_events: u64,
    /// Sampler: weight since the last stack.
    pub pending_weight: u64,
    /// Sampler: pending weight at which the next stack is due; 0: every event.
    pub threshold: u64,
    /// Sampler: start of the current window, ns.
    pub window_start: u64,
    /// Sampler: events in the current window.
    pub window_events: u64,
    /// Sampler: weight in the current window.
    pub window_weight: u64,
    /// Sampler: stacks in the current window.
    pub window_stacks: u64,
    /// Sampler: mean weight between two stacks; 0: every event.
    pub period: u64,
    /// Lost: the map of weights was full or busy (events).
    pub lost_weights: u64,
    /// Lost: the map of stacks was full or busy (events); their weight is kept, without the stack.
    pub lost_stacks: u64,
    /// Lost: the kernel could not walk its stack (events); their weight is kept.
    pub lost_walks: u64,
    /// Events of the profiler itself, left out of everything else.
    pub own: u64,
    /// Stream-specific; see [`aux`].
    pub aux: [u64; 4],
}

/// Meanings of [`StreamState::aux`] and of the same index in [`CpuState::lost`].
pub mod aux {
    /// CPU: samples of processes that are not measured.
    pub const CPU_UNWANTED: usize = 0;
    /// CPU: samples of idle CPUs, where idle is not measured.
    pub const CPU_UNWANTED_IDLE: usize = 1;
    /// Page allocation: allocations that failed.
    pub const PAGE_ALLOC_FAILED: usize = 0;
    /// Lock: waits that began and did not find room in the map of waits.
    pub const LOCK_LOST_BEGIN: usize = 0;
    /// Lock: ends without a begin (the wait began before the measurement, or its begin was lost).
    pub const LOCK_UNPAIRED_END: usize = 1;
    /// Lock: waits that did not find room in the map of locks (they count everywhere else).
    pub const LOCK_LOST_STATS: usize = 2;
    /// Lock: waits that began.
    pub const LOCK_BEGUN: usize = 3;
    /// Readahead: calls that did not find room in the map of inodes (they count everywhere else).
    pub const READAHEAD_LOST_INODE: usize = 0;
    /// Bio: clones, which share the vectors of another bio.
    pub const BIO_CLONES: usize = 0;
    /// Bio: vectors (segments) of the bios.
    pub const BIO_VECTORS: usize = 1;
    /// Read: reads that did not find room in the table of file systems.
    pub const READ_LOST: usize = 0;
    /// Block: requests that did not find room in the map of requests in flight.
    pub const BLOCK_LOST_REQUEST: usize = 0;
    /// Block: completions of requests that were issued before the measurement, or whose issue was lost.
    pub const BLOCK_UNPAIRED_COMPLETION: usize = 1;
    /// Block: requests that did not find room in the map of the ends of requests.
    pub const BLOCK_LOST_END: usize = 2;
    /// Reclaim: phases that began and did not find room in the map of those that go on.
    pub const RECLAIM_LOST_BEGIN: usize = 0;
    /// Reclaim: ends without a begin (it began before the measurement, or its begin was lost).
    pub const RECLAIM_UNPAIRED_END: usize = 1;
    /// Any stream: values that did not find room in the map of histograms.
    pub const LOST_HISTOGRAM: usize = 3;
}

/// State of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CpuState {
    /// Slots in use: bit i stands for slot i.
    pub busy: u64,
    /// Events that found no free slot, by stream.
    pub no_slot: [u64; STREAMS as usize],
}

/// Key of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct HistKey {
    /// A [`measure`].
    pub measure: u16,
    /// Direction or lock flags.
    pub op: u16,
    /// Device number, kernel encoding; 0: none.
    pub device: u32,
}

/// A histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Hist {
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// Counts by bucket.
    pub buckets: [u64; BUCKETS],
}

/// Key of a wait that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct WaitKey {
    /// Thread id, or 2^32 + CPU for the idle tasks, which share thread id 0.
    pub waiter: u64,
    /// Address of the lock: an interrupt can wait for a second one inside the first wait.
    pub lock: u64,
}

/// A wait that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Wait {
    /// Start of the wait, or of its present phase, ns.
    pub since: u64,
    /// `LCB_F_*` flags of the present phase: a mutex spins first and may sleep then.
    pub flags: u64,
}

/// Key of a lock's totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct LockKey {
    /// Address of the lock.
    pub lock: u64,
    /// `LCB_F_*` flags.
    pub flags: u64,
}

/// A lock's totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct LockTotals {
    /// Waits (phases of waits, for a mutex that spins and then sleeps).
    pub waits: u64,
    /// ns waited.
    pub total: u64,
    /// Longest wait, ns.
    pub max: u64,
    /// Waits by log2 of their ns.
    pub buckets: [u64; BUCKETS],
}

/// Key of a file's readahead totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct InodeKey {
    /// Inode number.
    pub inode: u64,
    /// Device number (`s_dev`), kernel encoding.
    pub device: u64,
}

/// A file's readahead totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ReadaheadTotals {
    /// Calls for a missing page.
    pub sync: u64,
    /// Calls for reaching the marker page.
    pub async_: u64,
    /// Calls that continued the read before them.
    pub sequential: u64,
    /// Calls elsewhere in the file.
    pub random: u64,
    /// Pages wanted by the readers.
    pub wanted: u64,
    /// Pages asked of the file system.
    pub issued: u64,
    /// `ra_pages` when last seen.
    pub ra_pages: u64,
    /// Page that the last call was about.
    pub last_index: u64,
    /// First page of the last window that page_cache_ra_order was given, and the page after its last one; both
    /// 0 once another call has come.
    pub window_start: u64,
    pub window_end: u64,
}

/// How a read was asked for ([`ReadKey::how`]).
pub mod read {
    /// Through the page cache.
    pub const BUFFERED: u32 = 0;
    /// Past the page cache (O_DIRECT).
    pub const DIRECT: u32 = 1;
    /// Pages looked up in the page cache by readers (filemap:mm_filemap_get_pages).
    pub const PAGE_CACHE: u32 = 2;
}

/// Key of the reads that a file system was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ReadKey {
    /// Type of the file system, NUL-terminated: `file_system_type.name`.
    pub fs_type: [u8; 16],
    /// Device number: `s_dev` of the file system, or the device itself where that is read.
    pub device: u32,
    /// A number of [`read`].
    pub how: u32,
}

/// Reads that a file system was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ReadTotals {
    /// Calls.
    pub calls: u64,
    /// Bytes asked for, up to the end of the file.
    pub bytes: u64,
}

/// A request that the device is working on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct InFlight {
    /// When it was issued, ns.
    pub since: u64,
    /// Bytes not yet completed.
    pub left: u64,
}

/// Ends of requests that are remembered for each device and direction: as many streams of contiguous requests
/// can be told apart.
pub const ENDS: usize = 8;

/// Key of the ends of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct EndsKey {
    /// Device number, kernel encoding.
    pub device: u32,
    /// A direction of [`op`].
    pub op: u32,
}

/// Where the latest requests ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ends {
    /// Sectors after their last ones, in turn; 0: none yet.
    pub sectors: [u64; ENDS],
    /// Whose turn it is.
    pub next: u64,
}

/// Why a task works for free memory instead of for itself ([`ReclaimTotals::by_cause`], [`WeightKey::sub`]).
pub mod reclaim {
    /// No free pages in a zone.
    pub const DIRECT: usize = 0;
    /// A memory control group is at its limit.
    pub const MEMCG: usize = 1;
    /// No free block of the order; also the compaction daemon's work ahead.
    pub const COMPACTION: usize = 2;
    /// Places for them: a power of two, so that a mask bounds an index.
    pub const CAUSES: usize = 4;
    /// Order of a phase whose begin does not say.
    pub const NO_ORDER: u64 = 255;
}

/// Phases of reclaim of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ReclaimPhases {
    /// Phases that have ended.
    pub count: u64,
    /// ns that they took.
    pub ns: u64,
    /// Pages that they freed.
    pub pages: u64,
}

/// Reclaim on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ReclaimTotals {
    /// By a number of [`reclaim`].
    pub by_cause: [ReclaimPhases; reclaim::CAUSES],
    /// Times that kswapd woke up, whoever is measured.
    pub kswapd_wakes: u64,
}

/// A phase of reclaim that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Reclaiming {
    /// Its start, ns.
    pub since: u64,
    /// Order of the allocation it is for, or [`reclaim::NO_ORDER`].
    pub order: u64,
}

#[cfg(feature = "user")]
mod pod {
    use super::*;

    // SAFETY: all are #[repr(C)], made of integers only, without padding (checked below), and
    // valid for any bytes.
    unsafe impl aya::Pod for WeightKey {}
    unsafe impl aya::Pod for Weight {}
    unsafe impl aya::Pod for Frames {}
    unsafe impl aya::Pod for StreamState {}
    unsafe impl aya::Pod for CpuState {}
    unsafe impl aya::Pod for HistKey {}
    unsafe impl aya::Pod for Hist {}
    unsafe impl aya::Pod for WaitKey {}
    unsafe impl aya::Pod for Wait {}
    unsafe impl aya::Pod for LockKey {}
    unsafe impl aya::Pod for LockTotals {}
    unsafe impl aya::Pod for InodeKey {}
    unsafe impl aya::Pod for ReadaheadTotals {}
    unsafe impl aya::Pod for InFlight {}
    unsafe impl aya::Pod for ReadKey {}
    unsafe impl aya::Pod for ReadTotals {}
    unsafe impl aya::Pod for EndsKey {}
    unsafe impl aya::Pod for Ends {}
    unsafe impl aya::Pod for ReclaimTotals {}
    unsafe impl aya::Pod for Reclaiming {}
}

const _: () = assert!(size_of::<WeightKey>() == 4 * 8 + 4 + 2 + 1 + 1 + COMM_LEN);
const _: () = assert!(size_of::<Frames>() == 8 + 8 * MAX_FRAMES);
const _: () = assert!(size_of::<CpuState>() == 8 + 8 * STREAMS as usize);
const _: () = assert!(size_of::<HistKey>() == 8);
