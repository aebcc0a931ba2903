//! What can be wrong with a file of another tool.

use std::fmt;
use std::io;

use crate::profile::pprof::PprofError;
use crate::profile::store::StoreError;

/// Where in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a text, from 1.
    Line(u64),
    /// A byte of a binary file, from 0.
    Offset(u64),
    /// No place in particular.
    Whole,
}

impl fmt::Display for Place {
    /// As a part of `file: ...`: `line 7: `, or nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}: "),
            Place::Offset(offset) => write!(f, "offset {offset:#x}: "),
            Place::Whole => Ok(()),
        }
    }
}

/// Why a file cannot be imported. `name` is always the path, or `standard input`.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be opened or read.
    #[error("cannot read `{name}`: {source}")]
    Io {
        /// The input.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// It is empty.
    #[error("`{name}` is empty")]
    Empty {
        /// The input.
        name: String,
    },
    /// It is in no known format.
    #[error("`{name}` is in no format that can be imported; these can: {known}")]
    Unknown {
        /// The input.
        name: String,
        /// The names of all formats.
        known: String,
    },
    /// The format was recognised, but there is nothing to be had from it.
    #[error("`{name}` looks like {format}, but no sample could be read from it{hint}")]
    NoSamples {
        /// The input.
        name: String,
        /// Name of the format.
        format: &'static str,
        /// What to do, after `: `; or nothing.
        hint: String,
    },
    /// Something in it is damaged, and nothing after it can be trusted.
    #[error("`{name}`: {place}{problem}")]
    Malformed {
        /// The input.
        name: String,
        /// Where.
        place: Place,
        /// What is wrong.
        problem: String,
    },
    /// It is larger in some way than what is read.
    #[error("`{name}`: {place}more than {limit} {what}, the most that is read")]
    TooMuch {
        /// The input.
        name: String,
        /// Where the limit was reached.
        place: Place,
        /// What there is too much of, in the plural.
        what: &'static str,
        /// How much is read.
        limit: u64,
    },
    /// A session folder cannot be loaded.
    #[error(transparent)]
    Session(#[from] StoreError),
    /// A pprof file cannot be decoded.
    #[error("`{name}`: {source}")]
    Pprof {
        /// The input.
        name: String,
        /// Why.
        source: PprofError,
    },
}
