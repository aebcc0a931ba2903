//! How much CPU time the hypervisor takes away.

use procfs::{FromBufReadSI as _, KernelStats};

use super::sources::{Sources, read};

/// CPU time of all CPUs since boot, in clock ticks (`/proc/stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    /// All of it, idle time included.
    pub total: u64,
    /// Time without work, waiting for I/O included.
    pub idle: u64,
    /// What the hypervisor gave to others while this machine wanted to run.
    pub steal: u64,
}

impl CpuTimes {
    /// The times now, or `None` if /proc does not tell.
    pub fn read(sources: &Sources) -> Option<Self> {
        let text = read(&sources.proc.join("stat"))?;
        let time = KernelStats::from_buf_read(text.as_bytes(), procfs::current_system_info()).ok()?.total;
        let steal = time.steal.unwrap_or(0);
        // Time in guests is part of `user` and `nice` already.
        let parts = [time.user, time.nice, time.system, time.idle, steal]
            .into_iter()
            .chain([time.iowait, time.irq, time.softirq].into_iter().flatten());
        let idle = time.idle.saturating_add(time.iowait.unwrap_or(0));
        Some(Self { total: parts.fold(0, u64::saturating_add), idle, steal })
    }

    /// Time without work since `before`, in ns.
    pub fn idle_ns_since(&self, before: &Self) -> u64 {
        let ticks = self.idle.saturating_sub(before.idle);
        ticks.saturating_mul(1_000_000_000 / procfs::ticks_per_second().max(1))
    }
}

/// Share of the CPU time between two readings that was stolen, 0 to 1; `None` if no time has passed.
pub fn steal_share(before: CpuTimes, after: CpuTimes) -> Option<f64> {
    let total = after.total.checked_sub(before.total).filter(|total| *total > 0)?;
    let steal = after.steal.saturating_sub(before.steal); // has been seen to go backwards
    Some((steal as f64 / total as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::super::sources::fixture::Fixture;
    use super::*;

    #[test]
    fn steal_is_a_share_of_all_time() {
        let read = |line: &str| {
            let text = format!("{line}\n{line}\nctxt 1\nbtime 2\nprocesses 3\n");
            CpuTimes::read(&Fixture::new(&[("proc/stat", &text)]).sources).unwrap()
        };
        let before = read("cpu  100 10 50 800 20 5 5 10 30 0");
        assert_eq!(before, CpuTimes { total: 1000, idle: 820, steal: 10 });
        let after = read("cpu  150 10 50 800 20 5 5 60 30 0");
        assert_eq!(steal_share(before, after), Some(0.5));
        assert_eq!(steal_share(before, before), None);
        assert_eq!(steal_share(after, before), None);
    }

    #[test]
    fn missing_or_damaged_times_are_unknown() {
        assert_eq!(CpuTimes::read(&Fixture::new(&[]).sources), None);
        assert_eq!(CpuTimes::read(&Fixture::new(&[("proc/stat", "cpu  1 x")]).sources), None);
    }

    #[test]
    fn this_machine_has_times() {
        let times = CpuTimes::read(&Sources::default()).unwrap();
        assert!(times.total > times.steal);
    }
}
