//! What machine and what kernel this is.

pub mod btf;
pub mod cgroup;
pub mod cpu_times;
pub mod facts;
pub mod host;
pub mod kallsyms;
pub mod ladder;
pub mod lock_names;
pub mod memory;
pub mod offsets;
pub mod privilege;
pub mod probes;
pub mod slab;
pub mod sources;
pub mod tracefs;
pub mod vmstat;
