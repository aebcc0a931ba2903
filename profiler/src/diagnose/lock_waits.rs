//! Who waits for which lock, from everything that tells: the lock probe's table and stacks, and CPU samples
//! in functions that wait.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxBuildHasher;

use super::facts::{Facts, FrameSet, StackView, share};
use super::lock_table::{LockClass, is_primitive, lock_of, sites_of};
use crate::profile::histogram::quantile_below;
use crate::profile::units;
use crate::profile::{Evidence, FrameId, Kind, LockKind, Mark, Subject, Unit};

/// Functions in which a CPU turns for a spinlock or an rwlock.
pub const SPIN_SLOWPATHS: &[&str] = &[
    "native_queued_spin_lock_slowpath",
    PV_SLOWPATH,
    "queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
];

/// The spinlock's slow path in guests that tell the host when they wait.
pub const PV_SLOWPATH: &str = "__pv_queued_spin_lock_slowpath";

/// Functions in which a CPU turns for a mutex or rw_semaphore, since its owner runs.
pub const OPTIMISTIC: &[&str] = &[
    "osq_lock",
    "mutex_spin_on_owner",
    "mutex_optimistic_spin",
    "rwsem_spin_on_owner",
    "rwsem_optimistic_spin",
];

/// Waiters that are named.
const WAITERS: usize = 3;

/// Locks of one name, or the one at an address, that somebody waited for.
pub struct WaitedFor<'s> {
    /// Its name; `None` if neither its address nor its callers tell.
    pub name: Option<String>,
    /// Its address, where it has no name but that is known.
    pub address: Option<u64>,
    /// How many locks have this name.
    pub locks: usize,
    /// Waits that the lock probe counted.
    pub waits: u64,
    /// Time of these, ns.
    pub total_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// Waits by log2 of their ns.
    pub buckets: Vec<u64>,
    /// CPU samples of those who wait for it.
    pub samples: u64,
    /// The functions that wait, with their shares of the time, most first.
    pub takers: Vec<Taker<'s>>,
    /// The thread name that waits most, and its share.
    pub process: Option<(String, f64)>,
}

/// A function that waits for a lock.
pub struct Taker<'s> {
    /// Its name, made comparable.
    pub name: &'s str,
    /// Its name as the source had it.
    pub frame: &'s str,
    /// Its share of the waiting, 0 to 1.
    pub share: f64,
}

/// What tells locks apart.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Name(String),
    Address(u64),
    /// Nothing but the function that takes it.
    Unknown,
}

#[derive(Default)]
struct Group {
    locks: usize,
    waits: u64,
    total_ns: u64,
    max_ns: u64,
    buckets: Vec<u64>,
    samples: u64,
    takers_ns: BTreeMap<FrameId, u64>,
    takers_samples: BTreeMap<FrameId, u64>,
    processes: BTreeMap<String, u64>,
}

/// The locks of the kinds that are `wanted`, with the CPU samples that pass through `waiting`; those waited
/// for longest come first.
pub fn waited_for<'s>(
    facts: &Facts<'s>,
    wanted: impl Fn(LockKind) -> bool,
    waiting: &FrameSet,
) -> Vec<WaitedFor<'s>> {
    let mut groups: BTreeMap<Key, Group> = BTreeMap::new();
    let mut keys: HashMap<u64, Key, FxBuildHasher> = HashMap::default();
    for lock in facts.session.locks.iter().filter(|lock| wanted(lock.kind)) {
        let key = lock.name.clone().map_or(Key::Address(lock.address), Key::Name);
        let known = keys.insert(lock.address, key.clone()).is_some();
        let group = groups.entry(key).or_default();
        // One that is waited for in two ways, as a reader and as a writer, is one.
        group.locks += usize::from(!known);
        group.waits = group.waits.saturating_add(lock.waits);
        group.total_ns = group.total_ns.saturating_add(lock.total_ns);
        group.max_ns = group.max_ns.max(lock.max_ns);
        group.buckets.resize(group.buckets.len().max(lock.buckets.len()), 0);
        for (sum, count) in group.buckets.iter_mut().zip(&lock.buckets) {
            *sum = sum.saturating_add(*count);
        }
    }
    // What a function was seen to wait for, with the time.
    let mut seen: HashMap<FrameId, BTreeMap<Key, u64>, FxBuildHasher> = HashMap::default();
    for stack in facts.stacks(Kind::LockWait).filter(|stack| stack.labels().lock_kind.is_some_and(&wanted)) {
        let Some(key) = stack.labels().lock.and_then(|lock| keys.get(&lock)) else { continue };
        let group = groups.entry(key.clone()).or_default();
        add_process(group, stack);
        if let Some(taker) = taker_of(facts, stack) {
            *group.takers_ns.entry(taker).or_default() += stack.weight();
            *seen.entry(taker).or_default().entry(key.clone()).or_default() += stack.weight();
        }
    }
    for stack in samples(facts, waiting) {
        let taker = taker_of(facts, stack);
        let by_probe = taker.and_then(|taker| seen.get(&taker)?.iter().max_by_key(|(_, ns)| **ns));
        let key = match by_probe {
            Some((key, _)) => key.clone(),
            None => class_of(stack)
                .and_then(|class| lock_of(class, stack.names().rev()))
                .map_or(Key::Unknown, |name| Key::Name(name.to_owned())),
        };
        let group = groups.entry(key).or_default();
        group.samples = group.samples.saturating_add(stack.weight());
        add_process(group, stack);
        if let Some(taker) = taker {
            *group.takers_samples.entry(taker).or_default() += stack.weight();
        }
    }
    let mut waited: Vec<_> = groups.into_iter().map(|(key, group)| finish(facts, key, group)).collect();
    waited.sort_by_key(|lock| Reverse((lock.total_ns, lock.samples)));
    waited
}

