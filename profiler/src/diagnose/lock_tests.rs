//! Tests of the detectors of locks, which look at the same facts.

use super::diagnose;
use crate::profile::session::{SHARES_TOTAL, Weights};
use crate::profile::{
    Confidence, Finding, Histogram, Kind, Labels, LockKind, LockStat, NamedBy, Probe, ProbeState, Resource,
    Session, Severity, Source, Subject,
};
use crate::testing::{kernel, push};

/// A second on ten CPUs, at 100 Hz.
fn live() -> Session {
    let mut session = Session::new(Source::Live);
    session.duration_ns = 1_000_000_000;
    session.host.cpus = 10;
    session.host.steal = Some(0.002);
    let attached = || ProbeState::Attached { rung: "tp_btf".to_owned(), to: Vec::new(), notes: Vec::new() };
    session.probes = vec![
        Probe { state: attached(), due: 1000, ..Probe::off("cpu", Some(Kind::Cpu)) },
        Probe { state: attached(), ..Probe::off("lock", Some(Kind::LockWait)) },
    ];
    session
}

/// CPU samples of a stack, outermost first.
fn samples(session: &mut Session, frames: &[&str], weight: u64) {
    let labels = session.profile.intern_labels(Labels { comm: Some("server".into()), ..Labels::default() });
    let frames: Vec<_> = frames.iter().map(|name| kernel(name)).collect();
    push(&mut session.profile, Kind::Cpu, labels, &frames, weight);
}

/// Waits of one length for a lock, seen at `taker`.
fn waits(session: &mut Session, lock: (u64, Option<&str>, LockKind), taker: &str, count: u64, ns: u64) {
    let (address, name, kind) = lock;
    let mut buckets = vec![0; Histogram::bucket_of(ns) + 1];
    buckets[Histogram::bucket_of(ns)] = count;
    session.locks.push(LockStat {
        address,
        name: name.map(str::to_owned),
        named_by: name.map(|_| NamedBy::SlabMember),
        kind,
        waits: count,
        total_ns: count * ns,
        max_ns: ns,
        buckets,
    });
    let labels = Labels {
        comm: Some("server".into()),
        lock: Some(address),
        lock_kind: Some(kind),
        ..Labels::default()
    };
    let labels = session.profile.intern_labels(labels);
    let frames = ["do_syscall_64", taker, if kind.spins() { "_raw_spin_lock" } else { "down_write" }];
    push(&mut session.profile, Kind::LockWait, labels, &frames.map(kernel), count * ns);
}

/// A flat profile that somebody has posted: shares and no callers.
fn flat(lines: &[(&str, f64)]) -> Session {
    let mut session = Session::new(Source::Imported { format: "text".to_owned() });
    session.weights = Weights::Shares;
    let labels = session.profile.intern_labels(Labels::default());
    let mut left = SHARES_TOTAL;
    for (name, percent) in lines {
        let weight = (percent / 100.0 * SHARES_TOTAL as f64) as u64;
        left -= weight;
        push(&mut session.profile, Kind::Cpu, labels, &[kernel(name)], weight);
    }
    push(&mut session.profile, Kind::Cpu, labels, &[], left);
    session
}

fn ids(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.id.as_str()).collect()
}

fn lock(name: &str) -> Subject {
    Subject::Lock(name.to_owned())
}

#[test]
fn a_flat_profile_is_enough_to_suspect_spinlocks() {
    let findings = diagnose(&flat(&[
        ("__pv_queued_spin_lock_slowpath", 13.90),
        ("do_raw_spin_lock", 3.76),
        ("__raw_callee_save___pv_queued_spin_unlock", 2.51),
        ("xfs_agino_range [xfs]", 2.75),
    ]));
    assert_eq!(ids(&findings), ["spinlock-contention"]);
    let finding = &findings[0];
    assert_eq!((finding.severity, finding.confidence), (Severity::Warning, Confidence::Suspected));
    assert!((finding.impact.share - 0.139).abs() < 1e-6);
    assert!((finding.value("lock_functions_share").unwrap() - 0.0627).abs() < 1e-6);
    assert!(finding.evidence.iter().any(|evidence| evidence.text.contains("not known")));
    assert_eq!(finding.marks[0].frame, "__pv_queued_spin_lock_slowpath");
    assert!(!finding.title.contains("files_struct"));

    let some = diagnose(&flat(&[
        ("__pv_queued_spin_lock_slowpath", 5.31),
        ("do_raw_spin_lock", 2.7),
        ("__raw_callee_save___pv_queued_spin_unlock", 3.8),
    ]));
    assert_eq!(some[0].severity, Severity::Info);
    for little in [0.2, 0.6, 2.9] {
        assert_eq!(diagnose(&flat(&[("native_queued_spin_lock_slowpath", little)])), []);
    }
    // Taking locks that are free costs time as well, and is no contention.
    assert_eq!(diagnose(&flat(&[("do_raw_spin_lock", 9.0), ("_raw_spin_lock", 9.0)])), []);
}

