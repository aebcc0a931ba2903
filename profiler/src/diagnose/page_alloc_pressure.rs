//! `page-alloc-pressure`: tasks work for free memory instead of for themselves.

mod cpu;
mod stalls;
#[cfg(test)]
mod tests;

use super::facts::Facts;
use super::{About, Pathology, Threshold};
use crate::profile::{Advice, Finding, MemoryLimit};

/// See [`ABOUT`].
pub struct PageAllocPressure;

const STALLED: Threshold = Threshold {
    what: "time in reclaim and compaction, as a share of the run or of the CPU time of these tasks, if that is more",
    value: 0.1,
    reason: "a compiler in a tenth of the memory it needs has 0.34, readers of a mapped file of 8 times the memory limit \
             0.14; random buffered reads of 4 times the limit 0.02, tar through a limit 0.01, machines with free \
             memory 0",
};

const STALLED_CRITICAL: Threshold = Threshold {
    what: "the same, for a critical finding",
    value: 0.5,
    reason: "most of what the tasks could do is lost",
};

const STALLED_NS: Threshold = Threshold {
    what: "time in reclaim and compaction, ns",
    value: 1e8,
    reason: "a burst of less than 100 ms is over before anybody looks, and a share of a short run says little",
};

const REFAULTS: Threshold = Threshold {
    what: "pages needed again for each page freed, where the time is spent for reading and writing files",
    value: 0.3,
    reason: "files that are read or written once have 0.00, a file of 4 times the limit that is read again and again 1.0; \
             below it is the turnover of the page cache, worth no more than a remark",
};

const RECLAIM_SAMPLES: Threshold = Threshold {
    what: "share of the CPU samples in direct reclaim and compaction, where no probe measured them",
    value: 0.1,
    reason: "as for the measured time, of which the samples see the part that uses a CPU; healthy loads have 0 to 0.02",
};

const PART_SAMPLES: Threshold = Threshold {
    what: "share of the CPU samples in the zone lock, or in zeroing pages that the kernel then overwrites",
    value: 0.1,
    reason: "file and network loads on kernels that do not zero (init_on_alloc=0) have 0, forks and faults up to 0.02 of \
             the zone lock",
};

const PATH_SAMPLES: Threshold = Threshold {
    what: "share of the CPU samples in the page allocator, page faults, fork and exec left out",
    value: 0.4,
    reason: "what allocates a page for each page it handles has up to 0.19 (writing to a tmpfs, to pipes, to the page \
             cache); twice that is more than handing out pages costs",
};

const SAMPLES: Threshold = Threshold {
    what: "CPU samples",
    value: 100.0,
    reason: "of fewer, a share of a tenth is uncertain by more than half",
};

/// What it is.
pub static ABOUT: About = About {
    id: "page-alloc-pressure",
    title: "tasks work for free memory instead of for themselves",
    symptom: "Programs become slow as memory fills up, with system time in functions such as shrink_node, compact_zone or \
              get_page_from_freelist; or in a container long before the machine's memory is full.",
    why: "A task that needs a page while none is free has to make one: it looks for pages that can be dropped or written \
          back (direct reclaim), or moves pages about until a larger block is free (compaction), and waits for as long \
          as that takes. In a control group at its memory limit it does so even if the machine has memory to spare.",
    cures: &[
        "raise the limit of the control group (memory.max, memory.high), or use less memory in it",
        "let kswapd begin earlier (vm.watermark_scale_factor, vm.min_free_kbytes), so that tasks find free pages",
        "do not insist on huge pages (transparent_hugepage/defrag), which need compaction",
        "take pages in bulk or from a pool where a path takes many (alloc_pages_bulk, mempool, page_pool)",
        "do not zero pages that are overwritten anyway (init_on_alloc=0)",
    ],
    confirmed_by: "probe `reclaim`: time that tasks spend in direct reclaim and compaction",
    suspected_by: "samples below try_to_free_pages, try_to_free_mem_cgroup_pages or try_to_compact_pages, in the zone lock, \
                   or in kernel_init_pages",
    thresholds: &[
        STALLED,
        STALLED_CRITICAL,
        STALLED_NS,
        REFAULTS,
        RECLAIM_SAMPLES,
        PART_SAMPLES,
        PATH_SAMPLES,
        SAMPLES,
    ],
    explained_by: &["read-amplification", "spinlock-contention"],
};

