//! What CPU samples tell: which part of allocating pages uses the CPU.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::{
    ABOUT, ALLOCATION, ASKED_FOR, Cause, PART_SAMPLES, PATH_SAMPLES, RECLAIM_SAMPLES, SAMPLES, advice,
};
use crate::diagnose::facts::{Facts, FrameSet, StackView};
use crate::profile::units::{bytes, number};
use crate::profile::{
    Advice, Confidence, Evidence, Finding, FrameId, Impact, Kind, Mark, Resource, Severity, Subject, Unit,
};

/// Where a page is made for a process that has touched memory, or for a new process: allocating it is the work itself.
const FAULTS: &[&str] = &[
    "handle_mm_fault",
    "exc_page_fault",
    "do_user_addr_fault",
    "do_page_fault",
    "asm_exc_page_fault",
    "do_mem_abort",
    "copy_process",
    "dup_mm",
    "bprm_execve",
    "populate_vma_page_range",
];

/// The part that waits for the zone lock, which `spinlock-contention` is about.
const ZONE_LOCK: &str = "zone_lock_samples";

/// Bounce buffers of reads that are amplified: `read-amplification` is about those.
const BOUNCES: &[&str] = &["bch2_bio_alloc_pages_pool", "bch2_bio_alloc_pages"];

const SLOWPATHS: &[&str] =
    &["native_queued_spin_lock_slowpath", "__pv_queued_spin_lock_slowpath", "queued_spin_lock_slowpath"];

/// Functions that take the lock of a zone.
const ZONE: &[&str] = &[
    "rmqueue",
    "rmqueue_bulk",
    "__rmqueue_pcplist",
    "free_pcppages_bulk",
    "free_one_page",
    "free_unref_page_commit",
    "free_frozen_page_commit",
    "get_page_from_freelist",
];

/// Zeroing that init_on_alloc causes; faults and page tables ask for it themselves, through the same function.
const ZEROING: &[&str] = &["kernel_init_pages"];
const PAGE_TABLES: &[&str] =
    &["pte_alloc_one", "__pte_alloc", "__pmd_alloc", "__pud_alloc", "get_zeroed_page"];

/// A part of page allocation, and the samples in it.
struct Part<'f, 's> {
    id: &'static str,
    text: &'static str,
    stacks: Vec<StackView<'f, 's>>,
}

/// Findings of samples; `reclaim` if reclaim was not found otherwise.
pub fn find(facts: &Facts<'_>, reclaim: bool) -> Vec<Finding> {
    let total = facts.total(Kind::Cpu);
    if facts.has_counts() && (total as f64) < SAMPLES.value {
        return Vec::new();
    }
    let bounces = facts.named(BOUNCES);
    let faults = facts.named(FAULTS);
    let asked_for = facts.named(ASKED_FOR);
    let allocation = facts.named(ALLOCATION);
    // What the probe has measured to be little is little.
    if reclaim && facts.probe("reclaim").is_none() {
        let causes: Vec<FrameSet> = Cause::ALL.iter().map(|cause| facts.named(cause.functions())).collect();
        let found: Vec<Finding> = Cause::ALL
            .into_iter()
            .filter_map(|cause| {
                let at = Cause::ALL.iter().position(|other| *other == cause)?;
                let part = Part {
                    id: "reclaim_samples",
                    text: cause.name(),
                    stacks: facts
                        .stacks(Kind::Cpu)
                        .filter(|stack| stack.passes(&causes[at]) && !stack.passes(&asked_for))
                        // Reclaim may compact: a sample counts once.
                        .filter(|stack| !causes[..at].iter().any(|earlier| stack.passes(earlier)))
                        .filter(|stack| !stack.passes(&bounces))
                        .collect(),
                };
                finding(facts, &part, RECLAIM_SAMPLES.value, &allocation, advice(cause, None))
            })
            .collect();
        if !found.is_empty() {
            return found;
        }
    }
    let (slowpaths, zone) = (facts.named(SLOWPATHS), facts.named(ZONE));
    let (zeroing, tables) = (facts.named(ZEROING), facts.named(PAGE_TABLES));
    let select = |wanted: &dyn Fn(StackView<'_, '_>) -> bool| -> Vec<_> {
        facts.stacks(Kind::Cpu).filter(|stack| !stack.passes(&bounces) && wanted(*stack)).collect()
    };
    let lock = Part {
        id: ZONE_LOCK,
        text: "the lock of a memory zone",
        stacks: select(&|stack| stack.passes(&slowpaths) && stack.passes(&zone)),
    };
    let zeroes = Part {
        id: "zeroing_samples",
        text: "zeroing pages (kernel_init_pages)",
        stacks: select(&|stack| stack.passes(&zeroing) && !stack.passes(&faults) && !stack.passes(&tables)),
    };
    let path = Part {
        id: "allocator_samples",
        text: "the page allocator",
        stacks: select(&|stack| stack.passes(&allocation) && !stack.passes(&faults)),
    };
    let parts = [
        (lock, PART_SAMPLES.value, bulk_advice()),
        (zeroes, PART_SAMPLES.value, zeroing_advice()),
        (path, PATH_SAMPLES.value, bulk_advice()),
    ];
    // The narrowest part says most.
    parts
        .into_iter()
        .find_map(|(part, threshold, advice)| finding(facts, &part, threshold, &allocation, advice))
        .into_iter()
        .collect()
}

