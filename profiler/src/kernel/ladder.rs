//! The probe ladder: for each probe, the ways to attach it, best first.
//!
//! This is the one place that lists them all. A probe consists of parts (a begin and an end, say);
//! each part has rungs, and the first rung that the running kernel takes wins. What the kernel
//! has and what it refuses is found out by asking it, never by its version.

use crate::profile::Kind;

/// A probe that `--probes` can name.
#[derive(Debug)]
pub struct ProbeSpec {
    /// Its name.
    pub name: &'static str,
    /// Kind of the stacks it feeds.
    pub kind: Kind,
    /// What it is for, for `--help` and `check`.
    pub summary: &'static str,
    /// Its parts. Empty for `cpu`, which is attached to perf events.
    pub parts: &'static [Part],
}

/// A part of a probe.
#[derive(Debug)]
pub struct Part {
    /// What is lost without it.
    pub gives: &'static str,
    /// Whether the probe is useless without it.
    pub essential: bool,
    /// Ways to attach it, best first.
    pub rungs: &'static [Rung],
}

/// A way to attach a part: all of its programs, or none.
#[derive(Debug)]
pub struct Rung {
    /// Kind of attachment.
    pub how: How,
    /// The eBPF programs, each with what it is attached to.
    pub attach: &'static [(&'static str, &'static str)],
    /// Globals of the programs that must be known.
    pub needs: &'static [&'static str],
    /// What this rung cannot measure.
    pub lacks: Option<&'static str>,
}

/// Kinds of attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A tracepoint, through BTF: its arguments as the kernel passes them.
    TpBtf,
    /// A plain tracepoint, through tracefs: its record, as perf sees it.
    Tracepoint {
        /// Subsystem folder in tracefs.
        category: &'static str,
    },
}

impl How {
    /// The name used in reports and by `--without`.
    pub fn name(self) -> &'static str {
        match self {
            How::TpBtf => "tp_btf",
            How::Tracepoint { .. } => "tracepoint",
        }
    }
}

const fn tp_btf(attach: &'static [(&'static str, &'static str)], needs: &'static [&'static str]) -> Rung {
    Rung { how: How::TpBtf, attach, needs, lacks: None }
}

const fn tracepoint(
    category: &'static str,
    attach: &'static [(&'static str, &'static str)],
    needs: &'static [&'static str],
) -> Rung {
    Rung { how: How::Tracepoint { category }, attach, needs, lacks: None }
}