/// CPU samples that wait in one of these functions. What eBPF programs on the lock's tracepoints take is
/// the profiler's own, and no waiting.
pub fn samples<'f, 's>(
    facts: &'f Facts<'s>,
    waiting: &'f FrameSet,
) -> impl Iterator<Item = StackView<'f, 's>> {
    facts.stacks(Kind::Cpu).filter(|stack| {
        let mut after = stack.frames().skip_while(|frame| !waiting.contains(*frame)).peekable();
        after.peek().is_some() && !after.any(|frame| facts.name(frame).starts_with("bpf_"))
    })
}

fn add_process(group: &mut Group, stack: StackView<'_, '_>) {
    if let Some(comm) = &stack.labels().comm {
        let weight = group.processes.entry(comm.to_string()).or_default();
        *weight = weight.saturating_add(stack.weight());
    }
}

/// The function that takes the lock which this stack waits for.
fn taker_of(facts: &Facts<'_>, stack: StackView<'_, '_>) -> Option<FrameId> {
    stack.frames().rev().find(|frame| !is_primitive(facts.name(*frame)))
}

/// The class of the lock that a sampled stack waits for.
fn class_of(stack: StackView<'_, '_>) -> Option<LockClass> {
    stack.names().rev().take_while(|name| is_primitive(name)).find_map(|name| {
        Some(match name {
            _ if name.starts_with("queued_read") || name.starts_with("queued_write") => LockClass::Rwlock,
            _ if name.contains("spin_lock") => LockClass::Spin,
            _ if name.starts_with("rwsem") || name.starts_with("down_") => LockClass::Rwsem,
            _ if name.contains("mutex") => LockClass::Mutex,
            _ => return None,
        })
    })
}

fn finish<'s>(facts: &Facts<'s>, key: Key, group: Group) -> WaitedFor<'s> {
    // Enough samples tell better: two CPUs that fight for a lock do not queue, which the probe does not see.
    const ENOUGH: u64 = 50;
    let by_samples = group.samples >= ENOUGH || group.takers_ns.is_empty();
    let takers = if by_samples { group.takers_samples } else { group.takers_ns };
    let total = takers.values().fold(0u64, |sum, weight| sum.saturating_add(*weight));
    let session = facts.session;
    let taker = |(frame, weight): (FrameId, u64)| Taker {
        name: facts.name(frame),
        frame: &session.profile.frames()[frame.0 as usize].name,
        share: share(weight, total),
    };
    let mut takers: Vec<Taker<'s>> = takers.into_iter().map(taker).collect();
    takers.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.name.cmp(b.name)));
    let everybody = group.processes.values().fold(0u64, |sum, weight| sum.saturating_add(*weight));
    let process = group.processes.into_iter().max_by_key(|(_, weight)| *weight);
    let (name, address) = match key {
        Key::Name(name) => (Some(name), None),
        Key::Address(address) => (None, Some(address)),
        Key::Unknown => (None, None),
    };
    WaitedFor {
        name,
        address,
        locks: group.locks,
        waits: group.waits,
        total_ns: group.total_ns,
        max_ns: group.max_ns,
        buckets: group.buckets,
        samples: group.samples,
        takers,
        process: process.map(|(name, weight)| (name, share(weight, everybody))),
    }
}

