//! What can go wrong.

use std::path::Path;

use crate::kernel::btf::BtfError;

/// Why types could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TypesError {
    /// The file cannot be read, or not understood.
    #[error("cannot read types from {path}: {why}")]
    File {
        /// Path of the file.
        path: String,
        /// Why.
        why: String,
    },
    /// The running kernel has none, or damaged ones.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// No such module.
    #[error(
        "the running kernel shows no types of a module {0}: see /sys/kernel/btf; modules that are built in belong to vmlinux"
    )]
    Module(String),
}

impl TypesError {
    pub(super) fn file(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::File { path: path.display().to_string(), why: why.to_string() }
    }
}
