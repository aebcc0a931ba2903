use super::*;
use crate::profile::{
    Confidence, Counter, Kind, Labels, Probe, ProbeState, Session, Severity, Source, Subject, Unit, Weights,
};
use crate::testing::{bcachefs_profile, kernel, push};

/// What this pathology alone finds.
fn diagnose(session: &Session) -> Vec<Finding> {
    PageAllocPressure.find(&Facts::new(session))
}

const SECOND: u64 = 1_000_000_000;

/// Ten seconds of two CPUs, with the `reclaim` probe.
fn session() -> Session {
    let mut session = Session::new(Source::Live);
    session.duration_ns = 10 * SECOND;
    session.host.cpus = 2;
    session.host.page_size = 4096;
    let mut cpu = attached("cpu", Kind::Cpu);
    cpu.due = 2000;
    session.probes = vec![cpu, attached("reclaim", Kind::Reclaim)];
    session.host.memory_limits = vec![MemoryLimit {
        cgroup: "/db/worker".to_owned(),
        limited: "/db".to_owned(),
        file: "/sys/fs/cgroup/db/memory.max".to_owned(),
        bytes: 64 << 20,
    }];
    session
}

fn attached(name: &str, kind: Kind) -> Probe {
    let state = ProbeState::Attached { rung: "tp_btf".to_owned(), to: Vec::new(), notes: Vec::new() };
    Probe { state, ..Probe::off(name, Some(kind)) }
}

fn add(session: &mut Session, kind: Kind, comm: &str, order: Option<u8>, frames: &[&str], weight: u64) {
    let labels = session.profile.intern_labels(Labels {
        comm: Some(comm.into()),
        pid: Some(7),
        cgroup: Some("/db/worker".into()),
        order,
        ..Labels::default()
    });
    let frames: Vec<_> = frames.iter().map(|name| kernel(name)).collect();
    push(&mut session.profile, kind, labels, &frames, weight);
}

const FAULT: &[&str] = &[
    "asm_exc_page_fault",
    "handle_mm_fault",
    "filemap_fault",
    "page_cache_ra_unbounded",
    "filemap_add_folio",
    "__mem_cgroup_charge",
    "try_charge_memcg",
    "try_to_free_mem_cgroup_pages",
];
const BUFFERED: &[&str] = &[
    "vfs_read",
    "filemap_read",
    "page_cache_ra_order",
    "filemap_add_folio",
    "try_charge_memcg",
    "try_to_free_mem_cgroup_pages",
];
const DIRECT: &[&str] = &[
    "handle_mm_fault",
    "do_anonymous_page",
    "alloc_pages_mpol_noprof",
    "__alloc_frozen_pages_noprof",
    "try_to_free_pages",
];
const COMPACTION: &[&str] = &[
    "do_huge_pmd_anonymous_page",
    "vma_alloc_folio_noprof",
    "__alloc_frozen_pages_noprof",
    "try_to_compact_pages",
    "compact_zone",
];

fn stalls(frames: &[&str], order: Option<u8>, ns: u64) -> Session {
    let mut session = session();
    add(&mut session, Kind::Reclaim, "postgres", order, frames, ns);
    session
}

#[test]
fn a_group_at_its_limit_is_named_with_the_file_to_raise() {
    let findings = diagnose(&stalls(FAULT, Some(0), 2 * SECOND));
    let finding = &findings[0];
    assert_eq!((findings.len(), finding.severity), (1, Severity::Warning));
    assert_eq!((finding.id.as_str(), finding.confidence), ("page-alloc-pressure", Confidence::Confirmed));
    assert!(finding.title.contains("/db is at its memory limit of 64.0 MiB"), "{}", finding.title);
    assert_eq!(finding.about[0], Subject::Cgroup("/db".to_owned()));
    assert!(finding.about.contains(&Subject::Process("postgres".to_owned())));
    assert_eq!(finding.value("stalled"), Some(0.2));
    assert_eq!(finding.value("limit"), Some(67_108_864.0));
    assert_eq!(finding.advice[0].paste.as_deref(), Some("echo 134217728 > /sys/fs/cgroup/db/memory.max"));
    assert_eq!(finding.marks[0].frame, "try_to_free_mem_cgroup_pages");
    assert_eq!(finding.marks[1].frame, "page_cache_ra_unbounded");
}

#[test]
fn thresholds_of_stalls_decide() {
    let severity = |ns| diagnose(&stalls(DIRECT, Some(0), ns)).first().map(|finding| finding.severity);
    assert_eq!(severity(SECOND - 1), None);
    assert_eq!(severity(SECOND), Some(Severity::Warning));
    assert_eq!(severity(5 * SECOND - 1), Some(Severity::Warning));
    assert_eq!(severity(5 * SECOND), Some(Severity::Critical));
    // All of a short run.
    let short = |ns| {
        let mut session = stalls(DIRECT, Some(0), ns);
        session.duration_ns = ns;
        diagnose(&session).len()
    };
    assert_eq!((short(99_999_999), short(100_000_000)), (0, 1));
}

#[test]
fn many_busy_tasks_may_stall_for_longer_than_the_run() {
    let mut session = stalls(FAULT, Some(0), SECOND);
    session.host.cpus = 64;
    session.probes[0].due = 64_000;
    assert_eq!(diagnose(&session).len(), 1);
    // 20 s of CPU time, of 10 ms each: the second is 5 % of it.
    add(&mut session, Kind::Cpu, "postgres", None, &["vfs_read"], 2000);
    assert_eq!(diagnose(&session), []);
}

