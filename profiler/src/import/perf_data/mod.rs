//! perf.data: what `perf record` writes, of perf 3.x to 7.x, also as a stream (`perf record -o -`), with
//! compressed records or not.
//!
//! The container is read by code of this module's own. The crate for it (linux-perf-data) allocates what
//! sizes in the file ask for, holds everything in memory until a round ends, and takes the counters in
//! samples of groups for something else; a file from somebody else's machine must do no harm.
//!
//! Samples count as `perf report` counts them, by period. Where all samples have the same period, a sample
//! weighs one. Otherwise the weights are [`Weights::Periods`], shares of [`SHARES_TOTAL`] in proportion to
//! the periods. The idle task's samples are samples like all others, as in `perf report`.
//!
//! Not done: unwinding of copied user stacks (`--call-graph dwarf`), branch stacks, guests' symbols. What of
//! that a file has is named in [`Session::blind_spots`].

mod bytes;
mod chain;
mod error;
mod events;
mod facts;
mod header;
mod kernel;
mod processes;
mod reader;
mod records;
mod rounds;
mod sample;
mod session;
mod stacks;
#[cfg(test)]
mod tests;
mod user;

use std::io::{Read, Seek};
use std::path::PathBuf;

pub use error::PerfDataError;

use crate::profile::Session;
#[cfg(doc)]
use crate::profile::{Weights, session::SHARES_TOTAL};

/// What may be given along with a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// A copy of the recorded machine's /proc/kallsyms, for the names of its kernel's functions.
    pub kallsyms: Option<PathBuf>,
}

/// A perf.data file as a session, and what is to be said about it to the user: a sentence each.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The session, of the kind [`Cpu`](crate::profile::Kind::Cpu) alone.
    pub session: Session,
    /// What is wrong with the file, where it could be read nevertheless.
    pub warnings: Vec<String>,
}

/// Whether a file that begins so is a perf.data file.
pub fn is_perf_data(start: &[u8]) -> bool {
    [&b"PERFILE2"[..], b"2ELIFREP", b"PERFFILE"].iter().any(|magic| start.starts_with(magic))
}

/// Reads a perf.data file. Memory is bounded, whatever the size of the file.
///
/// A stream that cannot be seeked in must return [`NotSeekable`](std::io::ErrorKind::NotSeekable); it is
/// read if perf wrote it as a stream.
///
/// # Errors
///
/// See [`PerfDataError`].
pub fn read<R: Read + Seek>(source: R, options: &Options) -> Result<Recording, PerfDataError> {
    session::session(reader::read(source)?, options)
}
