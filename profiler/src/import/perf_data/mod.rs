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

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

pub use error::PerfDataError;

use super::{ImportError, Imported, Options, Place, Progress, Warning};
use crate::profile::Session;
#[cfg(doc)]
use crate::profile::{Weights, session::SHARES_TOTAL};

/// What every file begins with; big-endian machines write it backwards. The last is of the first version of
/// the format, of which the error says what to do.
pub(super) const MAGIC: [&[u8]; 3] = [b"PERFILE2", b"2ELIFREP", b"PERFFILE"];

/// A perf.data file as a session, and what is to be said about it to the user: a sentence each.
#[derive(Clone, Debug)]
struct Recording {
    /// The session, of the kind [`Cpu`](crate::profile::Kind::Cpu) alone.
    session: Session,
    /// What is wrong with the file, where it could be read nevertheless.
    warnings: Vec<String>,
}

/// Reads a file that can be sought in; it stands at its beginning.
pub(super) fn read_file(
    file: File,
    name: &str,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Imported, ImportError> {
    let size = file.metadata().ok().map(|metadata| metadata.len());
    imported(read(Told::new(file, size, progress), options), name)
}

/// Reads what `perf record -o -` writes to a pipe.
pub(super) fn read_stream(
    input: &mut dyn Read,
    name: &str,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Imported, ImportError> {
    imported(read(Told::new(Stream(input), None, progress), options), name)
}

fn imported(read: Result<Recording, PerfDataError>, name: &str) -> Result<Imported, ImportError> {
    let Recording { session, warnings } = read.map_err(|source| match source {
        PerfDataError::Io(source) => ImportError::Io { name: name.to_owned(), source },
        source => ImportError::PerfData { name: name.to_owned(), source },
    })?;
    let warnings = warnings.into_iter().map(|text| Warning { place: Place::Whole, text }).collect();
    Ok(Imported { sessions: vec![session], warnings })
}

/// Reads a perf.data file. Memory is bounded, whatever the size of the file.
///
/// A stream that cannot be seeked in returns [`NotSeekable`](io::ErrorKind::NotSeekable); it is read if perf
/// wrote it as a stream.
fn read<R: Read + Seek>(source: R, options: &Options) -> Result<Recording, PerfDataError> {
    session::session(reader::read(source, options.event.as_deref())?, options)
}

/// A stream with the form of a file.
struct Stream<'s>(&'s mut dyn Read);

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Seek for Stream<'_> {
    fn seek(&mut self, _to: SeekFrom) -> io::Result<u64> {
        Err(io::ErrorKind::NotSeekable.into())
    }
}

/// Tells how many bytes were read.
struct Told<'p, R> {
    inner: R,
    done: u64,
    size: Option<u64>,
    progress: Progress<'p>,
}

impl<'p, R> Told<'p, R> {
    fn new(inner: R, size: Option<u64>, progress: Progress<'p>) -> Self {
        Self { inner, done: 0, size, progress }
    }
}

impl<R: Read> Read for Told<'_, R> {
    /// Called for a large buffer's worth each time.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.done += read as u64;
        (self.progress)(self.done, self.size);
        Ok(read)
    }
}

impl<R: Seek> Seek for Told<'_, R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
