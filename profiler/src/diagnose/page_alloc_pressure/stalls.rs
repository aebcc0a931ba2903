//! What the `reclaim` probe measured: time in reclaim and compaction.

use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxBuildHasher;

use super::{ABOUT, ALLOCATION, ASKED_FOR, Cause, REFAULTS, STALLED, STALLED_CRITICAL, STALLED_NS, advice};
use crate::diagnose::facts::{Facts, StackView, share};
use crate::profile::units::{bytes, duration, number};
use crate::profile::{
    Advice, Confidence, Evidence, Finding, Impact, Kind, Mark, MemoryLimit, Resource, Severity, Subject, Unit,
};

/// Reading and writing files through the page cache. Data that is used once passes through a control group at its
/// limit, which is there to be reclaimed: a higher limit would fill up as well.
const CACHE: &[&str] = &[
    "vfs_read",
    "vfs_write",
    "vfs_iter_read",
    "vfs_iter_write",
    "io_read",
    "io_write",
    "aio_read",
    "aio_write",
];

/// But copying from and to user space may fault.
const FAULTS: &[&str] = &["handle_mm_fault"];

/// Stalls of one cause: of the tasks of one control group if it is a limit, else of all.
#[derive(Default)]
struct Stalls<'f, 's> {
    stacks: Vec<StackView<'f, 's>>,
    ns: u64,
    phases: u64,
    /// ns of these by tasks that read or write files through the page cache.
    cache_ns: u64,
}

/// A finding for each limit, and for each other cause.
pub fn find(facts: &Facts<'_>) -> Vec<Finding> {
    if facts.probe("reclaim").is_none() || !facts.has_counts() {
        return Vec::new();
    }
    let asked_for = facts.named(ASKED_FOR);
    let causes = Cause::ALL.map(|cause| (cause, facts.named(cause.functions())));
    let (cache, faults) = (facts.named(CACHE), facts.named(FAULTS));
    let mut found: BTreeMap<(Cause, Option<&str>), Stalls<'_, '_>> = BTreeMap::new();
    for stack in facts.stacks(Kind::Reclaim).filter(|stack| !stack.passes(&asked_for)) {
        // kswapd's and kcompactd's work ahead stalls nobody: it passes none of these.
        let cause = causes.iter().find(|(_, functions)| stack.passes(functions));
        let Some((cause, _)) = cause else { continue };
        let group = if *cause == Cause::Limit { stack.labels().cgroup.as_deref() } else { None };
        let stalls = found.entry((*cause, group)).or_default();
        stalls.ns = stalls.ns.saturating_add(stack.weight());
        stalls.phases = stalls.phases.saturating_add(stack.stack.count);
        if stack.passes(&cache) && !stack.passes(&faults) {
            stalls.cache_ns = stalls.cache_ns.saturating_add(stack.weight());
        }
        stalls.stacks.push(stack);
    }
    found.into_iter().filter_map(|((cause, group), stalls)| finding(facts, cause, group, &stalls)).collect()
}

fn finding(facts: &Facts<'_>, cause: Cause, group: Option<&str>, stalls: &Stalls<'_, '_>) -> Option<Finding> {
    if (stalls.ns as f64) < STALLED_NS.value {
        return None;
    }
    // Tasks that share a limit and use many CPUs may stall for more than all of the run and be well.
    let run = facts.seconds()? * 1e9;
    let whole = run.max(cpu_time(facts, cause, group, stalls).unwrap_or(0.0));
    let stalled = (stalls.ns as f64 / whole).min(1.0);
    if stalled < STALLED.value {
        return None;
    }
    let turnover = cause == Cause::Limit
        && share(stalls.cache_ns, stalls.ns) >= 0.5
        && refaults(facts).is_none_or(|refaults| refaults < REFAULTS.value);
    let limit = group.and_then(|group| limit_of(facts, group));
    let process = facts.main_process(stalls.stacks.iter().copied());
    let caller = main_caller(facts, stalls);
    let limited = limit.map(|limit| limit.limited.as_str()).or(group);

    let mut about: Vec<Subject> =
        limited.map(|group| Subject::Cgroup(group.to_owned())).into_iter().collect();
    about.extend(process.iter().map(|(process, _)| Subject::Process(process.clone())));
    about.extend(caller.iter().map(|(function, _)| Subject::Function(function.clone())));
    let title = match (cause, limited) {
        (Cause::Limit, Some(group)) => {
            let at = limit.map_or(String::new(), |limit| format!(" of {}", bytes(limit.bytes as f64)));
            format!(
                "the control group {group} is at its memory limit{at}: its tasks reclaim instead of working"
            )
        }
        (Cause::Limit, None) => "tasks reclaim memory for the limit of a control group".to_owned(),
        (Cause::Direct, _) => "free memory is short: tasks reclaim pages themselves".to_owned(),
        (Cause::Compaction, _) => "free memory is in pieces: tasks wait for compaction".to_owned(),
    };
    let severity = match stalled {
        _ if turnover => Severity::Info,
        stalled if stalled >= STALLED_CRITICAL.value => Severity::Critical,
        _ => Severity::Warning,
    };
    Some(Finding {
        id: ABOUT.id.to_owned(),
        title,
        severity,
        confidence: Confidence::Confirmed,
        impact: Impact { share: stalled, of: Resource::WallTime },
        about,
        evidence: evidence(facts, cause, stalls, stalled, limit, process.as_ref(), caller.as_ref()),
        why: if turnover { TURNOVER.to_owned() } else { ABOUT.why.to_owned() },
        advice: if turnover { turnover_advice() } else { advice(cause, limit) },
        marks: marks(facts, cause, caller.as_ref()),
    })
}

