//! Waits for locks: every wait that begins ends or still goes on, spinning is kept apart from sleeping, and locks
//! that are fought for are found and named.

mod common;

use std::time::Duration;

use common::{
    Running, Workload, assert_attached, counter, exclusive, is_root, kept_away, lost, lost_weights, weight_of,
};
use profiler::profile::{Confidence, Finding, Kind, LockKind, Measure, NamedBy, Session, Subject};

const THREADS: u64 = 8;
const SECONDS: u64 = 2;

/// `threads` of a program contend as `how` says; the measurement must add up.
fn measure(how: &str, tracepoints: bool) -> Session {
    let locks = Workload::build("locks");
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (threads, seconds) = (THREADS.to_string(), SECONDS.to_string());
    let program = locks.arg();
    let folder = folder.path().to_str().unwrap();
    let args = ["--probes", "lock", "--", &program, how, &threads, &seconds, folder];
    let run = Running::start(&args, tracepoints).finish();
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let session = run.session();
    assert_attached(&session, "lock", if tracepoints { "tracepoint" } else { "tp_btf" });
    check(&session);
    session
}

/// Waits of locks that are `wanted`, and the time of all.
fn waits(session: &Session, wanted: impl Fn(LockKind) -> bool) -> (u64, u64) {
    let locks = session.locks.iter().filter(|lock| wanted(lock.kind));
    locks.fold((0, 0), |(waits, ns), lock| (waits + lock.waits, ns + lock.total_ns))
}

fn is_mutex(kind: LockKind) -> bool {
    matches!(kind, LockKind::Mutex | LockKind::MutexSpin)
}

fn check(session: &Session) {
    let probe = session.probe("lock").unwrap();
    let begun = counter(session, "lock", "waits begun");
    let going_on = counter(session, "lock", "waits that still went on");
    // Measured from the first instruction on, so no wait has begun before. A page fault or an interrupt may be in a
    // wait while the tracepoints are attached, though: never many.
    let lost_events = kept_away(session, "lock");
    assert!(counter(session, "lock", "waits that had begun before") <= 2 + lost_events);
    assert_eq!(lost(session, "lock", "no room in the map of waits"), 0);

    // Each wait makes one event when it ends; a mutex also when it turns from spinning to sleeping and back.
    let ended = begun - going_on;
    let (mutex_phases, _) = waits(session, is_mutex);
    assert!(probe.events >= ended, "{begun} begun, {going_on} go on, {} ended", probe.events);
    assert!(
        probe.events <= ended + mutex_phases + lost_events,
        "{begun} begun, {going_on} go on, {} ended",
        probe.events
    );

    // Three ways to count: by probe, by lock, by kind.
    let by_lock = waits(session, |_| true);
    if session.locks.len() < 1000 {
        assert_eq!(by_lock, (probe.events, probe.weight));
    }
    let histograms = session.histograms.iter().filter(|hist| hist.measure == Measure::LockWait);
    let by_kind = histograms.fold((0, 0), |(waits, ns), hist| {
        let of_kind = self::waits(session, |kind| Some(kind) == hist.lock_kind);
        assert_eq!(of_kind, (hist.count, hist.sum), "{:?}", hist.lock_kind);
        (waits + hist.count, ns + hist.sum)
    });
    assert_eq!(by_kind, (probe.events, probe.weight));
    for lock in &session.locks {
        assert_eq!(lock.buckets.iter().sum::<u64>(), lock.waits, "{lock:?}");
        assert!(lock.max_ns <= lock.total_ns && lock.max_ns <= session.duration_ns, "{lock:?}");
    }
    // And by stack.
    let pending = counter(session, "lock", "counted after the last stack");
    assert_eq!(lost_weights(session, "lock"), 0);
    assert_eq!(session.profile.total(Kind::LockWait) + pending, probe.weight);
    for stack in session.profile.of_kind(Kind::LockWait) {
        let labels = session.profile.labels(stack.labels);
        assert!(labels.lock.is_some() && labels.lock_kind.is_some(), "{labels:?}");
    }

    // Nobody waits longer than it runs, with the main thread as one more, and no CPU spins longer.
    let (_, ns) = by_lock;
    assert!(ns > 0 && ns <= (THREADS + 1) * session.duration_ns, "waited {:?}", Duration::from_nanos(ns));
    let (_, spun) = waits(session, LockKind::spins);
    let cpu_time = u64::from(session.host.cpus) * session.duration_ns;
    assert!(spun <= cpu_time, "spun {:?}", Duration::from_nanos(spun));
}

