//! Reclaim in a control group at its limit, against the kernel's own counts.

mod common;

use common::{
    Disk, MemoryGroup, Running, Workload, assert_attached, counter, exclusive, is_root, kept_away, skip::skip,
};
use profiler::profile::{Confidence, Finding, Kind, Session, Severity, Subject};

/// MiB of the file that is read, and of the group's limit.
const FILE: u64 = 160;
const LIMIT: u64 = 32;

/// Pages that tasks have reclaimed for limits of control groups since boot: all that were, but for those by kswapd and
/// for want of free pages (/proc/vmstat has those apart; for limits there is no counter of its own).
fn pages_reclaimed_for_limits() -> u64 {
    let vmstat = std::fs::read_to_string("/proc/vmstat").unwrap();
    let count = |name: &str| -> u64 {
        let value = vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    };
    let all = count("pgsteal_anon") + count("pgsteal_file");
    let others = ["pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged", "pgsteal_proactive"];
    all - others.map(count).iter().sum::<u64>()
}

fn disk(name: &str) -> Option<Disk> {
    let disk = Disk::format(FILE * 2, "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0");
    let disk = disk.and_then(|disk| disk.mount("noatime").map(|()| disk));
    match disk {
        Ok(disk) => {
            let data = vec![7; (FILE as usize) << 20];
            std::fs::write(disk.file("file"), data).unwrap();
            Some(disk)
        }
        Err(reason) => {
            skip(name, &reason);
            None
        }
    }
}

fn group(name: &str) -> Option<MemoryGroup> {
    MemoryGroup::new("reclaim", LIMIT).map_err(|reason| skip(name, &reason)).ok()
}

fn pressure(session: &Session) -> Option<&Finding> {
    session.findings.iter().find(|finding| finding.id == "page-alloc-pressure")
}

/// A mapped file that is read again and again, and does not fit.
#[test]
fn a_group_at_its_limit_is_measured_and_found() {
    let name = "reclaim::a_group_at_its_limit_is_measured_and_found";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    let Some(disk) = disk(name) else { return };
    let Some(group) = group(name) else { return };
    let mapped = Workload::build("mapped");
    let script = group.script(&format!("exec {} {} 12", mapped.arg(), disk.file("file")));
    for tracepoints in [false, true] {
        Disk::drop_caches();
        let before = pages_reclaimed_for_limits();
        let args = ["--probes", "cpu,reclaim,page-alloc", "--", "sh", "-ec", &script];
        let run = Running::start(&args, tracepoints).finish();
        let reclaimed = pages_reclaimed_for_limits() - before;
        assert_eq!(run.code(), 0, "{}", run.stderr);
        let touched = run.value("touched");
        let session = run.session();
        assert_attached(&session, "reclaim", if tracepoints { "tracepoint" } else { "tp_btf" });

        // The last pass but what fits stays in no group for long: all of the others was reclaimed.
        let count = |name: &str| counter(&session, "reclaim", name);
        let pages = count("pages freed by memcg reclaim");
        let lost = kept_away(&session, "reclaim");
        assert!(touched == 12 * (FILE << 20) / 4096 && reclaimed > touched / 2, "{touched} {reclaimed}");
        // Other groups may be at their limit, too; and on some kernels pages of the slab count here, and not there.
        assert!(pages <= reclaimed + reclaimed / 50, "{pages} pages measured, {reclaimed} reclaimed");
        assert!(
            lost > 0 || pages + reclaimed / 10 >= reclaimed,
            "{pages} pages measured, {reclaimed} reclaimed"
        );

        // What was counted, timed and put on stacks is the same.
        let probe = session.probe("reclaim").unwrap();
        let phases = count("direct reclaims") + count("memcg reclaims") + count("compactions");
        let ns =
            count("time in direct reclaim") + count("time in memcg reclaim") + count("time in compaction");
        assert_eq!((probe.events, probe.weight), (phases, ns));
        let pending = count("counted after the last stack");
        assert_eq!(session.profile.total(Kind::Reclaim) + pending, probe.weight);

        let finding = pressure(&session).unwrap_or_else(|| panic!("no finding\n{}", run.stdout));
        assert_eq!(finding.confidence, Confidence::Confirmed);
        assert!(finding.severity >= Severity::Warning, "{finding:#?}");
        assert_eq!(finding.about[0], Subject::Cgroup(group.path.clone()));
        assert!(finding.about.contains(&Subject::Process("mapped".to_owned())), "{:?}", finding.about);
        assert_eq!(finding.value("limit"), Some((LIMIT << 20) as f64));
        let paste = finding.advice[0].paste.as_deref().unwrap();
        assert!(paste.ends_with(&group.limit_file.display().to_string()), "{paste}");
    }
}

/// What goes through the page cache once reclaims as much, and is well; and what has the memory it needs does not at all.
#[test]
fn what_is_used_once_and_what_fits_are_well() {
    let name = "reclaim::what_is_used_once_and_what_fits_are_well";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    let Some(disk) = disk(name) else { return };
    let Some(group) = group(name) else { return };
    let mapped = Workload::build("mapped");
    let faults = Workload::build("faults");
    let file = disk.file("file");
    let streaming = group.script(&format!("dd if={file} of=/dev/null bs=128k"));
    let fitting = format!("{} {file} 12; {} 1024 0", mapped.arg(), faults.arg());
    for (script, reclaims) in [(streaming, true), (fitting, false)] {
        Disk::drop_caches();
        let args = ["--probes", "cpu,reclaim,page-alloc", "--", "sh", "-ec", &script];
        let run = Running::start(&args, false).finish();
        assert_eq!(run.code(), 0, "{}", run.stderr);
        let session = run.session();
        assert_eq!(counter(&session, "reclaim", "memcg reclaims") > 0, reclaims, "{script}");
        let worst = pressure(&session).map(|finding| finding.severity);
        assert!(worst.is_none_or(|worst| worst == Severity::Info), "{script}\n{}", run.stdout);
    }
}
