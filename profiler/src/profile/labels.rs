//! Who and what a weighted stack belongs to.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A block device number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl Device {
    /// From the kernel's own `dev_t`: 12 bits of major, 20 bits of minor (include/linux/kdev_t.h).
    pub fn from_kernel(dev: u32) -> Self {
        Self { major: dev >> 20, minor: dev & 0xf_ffff }
    }

    /// The kernel's own `dev_t`, the inverse of [`from_kernel`](Self::from_kernel).
    pub fn to_kernel(self) -> u32 {
        self.major << 20 | self.minor & 0xf_ffff
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The direction of a block request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoOp {
    /// Data from the device.
    #[default]
    Read,
    /// Data to the device.
    Write,
    /// Discard (trim).
    Discard,
    /// Cache flush.
    Flush,
}

impl IoOp {
    /// The name used in reports and labels.
    pub fn name(self) -> &'static str {
        match self {
            IoOp::Read => "read",
            IoOp::Write => "write",
            IoOp::Discard => "discard",
            IoOp::Flush => "flush",
        }
    }

    /// The operation with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        [IoOp::Read, IoOp::Write, IoOp::Discard, IoOp::Flush].into_iter().find(|op| op.name() == name)
    }
}

/// What kind of lock a wait was for, and how it waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// Queued spinlock.
    Spin,
    /// rwlock_t, reader.
    RwlockRead,
    /// rwlock_t, writer.
    RwlockWrite,
    /// Mutex, spinning on its owner.
    MutexSpin,
    /// Mutex, asleep.
    Mutex,
    /// rw_semaphore, reader.
    RwsemRead,
    /// rw_semaphore, writer.
    RwsemWrite,
    /// Counting semaphore (XFS buffers are locked with one).
    Semaphore,
    /// percpu_rw_semaphore.
    PercpuRwsem,
    /// rt_mutex, or any sleeping lock on a PREEMPT_RT kernel.
    RtMutex,
}

impl LockKind {
    /// All kinds.
    pub const ALL: [LockKind; 10] = [
        LockKind::Spin,
        LockKind::RwlockRead,
        LockKind::RwlockWrite,
        LockKind::MutexSpin,
        LockKind::Mutex,
        LockKind::RwsemRead,
        LockKind::RwsemWrite,
        LockKind::Semaphore,
        LockKind::PercpuRwsem,
        LockKind::RtMutex,
    ];

    /// From the flags of `lock:contention_begin` (LCB_F_* in include/trace/events/lock.h).
    pub fn from_flags(flags: u32) -> Self {
        const SPIN: u32 = 1;
        const READ: u32 = 2;
        const WRITE: u32 = 4;
        const RT: u32 = 8;
        const PERCPU: u32 = 16;
        const MUTEX: u32 = 32;
        match flags {
            f if f & RT != 0 => LockKind::RtMutex,
            f if f & PERCPU != 0 => LockKind::PercpuRwsem,
            f if f & MUTEX != 0 && f & SPIN != 0 => LockKind::MutexSpin,
            f if f & MUTEX != 0 => LockKind::Mutex,
            f if f & SPIN != 0 && f & READ != 0 => LockKind::RwlockRead,
            f if f & SPIN != 0 && f & WRITE != 0 => LockKind::RwlockWrite,
            f if f & SPIN != 0 => LockKind::Spin,
            f if f & READ != 0 => LockKind::RwsemRead,
            f if f & WRITE != 0 => LockKind::RwsemWrite,
            _ => LockKind::Semaphore,
        }
    }

    /// Whether the waiter keeps its CPU while it waits.
    pub fn spins(self) -> bool {
        matches!(self, LockKind::Spin | LockKind::RwlockRead | LockKind::RwlockWrite | LockKind::MutexSpin)
    }

    /// The name used in reports and labels.
    pub fn name(self) -> &'static str {
        match self {
            LockKind::Spin => "spinlock",
            LockKind::RwlockRead => "rwlock-read",
            LockKind::RwlockWrite => "rwlock-write",
            LockKind::MutexSpin => "mutex-spin",
            LockKind::Mutex => "mutex",
            LockKind::RwsemRead => "rwsem-read",
            LockKind::RwsemWrite => "rwsem-write",
            LockKind::Semaphore => "semaphore",
            LockKind::PercpuRwsem => "percpu-rwsem",
            LockKind::RtMutex => "rt-mutex",
        }
    }

    /// The kind with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        LockKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Who and what a weighted stack belongs to; what a source does not know is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels {
    /// Thread name, as the kernel has it: any bytes, so escape before showing.
    pub comm: Option<Arc<str>>,
    /// Process (thread group) id.
    pub pid: Option<u32>,
    /// CPU number.
    pub cpu: Option<u32>,
    /// Control group path.
    pub cgroup: Option<Arc<str>>,
    /// Kind of lock.
    pub lock_kind: Option<LockKind>,
    /// Address of the lock.
    pub lock: Option<u64>,
    /// Block device.
    pub device: Option<Device>,
    /// Direction of the block I/O.
    pub op: Option<IoOp>,
    /// Allocation order (a block of 2^order pages).
    pub order: Option<u8>,
}
