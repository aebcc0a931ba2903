//! The profiler as a user runs it, on the kernel of a virtual machine.
//!
//! `cargo xtask vm` links this and the profiler statically, boots kernels and runs it there as root, one test at a time.
//! Kernels differ in what they have, so tests ask the session which rung of its ladder a probe took.

#[path = "../common/mod.rs"]
mod common;
mod counts;
mod guest;
mod locks;
mod modules;
mod probes;
mod reads;
#[macro_use]
#[path = "../scenarios/mod.rs"]
mod scenarios;

use common::skip;

in_guests!(tests);