#[test]
fn the_page_caches_turnover_is_no_pathology() {
    let session = |frames, freed, again| {
        let mut session = stalls(frames, Some(0), 4 * SECOND);
        let counter = |name: &str, value| Counter { name: name.to_owned(), unit: Unit::Pages, value };
        session.probes[1].counters = vec![
            counter("pages freed by memcg reclaim", freed),
            counter("pages needed again after reclaim (whoever is measured)", again),
        ];
        diagnose(&session)[0].severity
    };
    assert_eq!(session(BUFFERED, 1000, 299), Severity::Info);
    assert_eq!(session(BUFFERED, 1000, 300), Severity::Warning);
    assert_eq!(session(FAULT, 1000, 0), Severity::Warning);
}

#[test]
fn reclaim_that_somebody_asked_for_or_that_is_ahead_is_none() {
    for frames in [
        &["vfs_write", "mem_cgroup_resize_max", "try_to_free_mem_cgroup_pages"][..],
        &["vfs_write", "memory_reclaim", "try_to_free_mem_cgroup_pages"],
        &["kthread", "kcompactd", "compact_zone"],
        &["sysctl_compaction_handler", "compact_node", "compact_zone"],
    ] {
        assert_eq!(diagnose(&stalls(frames, None, 9 * SECOND)), [], "{frames:?}");
    }
}

#[test]
fn compaction_says_for_which_order() {
    let mut session = stalls(COMPACTION, None, SECOND);
    add(&mut session, Kind::Reclaim, "java", Some(9), DIRECT, 2 * SECOND);
    let findings = diagnose(&session);
    let titles: Vec<&str> = findings.iter().map(|finding| finding.title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "free memory is short: tasks reclaim pages themselves",
            "free memory is in pieces: tasks wait for compaction"
        ]
    );
    assert_eq!(findings[0].value("order"), Some(9.0));
    assert!(findings[1].advice[0].paste.as_deref().unwrap().contains("transparent_hugepage/defrag"));
}

/// `weight` of 1000 CPU samples in `frames`; without the probe.
fn samples(frames: &[&str], weight: u64) -> Session {
    let mut session = session();
    session.probes.truncate(1);
    add(&mut session, Kind::Cpu, "fio", None, frames, weight);
    add(&mut session, Kind::Cpu, "fio", None, &["vfs_read", "copy_to_iter"], 1000 - weight);
    session
}

#[test]
fn samples_alone_are_suspicious() {
    for (frames, threshold, evidence) in [
        (DIRECT, 100, "reclaim_samples"),
        (COMPACTION, 100, "reclaim_samples"),
        (FAULT, 100, "reclaim_samples"),
        (
            &[
                "skb_page_frag_refill",
                "__alloc_pages",
                "get_page_from_freelist",
                "rmqueue",
                "native_queued_spin_lock_slowpath",
            ][..],
            100,
            "zone_lock_samples",
        ),
        (
            &["filemap_read", "__alloc_pages", "post_alloc_hook", "kernel_init_pages", "clear_page_erms"],
            100,
            "zeroing_samples",
        ),
        (
            &["tun_build_skb", "alloc_pages_noprof", "__alloc_frozen_pages_noprof", "get_page_from_freelist"],
            400,
            "allocator_samples",
        ),
    ] {
        let findings = diagnose(&samples(frames, threshold));
        assert_eq!(findings.len(), 1, "{frames:?}");
        assert_eq!(findings[0].confidence, Confidence::Suspected);
        assert_eq!(findings[0].value(evidence), Some(threshold as f64 / 1000.0));
        assert_eq!(diagnose(&samples(frames, threshold - 1)), [], "{frames:?}");
    }
}

#[test]
fn what_the_probe_measured_to_be_little_is_not_suspected() {
    let mut session = samples(DIRECT, 300);
    session.probes.push(attached("reclaim", Kind::Reclaim));
    assert_eq!(diagnose(&session), []);
}

#[test]
fn faults_forks_and_bounces_are_somebody_elses_work() {
    for frames in [
        &["asm_exc_page_fault", "handle_mm_fault", "do_anonymous_page", "__alloc_pages", "kernel_init_pages"]
            [..],
        &["copy_process", "dup_mm", "pte_alloc_one", "__alloc_pages", "kernel_init_pages", "clear_page_rep"],
        &["bch2_read", "bch2_bio_alloc_pages_pool", "__alloc_pages", "kernel_init_pages"],
        &["kthread", "kswapd", "balance_pgdat", "shrink_node"],
    ] {
        assert_eq!(diagnose(&samples(frames, 900)), [], "{frames:?}");
    }
}

#[test]
fn read_amplification_is_not_reported_as_its_symptom() {
    let mut session = Session::new(Source::Imported { format: "call tree".to_owned() });
    session.profile = bcachefs_profile();
    assert!(PageAllocPressure.find(&Facts::new(&session)).is_empty());
}

#[test]
fn shares_are_enough_and_few_samples_are_not() {
    let mut session = Session::new(Source::Live);
    add(&mut session, Kind::Cpu, "fio", None, DIRECT, 99);
    assert_eq!(diagnose(&session), []);
    session.weights = Weights::Shares;
    assert_eq!(diagnose(&session).len(), 1);
}

#[test]
fn paths_from_outside_are_quoted() {
    assert_eq!(quoted("/sys/fs/cgroup/a b'c/memory.max"), r"'/sys/fs/cgroup/a b'\''c/memory.max'");
}