/// Opening and closing files of one process: the spinlock of its file table.
#[test]
fn spinning_waits_add_up() {
    if !is_root("lock::spinning_waits_add_up") {
        return;
    }
    let _turn = exclusive();
    for tracepoints in [false, true] {
        let session = measure("spin", tracepoints);
        let (spins, spun) = waits(&session, |kind| kind == LockKind::Spin);
        let (_, all) = waits(&session, |_| true);
        // Two CPUs alone mostly wait for each other without queueing, which no tracepoint shows.
        if session.host.cpus > 2 || spins > 100 {
            assert!(spun > all / 2, "{spun} ns of {all} spun");
            assert!(weight_of(&session, Kind::LockWait, "_raw_spin_lock") > spun / 2);
        }
        let hottest =
            session.locks.iter().filter(|lock| lock.kind == LockKind::Spin).map(|lock| lock.waits).max();
        assert!(
            hottest.unwrap_or(0) * 10 >= spins * 9,
            "the file table is the one lock: {hottest:?} of {spins}"
        );
    }
}

/// Making and removing files in one folder: its rw_semaphore, on which threads sleep.
#[test]
fn sleeping_waits_add_up() {
    if !is_root("lock::sleeping_waits_add_up") {
        return;
    }
    let _turn = exclusive();
    for tracepoints in [false, true] {
        let session = measure("sleep", tracepoints);
        let (sleeps, slept) = waits(&session, |kind| kind == LockKind::RwsemWrite);
        let (_, all) = waits(&session, |_| true);
        // How many there are depends on what else the machine does; nearly all of the waiting is theirs.
        assert!(sleeps >= 10, "{sleeps} waits for a rw_semaphore");
        assert!(
            slept > all / 2,
            "slept {:?} of {:?}",
            Duration::from_nanos(slept),
            Duration::from_nanos(all)
        );
        assert!(weight_of(&session, Kind::LockWait, "rwsem_down_write_slowpath") > slept / 2);
        for stack in session.profile.of_kind(Kind::LockWait) {
            let kind = session.profile.labels(stack.labels).lock_kind.unwrap();
            let frames: Vec<_> = common::frames(&session, stack).map(|frame| &*frame.name).collect();
            if frames.contains(&"rwsem_down_write_slowpath")
                && frames.last() == Some(&"rwsem_down_write_slowpath")
            {
                assert_eq!(kind, LockKind::RwsemWrite, "{frames:?}");
            }
        }
    }
}

/// What is wrong with a run of the workload, with all that detectors want to know.
fn findings(how: &str) -> (Session, Vec<Finding>) {
    let locks = Workload::build("locks");
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (threads, seconds) = (THREADS.to_string(), SECONDS.to_string());
    let program = locks.arg();
    let folder = folder.path().to_str().unwrap();
    let args =
        ["--probes", "lock,cpu", "--frequency", "499", "--", &program, how, &threads, &seconds, folder];
    let run = Running::start(&args, false).finish();
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let mut session = run.session();
    let findings = std::mem::take(&mut session.findings);
    (session, findings)
}

/// Opening, closing and searching one table of files in all threads; then the same work on a table for each thread.
#[test]
fn a_spinlock_that_is_fought_for_is_found_and_named() {
    if !is_root("lock::a_spinlock_that_is_fought_for_is_found_and_named") {
        return;
    }
    let _turn = exclusive();
    let (session, found) = findings("storm");
    let lock = session.locks.iter().max_by_key(|lock| lock.total_ns).unwrap();
    assert_eq!(lock.name.as_deref(), Some("files_struct.file_lock"), "{lock:?}");
    // By its address where the kernel says where its pages are, else by those who wait.
    assert!(matches!(lock.named_by, Some(NamedBy::SlabMember | NamedBy::Caller)), "{lock:?}");
    let finding = found.iter().find(|finding| finding.id == "spinlock-contention");
    let finding = finding.unwrap_or_else(|| panic!("{lock:?}\n{found:#?}"));
    assert_eq!(finding.confidence, Confidence::Confirmed);
    assert_eq!(finding.about[0], Subject::Lock("files_struct.file_lock".to_owned()));
    assert!(finding.about.contains(&Subject::Process("locks".to_owned())));
    assert!(finding.marks.iter().any(|mark| weight_of(&session, Kind::LockWait, &mark.frame) > 0));

    let (_, found) = findings("private");
    assert_eq!(found, [], "on data of their own, the same threads wait for nothing");
}
