//! The text formats: recognised by their first lines, read line by line.

use std::io::Read;

use super::{ImportError, Imported, Options};

/// A text format.
pub(super) struct Format {
    /// Its name, for people.
    pub name: &'static str,
}

/// All of them; a text is in the first one that recognises it.
const FORMATS: [Format; 0] = [];

/// The names of all formats.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.name)
}

/// The format of a text that begins with `head`.
pub(super) fn recognise(_head: &[u8]) -> Option<&'static Format> {
    None
}

/// Reads a text. `input` begins with `head` again.
pub(super) fn read(
    format: &'static Format,
    _head: &[u8],
    _input: &mut dyn Read,
    name: &str,
    _options: &Options,
) -> Result<Imported, ImportError> {
    Err(ImportError::NoSamples { name: name.to_owned(), format: format.name, hint: String::new() })
}
