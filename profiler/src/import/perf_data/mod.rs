//! `perf.data`, as `perf record` writes it.

use std::fs::File;
use std::io::Read;

use super::{ImportError, Imported, Options, Place, Progress};

/// What every file begins with; big-endian machines write it backwards.
pub(super) const MAGIC: [&[u8]; 2] = [b"PERFILE2", b"2ELIFREP"];

/// Reads a file that can be sought in; it stands at its beginning.
pub(super) fn read_file(
    _file: File,
    name: &str,
    _options: &Options,
    _progress: Progress<'_>,
) -> Result<Imported, ImportError> {
    Err(unsupported(name))
}

/// Reads what `perf record -o -` writes to a pipe.
pub(super) fn read_stream(
    _input: &mut dyn Read,
    name: &str,
    _options: &Options,
    _progress: Progress<'_>,
) -> Result<Imported, ImportError> {
    Err(unsupported(name))
}

fn unsupported(name: &str) -> ImportError {
    let problem = "perf.data cannot be read yet; `perf script` makes a text of it, which can".to_owned();
    ImportError::Malformed { name: name.to_owned(), place: Place::Whole, problem }
}
