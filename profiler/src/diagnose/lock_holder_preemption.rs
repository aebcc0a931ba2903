//! `lock-holder-preemption`: the host takes CPUs away from a guest that hold a spinlock.

use super::facts::Facts;
use super::lock_waits::{PV_SLOWPATH, SPIN_SLOWPATHS, WaitedFor, percent, samples, waited_for};
use super::{About, Pathology, Threshold};
use crate::profile::{
    Advice, Confidence, Evidence, Finding, Histogram, Impact, Kind, LockKind, Mark, Resource, Severity,
    Subject, Unit,
};

/// The pathology.
pub struct LockHolderPreemption;

const STEAL: f64 = 0.03;
const SLOWPATH: f64 = 0.02;
const WARN: f64 = 0.05;
const CRITICAL: f64 = 0.30;
const LONG_NS: u64 = 1 << 19;
const LONG_SHARE: f64 = 0.5;

static ABOUT: About = About {
    id: "lock-holder-preemption",
    title: "the host takes CPUs away from a virtual machine while they hold spinlocks",
    symptom: "In a virtual machine, __pv_queued_spin_lock_slowpath is high in the profile, steal time is not zero, and \
              single waits for a spinlock take milliseconds. The same work on the same kernel is fast on another host.",
    why: "The host runs more virtual CPUs than it has real ones. When it stops one that holds a spinlock, or that is next \
          in line for it, all that wait for the lock wait until the host lets it go on: milliseconds for a lock that is \
          held for less than a microsecond.",
    cures: &[
        "give the guest its own real CPUs: pin its virtual CPUs, or move it to a less crowded host",
        "give the guest fewer virtual CPUs, no more than it can really get",
    ],
    confirmed_by: "probes `cpu` (samples in the slow path) and `lock` (how long single waits take), and the steal time of the guest",
    suspected_by: "",
    thresholds: &[
        Threshold {
            what: "share of CPU time that the host took away",
            value: STEAL,
            reason: "a guest with CPUs of its own has below 1 %: 0.1 to 0.4 % measured; crowded hosts have 5 % and more",
        },
        Threshold {
            what: "share of CPU samples in the spinlock's slow path",
            value: SLOWPATH,
            reason: "with less, the stolen time itself is the greater loss",
        },
        Threshold {
            what: "ns from which on a wait for a spinlock is a long one",
            value: LONG_NS as f64,
            reason: "half a millisecond: no kernel code holds a spinlock for that long; a host's time slice is longer. \
                     In the worst storm measured on CPUs of one's own, the longest of 113 000 waits took 76 us",
        },
        Threshold {
            what: "share of the waiting that is in long waits, to be confirmed",
            value: LONG_SHARE,
            reason: "most of the waiting: the rest would be contention in its own right",
        },
        Threshold {
            what: "share of CPU samples in the slow path, to be a warning",
            value: WARN,
            reason: "with less, nobody notices",
        },
        Threshold {
            what: "the same, to be critical",
            value: CRITICAL,
            reason: "a third of what CPUs the guest does get",
        },
    ],
    explained_by: &[],
};

impl Pathology for LockHolderPreemption {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn find(&self, facts: &Facts<'_>) -> Vec<Finding> {
        find(facts).into_iter().collect()
    }
}

fn find(facts: &Facts<'_>) -> Option<Finding> {
    let steal = facts.session.host.steal.filter(|steal| *steal >= STEAL)?;
    let slow = facts.named(SPIN_SLOWPATHS);
    let in_slowpath = samples(facts, &slow).fold(0u64, |sum, stack| sum.saturating_add(stack.weight()));
    let share = facts.share(Kind::Cpu, in_slowpath);
    let paravirtual = !facts.named(&[PV_SLOWPATH]).is_empty();
    if share < SLOWPATH {
        return None;
    }
    let locks = waited_for(facts, |kind| kind == LockKind::Spin, &slow);
    let long = long_share(&locks);
    let confidence = match long {
        Some(long) if long >= LONG_SHARE => Confidence::Confirmed,
        // The waits were measured, and they are short: that is contention, whatever the host does.
        Some(_) if facts.probe("lock").is_some() && locks.iter().any(|lock| lock.waits > 100) => return None,
        _ if paravirtual => Confidence::Likely,
        _ => Confidence::Suspected,
    };
    let mut evidence = vec![
        Evidence::new(
            "steal",
            steal,
            None,
            format!("the host took {} of the CPU time away (steal)", percent(steal)),
        ),
        Evidence::new(
            "slowpath_share",
            share,
            None,
            format!("CPU samples in the spinlock's slow path: {} of what was left", percent(share)),
        ),
    ];
    if let Some(long) = long {
        let text = format!("{} of the waiting is in waits of over half a millisecond", percent(long));
        evidence.push(Evidence::new("long_waits_share", long, None, text));
    }
    let longest = locks.iter().map(|lock| lock.max_ns).max().unwrap_or(0);
    if longest > 0 {
        let text = format!("the longest wait took {}", crate::profile::units::duration(longest as f64));
        evidence.push(Evidence::new("max", longest as f64, Unit::Nanoseconds, text));
    }
    let top = locks.first();
    evidence.extend(top.into_iter().flat_map(|lock| lock.people_evidence(facts)));
    let severity = match share {
        _ if share >= CRITICAL => Severity::Critical,
        _ if share >= WARN => Severity::Warning,
        _ => Severity::Info,
    };
    let function = if paravirtual { PV_SLOWPATH } else { SPIN_SLOWPATHS[0] };
    let mut about = vec![Subject::Function(function.to_owned())];
    about.extend(locks.iter().filter(|lock| is_long(lock)).flat_map(WaitedFor::about));
    Some(Finding {
        id: ABOUT.id.to_owned(),
        title: format!(
            "{} of the CPU time waits for spinlocks whose holders the host has stopped (steal {})",
            percent(share),
            percent(steal)
        ),
        severity,
        confidence,
        impact: Impact { share, of: Resource::CpuTime },
        about,
        evidence,
        why: ABOUT.why.to_owned(),
        advice: vec![
            Advice::paste(
                "On the host: pin the guest's virtual CPUs to real ones that nothing else uses.",
                "virsh vcpupin GUEST VCPU CPU",
            ),
            Advice::new(
                "Or give the guest fewer virtual CPUs: as many as the host can run at the same time.",
            ),
            Advice::new("Or move the guest: the steal time shows that its host is crowded."),
        ],
        marks: vec![Mark { kind: Some(Kind::Cpu), frame: function.to_owned() }],
    })
}

/// Share of the waiting time that is in long waits, by the middles of the buckets; `None` without waits.
fn long_share(locks: &[WaitedFor<'_>]) -> Option<f64> {
    let mut all = 0.0;
    let mut long = 0.0;
    for lock in locks {
        let (lock_long, lock_all) = long_and_all(lock);
        long += lock_long;
        all += lock_all;
    }
    (all > 0.0).then(|| long / all)
}

fn is_long(lock: &WaitedFor<'_>) -> bool {
    let (long, all) = long_and_all(lock);
    // One that only samples know of is named in the samples.
    all == 0.0 || long >= all * LONG_SHARE
}

fn long_and_all(lock: &WaitedFor<'_>) -> (f64, f64) {
    let mut sums = (0.0, 0.0);
    for (bucket, count) in lock.buckets.iter().enumerate() {
        let start = Histogram::bucket_start(bucket);
        let time = *count as f64 * start as f64 * 1.5;
        sums.1 += time;
        if start >= LONG_NS {
            sums.0 += time;
        }
    }
    sums
}
