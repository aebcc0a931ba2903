//! `profiler`: finds out why Linux I/O or memory is slow, and says so.
//!
//! docs/architecture.md has the map: which module does what, and in which direction data flows.

pub mod cli;
mod collect;
pub mod diagnose;
pub mod import;
pub mod kernel;
pub mod profile;
pub mod report;
mod symbolize;
pub mod types;

#[cfg(test)]
pub(crate) mod testing;