/// Pages needed again for each page freed; of the whole machine, as the kernel counts them.
fn refaults(facts: &Facts<'_>) -> Option<f64> {
    let freed = counter(facts, "pages freed by memcg reclaim")?
        + counter(facts, "pages freed by direct reclaim").unwrap_or(0);
    let again = counter(facts, "pages needed again after reclaim (whoever is measured)").unwrap_or(0);
    (freed > 0).then(|| again as f64 / freed as f64)
}

const TURNOVER: &str = "Files are read or written through the page cache, which fills the control group up to its limit. From \
                        there on each new page takes the place of an old one, and the task that wants it looks for that one \
                        itself: control groups have no kswapd. The pages are not needed again, so that a higher limit would \
                        only fill up later.";

fn turnover_advice() -> Vec<Advice> {
    vec![
        Advice::new(
            "Nothing has to be done. If the time matters: drop what is used once (POSIX_FADV_DONTNEED, or RWF_DONTCACHE \
             since 6.14), or go past the page cache with large direct I/O.",
        ),
        Advice::new(
            "For writers, write back early (sync_file_range), so that there are clean pages to reclaim.",
        ),
    ]
}

/// CPU time of the tasks that stalled, in ns: of the group's if it is a limit, else of the processes of these names.
/// `None` where no samples tell.
fn cpu_time(facts: &Facts<'_>, cause: Cause, group: Option<&str>, stalls: &Stalls<'_, '_>) -> Option<f64> {
    let due = facts.possible_samples();
    let cpus = facts.session.host.cpus;
    if due == 0 || cpus == 0 {
        return None;
    }
    let ns_per_sample = facts.session.duration_ns as f64 * f64::from(cpus) / due as f64;
    let stalled: std::collections::HashSet<_> =
        stalls.stacks.iter().map(|stack| stack.labels().pid).collect();
    let samples: u64 = facts
        .stacks(Kind::Cpu)
        .filter(|stack| match cause {
            Cause::Limit => stack.labels().cgroup.as_deref() == group,
            _ => stalled.contains(&stack.labels().pid),
        })
        .map(StackView::weight)
        .sum();
    Some(samples as f64 * ns_per_sample)
}

fn limit_of<'s>(facts: &Facts<'s>, group: &str) -> Option<&'s MemoryLimit> {
    facts.session.host.memory_limits.iter().find(|limit| limit.cgroup == group)
}

/// The function that asks for the pages, and its share of the time.
fn main_caller(facts: &Facts<'_>, stalls: &Stalls<'_, '_>) -> Option<(String, f64)> {
    let allocation = facts.named(ALLOCATION);
    let mut by_caller: HashMap<_, u64, FxBuildHasher> = HashMap::default();
    for stack in &stalls.stacks {
        if let Some(caller) = stack.caller_of(&allocation) {
            *by_caller.entry(caller).or_default() += stack.weight();
        }
    }
    let (caller, ns) = by_caller.into_iter().max_by_key(|(frame, ns)| (*ns, frame.0))?;
    Some((facts.session.profile.frame(caller).qualified().into_owned(), share(ns, stalls.ns)))
}

