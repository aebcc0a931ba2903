//! What `perf script --header` and `perf report --header` say about the machine.

use crate::profile::{Session, Target};

/// Takes the fact from a line such as `# hostname : storage1`. Returns whether there was one.
pub(super) fn read(line: &str, session: &mut Session) -> bool {
    let Some((key, value)) = line.strip_prefix('#').and_then(|rest| rest.split_once(':')) else {
        return false;
    };
    let value = value.trim();
    if value.is_empty() {
        return false;
    }
    let host = &mut session.host;
    match key.trim() {
        "hostname" => host.hostname = value.to_owned(),
        "os release" => host.kernel = value.to_owned(),
        "arch" => host.arch = value.to_owned(),
        "cpudesc" => host.cpu_model = value.to_owned(),
        // The CPUs that were there to be measured; `avail` has those that could be plugged in, too.
        "nrcpus online" => host.cpus = value.parse().unwrap_or(0),
        "nrcpus avail" => host.cpus = if host.cpus == 0 { value.parse().unwrap_or(0) } else { host.cpus },
        "total memory" => {
            let kib = value.strip_suffix("kB").and_then(|kib| kib.trim().parse::<u64>().ok());
            host.memory = kib.and_then(|kib| kib.checked_mul(1024)).unwrap_or(0);
        }
        "sample duration" => {
            let ms = value.strip_suffix("ms").and_then(|ms| ms.trim().parse::<f64>().ok());
            session.duration_ns = ms.map_or(0, |ms| (ms * 1e6) as u64);
        }
        "cmdline" => {
            // `perf record -a` measures all; whom else it measured is hard to tell from its options.
            let words: Vec<&str> = value.split_whitespace().collect();
            if let Some(at) = words.iter().position(|word| *word == "--") {
                let all = words[..at].iter().any(|word| *word == "-a" || *word == "--all-cpus");
                let argv: Vec<String> = words[at + 1..].iter().map(|word| (*word).to_owned()).collect();
                if !all && !argv.is_empty() {
                    session.target = Target::Command { argv, status: None };
                }
            }
        }
        _ => return false,
    }
    true
}

/// An event's name without modifiers: `cpu-clock` of `cpu-clock:ppp`, `cycles` of `cpu_core/cycles/`.
pub(super) fn event_name(event: &str) -> &str {
    let event = match event.split_once('/') {
        Some((_, rest)) => rest.split(['/', ',']).next().unwrap_or(rest),
        None => event,
    };
    // A tracepoint's name has a colon itself: modifiers are a few letters.
    match event.rsplit_once(':') {
        Some((name, modifiers)) if modifiers.bytes().all(|byte| b"ukhGHIpPSDWbeu".contains(&byte)) => name,
        _ => event,
    }
}

/// Whether an event's samples are CPU time.
pub(super) fn is_cpu_event(event: &str) -> bool {
    const NAMES: [&str; 8] = [
        "cycles",
        "cpu-clock",
        "task-clock",
        "cpu-cycles",
        "ref-cycles",
        "cycles_ct",
        "ibs_op",
        "cpu_clk_unhalted.thread",
    ];
    // perf aggregates BPF samples under names such as `cycles:P`; hybrids have `cpu_core/cycles/`.
    let name = event_name(event);
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known)) || event.starts_with("ibs_op/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_a_perf_header() {
        let mut session = Session::default();
        for line in [
            "# hostname : storage1",
            "# os release : 6.12.9-amd64",
            "# arch : x86_64",
            "# nrcpus online : 16",
            "# nrcpus avail : 32",
            "# cpudesc : AMD EPYC 7763",
            "# total memory : 16777216 kB",
            "# sample duration :   2769.710 ms",
            "# cmdline : /usr/bin/perf record -g -- dd if=/dev/zero",
        ] {
            assert!(read(line, &mut session), "{line}");
        }
        assert!(!read("# missing features: TRACING_DATA", &mut session));
        assert!(!read("# total memory", &mut session));
        assert_eq!(
            (session.host.cpus, session.host.memory, session.duration_ns),
            (16, 16 << 30, 2_769_710_000)
        );
        assert!(matches!(session.target, Target::Command { argv, .. } if argv == ["dd", "if=/dev/zero"]));
    }

    #[test]
    fn events_that_are_cpu_time() {
        for event in [
            "cycles",
            "cycles:P",
            "cpu-clock:ppp",
            "task-clock:u",
            "cpu_core/cycles/",
            "cpu_core/cycles/P",
            "cpu/cycles/u",
        ] {
            assert!(is_cpu_event(event), "{event}");
        }
        for event in
            ["block:block_rq_issue", "instructions", "cache-misses:u", "sched:sched_switch", "page-faults"]
        {
            assert!(!is_cpu_event(event), "{event}");
        }
        assert_eq!(event_name("sched:sched_switch"), "sched:sched_switch");
    }
}
