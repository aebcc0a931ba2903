//! Facts about the machine.

mod block;
mod cpu;
mod hypervisor;
mod mounts;

use super::sources::{Sources, parse, read};
use crate::profile::Host;

/// The facts about this machine, without `steal`, which belongs to a measurement (see
/// [`cpu_times`](super::cpu_times)).
pub fn host_facts() -> Host {
    let mut host = host_facts_of(&Sources::default());
    host.hypervisor = hypervisor::hypervisor(&Sources::default(), hypervisor::cpuid_signature());
    host
}

/// The facts in these trees. What they do not tell stays empty; never fails.
pub fn host_facts_of(sources: &Sources) -> Host {
    let kernel = |name: &str| read(&sources.proc.join("sys/kernel").join(name)).unwrap_or_default();
    let topology = cpu::topology(sources);
    let devices = block::devices(sources);
    let mounts = mounts::mounts(sources, &devices);
    Host {
        hostname: kernel("hostname"),
        kernel: kernel("osrelease"),
        kernel_version: kernel("version"),
        // The file exists from Linux 6.1.
        arch: parse(&sources.proc.join("sys/kernel/arch"))
            .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        page_size: procfs::page_size(),
        cpu_model: cpu::model(sources).unwrap_or_default(),
        cpus: topology.cpus,
        sockets: topology.sockets,
        cores_per_socket: topology.cores_per_socket,
        threads_per_core: topology.threads_per_core,
        numa_nodes: cpu::numa_nodes(sources),
        memory: memory(sources).unwrap_or(0),
        hypervisor: hypervisor::hypervisor(sources, None),
        steal: None,
        devices,
        mounts,
        memory_limits: Vec::new(),
    }
}

/// Memory in bytes.
fn memory(sources: &Sources) -> Option<u64> {
    let text = read(&sources.proc.join("meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::super::sources::fixture::Fixture;
    use super::*;

    #[test]
    fn nothing_is_known_without_files() {
        let host = host_facts_of(&Fixture::new(&[]).sources);
        assert_eq!(
            host,
            Host { arch: std::env::consts::ARCH.into(), page_size: procfs::page_size(), ..Host::default() }
        );
    }

    #[test]
    fn the_kernel_and_the_memory() {
        let host = host_facts_of(
            &Fixture::new(&[
                ("proc/sys/kernel/hostname", "box\n"),
                ("proc/sys/kernel/osrelease", "6.12.9\n"),
                ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n"),
                ("proc/sys/kernel/arch", "aarch64\n"),
                ("proc/meminfo", "MemTotal:       24683652 kB\nMemFree: 1 kB\n"),
            ])
            .sources,
        );
        assert_eq!(host.hostname, "box");
        assert_eq!(host.kernel, "6.12.9");
        assert_eq!(host.kernel_version, "#1 SMP PREEMPT_DYNAMIC");
        assert_eq!(host.arch, "aarch64");
        assert_eq!(host.memory, 24_683_652 * 1024);
    }

    #[test]
    fn this_machine_is_known() {
        let host = host_facts();
        assert_eq!(host.kernel, nix::sys::utsname::uname().unwrap().release().to_string_lossy());
        assert!(host.cpus > 0 && host.memory > 0 && host.page_size >= 4096, "{host:?}");
    }
}