impl WaitedFor<'_> {
    /// For a title: the name, else the address.
    pub fn title(&self) -> String {
        match (&self.name, self.address, self.takers.first()) {
            (Some(name), ..) => name.clone(),
            (None, Some(address), _) => format!("the lock at {address:#x}"),
            (None, None, Some(taker)) => format!("a lock that {} takes", taker.name),
            (None, None, None) => "locks that the profile does not tell apart".to_owned(),
        }
    }

    /// What a finding about it is about: the lock, then who waits.
    pub fn about(&self) -> Vec<Subject> {
        let lock = match (&self.name, self.address, self.takers.first()) {
            (Some(name), ..) => Subject::Lock(name.clone()),
            (None, Some(address), _) => Subject::Lock(format!("{address:#x}")),
            (None, None, Some(taker)) => Subject::Function(taker.name.to_owned()),
            (None, None, None) => Subject::Function("spinlock slow path".to_owned()),
        };
        let process = self.process.as_ref().map(|(name, _)| Subject::Process(name.clone()));
        std::iter::once(lock).chain(process).collect()
    }

    /// Where to point: at those who wait most.
    pub fn marks(&self) -> Vec<Mark> {
        let takers = self.takers.iter().take(WAITERS);
        takers.map(|taker| Mark { kind: None, frame: taker.frame.to_owned() }).collect()
    }

    /// How many waits there were, how long they took; nothing where no probe counted them.
    pub fn waits_evidence(&self, facts: &Facts<'_>) -> Vec<Evidence> {
        if self.waits == 0 {
            return Vec::new();
        }
        let rate = facts.seconds().map(|seconds| self.waits as f64 / seconds);
        let rate = rate.map(|rate| format!(" ({}/s)", units::number(rate))).unwrap_or_default();
        let locks =
            if self.locks > 1 { format!(" for {} locks of this name", self.locks) } else { String::new() };
        let ns = |ns: u64| units::duration(ns as f64);
        let mut evidence = vec![
            Evidence::new(
                "waits",
                self.waits as f64,
                Unit::Events,
                format!("waits: {}{rate}{locks}", units::grouped(self.waits)),
            ),
            Evidence::new(
                "waited",
                self.total_ns as f64,
                Unit::Nanoseconds,
                format!("time waited, all tasks together: {}", ns(self.total_ns)),
            ),
        ];
        for (name, q, words) in [("p50", 0.5, "half of the waits"), ("p99", 0.99, "99 % of the waits")] {
            if let Some(below) = quantile_below(&self.buckets, q).map(|below| below.min(self.max_ns)) {
                let text = format!("{words} took less than {}", ns(below));
                evidence.push(Evidence::new(name, below as f64, Unit::Nanoseconds, text));
            }
        }
        let text = format!("the longest took {}", ns(self.max_ns));
        evidence.push(Evidence::new("max", self.max_ns as f64, Unit::Nanoseconds, text));
        evidence
    }

    /// Who waits, and who else takes the lock.
    pub fn people_evidence(&self, facts: &Facts<'_>) -> Vec<Evidence> {
        let mut evidence = Vec::new();
        let top = &self.takers[..self.takers.len().min(WAITERS)];
        if let Some(first) = top.first() {
            let names: Vec<String> =
                top.iter().map(|taker| format!("{} {}", taker.name, percent(taker.share))).collect();
            let text = format!("who waits: {}", names.join(", "));
            evidence.push(Evidence::new("top_waiter", first.share, None, text));
        }
        let others = self.other_sites(facts);
        if !others.is_empty() {
            let text = format!("other functions here that take it: {}", others.join(", "));
            evidence.push(Evidence::new("other_sites", others.len() as f64, None, text));
        }
        if let Some((name, share)) = &self.process {
            let text = format!("{} of the waiting is done by {name}", percent(*share));
            evidence.push(Evidence::new("process", *share, None, text));
        }
        evidence
    }

    /// Functions of this session that take the lock, besides those that wait most.
    fn other_sites(&self, facts: &Facts<'_>) -> Vec<String> {
        const MOST: usize = 6;
        let is_top = |site: &str| self.takers.iter().take(WAITERS).any(|taker| taker.name == site);
        let waiting = self.takers.iter().skip(WAITERS).map(|taker| taker.name.to_owned());
        let by_table = self.name.as_deref().into_iter().flat_map(sites_of);
        let known = by_table.filter(|site| !facts.named(&[site]).is_empty()).map(str::to_owned);
        let mut sites: Vec<String> = Vec::new();
        for site in waiting.chain(known) {
            if !is_top(&site) && !sites.contains(&site) {
                sites.push(site);
            }
        }
        sites.truncate(MOST);
        sites
    }
}

/// CPU time of what was measured, ns; `None` where that is not known.
pub fn busy_ns(facts: &Facts<'_>) -> Option<f64> {
    let possible = facts.possible_samples();
    let all = facts.session.duration_ns as f64 * f64::from(facts.session.host.cpus);
    let busy = share(facts.total(Kind::Cpu), possible) * all;
    (busy > 0.0).then_some(busy)
}

/// `share` for people: `45.1 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
