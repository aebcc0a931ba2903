//! `spinlock-contention`: CPUs turn for a spinlock that others hold.

use super::facts::{Facts, share};
use super::lock_cures::cures;
use super::lock_holder_preemption::LONG_NS;
use super::lock_waits::{
    ENOUGH_SAMPLES, PV_SLOWPATH, SPIN_SLOWPATHS, WaitedFor, busy_ns, percent, sampled_share, samples,
    waited_for,
};
use super::{About, Pathology, Threshold};
use crate::profile::{
    Advice, Confidence, Evidence, Finding, Histogram, Impact, Kind, LockKind, Mark, Resource, Severity,
    Subject,
};

/// The pathology.
pub struct SpinlockContention;

const NOTICE: f64 = 0.03;
const WARN: f64 = 0.10;
const CRITICAL: f64 = 0.40;
const WAITS: u64 = 50;
/// Time for which a spinlock is held at the very most, by kernel code that runs: tens of microseconds are long.
const TURN_NS: u64 = 100_000;

static ABOUT: About = About {
    id: "spinlock-contention",
    title: "CPUs wait for a spinlock that others hold",
    symptom: "More threads do not get more done, or even less, while the CPUs are busy in the kernel: \
              native_queued_spin_lock_slowpath, or __pv_queued_spin_lock_slowpath in a virtual machine, is high in \
              the profile.",
    why: "A spinlock is held by one CPU at a time, and the others turn in a loop until it is their turn. The more CPUs \
          want it, the more of their time is lost, and the slower the holder gets, too, as the lock's cache line moves \
          between CPUs.",
    cures: &[
        "take the lock less often: batch, cache, or keep what it hands out",
        "split what it protects: several processes, directories, file systems, memory control groups",
        "run fewer threads, or keep them on one socket",
    ],
    confirmed_by: "probes `lock` (waits by lock) and `cpu` (samples in the slow path)",
    suspected_by: "a share of samples in *_queued_*_lock_slowpath",
    thresholds: &[
        Threshold {
            what: "share of the measured CPU time that is lost to one lock, to be mentioned",
            value: NOTICE,
            reason: "parallel compiling, a storm of forks, fsync from four threads and tar stay below 1 % on 2 CPUs, removing \
                     trees on XFS in parallel at 0.2 to 0.6 % on 4",
        },
        Threshold {
            what: "the same, to be a warning",
            value: WARN,
            reason: "a tenth of the CPUs is worth a change; four threads that open and close files reach 91 % on 4 CPUs",
        },
        Threshold {
            what: "the same, to be critical",
            value: CRITICAL,
            reason: "close to half of the CPUs: another thread then makes it slower",
        },
        Threshold {
            what: "waits of a lock, for their time to count",
            value: WAITS as f64,
            reason: "an idle guest under emulation had two waits of 60 ms, and next to no other CPU time to compare them with",
        },
        Threshold {
            what: "samples in the slow path, for their share to count",
            value: ENOUGH_SAMPLES as f64,
            reason: "one or two samples of thirty are an accident",
        },
    ],
    explained_by: &["lock-holder-preemption"],
};

impl Pathology for SpinlockContention {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn find(&self, facts: &Facts<'_>) -> Vec<Finding> {
        let slow = facts.named(SPIN_SLOWPATHS);
        let locks = waited_for(facts, is_spinlock, &slow);
        let found: Vec<Finding> = locks.iter().filter_map(|lock| finding(facts, lock)).collect();
        if found.is_empty() { whole(facts, &locks).into_iter().collect() } else { found }
    }
}

fn is_spinlock(kind: LockKind) -> bool {
    matches!(kind, LockKind::Spin | LockKind::RwlockRead | LockKind::RwlockWrite)
}

/// CPU time that goes into waiting for a lock.
struct Lost {
    /// Share of the CPU time, by samples.
    sampled: f64,
    /// Share of the CPU time, by the probe's clock, without waits during which a host (or emulator) must have stopped
    /// the holder. `None`: too few waits to tell.
    waited: Option<f64>,
    /// All waits, stopped holders or not, as a share of the time of all CPUs, idle or not.
    of_all: f64,
}

