//! `sleeping-lock-contention`: tasks sleep for a mutex, rw_semaphore or semaphore that others hold.

use super::facts::Facts;
use super::lock_cures::cures;
use super::lock_waits::{OPTIMISTIC, WaitedFor, busy_ns, percent, waited_for};
use super::{About, Pathology, Threshold};
use crate::profile::{Advice, Confidence, Evidence, Finding, Impact, Kind, LockKind, Resource, Severity};

/// The pathology.
pub struct SleepingLockContention;

const TASKS: f64 = 0.3;
const NOTICE: f64 = 0.15;
const WARN: f64 = 0.30;
const WARN_TASKS: f64 = 0.5;
const CRITICAL: f64 = 0.60;
const CRITICAL_TASKS: f64 = 2.0;
const WAITS: u64 = 20;

static ABOUT: About = About {
    id: "sleeping-lock-contention",
    title: "tasks sleep for a lock that others hold",
    symptom: "More threads do not get more done, yet the CPUs and the disk are partly idle: the threads are in state D, or \
              asleep, in rwsem_down_write_slowpath, __mutex_lock or down.",
    why: "A mutex, rw_semaphore or semaphore is held by one task at a time (or by one writer), for as long as the owner \
          works or itself waits for a disk. The others sleep. What is done under the lock goes no faster than one task \
          can do it, however many there are.",
    cures: &[
        "split what the lock protects: several directories, files, allocation groups, address spaces",
        "do less under it: smaller operations, no synchronous I/O meanwhile",
        "run no more threads than get something done",
    ],
    confirmed_by: "probes `lock` (waits by lock) and `cpu` (what the waiters do meanwhile)",
    suspected_by: "",
    thresholds: &[
        Threshold {
            what: "tasks that wait for one lock at any time, on average, to be mentioned",
            value: TASKS,
            reason: "compiling, a storm of forks, fsync from four threads and tar on 2 CPUs stay below 0.1",
        },
        Threshold {
            what: "share of the time that tasks wait for it, of that and what they run on a CPU, to be mentioned",
            value: NOTICE,
            reason: "with less, the lock limits nothing",
        },
        Threshold {
            what: "the same, to be a warning",
            value: WARN,
            reason: "four threads that create and remove files in one directory reach 60 %",
        },
        Threshold {
            what: "waiting tasks, to be a warning",
            value: WARN_TASKS,
            reason: "below, less than one thread is lost",
        },
        Threshold {
            what: "the share, to be critical",
            value: CRITICAL,
            reason: "most of the time is waiting",
        },
        Threshold {
            what: "waiting tasks, to be critical",
            value: CRITICAL_TASKS,
            reason: "several threads are lost",
        },
        Threshold {
            what: "waits, to be mentioned",
            value: WAITS as f64,
            reason: "one long wait is an accident",
        },
    ],
    explained_by: &[],
};

impl Pathology for SleepingLockContention {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn find(&self, facts: &Facts<'_>) -> Vec<Finding> {
        if facts.probe("lock").is_none() {
            return Vec::new();
        }
        let locks = waited_for(facts, is_sleeping, &facts.named(OPTIMISTIC));
        locks.iter().filter_map(|lock| finding(facts, lock)).collect()
    }
}

/// A mutex that is spun for is one phase of the same wait.
fn is_sleeping(kind: LockKind) -> bool {
    kind == LockKind::MutexSpin || !kind.spins()
}

fn finding(facts: &Facts<'_>, lock: &WaitedFor<'_>) -> Option<Finding> {
    let seconds = facts.seconds()?;
    let waited = lock.total_ns as f64 / 1e9;
    let tasks = waited / seconds;
    // Without samples: of the time that the CPUs could have given.
    let running = busy_ns(facts).map_or(f64::from(facts.session.host.cpus.max(1)) * seconds, |ns| ns / 1e9);
    // Who spins for it runs and waits.
    let spinning = facts.share(Kind::Cpu, lock.samples) * running;
    let share = waited / (waited + (running - spinning).max(0.0));
    if tasks < TASKS || share < NOTICE || lock.waits < WAITS {
        return None;
    }
    let severity = match () {
        () if share >= CRITICAL && tasks >= CRITICAL_TASKS => Severity::Critical,
        () if share >= WARN && tasks >= WARN_TASKS => Severity::Warning,
        () => Severity::Info,
    };
    let mut evidence = vec![
        Evidence::new(
            "waiting_tasks",
            tasks,
            None,
            format!("tasks that wait for it at any time: {tasks:.1} on average"),
        ),
        Evidence::new(
            "waited_share",
            share,
            None,
            format!("of the time that tasks run or wait for it, they wait {}", percent(share)),
        ),
    ];
    evidence.extend(lock.waits_evidence(facts));
    if lock.samples > 0 {
        let share = facts.share(Kind::Cpu, lock.samples);
        let text = format!("part of the waiting is spinning: {} of the CPU samples", percent(share));
        evidence.push(Evidence::new("spinning_share", share, None, text));
    }
    evidence.extend(lock.people_evidence(facts));
    let mut advice = cures(lock.name.as_deref());
    advice.push(Advice::new("Try fewer threads: if as much gets done, they only queue for this lock."));
    Some(Finding {
        id: ABOUT.id.to_owned(),
        title: format!("{tasks:.1} tasks wait for {} at any time", lock.title()),
        severity,
        confidence: Confidence::Confirmed,
        impact: Impact { share, of: Resource::WallTime },
        about: lock.about(),
        evidence,
        why: ABOUT.why.to_owned(),
        advice,
        marks: lock.marks(),
    })
}