/// All probes, in the order in which reports show them.
pub const PROBES: &[ProbeSpec] = &[
    ProbeSpec {
        name: "cpu",
        kind: Kind::Cpu,
        summary: "what each CPU does, sampled at a fixed rate",
        parts: &[],
    },
    ProbeSpec {
        name: "lock",
        kind: Kind::LockWait,
        summary: "waits for contended locks, spinning and sleeping",
        // lock:contention_* exist since 5.19.
        parts: &[Part {
            gives: "waits for locks",
            essential: true,
            rungs: &[
                tp_btf(
                    &[("contention_begin_btf", "contention_begin"), ("contention_end_btf", "contention_end")],
                    &[],
                ),
                tracepoint(
                    "lock",
                    &[("contention_begin_tp", "contention_begin"), ("contention_end_tp", "contention_end")],
                    &["TP_LOCK_ADDR", "TP_LOCK_FLAGS", "TP_LOCK_END_ADDR"],
                ),
            ],
        }],
    },
    ProbeSpec {
        name: "block",
        kind: Kind::BlockIo,
        summary: "bios queued, requests issued and completed, by device and direction",
        parts: &[
            Part {
                gives: "bios and the stacks that queue them",
                essential: true,
                rungs: &[
                    tp_btf(
                        &[("bio_queue_btf", "block_bio_queue")],
                        &["BIO_QUEUE_ARG", "OFF_BIO_BDEV", "OFF_BDEV_DEV", "OFF_BIO_SIZE", "OFF_BIO_OPF"],
                    ),
                    tracepoint(
                        "block",
                        &[("bio_queue_tp", "block_bio_queue")],
                        &["TP_BIO_DEV", "TP_BIO_NR_SECTOR", "TP_BIO_RWBS"],
                    ),
                ],
            },
            // Both ends must identify a request alike: they fall together.
            Part {
                gives: "request sizes and latencies",
                essential: false,
                rungs: &[
                    tp_btf(
                        &[("rq_issue_btf", "block_rq_issue"), ("rq_complete_btf", "block_rq_complete")],
                        &[
                            "RQ_ISSUE_ARG",
                            "OFF_RQ_QUEUE",
                            "OFF_QUEUE_DISK",
                            "OFF_DISK_MAJOR",
                            "OFF_DISK_FIRST_MINOR",
                            "OFF_RQ_CMD_FLAGS",
                            "OFF_RQ_DATA_LEN",
                        ],
                    ),
                    Rung {
                        lacks: Some("of a request that completes in parts, only the first part's latency"),
                        ..tracepoint(
                            "block",
                            &[("rq_issue_tp", "block_rq_issue"), ("rq_complete_tp", "block_rq_complete")],
                            &[
                                "TP_RQ_ISSUE_DEV",
                                "TP_RQ_ISSUE_SECTOR",
                                "TP_RQ_ISSUE_BYTES",
                                "TP_RQ_ISSUE_RWBS",
                                "TP_RQ_COMPLETE_DEV",
                                "TP_RQ_COMPLETE_SECTOR",
                                "TP_RQ_COMPLETE_NR_SECTOR",
                                "TP_RQ_COMPLETE_RWBS",
                            ],
                        )
                    },
                ],
            },
        ],
    },
    ProbeSpec {
        name: "readahead",
        kind: Kind::Readahead,
        summary: "what readers wanted of the page cache, and what readahead made of it",
        // The readahead tracepoints exist since 6.18.
        parts: &[
            Part {
                gives: "readers' calls and what they wanted",
                essential: true,
                rungs: &[
                    tp_btf(
                        &[("sync_ra_btf", "page_cache_sync_ra"), ("async_ra_btf", "page_cache_async_ra")],
                        &["OFF_INODE_INO", "OFF_INODE_SB", "OFF_SB_DEV", "OFF_RA_PAGES", "OFF_RA_PREV_POS"],
                    ),
                    tracepoint(
                        "readahead",
                        &[("sync_ra_tp", "page_cache_sync_ra"), ("async_ra_tp", "page_cache_async_ra")],
                        &[
                            "TP_RA_INO",
                            "TP_RA_DEV",
                            "TP_RA_INDEX",
                            "TP_RA_PAGES",
                            "TP_RA_PREV_POS",
                            "TP_RA_REQ_COUNT",
                        ],
                    ),
                ],
            },
            Part {
                gives: "pages asked of file systems, and the stacks that ask",
                essential: false,
                rungs: &[
                    tp_btf(
                        &[
                            ("ra_unbounded_btf", "page_cache_ra_unbounded"),
                            ("ra_order_btf", "page_cache_ra_order"),
                        ],
                        &["OFF_INODE_INO", "OFF_INODE_SB", "OFF_INODE_SIZE", "OFF_SB_DEV", "OFF_RA_SIZE"],
                    ),
                    Rung {
                        lacks: Some(
                            "where a file ends: pages of a readahead window beyond it are counted too",
                        ),
                        ..tracepoint(
                            "readahead",
                            &[
                                ("ra_unbounded_tp", "page_cache_ra_unbounded"),
                                ("ra_order_tp", "page_cache_ra_order"),
                            ],
                            &[
                                "TP_RA_UNBOUNDED_INO",
                                "TP_RA_UNBOUNDED_DEV",
                                "TP_RA_UNBOUNDED_INDEX",
                                "TP_RA_UNBOUNDED_NR",
                                "TP_RA_ORDER_INO",
                                "TP_RA_ORDER_DEV",
                                "TP_RA_ORDER_INDEX",
                                "TP_RA_ORDER_SIZE",
                            ],
                        )
                    },
                ],
            },
        ],
    },
    ProbeSpec {
        name: "page-alloc",
        kind: Kind::PageAlloc,
        summary: "pages handed out by the page allocator",
        parts: &[Part {
            gives: "page allocations",
            essential: true,
            rungs: &[
                tp_btf(&[("page_alloc_btf", "mm_page_alloc")], &[]),
                tracepoint(
                    "kmem",
                    &[("page_alloc_tp", "mm_page_alloc")],
                    &["TP_PAGE_ALLOC_PFN", "TP_PAGE_ALLOC_ORDER"],
                ),
            ],
        }],
    },
];

/// Not a probe, but attached like one: follows the children of a measured command.
pub const FOLLOW_FORK: &[Part] = &[
    Part {
        gives: "the command's children",
        essential: true,
        rungs: &[
            tp_btf(&[("fork_btf", "sched_process_fork")], &["OFF_TASK_TGID"]),
            Rung {
                lacks: Some("children forked by threads other than the first"),
                ..tracepoint(
                    "sched",
                    &[("fork_tp", "sched_process_fork")],
                    &["TP_FORK_PARENT", "TP_FORK_CHILD"],
                )
            },
        ],
    },
    Part {
        gives: "the end of processes, whose ids may come back as others",
        essential: false,
        rungs: &[tp_btf(&[("free_btf", "sched_process_free")], &["OFF_TASK_TGID", "OFF_TASK_PID"])],
    },
];

/// The probe with this name.
pub fn probe(name: &str) -> Option<&'static ProbeSpec> {
    PROBES.iter().find(|probe| probe.name == name)
}