#[test]
fn callers_name_the_lock_of_an_imported_profile() {
    let mut session = Session::new(Source::Imported { format: "perf.data".to_owned() });
    let slow = ["_raw_spin_lock_irqsave", "native_queued_spin_lock_slowpath"];
    samples(&mut session, &[&["vfs_read", "rmqueue_bulk"], &slow[..]].concat(), 40);
    samples(&mut session, &[&["exit_mmap", "free_pcppages_bulk.isra.0"], &slow[..]].concat(), 20);
    samples(&mut session, &["vfs_read", "rmqueue_bulk"], 40);
    let findings = diagnose(&session);
    // And no page-alloc-pressure: that the zone lock is fought for explains it.
    assert_eq!(ids(&findings), ["spinlock-contention"]);
    let finding = &findings[0];
    assert_eq!((finding.severity, finding.confidence), (Severity::Critical, Confidence::Suspected));
    assert_eq!(finding.about, [lock("zone.lock"), Subject::Process("server".to_owned())]);
    assert_eq!(finding.marks[0].frame, "rmqueue_bulk");
    assert_eq!(finding.value("slowpath_share"), Some(0.6));
    assert!(finding.advice[0].paste.as_deref().unwrap().contains("percpu_pagelist_high_fraction"));
}

#[test]
fn waits_that_were_measured_confirm() {
    let mut session = live();
    samples(&mut session, &["do_syscall_64", "vfs_read"], 500);
    let files = (1, Some("files_struct.file_lock"), LockKind::Spin);
    // A fifth of the five CPUs' worth of time that is used.
    waits(&mut session, files, "alloc_fd", 100_000, 10_000);
    waits(&mut session, (2, Some("zone.lock"), LockKind::Spin), "rmqueue", 10, 10_000);
    samples(&mut session, &["do_syscall_64", "file_close_fd"], 1);
    let findings = diagnose(&session);
    assert_eq!(ids(&findings), ["spinlock-contention"]);
    let finding = &findings[0];
    assert_eq!((finding.severity, finding.confidence), (Severity::Warning, Confidence::Confirmed));
    assert_eq!(finding.about[0], lock("files_struct.file_lock"));
    assert!((finding.impact.share - 0.2).abs() < 0.001);
    assert_eq!(finding.impact.of, Resource::CpuTime);
    for (name, value) in [("waits", 1e5), ("waited", 1e9), ("p50", 1e4), ("p99", 1e4), ("max", 1e4)] {
        assert_eq!(finding.value(name), Some(value), "{name}");
    }
    let others = finding.evidence.iter().find(|evidence| evidence.name == "other_sites").unwrap();
    assert!(others.text.ends_with("file_close_fd"), "{}", others.text);
}

#[test]
fn two_cpus_that_fight_show_in_samples_only() {
    let mut session = live();
    samples(&mut session, &["do_syscall_64", "vfs_read"], 500);
    samples(&mut session, &["dup", "alloc_fd", "_raw_spin_lock", "native_queued_spin_lock_slowpath"], 400);
    // The profiler's own work there is none.
    let own = ["dup", "alloc_fd", "_raw_spin_lock", "native_queued_spin_lock_slowpath", "bpf_trace_run2"];
    samples(&mut session, &own, 100);
    let findings = diagnose(&session);
    assert_eq!(findings[0].about[0], lock("files_struct.file_lock"));
    assert_eq!(findings[0].confidence, Confidence::Confirmed);
    assert_eq!(findings[0].impact.share, 0.4);
}

#[test]
fn sleeping_for_a_lock_is_another_thing_than_spinning() {
    let mut session = live();
    samples(&mut session, &["do_syscall_64", "xfs_remove [xfs]"], 100);
    // Three tasks wait at any time, for one of four buffers; one runs.
    for address in 1..5 {
        let buffer = (address, Some("xfs_buf.b_sema"), LockKind::Semaphore);
        waits(&mut session, buffer, "xfs_buf_lock [xfs]", 500, 1_500_000);
    }
    let findings = diagnose(&session);
    assert_eq!(ids(&findings), ["sleeping-lock-contention"]);
    let finding = &findings[0];
    assert_eq!((finding.severity, finding.confidence), (Severity::Critical, Confidence::Confirmed));
    assert_eq!(finding.about[0], lock("xfs_buf.b_sema"));
    assert_eq!(finding.impact.of, Resource::WallTime);
    assert_eq!(finding.impact.share, 0.75);
    assert_eq!(finding.value("waiting_tasks"), Some(3.0));
    assert!(finding.evidence.iter().any(|evidence| evidence.text.contains("4 locks")));
    assert!(finding.advice[0].paste.as_deref().unwrap().contains("agcount"));

    // The same on a machine that has much else to do, and one long wait.
    let mut busy = session.clone();
    busy.duration_ns *= 20;
    assert_eq!(diagnose(&busy), []);
    let mut once = live();
    waits(&mut once, (1, None, LockKind::Mutex), "something", 1, 900_000_000);
    assert_eq!(diagnose(&once), []);
}

