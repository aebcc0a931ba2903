//! pprof files (`profile.pb.gz`): what `go tool pprof`, speedscope and Pyroscope open.
//!
//! docs/recording-format.md describes the conventions. In short: every kind of stack is a sample type of its
//! own, named [`Kind::name`](super::Kind::name); the number of events is a second sample type,
//! `<kind>-events`, wherever it differs from the weight; labels are strings; kernel and user code are told
//! apart by the address range of their mapping.

mod decode;
mod encode;
mod error;
mod messages;
#[cfg(test)]
mod tests;

pub use decode::{decode, decode_session};
pub use encode::encode;
pub use error::PprofError;

/// What mappings of the kernel proper are called, as in perf.
const KERNEL_MAPPING: &str = "[kernel.kallsyms]";
/// Where kernel addresses start on every 64-bit Linux.
const KERNEL_START: u64 = 1 << 63;
/// Ends the names of sample types that count events.
const EVENTS_SUFFIX: &str = "-events";

/// Keys of the labels.
mod key {
    pub const COMM: &str = "comm";
    pub const PID: &str = "pid";
    pub const CPU: &str = "cpu";
    pub const CGROUP: &str = "cgroup";
    pub const LOCK: &str = "lock";
    pub const LOCK_KIND: &str = "lock_kind";
    pub const DEVICE: &str = "device";
    pub const OP: &str = "op";
    pub const ORDER: &str = "order";
}
