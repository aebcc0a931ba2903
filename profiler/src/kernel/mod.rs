//! What machine and what kernel this is.

pub mod cgroup;
pub mod cpu_times;
pub mod host;
pub mod privilege;
pub mod sources;
