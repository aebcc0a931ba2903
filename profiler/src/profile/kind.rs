//! What the weight of a stack counts.

use serde::{Deserialize, Serialize};

/// The kinds of weighted stacks that a session can hold.
///
/// Shares are only ever taken within one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// CPU samples, taken at a fixed rate on every CPU.
    Cpu,
    /// Pages handed out by the page allocator.
    PageAlloc,
    /// Bytes of the bios that were allocated.
    Bio,
    /// Pages that readahead asked the file system for.
    Readahead,
    /// Nanoseconds spent waiting for locks.
    LockWait,
    /// Bytes of the bios that were queued to a block device.
    BlockIo,
    /// Nanoseconds that tasks spent on making memory free: direct reclaim and compaction.
    Reclaim,
}

/// The unit of a weight, a counter or a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// CPU samples.
    Samples,
    /// Things that happened.
    Events,
    /// Pages of the machine's page size.
    Pages,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

impl Kind {
    /// Every kind, in the order in which reports show them.
    pub const ALL: [Kind; 7] = [
        Kind::Cpu,
        Kind::LockWait,
        Kind::BlockIo,
        Kind::Bio,
        Kind::Readahead,
        Kind::PageAlloc,
        Kind::Reclaim,
    ];

    /// The name used in file names, JSON and pprof sample types.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::PageAlloc => "page-alloc",
            Kind::Bio => "bio",
            Kind::Readahead => "readahead",
            Kind::LockWait => "lock-wait",
            Kind::BlockIo => "block-io",
            Kind::Reclaim => "reclaim",
        }
    }

    /// A heading for people.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Cpu => "CPU time",
            Kind::PageAlloc => "page allocation",
            Kind::Bio => "bio allocation",
            Kind::Readahead => "readahead",
            Kind::LockWait => "lock waits",
            Kind::BlockIo => "block I/O",
            Kind::Reclaim => "direct reclaim and compaction",
        }
    }

    /// The [`title`](Self::title) as it begins a line.
    pub fn heading(self) -> String {
        let title = self.title();
        title[..1].to_ascii_uppercase() + &title[1..]
    }

    /// The unit of this kind's weights.
    pub fn unit(self) -> Unit {
        match self {
            Kind::Cpu => Unit::Samples,
            Kind::PageAlloc | Kind::Readahead => Unit::Pages,
            Kind::Bio | Kind::BlockIo => Unit::Bytes,
            Kind::LockWait | Kind::Reclaim => Unit::Nanoseconds,
        }
    }

    /// The kind with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Unit {
    /// The name used in JSON, pprof and flamegraph subtitles.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Samples => "samples",
            Unit::Events => "events",
            Unit::Pages => "pages",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "nanoseconds",
        }
    }
}