impl Pathology for PageAllocPressure {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn find(&self, facts: &Facts<'_>) -> Vec<Finding> {
        let mut findings = stalls::find(facts);
        findings.extend(cpu::find(facts, findings.is_empty()));
        findings
    }
}

/// Why memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Cause {
    /// A control group is at its limit.
    Limit,
    /// No free pages in a zone.
    Direct,
    /// No free block of the order.
    Compaction,
}

impl Cause {
    const ALL: [Cause; 3] = [Cause::Limit, Cause::Direct, Cause::Compaction];

    /// What the task is in.
    fn name(self) -> &'static str {
        match self {
            Cause::Limit => "reclaim for a memory limit",
            Cause::Direct => "direct reclaim",
            Cause::Compaction => "compaction",
        }
    }

    /// The functions below which it happens, the same on all kernels since 5.10.
    fn functions(self) -> &'static [&'static str] {
        match self {
            Cause::Limit => &["try_to_free_mem_cgroup_pages"],
            Cause::Direct => &["try_to_free_pages", "__alloc_pages_direct_reclaim"],
            Cause::Compaction => &["try_to_compact_pages", "__alloc_pages_direct_compact"],
        }
    }
}

/// Functions by which somebody asked for reclaim: writing a limit or `memory.reclaim`. That is no pressure.
const ASKED_FOR: &[&str] = &[
    "mem_cgroup_resize_max",
    "mem_cgroup_force_empty",
    "memory_max_write",
    "memory_high_write",
    "memory_reclaim",
    "user_proactive_reclaim",
    "nr_hugepages_store_common",
    "hugetlb_sysctl_handler_common",
];

/// Functions of the page allocator and of charging pages to a control group: whoever calls them wants a page.
const ALLOCATION: &[&str] = &[
    "__alloc_pages",
    "__folio_alloc",
    "alloc_pages_mpol",
    "alloc_pages",
    "alloc_pages_bulk",
    "alloc_frozen_pages",
    "folio_alloc",
    "folio_alloc_mpol",
    "filemap_alloc_folio",
    "filemap_add_folio",
    "get_free_pages",
    "__get_free_pages",
    "__mem_cgroup_charge",
    "mem_cgroup_charge",
    "charge_memcg",
    "try_charge_memcg",
];

/// What to do about a cause, the best first.
fn advice(cause: Cause, limit: Option<&MemoryLimit>) -> Vec<Advice> {
    match cause {
        Cause::Limit => {
            let raise = "Raise the limit of the control group; the memory is then missing elsewhere.";
            let mut advice = vec![match limit {
                Some(limit) => {
                    let file = quoted(&limit.file);
                    Advice::paste(raise, format!("echo {} > {file}", limit.bytes.saturating_mul(2)))
                }
                None => Advice::new(raise),
            }];
            advice.push(Advice::new(
                "Or use less memory in it: smaller caches and fewer processes at a time; files that are read once can \
                 be dropped from the page cache (POSIX_FADV_DONTNEED), or read past it (O_DIRECT).",
            ));
            advice
        }
        Cause::Direct => vec![
            Advice::paste(
                "Let kswapd begin earlier, so that tasks find free pages: 100 keeps 1 % of memory free in each zone, 10 \
                 is the default. That memory caches nothing.",
                "sysctl -w vm.watermark_scale_factor=100",
            ),
            Advice::new(
                "Or raise vm.min_free_kbytes, which also helps allocations that cannot wait; too much of it brings the \
                 out-of-memory killer nearer.",
            ),
            Advice::new("Or use less memory, or add some: see which processes it is that allocate."),
        ],
        Cause::Compaction => vec![
            Advice::paste(
                "Do not have tasks wait for huge pages: kcompactd makes them in the background, and until then pages \
                 are small, which costs misses of the TLB.",
                "echo defer > /sys/kernel/mm/transparent_hugepage/defrag",
            ),
            Advice::paste(
                "Let compaction work ahead, at the price of CPU time in the background (20 is the default).",
                "sysctl -w vm.compaction_proactiveness=50",
            ),
            Advice::new(
                "Where it is a driver or file system that takes blocks of this order, smaller ones (order 0, with \
                 scatter-gather) never need compaction.",
            ),
        ],
    }
}

/// A path for a shell.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@".contains(c);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}
