//! What the running kernel lets a profiler do: facts for `profiler check`, each with what would make
//! it better.

use serde::Serialize;

use super::cgroup;
use super::sources::{Sources, read};

/// A fact about the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// What it is about.
    pub name: &'static str,
    /// How it is.
    pub value: String,
    /// What it costs, and what would make it better; `None` if it is as good as it gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

fn good(name: &'static str, value: impl Into<String>) -> Fact {
    Fact { name, value: value.into(), advice: None }
}

fn poor(name: &'static str, value: impl Into<String>, advice: impl Into<String>) -> Fact {
    Fact { name, value: value.into(), advice: Some(advice.into()) }
}

/// All facts.
pub fn facts(sources: &Sources) -> Vec<Fact> {
    vec![
        capabilities(sources),
        btf(sources),
        module_btf(sources),
        jit(sources),
        kprobes(sources),
        pmu(sources),
        perf_event_paranoid(sources),
        tracefs(sources),
        lockdown(sources),
        symbols(sources),
        cgroups(sources),
    ]
}

fn capabilities(sources: &Sources) -> Fact {
    const NEEDED: [(u32, &str); 5] = [
        (39, "CAP_BPF"),
        (38, "CAP_PERFMON"),
        (21, "CAP_SYS_ADMIN"),
        (34, "CAP_SYSLOG"),
        (19, "CAP_SYS_PTRACE"),
    ];
    let status = read(&sources.proc.join("self/status")).unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0);
    let (has, lacks): (Vec<_>, Vec<_>) = NEEDED.iter().partition(|(bit, _)| effective >> bit & 1 == 1);
    let names =
        |list: &[&(u32, &'static str)]| list.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    if lacks.is_empty() {
        return good("capabilities", names(&has));
    }
    let value = if has.is_empty() { "none of those that matter".to_owned() } else { names(&has) };
    poor("capabilities", value, format!("lacks {}: run it with sudo", names(&lacks)))
}

fn btf(sources: &Sources) -> Fact {
    match std::fs::metadata(sources.sys.join("kernel/btf/vmlinux")) {
        Ok(file) => good("type information (BTF)", format!("{} KiB", file.len() / 1024)),
        Err(_) => poor(
            "type information (BTF)",
            "none",
            "a kernel with CONFIG_DEBUG_INFO_BTF; without it there are plain tracepoints only",
        ),
    }
}

fn module_btf(sources: &Sources) -> Fact {
    let modules = std::fs::read_dir(sources.sys.join("kernel/btf"))
        .map_or(0, |entries| entries.flatten().filter(|entry| entry.file_name() != "vmlinux").count());
    if modules > 0 {
        return good("type information of modules", format!("{modules} loaded"));
    }
    match read(&sources.proc.join("modules")) {
        Some(list) if !list.is_empty() => poor(
            "type information of modules",
            "none",
            "a kernel with CONFIG_DEBUG_INFO_BTF_MODULES (5.11), to know the structures of modules",
        ),
        _ => good("type information of modules", "no modules loaded"),
    }
}

fn jit(sources: &Sources) -> Fact {
    match read(&sources.proc.join("sys/net/core/bpf_jit_enable")).as_deref() {
        Some("0") => poor(
            "eBPF compiler",
            "off",
            "sysctl net.core.bpf_jit_enable=1 makes probes several times cheaper",
        ),
        Some(_) => good("eBPF compiler", "on"),
        None => good("eBPF compiler", "built in"),
    }
}

fn kprobes(sources: &Sources) -> Fact {
    if sources.sys.join("bus/event_source/devices/kprobe").exists() {
        good("kprobes", "yes")
    } else {
        poor("kprobes", "none", "a kernel with CONFIG_KPROBE_EVENTS, to attach to functions of modules")
    }
}

/// A hardware counter has one of these devices, by architecture.
fn pmu(sources: &Sources) -> Fact {
    let devices = std::fs::read_dir(sources.sys.join("bus/event_source/devices"));
    let names: Vec<String> = devices
        .map(|entries| {
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        })
        .unwrap_or_default();
    let pmu =
        names.iter().find(|name| *name == "cpu" || name.starts_with("cpu_") || name.starts_with("armv8"));
    match pmu {
        Some(name) => good("hardware counters (PMU)", name.clone()),
        None => poor(
            "hardware counters (PMU)",
            "none",
            "a machine or virtual machine with a PMU (with KVM: -cpu host,pmu=on); without it samples miss code that \
             runs with interrupts off",
        ),
    }
}

