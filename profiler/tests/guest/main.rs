//! The profiler as a user runs it, on the kernel of a virtual machine.
//!
//! `cargo xtask vm` links this and the profiler statically, boots kernels and runs it there as root, one test at a time.
//! Kernels differ in what they have, so tests ask the session which rung of its ladder a probe took.

mod counts;
mod guest;
mod locks;
mod modules;
mod probes;
mod reads;
#[path = "../common/skip.rs"]
mod skip;