fn evidence(
    facts: &Facts<'_>,
    cause: Cause,
    stalls: &Stalls<'_, '_>,
    stalled: f64,
    limit: Option<&MemoryLimit>,
    process: Option<&(String, f64)>,
    caller: Option<&(String, f64)>,
) -> Vec<Evidence> {
    let phases = stalls.phases as f64;
    let mean = stalls.ns as f64 / phases.max(1.0);
    let of_run = stalls.ns as f64 / facts.session.duration_ns.max(1) as f64;
    let mut evidence = vec![
        Evidence::new(
            "stalled",
            stalled,
            None,
            format!(
                "time in {}: {} ({:.2} tasks at any time, on average)",
                cause.name(),
                duration(stalls.ns as f64),
                of_run
            ),
        ),
        Evidence::new(
            "stall_count",
            phases,
            Unit::Events,
            format!("times: {}, {} each", number(phases), duration(mean)),
        ),
    ];
    if let Some(limit) = limit {
        let text = format!("the limit: {} in {}", bytes(limit.bytes as f64), limit.file);
        evidence.push(Evidence::new("limit", limit.bytes as f64, Unit::Bytes, text));
    }
    let freed = match cause {
        Cause::Limit => Some("pages freed by memcg reclaim"),
        Cause::Direct => Some("pages freed by direct reclaim"),
        Cause::Compaction => None,
    };
    if let Some(pages) = freed.and_then(|name| counter(facts, name)) {
        let text = format!("{} (of all tasks): {}", freed.unwrap_or_default(), number(pages as f64));
        evidence.push(Evidence::new("pages_freed", pages as f64, Unit::Pages, text));
    }
    if let Some(again) = refaults(facts) {
        let text = format!("pages of the machine that were needed again, for each page freed: {again:.2}");
        evidence.push(Evidence::new("refaults", again, None, text));
    }
    if let Some(wakes) =
        counter(facts, "kswapd wakeups (whoever is measured)").filter(|_| cause == Cause::Direct)
    {
        let text = format!("kswapd woke up {} times", number(wakes as f64));
        evidence.push(Evidence::new("kswapd_wakeups", wakes as f64, Unit::Events, text));
    }
    if let Some((order, part)) = main_order(stalls) {
        let text = format!(
            "of the time, {:.0} % is for blocks of order {order} ({} pages)",
            part * 100.0,
            1u64 << order.min(63)
        );
        evidence.push(Evidence::new("order", f64::from(order), None, text));
    }
    if let Some((process, part)) = process {
        let text = format!("time of {process}: {:.0} %", part * 100.0);
        evidence.push(Evidence::new("process_share", *part, None, text));
    }
    if let Some((function, part)) = caller {
        let text = format!("for pages that {function} asks for: {:.0} %", part * 100.0);
        evidence.push(Evidence::new("caller_share", *part, None, text));
    }
    evidence
}

fn counter(facts: &Facts<'_>, name: &str) -> Option<u64> {
    let counters = &facts.probe("reclaim")?.counters;
    counters.iter().find(|counter| counter.name == name).map(|counter| counter.value)
}

/// The order with most of the time, and its share of the time of which the order is known.
fn main_order(stalls: &Stalls<'_, '_>) -> Option<(u8, f64)> {
    let mut by_order: BTreeMap<u8, u64> = BTreeMap::new();
    for stack in &stalls.stacks {
        if let Some(order) = stack.labels().order {
            *by_order.entry(order).or_default() += stack.weight();
        }
    }
    let total: u64 = by_order.values().sum();
    let (order, ns) = by_order.into_iter().max_by_key(|(_, ns)| *ns)?;
    Some((order, share(ns, total)))
}

/// The entries of reclaim that occur, and who asks for the pages.
fn marks(facts: &Facts<'_>, cause: Cause, caller: Option<&(String, f64)>) -> Vec<Mark> {
    let frames = facts.session.profile.frames();
    let known = cause.functions().iter().filter(|name| frames.iter().any(|frame| &*frame.name == **name));
    known
        .take(1)
        .map(|name| (*name).to_owned())
        .chain(caller.map(|(function, _)| function.clone()))
        .map(|frame| Mark { kind: Some(Kind::Reclaim), frame })
        .collect()
}
