//! `mutex-spinning`: CPUs turn for a sleeping lock, since its owner runs.

use super::facts::Facts;
use super::lock_cures::cures;
use super::lock_waits::{OPTIMISTIC, percent, waited_for};
use super::{About, Pathology, Threshold};
use crate::profile::{Advice, Confidence, Evidence, Finding, Impact, Kind, LockKind, Resource, Severity};

/// The pathology.
pub struct MutexSpinning;

const NOTICE: f64 = 0.05;
const WARN: f64 = 0.15;
const CRITICAL: f64 = 0.50;

static ABOUT: About = About {
    id: "mutex-spinning",
    title: "CPUs turn for a mutex or rw_semaphore instead of doing something else",
    symptom: "The CPUs are busy in osq_lock, mutex_spin_on_owner or rwsem_spin_on_owner, and other work on the machine \
              gets slow as well.",
    why: "Who waits for a mutex or rw_semaphore does not sleep as long as the owner runs on another CPU, in the hope \
          that it is released soon; the waiters queue up in osq_lock. Where the lock is held for long or by many in \
          turn, this burns as many CPUs as there are waiters, for nothing.",
    cures: &[
        "hold the lock for less time, or take it less often",
        "split what it protects: several files, directories, pipes, address spaces",
        "run fewer threads: those that spin get nothing done",
    ],
    confirmed_by: "probes `cpu` (samples in the spinning functions) and `lock` (names the lock)",
    suspected_by: "a share of samples in osq_lock, mutex_spin_on_owner, rwsem_spin_on_owner",
    thresholds: &[
        Threshold {
            what: "share of CPU samples that spin for one lock, to be mentioned",
            value: NOTICE,
            reason: "compiling and a storm of forks stay below 1 %; spinning for short times is what saves a sleep",
        },
        Threshold {
            what: "the same, to be a warning",
            value: WARN,
            reason: "eight threads that create files in one directory reach 10 to 20 % on 2 CPUs",
        },
        Threshold {
            what: "the same, to be critical",
            value: CRITICAL,
            reason: "every second CPU does nothing",
        },
    ],
    explained_by: &[],
};

impl Pathology for MutexSpinning {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn find(&self, facts: &Facts<'_>) -> Vec<Finding> {
        let spinning = facts.named(OPTIMISTIC);
        if spinning.is_empty() {
            return Vec::new();
        }
        let locks = waited_for(facts, is_sleeping, &spinning);
        locks.iter().filter(|lock| lock.samples > 0).filter_map(|lock| {
            let share = facts.share(Kind::Cpu, lock.samples);
            let severity = match share {
                _ if share >= CRITICAL => Severity::Critical,
                _ if share >= WARN => Severity::Warning,
                _ if share >= NOTICE => Severity::Info,
                _ => return None,
            };
            let counts = if facts.has_counts() {
                format!(" ({} of {})", lock.samples, facts.total(Kind::Cpu))
            } else {
                String::new()
            };
            let text = format!("CPU samples that spin for it: {}{counts}", percent(share));
            let mut evidence = vec![Evidence::new("spinning_share", share, None, text)];
            evidence.extend(lock.waits_evidence(facts));
            evidence.extend(lock.people_evidence(facts));
            let mut advice = cures(lock.name.as_deref());
            advice.push(Advice::new(
                "Run fewer threads that need it: those that spin take CPU time from others and make nothing faster.",
            ));
            let measured = facts.probe("cpu").is_some();
            Some(Finding {
                id: ABOUT.id.to_owned(),
                title: format!(
                    "{} of the CPU time is spent spinning for {}, a lock that one could sleep for",
                    percent(share),
                    lock.title()
                ),
                severity,
                confidence: if measured { Confidence::Confirmed } else { Confidence::Suspected },
                impact: Impact { share, of: Resource::CpuTime },
                about: lock.about(),
                evidence,
                why: ABOUT.why.to_owned(),
                advice,
                marks: lock.marks(),
            })
        })
        .collect()
    }
}

fn is_sleeping(kind: LockKind) -> bool {
    kind == LockKind::MutexSpin || !kind.spins()
}