fn finding(
    facts: &Facts<'_>,
    part: &Part<'_, '_>,
    threshold: f64,
    allocation: &FrameSet,
    advice: Vec<Advice>,
) -> Option<Finding> {
    let weight: u64 = part.stacks.iter().fold(0, |sum, stack| sum.saturating_add(stack.weight()));
    let share = facts.share(Kind::Cpu, weight);
    if share < threshold || weight == 0 {
        return None;
    }
    let process = facts.main_process(part.stacks.iter().copied());
    let mut by_caller: HashMap<FrameId, u64, FxBuildHasher> = HashMap::default();
    for stack in &part.stacks {
        if let Some(caller) = stack.caller_of(allocation) {
            let known = by_caller.entry(caller).or_default();
            *known = known.saturating_add(stack.weight());
        }
    }
    let caller = by_caller
        .into_iter()
        .max_by_key(|(frame, weight)| (*weight, frame.0))
        .map(|(frame, _)| facts.session.profile.frame(frame).qualified().into_owned());

    let mut evidence = vec![Evidence::new(
        part.id,
        share,
        None,
        format!("CPU samples in {}: {:.1} %", part.text, share * 100.0),
    )];
    let pages = facts.probe("page-alloc").map(|probe| probe.weight);
    if let (Some(pages), Some(seconds)) = (pages, facts.seconds()) {
        let per_second = pages as f64 / seconds;
        let text =
            format!("pages allocated: {}/s ({}/s)", number(per_second), bytes(per_second * page_size(facts)));
        evidence.push(Evidence::new("pages_per_second", per_second, Unit::Pages, text));
    }
    // Allocating that many pages goes with it, but is no measure of what it costs.
    let confidence =
        if pages.is_some_and(|pages| pages > 0) { Confidence::Likely } else { Confidence::Suspected };
    let of = caller.as_ref().map_or(String::new(), |caller| format!(" of {caller}"));
    let mut about: Vec<Subject> = caller.iter().map(|caller| Subject::Function(caller.clone())).collect();
    about.extend(process.map(|(process, _)| Subject::Process(process)));
    if part.id == ZONE_LOCK {
        about.push(Subject::Lock("zone.lock".to_owned()));
    }
    Some(Finding {
        id: ABOUT.id.to_owned(),
        title: format!(
            "page allocation{of} takes the CPU: {} has {:.0} % of the samples",
            part.text,
            share * 100.0
        ),
        severity: Severity::Warning,
        confidence,
        impact: Impact { share, of: Resource::CpuTime },
        about,
        evidence,
        why: why(part.id),
        advice,
        marks: caller.into_iter().map(|frame| Mark { kind: Some(Kind::Cpu), frame }).collect(),
    })
}

fn page_size(facts: &Facts<'_>) -> f64 {
    if facts.session.host.page_size == 0 { 4096.0 } else { facts.session.host.page_size as f64 }
}

fn why(part: &str) -> String {
    match part {
        "reclaim_samples" => ABOUT.why.to_owned(),
        "zeroing_samples" => "With init_on_alloc=1 the kernel zeroes every page that it hands out, also those that are \
                              overwritten right after: by data from a device or a socket, say. That takes as long as \
                              writing the page once more."
            .to_owned(),
        _ => "Pages come from lists of each CPU, which are refilled from the zone under its lock, a few dozen pages at a \
              time. A path that takes pages one by one, and gives them back as fast, goes through all of it for each \
              page, and CPUs that do so at the same time wait for each other."
            .to_owned(),
    }
}

fn bulk_advice() -> Vec<Advice> {
    vec![
        Advice::new(
            "Take pages in bulk (alloc_pages_bulk), in larger orders or folios, or keep them in a pool (mempool, \
             page_pool) where a path takes and frees many. A pool keeps memory that others cannot use.",
        ),
        Advice::paste(
            "Let each CPU keep more free pages, at the price of memory that other CPUs cannot use: the value is the \
             part of a zone that CPUs may keep, as one in N, at least 8.",
            "sysctl -w vm.percpu_pagelist_high_fraction=64",
        ),
    ]
}

fn zeroing_advice() -> Vec<Advice> {
    vec![Advice::paste(
        "Boot with init_on_alloc=0. Pages then keep what they held until they are overwritten, so that a bug in the \
         kernel can leak it: the setting is a hardening measure.",
        "init_on_alloc=0",
    )]
}