fn perf_event_paranoid(sources: &Sources) -> Fact {
    match read(&sources.proc.join("sys/kernel/perf_event_paranoid")) {
        Some(level) => {
            good("kernel.perf_event_paranoid", format!("{level} (matters without CAP_PERFMON only)"))
        }
        None => poor(
            "perf events",
            "none",
            "a kernel with CONFIG_PERF_EVENTS: without them there are no CPU samples",
        ),
    }
}

fn tracefs(sources: &Sources) -> Fact {
    let mounted = ["kernel/tracing/events", "kernel/debug/tracing/events"];
    match mounted.iter().find(|path| sources.sys.join(path).is_dir()) {
        Some(path) => good("tracefs", format!("/sys/{}", path.trim_end_matches("/events"))),
        None => poor(
            "tracefs",
            "not mounted",
            "mount -t tracefs nodev /sys/kernel/tracing: plain tracepoints and the reads by system calls need it",
        ),
    }
}

fn lockdown(sources: &Sources) -> Fact {
    let text = read(&sources.sys.join("kernel/security/lockdown")).unwrap_or_default();
    let level = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(level, _)| level);
    match level {
        Some("confidentiality") => poor(
            "lockdown",
            "confidentiality",
            "eBPF may not read kernel memory at this level: boot with lockdown=integrity or none",
        ),
        Some(level) => good("lockdown", level),
        None => good("lockdown", "not known (securityfs is not mounted) or none"),
    }
}

fn symbols(sources: &Sources) -> Fact {
    match super::privilege::hidden_kernel_addresses(sources) {
        None => good("kernel symbols", "readable"),
        Some(reason) => poor("kernel symbols", "hidden", reason),
    }
}

fn cgroups(sources: &Sources) -> Fact {
    match cgroup::main_hierarchy(sources) {
        Some(cgroup::Hierarchy::V2) => good("control groups", "v2"),
        Some(cgroup::Hierarchy::V1 { controller }) => {
            good("control groups", format!("v1 (told apart by the {controller} controller)"))
        }
        None => poor(
            "control groups",
            "none mounted",
            "mount -t cgroup2 none /sys/fs/cgroup, for --cgroup and --by cgroup",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sources::fixture::Fixture;
    use super::*;

    fn fact(fixture: &Fixture, name: &str) -> Fact {
        facts(&fixture.sources).into_iter().find(|fact| fact.name == name).unwrap()
    }

    #[test]
    fn a_bare_machine_gets_advice() {
        let bare = Fixture::new(&[("proc/self/status", "CapEff:\t0000000000000000\n")]);
        assert!(fact(&bare, "capabilities").advice.unwrap().contains("CAP_BPF"));
        assert!(fact(&bare, "type information (BTF)").advice.unwrap().contains("CONFIG_DEBUG_INFO_BTF"));
        assert!(fact(&bare, "tracefs").advice.unwrap().contains("mount -t tracefs"));
        assert!(fact(&bare, "kprobes").advice.is_some());
        assert!(fact(&bare, "hardware counters (PMU)").advice.is_some());
    }

    #[test]
    fn a_good_machine_gets_none() {
        let good = Fixture::new(&[
            ("proc/self/status", "CapEff:\t000001ffffffffff\n"),
            ("sys/kernel/btf/vmlinux", "x"),
            ("sys/kernel/btf/xfs", "x"),
            ("sys/kernel/tracing/events/enable", "0"),
            ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
            ("sys/bus/event_source/devices/kprobe/type", "8"),
            ("sys/bus/event_source/devices/cpu/type", "4"),
            ("proc/sys/kernel/perf_event_paranoid", "3"),
        ]);
        for name in
            ["capabilities", "type information (BTF)", "tracefs", "lockdown", "hardware counters (PMU)"]
        {
            assert_eq!(fact(&good, name).advice, None, "{name}");
        }
        assert_eq!(fact(&good, "type information of modules").value, "1 loaded");
        let locked = Fixture::new(&[("sys/kernel/security/lockdown", "none integrity [confidentiality]")]);
        assert!(fact(&locked, "lockdown").advice.is_some());
    }
}