impl Lost {
    fn of(facts: &Facts<'_>, samples: u64, waits: u64, time: Waited) -> Self {
        let running = 1.0 - share(time.stopped_ns, time.total_ns);
        let waited = busy_ns(facts).map(|busy| (time.total_ns as f64 * running / busy).min(1.0));
        let all = facts.session.duration_ns as f64 * f64::from(facts.session.host.cpus);
        let enough = waits >= WAITS;
        Self {
            sampled: sampled_share(facts, samples),
            waited: waited.filter(|_| enough),
            of_all: if enough && all > 0.0 { (time.total_ns as f64 / all).min(1.0) } else { 0.0 },
        }
    }

    /// How bad it is, and the share of CPU time that says so. Samples or clock, the greater counts: samples do not see
    /// waits with interrupts off, the probe does not see two CPUs that fight without queueing.
    ///
    /// Where most of the waiting is for holders that were stopped, the lock is only a part of it: then it takes more
    /// for the same. And then the waits are held against the time of all CPUs, since on an idle machine a few of them
    /// are as long as all its work.
    fn severity(&self, time: Waited) -> Option<(Severity, f64)> {
        let share = self.sampled.max(self.waited.unwrap_or(0.0));
        if time.mostly_stopped() {
            let share = share.max(self.of_all);
            return match share {
                _ if share >= CRITICAL => Some((Severity::Warning, share)),
                _ if share >= WARN => Some((Severity::Info, share)),
                _ => None,
            };
        }
        match share {
            _ if share >= CRITICAL => Some((Severity::Critical, share)),
            _ if share >= WARN => Some((Severity::Warning, share)),
            _ if share >= NOTICE => Some((Severity::Info, share)),
            _ => None,
        }
    }
}

/// Time of waits, and how much of it is in waits that are so long that the holder cannot have been running.
#[derive(Clone, Copy, Default)]
struct Waited {
    total_ns: u64,
    stopped_ns: u64,
}

impl Waited {
    fn of(facts: &Facts<'_>, lock: &WaitedFor<'_>) -> Self {
        // Waiters queue: with many CPUs, each turn may be short and the last one's wait long.
        let long = LONG_NS.max(TURN_NS * u64::from(facts.session.host.cpus));
        let long = lock.buckets.iter().enumerate().skip(Histogram::bucket_of(long));
        let stopped = long.fold(0u64, |sum, (bucket, count)| {
            sum.saturating_add(count.saturating_mul(Histogram::bucket_start(bucket)).saturating_mul(3) / 2)
        });
        Self { total_ns: lock.total_ns, stopped_ns: stopped.min(lock.total_ns) }
    }

    fn mostly_stopped(self) -> bool {
        share(self.stopped_ns, self.total_ns) >= 0.5
    }

    /// The sentence that says so.
    fn evidence(self) -> Option<Evidence> {
        let part = share(self.stopped_ns, self.total_ns);
        self.mostly_stopped().then(|| {
            let text = format!(
                "{} of the waiting is in waits so long that the holder cannot have run all the time: a host may have \
                 stopped it, which makes this lock a lesser matter than the figures say",
                percent(part)
            );
            Evidence::new("stopped_share", part, None, text)
        })
    }

    fn add(self, other: Self) -> Self {
        Self {
            total_ns: self.total_ns.saturating_add(other.total_ns),
            stopped_ns: self.stopped_ns.saturating_add(other.stopped_ns),
        }
    }
}

/// Whether probes saw it happen, or only somebody else's profile shows it.
fn confidence(facts: &Facts<'_>) -> Confidence {
    if facts.probe("lock").or(facts.probe("cpu")).is_some() {
        Confidence::Confirmed
    } else {
        Confidence::Suspected
    }
}

fn finding(facts: &Facts<'_>, lock: &WaitedFor<'_>) -> Option<Finding> {
    let time = Waited::of(facts, lock);
    let lost = Lost::of(facts, lock.samples, lock.waits, time);
    let (severity, share) = lost.severity(time)?;
    // Nothing is known of the lock: see `whole`.
    if lock.takers.is_empty() && lock.name.is_none() && lock.address.is_none() {
        return None;
    }
    let mut evidence = sample_evidence(facts, lock.samples, lost.sampled);
    if let Some(waited) = lost.waited.filter(|_| !time.mostly_stopped()) {
        let text = format!("waits measured by the lock probe: {} of the CPU time", percent(waited));
        evidence.push(Evidence::new("waited_share", waited, None, text));
    }
    evidence.extend(lock.waits_evidence(facts));
    evidence.extend(lock.people_evidence(facts));
    evidence.extend(time.evidence());
    evidence.extend(paravirtual(facts));
    let mut advice = cures(lock.name.as_deref());
    advice.extend(general());
    Some(Finding {
        id: ABOUT.id.to_owned(),
        title: format!("{} of the CPU time is spent turning for {}", percent(share), lock.title()),
        severity,
        confidence: confidence(facts),
        impact: Impact { share, of: Resource::CpuTime },
        about: lock.about(),
        evidence,
        why: ABOUT.why.to_owned(),
        advice,
        marks: lock.marks(),
    })
}