#[test]
fn spinning_for_a_mutex_has_its_own_finding() {
    let mut session = live();
    samples(&mut session, &["do_syscall_64", "vfs_read"], 500);
    samples(&mut session, &["path_openat", "down_write", "rwsem_down_write_slowpath", "osq_lock"], 300);
    samples(
        &mut session,
        &["vfs_write", "pipe_write", "__mutex_lock.constprop.0", "mutex_spin_on_owner"],
        50,
    );
    let findings = diagnose(&session);
    assert_eq!(ids(&findings), ["mutex-spinning", "mutex-spinning"]);
    assert_eq!(findings[0].about[0], lock("inode.i_rwsem"));
    assert_eq!(findings[0].severity, Severity::Warning);
    assert_eq!(findings[1].about[0], lock("pipe_inode_info.mutex"));
    assert_eq!(findings[1].severity, Severity::Info);
    assert_eq!(diagnose(&flat(&[("osq_lock", 3.0)])), []);
    assert_eq!(diagnose(&flat(&[("osq_lock", 30.0)]))[0].confidence, Confidence::Suspected);
}

#[test]
fn a_host_that_stops_the_holder_is_told_from_contention() {
    let guest = |steal: Option<f64>, ns: u64, count: u64| {
        let mut session = live();
        session.host.steal = steal;
        samples(&mut session, &["do_syscall_64", "vfs_read"], 500);
        samples(&mut session, &["dup", "alloc_fd", "_raw_spin_lock", "__pv_queued_spin_lock_slowpath"], 500);
        waits(&mut session, (1, Some("files_struct.file_lock"), LockKind::Spin), "alloc_fd", count, ns);
        diagnose(&session)
    };
    // Milliseconds for a spinlock, and stolen time.
    let preempted = guest(Some(0.2), 4_000_000, 1000);
    assert_eq!(ids(&preempted), ["lock-holder-preemption"]);
    assert_eq!(preempted[0].confidence, Confidence::Confirmed);
    assert_eq!(preempted[0].severity, Severity::Critical);
    assert_eq!(preempted[0].value("steal"), Some(0.2));
    assert_eq!(preempted[0].value("long_waits_share"), Some(1.0));
    // Stolen time, but the waits are those of a fight.
    assert_eq!(ids(&guest(Some(0.2), 2_000, 1_000_000)), ["spinlock-contention"]);
    // No stolen time, or none that is known.
    assert_eq!(ids(&guest(Some(0.01), 4_000_000, 1000)), ["spinlock-contention"]);
    assert_eq!(ids(&guest(None, 4_000_000, 1000)), ["spinlock-contention"]);
    // Waits so long that somebody must have stopped the guest: half of the samples are not all the lock's fault.
    let stopped = guest(None, 60_000_000, 10);
    assert_eq!((ids(&stopped), stopped[0].severity), (vec!["spinlock-contention"], Severity::Warning));
    assert!(stopped[0].value("stopped_share").is_some());
}

#[test]
fn waits_for_stopped_holders_count_against_all_cpus() {
    // With interrupts off they show in the probe only.
    let emulated = |cpu_samples: u64, count: u64| {
        let mut session = live();
        session.host.steal = None;
        samples(&mut session, &["do_syscall_64", "vfs_read"], cpu_samples);
        waits(&mut session, (1, Some("zone.lock"), LockKind::Spin), "free_one_page", count, 10_000_000);
        diagnose(&session)
    };
    // Of the ten seconds that ten CPUs have in one.
    let busy = emulated(1000, 700);
    assert_eq!((ids(&busy), busy[0].severity), (vec!["spinlock-contention"], Severity::Warning));
    assert_eq!(busy[0].impact.share, 0.7);
    assert_eq!(emulated(1000, 200)[0].severity, Severity::Info);
    // As long as all that an idle machine does, and still nothing.
    assert_eq!(emulated(60, 60), []);
}

#[test]
fn on_an_idle_machine_a_few_waits_are_no_contention() {
    let mut session = live();
    samples(&mut session, &["do_syscall_64", "vfs_read"], 10);
    samples(&mut session, &["dup", "alloc_fd", "_raw_spin_lock", "native_queued_spin_lock_slowpath"], 2);
    samples(&mut session, &["path_openat", "down_write", "rwsem_down_write_slowpath", "osq_lock"], 2);
    waits(&mut session, (1, Some("rq.__lock"), LockKind::Spin), "__schedule", 2, 60_000_000);
    assert_eq!(diagnose(&session), []);
}

#[test]
fn a_busy_healthy_machine_has_no_lock_findings() {
    let mut session = live();
    samples(&mut session, &["do_syscall_64", "vfs_read"], 990);
    samples(&mut session, &["dup", "alloc_fd", "_raw_spin_lock", "native_queued_spin_lock_slowpath"], 6);
    samples(&mut session, &["path_openat", "down_write", "rwsem_down_write_slowpath", "osq_lock"], 4);
    waits(&mut session, (1, None, LockKind::Spin), "alloc_fd", 10_000, 2_000);
    waits(&mut session, (2, Some("inode.i_rwsem"), LockKind::RwsemWrite), "do_unlinkat", 200, 1_000_000);
    assert_eq!(diagnose(&session), []);
}
