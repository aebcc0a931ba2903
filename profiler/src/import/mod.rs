//! Profiles of other tools, made into sessions: one file a format.
//!
//! A format is recognised by what is in the file, never by its name. Whatever a format lacks stays unknown in the
//! session, and is said in its `blind_spots`. All input is hostile: it is read in bounded memory, and what is odd is
//! a warning, what cannot be used an error with its line or offset.

mod error;
mod merge;
mod names;
mod perf_data;
mod text;
mod warning;

use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

pub use error::{ImportError, Place};
pub use warning::{Warning, Warnings};

use crate::profile::{Session, pprof, store};

/// What was in a file.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The profiles, at least one. More where a text holds several; each then has a heading.
    pub sessions: Vec<Session>,
    /// What was odd; a bounded number of warnings.
    pub warnings: Vec<Warning>,
}

/// What to take from a file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The event to take where a profile has several, as its tool calls it: `cycles`. By default the first
    /// one that measures CPU time, else the first one.
    pub event: Option<String>,
}

/// Is told how many bytes of the input have been read, and how many it has, where that is known.
pub type Progress<'a> = &'a dyn Fn(u64, Option<u64>);

/// Bytes by which formats are recognised.
const HEAD: u64 = 256 << 10;
/// Most bytes of a pprof file as it is on disk; its reader has a limit of its own for what is in it.
const MAX_PPROF: u64 = 256 << 20;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads the profiles in the file or session folder `path`.
///
/// # Errors
///
/// When it cannot be read, is in no known format, or is damaged beyond use.
pub fn open(path: &Path, progress: Progress<'_>) -> Result<Imported, ImportError> {
    open_with(path, &Options::default(), progress)
}

/// Like [`open`], with a choice of what to take.
///
/// # Errors
///
/// As [`open`]; and when the event that was asked for is not in it.
pub fn open_with(path: &Path, options: &Options, progress: Progress<'_>) -> Result<Imported, ImportError> {
    if path.is_dir() {
        return Ok(Imported { sessions: vec![store::load(path)?], warnings: Vec::new() });
    }
    let name = path.to_string_lossy();
    let io_error = |source| ImportError::Io { name: name.to_string(), source };
    let mut file = File::open(path).map_err(io_error)?;
    let metadata = file.metadata().map_err(io_error)?;
    let size = metadata.is_file().then(|| metadata.len());
    let mut input = Headed::new(&mut file, &name)?;
    if metadata.is_file() && input.is_perf_data() {
        drop(input);
        io::Seek::rewind(&mut file).map_err(io_error)?;
        return perf_data::read_file(file, &name, options, progress);
    }
    read_headed(&mut input, &name, options, &|done, _| progress(done, size))
}

/// Reads the profiles in a stream. `name` is what error messages call it.
///
/// # Errors
///
/// As [`open_with`].
pub fn read(
    input: &mut dyn Read,
    name: &str,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Imported, ImportError> {
    read_headed(&mut Headed::new(input, name)?, name, options, progress)
}

fn read_headed(
    input: &mut Headed<'_>,
    name: &str,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Imported, ImportError> {
    if input.is_perf_data() {
        return perf_data::read_stream(&mut input.whole(progress), name, options, progress);
    }
    if input.head.starts_with(&GZIP) {
        // A text may be compressed, too. What is no text is pprof.
        let mut head = Vec::new();
        // A head that ends within a block is no error here.
        let _ = MultiGzDecoder::new(&*input.head).take(HEAD).read_to_end(&mut head);
        return match text::recognise(&head) {
            Some(format) => {
                let mut whole = input.whole(progress);
                text::read(format, &head, &mut MultiGzDecoder::new(&mut whole), name, options)
            }
            None => read_pprof(input, name, progress),
        };
    }
    match text::recognise(&input.head) {
        Some(format) => {
            let head = input.head.clone();
            text::read(format, &head, &mut input.whole(progress), name, options)
        }
        // A pprof file need not be compressed; no text has a NUL in it.
        None if input.head.contains(&0) => read_pprof(input, name, progress)
            .map_err(|_| ImportError::Unknown { name: name.to_owned(), known: known() }),
        None => Err(ImportError::Unknown { name: name.to_owned(), known: known() }),
    }
}

/// The names of all formats.
fn known() -> String {
    let binary = ["session folders", "perf.data", "pprof"].into_iter();
    binary.chain(text::names()).collect::<Vec<_>>().join(", ")
}

fn read_pprof(input: &mut Headed<'_>, name: &str, progress: Progress<'_>) -> Result<Imported, ImportError> {
    let mut data = Vec::new();
    input
        .whole(progress)
        .take(MAX_PPROF + 1)
        .read_to_end(&mut data)
        .map_err(|source| ImportError::Io { name: name.to_owned(), source })?;
    if data.len() as u64 > MAX_PPROF {
        let place = Place::Offset(MAX_PPROF);
        return Err(ImportError::TooMuch {
            name: name.to_owned(),
            place,
            what: "bytes of pprof",
            limit: MAX_PPROF,
        });
    }
    let session = pprof::decode_session(&data)
        .map_err(|source| ImportError::Pprof { name: name.to_owned(), source })?;
    Ok(Imported { sessions: vec![session], warnings: Vec::new() })
}

/// An input of which the first bytes have been read to recognise it.
struct Headed<'a> {
    head: Vec<u8>,
    rest: &'a mut dyn Read,
}

impl<'a> Headed<'a> {
    fn new(input: &'a mut dyn Read, name: &str) -> Result<Self, ImportError> {
        let mut head = Vec::new();
        input
            .take(HEAD)
            .read_to_end(&mut head)
            .map_err(|source| ImportError::Io { name: name.to_owned(), source })?;
        if head.is_empty() {
            return Err(ImportError::Empty { name: name.to_owned() });
        }
        Ok(Self { head, rest: input })
    }

    fn is_perf_data(&self) -> bool {
        perf_data::MAGIC.iter().any(|magic| self.head.starts_with(magic))
    }

    /// The whole input, once.
    fn whole<'s>(&'s mut self, progress: Progress<'s>) -> Counted<'s> {
        let head = Cursor::new(std::mem::take(&mut self.head));
        Counted { inner: head.chain(&mut *self.rest), done: 0, told: 0, progress }
    }
}

/// Tells how many bytes went through it.
struct Counted<'a> {
    inner: Chain<Cursor<Vec<u8>>, &'a mut (dyn Read + 'a)>,
    done: u64,
    told: u64,
    progress: Progress<'a>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        const STEP: u64 = 1 << 20;
        let read = self.inner.read(buffer)?;
        self.done += read as u64;
        if self.done - self.told >= STEP || read == 0 {
            self.told = self.done;
            (self.progress)(self.done, None);
        }
        Ok(read)
    }
}