/// A profile without callers, or many locks that share the waiting.
fn whole(facts: &Facts<'_>, locks: &[WaitedFor<'_>]) -> Option<Finding> {
    let slow = facts.named(SPIN_SLOWPATHS);
    let in_slowpath = samples(facts, &slow).fold(0u64, |sum, stack| sum.saturating_add(stack.weight()));
    let time = locks.iter().fold(Waited::default(), |sum, lock| sum.add(Waited::of(facts, lock)));
    let waits = locks.iter().fold(0u64, |sum, lock| sum.saturating_add(lock.waits));
    let lost = Lost::of(facts, in_slowpath, waits, time);
    let (severity, share) = lost.severity(time)?;
    let known = facts.session.profile.frames().iter().map(|frame| super::normalize(&frame.name));
    let function = known
        .filter(|name| SPIN_SLOWPATHS.contains(name))
        .max_by_key(|name| facts.through(Kind::Cpu, &facts.named(&[name])))
        .unwrap_or(SPIN_SLOWPATHS[0]);
    let mut evidence = sample_evidence(facts, in_slowpath, lost.sampled);
    let around = facts.ending_in(Kind::Cpu, &facts.matching(|name, _| is_around(name)));
    if around > 0 {
        let share = facts.share(Kind::Cpu, around);
        let text = format!("samples in taking and releasing spinlocks, besides: {}", percent(share));
        evidence.push(Evidence::new("lock_functions_share", share, None, text));
    }
    evidence.extend(paravirtual(facts));
    let several = locks.iter().filter(|lock| lock.waits > 0).count();
    let title = if several > 1 {
        format!("{} of the CPU time is spent turning for spinlocks, of {several} locks", percent(share))
    } else {
        format!("{} of the CPU time is spent in {function}, turning for spinlocks", percent(share))
    };
    let mut advice = vec![Advice::paste(
        "This does not tell which lock it is: measure on the machine itself, with the lock probe and callers.",
        "profiler attach --probes lock,cpu --duration 30s",
    )];
    advice.extend(general());
    Some(Finding {
        id: ABOUT.id.to_owned(),
        title,
        severity,
        confidence: confidence(facts),
        impact: Impact { share, of: Resource::CpuTime },
        about: vec![Subject::Function(function.to_owned())],
        evidence,
        why: ABOUT.why.to_owned(),
        advice,
        marks: vec![Mark { kind: Some(Kind::Cpu), frame: function.to_owned() }],
    })
}

/// Functions that touch a spinlock's cache line without being its slow path.
fn is_around(name: &str) -> bool {
    name.starts_with("_raw_spin_")
        || name.starts_with("do_raw_spin_")
        || matches!(name, "__pv_queued_spin_unlock" | "native_queued_spin_unlock")
}

fn sample_evidence(facts: &Facts<'_>, samples: u64, sampled: f64) -> Vec<Evidence> {
    if samples == 0 {
        return Vec::new();
    }
    let counts = if facts.has_counts() {
        format!(" ({samples} of {})", facts.total(Kind::Cpu))
    } else {
        String::new()
    };
    let text = format!("CPU samples in the slow path: {}{counts}", percent(sampled));
    vec![Evidence::new("slowpath_share", sampled, None, text)]
}

/// In a guest, waiting may be the host's doing.
fn paravirtual(facts: &Facts<'_>) -> Option<Evidence> {
    let slow = facts.through(Kind::Cpu, &facts.named(&[PV_SLOWPATH]));
    if slow == 0 {
        return None;
    }
    let share = share(slow, facts.total(Kind::Cpu));
    let steal = match facts.session.host.steal {
        Some(steal) => format!("the host took {} of the CPU time away", percent(steal)),
        None => "whether the host takes CPUs away (steal time) is not known".to_owned(),
    };
    let text = format!("it is the paravirtual slow path of a virtual machine ({}); {steal}", percent(share));
    Some(Evidence::new("paravirtual_share", share, None, text))
}

fn general() -> [Advice; 1] {
    [Advice::new(
        "Try fewer threads or CPUs for this work: if the throughput stays or grows, the lock is what limits it.",
    )]
}
