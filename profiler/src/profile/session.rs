//! A session: what was measured, on what machine, by which probes, and what was lost.

use serde::{Deserialize, Serialize};

use super::code::{FunctionCode, FunctionText};
use super::finding::Finding;
use super::histogram::Histogram;
use super::kind::{Kind, Unit};
use super::labels::{Device, IoOp, LockKind};
use super::stacks::Profile;

/// Version of the `session.json` schema that this program writes.
pub const SCHEMA: u32 = 1;

/// Everything known about one run. The stacks are kept apart on disk (`profile.pb.gz`).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Session {
    /// Schema version, [`SCHEMA`] when written by this program.
    pub schema: u32,
    /// Version of the program that wrote it.
    #[serde(default)]
    pub tool: String,
    /// Where the data came from.
    #[serde(default)]
    pub source: Source,
    /// What its source calls it, where one source holds several: `Machine A`. Untrusted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub heading: Option<String>,
    /// What the weights of the stacks are.
    #[serde(default)]
    pub weights: Weights,
    /// Start of the measurement, where known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<jiff::Timestamp>,
    /// Length of the measurement in ns; 0 where unknown.
    #[serde(default)]
    pub duration_ns: u64,
    /// Who was measured.
    #[serde(default)]
    pub target: Target,
    /// The machine.
    #[serde(default)]
    pub host: Host,
    /// The probes, attached or not.
    #[serde(default)]
    pub probes: Vec<Probe>,
    /// What this run could not see, a sentence each.
    #[serde(default)]
    pub blind_spots: Vec<String>,
    /// What was lost, by cause. Only causes that occurred.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// CPU samples that found a CPU idle; in no percentage.
    #[serde(default)]
    pub idle_samples: u64,
    /// CPU samples that fell on the profiler itself; in no percentage.
    #[serde(default)]
    pub own_samples: u64,
    /// Log2 histograms.
    #[serde(default)]
    pub histograms: Vec<Histogram>,
    /// Waits by lock, longest total first.
    #[serde(default)]
    pub locks: Vec<LockStat>,
    /// Readahead by device and inode, most pages first.
    #[serde(default)]
    pub readahead: Vec<ReadaheadStat>,
    /// Block I/O by device and direction.
    #[serde(default)]
    pub block: Vec<BlockStat>,
    /// Reads asked of file systems and block devices, most bytes first.
    #[serde(default)]
    pub reads: Vec<ReadStat>,
    /// What is wrong, the worst first.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// What was found in the machine code of the functions that most samples fall on, most samples first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub code: Vec<FunctionCode>,
    /// The weighted stacks.
    #[serde(skip)]
    pub profile: Profile,
    /// The machine code itself, where it was recorded; of a session on disk, see
    /// [`store::load_text`](super::store::load_text).
    #[serde(skip)]
    pub text: Vec<FunctionText>,
}

/// What the weights of a session's stacks are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// Counts, in the unit of their kind.
    #[default]
    Counts,
    /// Samples that stand for unequal parts of an event (perf's periods). [`SHARES_TOTAL`] stands for all
    /// of a kind, and the `count` of a stack is the number of its samples.
    Periods,
    /// Only shares were known. [`SHARES_TOTAL`] stands for all of a kind; a stack without frames has the
    /// part that the source does not account for. No statement about significance can be made from these.
    Shares,
}

/// The weight of everything where the weights are not [`Weights::Counts`]: one is 0.00001 %.
pub const SHARES_TOTAL: u64 = 10_000_000;

/// Where a session's data came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "from")]
pub enum Source {
    /// This program's own probes.
    #[default]
    Live,
    /// A file of another tool.
    Imported {
        /// Name of the format.
        format: String,
    },
}

/// Who was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum Target {
    /// Every process.
    #[default]
    System,
    /// These processes, with all their threads.
    Processes {
        /// Process ids.
        pids: Vec<u32>,
    },
    /// The processes of a control group and those below it.
    Cgroup {
        /// Path as the user gave it.
        path: String,
    },
    /// A command that was started for the measurement, with its children.
    Command {
        /// The command and its arguments.
        argv: Vec<String>,
        /// Its exit status: the code, or 128 + the signal that ended it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        status: Option<i32>,
    },
}

