//! Machine code of the functions that samples fall on: which instruction waits, what it loads, and who writes there.
//!
//! 1. [`text`] has the bytes of a function: of the running kernel, or of a user program's file.
//! 2. [`disasm`] makes instructions of them, with the ways between them.
//! 3. [`flow`] follows what registers hold from the function's arguments on, so that a memory operand becomes a
//!    place: argument 0, 24 bytes in, followed, 8 bytes in.
//! 4. [`members`] names the place by the types of the arguments: `xfs_mount.m_agno_log`.
//! 5. [`samples`] says which load the samples of a function wait for.
//! 6. [`analyse()`] puts the result into the session as plain data ([`FunctionCode`](crate::profile::FunctionCode)):
//!    everything after it, `diagnose` and `report`, needs neither the machine nor its types.
//!
//! x86-64 only: sessions of other machines say so.

mod analyse;
pub mod disasm;
pub mod flow;
mod line;
pub mod members;
pub mod samples;
mod sources;
pub mod text;

pub use analyse::{Types, analyse};
pub use samples::samples_by_address;
pub use sources::{LEAST_SAMPLES, LEAST_SHARE, MOST_FUNCTIONS, Programs};
