//! Why a perf.data file cannot be read.

use super::header::{MAX_ATTRS, MAX_IDS};

/// Why a perf.data file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PerfDataError {
    /// Reading failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It does not begin as such files do.
    #[error("not a perf.data file: it does not begin with PERFILE2")]
    Magic,
    /// It was written by a perf older than Linux 3.2 or so.
    #[error(
        "the perf.data file has the first version of the format, which perf gave up in 2012; record anew"
    )]
    Version1,
    /// It is a folder's index.
    #[error(
        "the perf.data file was recorded with several threads into a folder, which cannot be read; \
         record without --threads"
    )]
    Directory,
    /// It is of the kind that needs seeking, and comes through a pipe.
    #[error("a perf.data file cannot be read from a pipe, unless `perf record -o -` wrote it: give its name")]
    Pipe,
    /// Its header is damaged.
    #[error("the header of the perf.data file is damaged: {0}")]
    Header(&'static str),
    /// Its header has more than any recording.
    #[error(
        "the perf.data file has more than {MAX_ATTRS} events or {MAX_IDS} event ids, the most that is read"
    )]
    TooManyEvents,
    /// A record is damaged.
    #[error("the perf.data file is damaged at byte {at}: {what}")]
    Record {
        /// Where, counted from the start of the records.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// Its compression is damaged.
    #[error("the compressed records of the perf.data file are damaged: {0}")]
    Zstd(#[source] std::io::Error),
    /// The event that was asked for is not in it, or it has none at all.
    #[error("no such event in the perf.data file; it has {0}")]
    NoSuchEvent(String),
    /// It has no samples.
    #[error("the perf.data file has no samples of {0}")]
    NoSamples(String),
}