/// Facts about the machine; unknown ones are empty or `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Host name.
    pub hostname: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Kernel build, as `uname -v` prints it.
    pub kernel_version: String,
    /// Machine architecture, as `uname -m` prints it.
    pub arch: String,
    /// Page size in bytes.
    pub page_size: u64,
    /// CPU model name.
    pub cpu_model: String,
    /// Online CPUs.
    pub cpus: u32,
    /// Sockets (physical packages).
    pub sockets: Option<u32>,
    /// Cores a socket.
    pub cores_per_socket: Option<u32>,
    /// Hardware threads a core.
    pub threads_per_core: Option<u32>,
    /// NUMA nodes.
    pub numa_nodes: Option<u32>,
    /// Memory in bytes.
    pub memory: u64,
    /// Hypervisor, where there is one.
    pub hypervisor: Option<String>,
    /// Share of CPU time that the hypervisor took away during the run, 0 to 1.
    pub steal: Option<f64>,
    /// Block devices.
    pub devices: Vec<BlockDevice>,
    /// Mounted file systems that have a device.
    pub mounts: Vec<Mount>,
    /// Memory limits of the control groups that reclaimed memory.
    pub memory_limits: Vec<MemoryLimit>,
}

/// The memory limit that stops the tasks of a control group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// Path of the tasks' control group, as in the labels of stacks. Untrusted.
    pub cgroup: String,
    /// The group that has the limit: itself, or one above it.
    pub limited: String,
    /// The file that sets it.
    pub file: String,
    /// The limit in bytes.
    pub bytes: u64,
}

/// A block device and its queue settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockDevice {
    /// Kernel name, such as `sda` or `sda1`.
    pub name: String,
    /// Device number.
    pub device: Option<Device>,
    /// Size in bytes.
    pub size: u64,
    /// I/O scheduler in use.
    pub scheduler: Option<String>,
    /// `read_ahead_kb` of the queue, in KiB.
    pub read_ahead_kb: Option<u64>,
    /// `max_sectors_kb` of the queue, in KiB.
    pub max_sectors_kb: Option<u64>,
    /// `nr_requests` of the queue.
    pub nr_requests: Option<u64>,
    /// `nomerges` of the queue: 0 merges requests, 1 only where that is simple, 2 never.
    pub nomerges: Option<u64>,
    /// `optimal_io_size` of the queue, in bytes; `None` where the device does not tell.
    pub optimal_io_size: Option<u64>,
    /// Whether it spins.
    pub rotational: Option<bool>,
    /// Disk that a partition belongs to.
    pub parent: Option<String>,
    /// Backing file of a loop device.
    pub backing_file: Option<String>,
}

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Device number of the superblock, as `/proc/self/mountinfo` has it (an anonymous one for btrfs).
    pub device: Device,
    /// What is mounted.
    pub source: String,
    /// Where.
    pub mount_point: String,
    /// File system type.
    pub fs_type: String,
    /// Mount and superblock options.
    pub options: String,
    /// `read_ahead_kb` of the backing device info, in KiB.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub read_ahead_kb: Option<u64>,
}

/// A probe and how it fared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Probe name, as `--probes` takes it.
    pub name: String,
    /// Kind of the stacks it feeds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kind: Option<Kind>,
    /// How it is attached, or why it is not.
    pub state: ProbeState,
    /// Events counted, exact.
    #[serde(default)]
    pub events: u64,
    /// Weight of these events in the unit of `kind`, exact.
    #[serde(default)]
    pub weight: u64,
    /// Stacks taken. Fewer than `events` when the probe sampled.
    #[serde(default)]
    pub stacks: u64,
    /// For `cpu`: samples that were due; 0 elsewhere.
    #[serde(default)]
    pub due: u64,
    /// Further counters of this probe.
    #[serde(default)]
    pub counters: Vec<Counter>,
}

/// How a probe is attached, or why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum ProbeState {
    /// It runs.
    Attached {
        /// Kind of attachment: `tp_btf`, `tracepoint`, `perf_event`, `fentry`, `kprobe`.
        rung: String,
        /// What it is attached to.
        to: Vec<String>,
        /// What this rung cannot measure, or why a better one was not taken.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        notes: Vec<String>,
    },
    /// Nothing could be attached.
    Failed {
        /// Why, a sentence.
        reason: String,
    },
    /// Not asked for.
    Off,
}

/// A named number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// What it counts.
    pub name: String,
    /// In which unit.
    pub unit: Unit,
    /// How many.
    pub value: u64,
}

/// Something that was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Probe it was lost from.
    pub probe: String,
    /// Cause, a few words.
    pub cause: String,
    /// How many events or samples.
    pub count: u64,
}

