//! CPUs and how they hang together.

use std::collections::{BTreeMap, BTreeSet};

use super::super::sources::{Sources, number_list, parse, read};

/// Numbers of CPUs, sockets, cores and threads. Only online CPUs count.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Topology {
    pub cpus: u32,
    pub sockets: Option<u32>,
    pub cores_per_socket: Option<u32>,
    pub threads_per_core: Option<u32>,
}

pub fn topology(sources: &Sources) -> Topology {
    let folder = sources.sys.join("devices/system/cpu");
    let online = number_list(&read(&folder.join("online")).unwrap_or_default());
    let mut topology = Topology { cpus: count(online.len()), ..Topology::default() };

    // Socket -> core -> threads. A core is known by the list of its threads: core ids repeat in other dies.
    let mut sockets: BTreeMap<u32, BTreeMap<String, u32>> = BTreeMap::new();
    for cpu in &online {
        let folder = folder.join(format!("cpu{cpu}/topology"));
        let Some(socket) = parse::<u32>(&folder.join("physical_package_id")) else { return topology };
        let Some(core) =
            read(&folder.join("core_cpus_list")).or_else(|| read(&folder.join("thread_siblings_list")))
        // before Linux 5.3
        else {
            return topology;
        };
        *sockets.entry(socket).or_default().entry(core).or_default() += 1;
    }
    if !sockets.is_empty() {
        topology.sockets = Some(count(sockets.len()));
        topology.cores_per_socket = sockets.values().map(|cores| count(cores.len())).max();
        topology.threads_per_core = sockets.values().flat_map(BTreeMap::values).copied().max();
    }
    topology
}

pub fn numa_nodes(sources: &Sources) -> Option<u32> {
    let nodes: BTreeSet<u32> = std::fs::read_dir(sources.sys.join("devices/system/node"))
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("node")?.parse().ok())
        .collect();
    Some(count(nodes.len())).filter(|nodes| *nodes > 0)
}

/// The CPU model. The architectures have it under different names, and Arm not at all.
pub fn model(sources: &Sources) -> Option<String> {
    let text = read(&sources.proc.join("cpuinfo"))?;
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned()).filter(|value| !value.is_empty())
        })
    };
    ["model name", "Model Name", "cpu model", "cpu", "uarch", "Model", "Hardware"].into_iter().find_map(value)
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::super::sources::fixture::Fixture;
    use super::*;

    /// `sockets` x `cores` x 2 threads; the thread siblings are half the machine apart, as usual.
    fn machine(sockets: usize, cores: usize, list: &str) -> Fixture {
        let half = sockets * cores;
        let fixture = Fixture::new(&[]);
        fixture.file("sys/devices/system/cpu/online", &format!("0-{}\n", 2 * half - 1));
        for cpu in 0..2 * half {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            let core = cpu % half;
            fixture.file(&format!("{folder}/physical_package_id"), &format!("{}\n", core / cores));
            fixture.file(&format!("{folder}/{list}"), &format!("{core},{}\n", core + half));
        }
        fixture
    }

    #[test]
    fn sockets_cores_and_threads_are_counted() {
        for list in ["core_cpus_list", "thread_siblings_list"] {
            let expected =
                Topology { cpus: 24, sockets: Some(2), cores_per_socket: Some(6), threads_per_core: Some(2) };
            assert_eq!(topology(&machine(2, 6, list).sources), expected, "{list}");
        }
    }

    #[test]
    fn offline_cpus_do_not_count() {
        let fixture = machine(2, 2, "core_cpus_list");
        fixture.file("sys/devices/system/cpu/online", "0-1\n");
        let expected =
            Topology { cpus: 2, sockets: Some(1), cores_per_socket: Some(2), threads_per_core: Some(1) };
        assert_eq!(topology(&fixture.sources), expected);
    }

    #[test]
    fn an_unknown_socket_makes_the_rest_unknown() {
        let fixture = machine(1, 2, "core_cpus_list");
        fixture.file("sys/devices/system/cpu/cpu3/topology/physical_package_id", "-1\n");
        assert_eq!(topology(&fixture.sources), Topology { cpus: 4, ..Topology::default() });
    }

    #[test]
    fn numa_nodes_are_folders() {
        let fixture = Fixture::new(&[
            ("sys/devices/system/node/node0/cpulist", ""),
            ("sys/devices/system/node/node1/cpulist", ""),
            ("sys/devices/system/node/online", "0-1"),
        ]);
        assert_eq!(numa_nodes(&fixture.sources), Some(2));
        assert_eq!(numa_nodes(&Fixture::new(&[]).sources), None);
    }

    #[test]
    fn models_by_architecture() {
        let model = |text| model(&Fixture::new(&[("proc/cpuinfo", text)]).sources);
        let x86 = "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9654\n";
        assert_eq!(model(x86).as_deref(), Some("AMD EPYC 9654"));
        assert_eq!(
            model("processor : 0\ncpu\t\t: POWER9, altivec supported\n").as_deref(),
            Some("POWER9, altivec supported")
        );
        assert_eq!(model("processor : 0\nBogoMIPS : 50.00\n"), None);
    }
}