/// Waits for one lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockStat {
    /// Address of the lock.
    pub address: u64,
    /// Its name: the symbol of a static one, or the structure and member that it is: `inode.i_rwsem`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// How the name was found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub named_by: Option<NamedBy>,
    /// Kind of lock and of waiting.
    pub kind: LockKind,
    /// Waits.
    pub waits: u64,
    /// Time waited in ns.
    pub total_ns: u64,
    /// Longest wait in ns.
    pub max_ns: u64,
    /// Waits by log2 of their ns, as the buckets of a [`Histogram`].
    #[serde(default)]
    pub buckets: Vec<u64>,
}

/// How the name of a lock was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedBy {
    /// It is a variable of the kernel's.
    Symbol,
    /// It lies in a slab object, and is a member of the structure that this is.
    SlabMember,
    /// By the functions that wait for it, of which it is known what they lock.
    Caller,
}

/// Readahead of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadaheadStat {
    /// Device of the file system.
    pub device: Device,
    /// Inode number.
    pub inode: u64,
    /// Calls because a page was missing (`page_cache_sync_ra`).
    pub sync: u64,
    /// Calls because the reader reached the marker page (`page_cache_async_ra`).
    pub async_: u64,
    /// Calls that continued the read before them.
    pub sequential: u64,
    /// Calls elsewhere in the file.
    pub random: u64,
    /// Pages the readers wanted.
    pub wanted_pages: u64,
    /// Pages that were asked of the file system.
    pub issued_pages: u64,
    /// The file's readahead window (`ra_pages`) when last seen, in pages.
    pub ra_pages: u32,
}

/// How a read was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadHow {
    /// Through the page cache.
    Buffered,
    /// Past the page cache (O_DIRECT).
    Direct,
    /// Lookups of pages in the page cache, whoever asks: whole pages, with those of buffered reads.
    PageCache,
}

/// Reads that a file system, or a block device, was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadStat {
    /// Type of the file system; `bdev` or `devtmpfs` for block devices.
    pub fs_type: String,
    /// Device of the file system (anonymous for btrfs and bcachefs), or the block device.
    pub device: Device,
    /// How.
    pub how: ReadHow,
    /// Read calls.
    pub calls: u64,
    /// Bytes asked for, up to the end of the file.
    pub bytes: u64,
}

/// Block I/O of one device and direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockStat {
    /// The device. Requests count for the whole disk, bios for the partition they were sent to.
    pub device: Device,
    /// Direction.
    pub op: IoOp,
    /// Bios queued.
    pub bios: u64,
    /// Bytes of these bios.
    pub bio_bytes: u64,
    /// Requests issued.
    pub requests: u64,
    /// Bytes of these requests.
    pub request_bytes: u64,
    /// Requests completed.
    pub completed: u64,
    /// Bytes of these.
    pub completed_bytes: u64,
    /// Requests that began at the very sector where one of the 8 before them had ended: larger ones could have
    /// been made of them.
    #[serde(default)]
    pub contiguous: u64,
    /// Bytes of these.
    #[serde(default)]
    pub contiguous_bytes: u64,
    /// Requests that were to be on stable storage when they completed (REQ_FUA).
    #[serde(default)]
    pub fua: u64,
}

impl Session {
    /// An empty session of this program's version.
    pub fn new(source: Source) -> Self {
        Self { schema: SCHEMA, tool: env!("CARGO_PKG_VERSION").to_owned(), source, ..Self::default() }
    }

    /// The probe with this name.
    pub fn probe(&self, name: &str) -> Option<&Probe> {
        self.probes.iter().find(|probe| probe.name == name)
    }

    /// The block device with this number.
    pub fn device(&self, device: Device) -> Option<&BlockDevice> {
        self.host.devices.iter().find(|known| known.device == Some(device))
    }

    /// The name of a device for people: `sda1`, or `259:3` where it has none.
    pub fn device_name(&self, device: Device) -> String {
        match self.device(device) {
            Some(known) => known.name.clone(),
            None => device.to_string(),
        }
    }
}

impl Probe {
    /// A probe that was not asked for.
    pub fn off(name: &str, kind: Option<Kind>) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            state: ProbeState::Off,
            events: 0,
            weight: 0,
            stacks: 0,
            due: 0,
            counters: Vec::new(),
        }
    }

    /// Whether it runs.
    pub fn is_attached(&self) -> bool {
        matches!(self.state, ProbeState::Attached { .. })
    }
}
