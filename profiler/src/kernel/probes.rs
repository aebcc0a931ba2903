//! All probes and all their rungs, best first. Which kernel takes which is in docs/kernels.md, as
//! measured.

use super::ladder::{
    Attach::{Fentry, Fexit, Kprobe, Kretprobe, TpBtf, Tracepoint},
    Part, ProbeSpec, Role, Rung,
};
use crate::profile::Kind;

const fn rung(attach: &'static [super::ladder::Attach], needs: &'static [&'static str]) -> Rung {
    Rung { attach, needs, lacks: None }
}

const fn poorer(
    attach: &'static [super::ladder::Attach],
    needs: &'static [&'static str],
    lacks: &'static str,
) -> Rung {
    Rung { attach, needs, lacks: Some(lacks) }
}

/// All probes, in the order in which reports show them.
pub const PROBES: &[ProbeSpec] = &[
    ProbeSpec {
        name: "cpu",
        kind: Some(Kind::Cpu),
        summary: "what each CPU does, sampled at a fixed rate",
        parts: &[],
    },
    ProbeSpec {
        name: "lock",
        kind: Some(Kind::LockWait),
        summary: "waits for contended locks, spinning and sleeping",
        parts: LOCK,
    },
    ProbeSpec {
        name: "read",
        kind: None,
        summary: "bytes that file systems and block devices are asked to read, direct and buffered",
        parts: READ,
    },
    ProbeSpec {
        name: "readahead",
        kind: Some(Kind::Readahead),
        summary: "what readers wanted of the page cache, and what readahead made of it",
        parts: READAHEAD,
    },
    ProbeSpec {
        name: "bio",
        kind: Some(Kind::Bio),
        summary: "bios allocated: their number, vectors and bytes",
        parts: BIO,
    },
    ProbeSpec {
        name: "block",
        kind: Some(Kind::BlockIo),
        summary: "bios queued, requests issued and completed, by device and direction",
        parts: BLOCK,
    },
    ProbeSpec {
        name: "page-alloc",
        kind: Some(Kind::PageAlloc),
        summary: "pages handed out by the page allocator",
        parts: PAGE_ALLOC,
    },
    ProbeSpec {
        name: "reclaim",
        kind: Some(Kind::Reclaim),
        summary: "time that tasks spend on making memory free: direct reclaim and compaction",
        parts: RECLAIM,
    },
];

const LOCK: &[Part] = &[Part {
    gives: "waits for locks",
    role: Role::Essential,
    rungs: &[
        // Since 5.19.
        rung(
            &[
                TpBtf("contention_begin_btf", "contention_begin"),
                TpBtf("contention_end_btf", "contention_end"),
            ],
            &[],
        ),
        rung(
            &[
                Tracepoint("contention_begin_tp", "lock", "contention_begin"),
                Tracepoint("contention_end_tp", "lock", "contention_end"),
            ],
            &["TP_LOCK_ADDR", "TP_LOCK_FLAGS", "TP_LOCK_END_ADDR"],
        ),
        poorer(
            &[
                Fentry("native_slowpath_fentry", &["native_queued_spin_lock_slowpath"]),
                Fexit("native_slowpath_fexit", &["native_queued_spin_lock_slowpath"]),
                Fentry("pv_slowpath_fentry", &["__pv_queued_spin_lock_slowpath"]),
                Fexit("pv_slowpath_fexit", &["__pv_queued_spin_lock_slowpath"]),
            ],
            &[],
            ONLY_SPINLOCKS,
        ),
        poorer(
            &[
                Fentry("native_slowpath_fentry", &["native_queued_spin_lock_slowpath"]),
                Fexit("native_slowpath_fexit", &["native_queued_spin_lock_slowpath"]),
            ],
            &[],
            ONLY_SPINLOCKS,
        ),
        poorer(
            &[
                Kprobe("slowpath_kprobe", &["native_queued_spin_lock_slowpath"]),
                Kretprobe("slowpath_kretprobe", &["native_queued_spin_lock_slowpath"]),
            ],
            &[],
            ONLY_SPINLOCKS,
        ),
    ],
}];

const ONLY_SPINLOCKS: &str =
    "mutexes, rwsems, semaphores and rwlocks, for want of lock:contention_begin (5.19)";

const REQUEST: &[&str] = &[
    "RQ_ISSUE_ARG",
    "OFF_RQ_QUEUE",
    "OFF_QUEUE_DISK",
    "OFF_DISK_MAJOR",
    "OFF_DISK_FIRST_MINOR",
    "OFF_RQ_CMD_FLAGS",
    "OFF_RQ_DATA_LEN",
    "OFF_RQ_SECTOR",
];

const BLOCK: &[Part] = &[
    Part {
        gives: "bios and the stacks that queue them",
        role: Role::Essential,
        rungs: &[
            rung(
                &[TpBtf("bio_queue_btf", "block_bio_queue")],
                &["BIO_QUEUE_ARG", "OFF_BIO_BDEV", "OFF_BDEV_DEV", "OFF_BIO_SIZE", "OFF_BIO_OPF"],
            ),
            rung(
                &[Tracepoint("bio_queue_tp", "block", "block_bio_queue")],
                &["TP_BIO_DEV", "TP_BIO_NR_SECTOR", "TP_BIO_RWBS"],
            ),
        ],
    },
    // Both ends must identify a request alike: they fall together.
    Part {
        gives: "request sizes and latencies",
        role: Role::Useful,
        rungs: &[
            rung(
                &[TpBtf("rq_issue_btf", "block_rq_issue"), TpBtf("rq_complete_btf", "block_rq_complete")],
                REQUEST,
            ),
            poorer(
                &[
                    Tracepoint("rq_issue_tp", "block", "block_rq_issue"),
                    Tracepoint("rq_complete_tp", "block", "block_rq_complete"),
                ],
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
                "of a request that completes in parts, all but the first part's latency",
            ),
        ],
    },
];

const RA_STATE: &[&str] = &["OFF_INODE_INO", "OFF_INODE_SB", "OFF_SB_DEV", "OFF_RA_PAGES", "OFF_RA_PREV_POS"];
/// Without readahead_control.ra, which pages that are asked for do not need, nor readers before 5.13.
const RACTL: &[&str] = &[
    "OFF_INODE_INO",
    "OFF_INODE_SB",
    "OFF_SB_DEV",
    "OFF_RA_PAGES",
    "OFF_RA_PREV_POS",
    "OFF_RACTL_MAPPING",
    "OFF_RACTL_INDEX",
    "OFF_MAPPING_HOST",
    "OFF_INODE_SIZE",
    "OFF_RA_SIZE",
];

const RACTL_RA: &[&str] = &[
    "OFF_RACTL_RA",
    "OFF_INODE_INO",
    "OFF_INODE_SB",
    "OFF_SB_DEV",
    "OFF_RA_PAGES",
    "OFF_RA_PREV_POS",
    "OFF_RACTL_MAPPING",
    "OFF_RACTL_INDEX",
    "OFF_MAPPING_HOST",
];

const READAHEAD: &[Part] = &[
    Part {
        gives: "readers' calls and what they wanted",
        role: Role::Essential,
        rungs: &[
            // The readahead tracepoints exist since 6.18.
            rung(
                &[TpBtf("sync_ra_btf", "page_cache_sync_ra"), TpBtf("async_ra_btf", "page_cache_async_ra")],
                RA_STATE,
            ),
            rung(
                &[
                    Tracepoint("sync_ra_tp", "readahead", "page_cache_sync_ra"),
                    Tracepoint("async_ra_tp", "readahead", "page_cache_async_ra"),
                ],
                &[
                    "TP_RA_INO",
                    "TP_RA_DEV",
                    "TP_RA_INDEX",
                    "TP_RA_PAGES",
                    "TP_RA_PREV_POS",
                    "TP_RA_REQ_COUNT",
                ],
            ),
            rung(
                &[
                    Fentry("sync_ra_fentry", &["page_cache_sync_ra"]),
                    Fentry("async_ra_fentry", &["page_cache_async_ra"]),
                ],
                RACTL_RA,
            ),
            rung(
                &[
                    Kprobe("sync_ra_kprobe", &["page_cache_sync_ra"]),
                    Kprobe("async_ra_kprobe", &["page_cache_async_ra"]),
                ],
                RACTL_RA,
            ),
            // Before 5.13.
            rung(
                &[
                    Fentry("sync_ra_old_fentry", &["page_cache_sync_ra"]),
                    Fentry("async_ra_old_fentry", &["page_cache_async_ra"]),
                ],
                RACTL,
            ),
            rung(
                &[
                    Kprobe("sync_ra_old_kprobe", &["page_cache_sync_ra"]),
                    Kprobe("async_ra_old_kprobe", &["page_cache_async_ra"]),
                ],
                RACTL,
            ),
        ],
    },
    Part {
        gives: "pages asked of file systems, and the stacks that ask",
        role: Role::Useful,
        rungs: &[
            rung(
                &[
                    TpBtf("ra_unbounded_btf", "page_cache_ra_unbounded"),
                    TpBtf("ra_order_btf", "page_cache_ra_order"),
                ],
                &["OFF_INODE_INO", "OFF_INODE_SB", "OFF_SB_DEV", "OFF_INODE_SIZE", "OFF_RA_SIZE"],
            ),
            rung(
                &[
                    Tracepoint("ra_unbounded_tp", "readahead", "page_cache_ra_unbounded"),
                    Tracepoint("ra_order_tp", "readahead", "page_cache_ra_order"),
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
            ),
            // page_cache_ra_order since 5.18, for file systems with large folios.
            rung(
                &[
                    Fentry("ra_unbounded_fentry", &["page_cache_ra_unbounded"]),
                    Fentry("ra_order_fentry", &["page_cache_ra_order"]),
                ],
                RACTL,
            ),
            rung(
                &[
                    Kprobe("ra_unbounded_kprobe", &["page_cache_ra_unbounded"]),
                    Kprobe("ra_order_kprobe", &["page_cache_ra_order"]),
                ],
                RACTL,
            ),
            rung(&[Fentry("ra_unbounded_fentry", &["page_cache_ra_unbounded"])], RACTL),
            rung(&[Kprobe("ra_unbounded_kprobe", &["page_cache_ra_unbounded"])], RACTL),
        ],
    },
];

const PAGE_ALLOC: &[Part] = &[Part {
    gives: "page allocations",
    role: Role::Essential,
    rungs: &[
        rung(&[TpBtf("page_alloc_btf", "mm_page_alloc")], &[]),
        rung(
            &[Tracepoint("page_alloc_tp", "kmem", "mm_page_alloc")],
            &["TP_PAGE_ALLOC_PFN", "TP_PAGE_ALLOC_ORDER"],
        ),
        poorer(&[Fexit("page_alloc_fexit", PAGE_ALLOC_FUNCTIONS)], &[], "pages that are allocated in bulk"),
        poorer(
            &[Kprobe("page_alloc_kprobe", PAGE_ALLOC_FUNCTIONS)],
            &[],
            "pages that are allocated in bulk, and which allocations failed",
        ),
    ],
}];

const RECLAIM: &[Part] = &[
    Part {
        gives: "direct reclaim for want of free pages",
        role: Role::Essential,
        rungs: &[
            rung(
                &[
                    TpBtf("direct_reclaim_begin_btf", "mm_vmscan_direct_reclaim_begin"),
                    TpBtf("direct_reclaim_end_btf", "mm_vmscan_direct_reclaim_end"),
                ],
                &[],
            ),
            rung(
                &[
                    Tracepoint("direct_reclaim_begin_tp", "vmscan", "mm_vmscan_direct_reclaim_begin"),
                    Tracepoint("direct_reclaim_end_tp", "vmscan", "mm_vmscan_direct_reclaim_end"),
                ],
                &["TP_DIRECT_RECLAIM_ORDER", "TP_DIRECT_RECLAIM_PAGES"],
            ),
        ],
    },
    Part {
        gives: "reclaim in control groups that are at their memory limit",
        role: Role::Useful,
        rungs: &[
            rung(
                &[
                    TpBtf("memcg_reclaim_begin_btf", "mm_vmscan_memcg_reclaim_begin"),
                    TpBtf("memcg_reclaim_end_btf", "mm_vmscan_memcg_reclaim_end"),
                ],
                &[],
            ),
            rung(
                &[
                    Tracepoint("memcg_reclaim_begin_tp", "vmscan", "mm_vmscan_memcg_reclaim_begin"),
                    Tracepoint("memcg_reclaim_end_tp", "vmscan", "mm_vmscan_memcg_reclaim_end"),
                ],
                &["TP_MEMCG_RECLAIM_ORDER", "TP_MEMCG_RECLAIM_PAGES"],
            ),
        ],
    },
    Part {
        gives: "compaction",
        role: Role::Useful,
        rungs: &[
            rung(
                &[
                    TpBtf("compaction_begin_btf", "mm_compaction_begin"),
                    TpBtf("compaction_end_btf", "mm_compaction_end"),
                ],
                &[],
            ),
            rung(
                &[
                    Tracepoint("compaction_begin_tp", "compaction", "mm_compaction_begin"),
                    Tracepoint("compaction_end_tp", "compaction", "mm_compaction_end"),
                ],
                &[],
            ),
        ],
    },
    Part {
        gives: "how often kswapd wakes up",
        role: Role::Useful,
        rungs: &[
            rung(&[TpBtf("kswapd_wake_btf", "mm_vmscan_kswapd_wake")], &[]),
            rung(&[Tracepoint("kswapd_wake_tp", "vmscan", "mm_vmscan_kswapd_wake")], &[]),
        ],
    },
];

/// The one function that all single allocations go through, latest name first: since 6.14, 6.10, 5.13,
/// and before.
const PAGE_ALLOC_FUNCTIONS: &[&str] =
    &["__alloc_frozen_pages_noprof", "__alloc_pages_noprof", "__alloc_pages", "__alloc_pages_nodemask"];

const BIO: &[Part] = &[
    Part {
        gives: "bios allocated",
        role: Role::OneOf,
        rungs: &[
            rung(&[Fentry("bio_alloc_fentry", &["bio_alloc_bioset"])], &["BIO_VECS_ARG"]),
            rung(&[Kprobe("bio_alloc_kprobe", &["bio_alloc_bioset"])], &["BIO_VECS_ARG"]),
        ],
    },
    Part {
        gives: "bytes of cloned bios",
        role: Role::Useful,
        rungs: &[
            rung(&[Fentry("bio_clone_fentry", BIO_CLONE)], &["BIO_CLONE_ARG", "OFF_BIO_SIZE"]),
            rung(&[Kprobe("bio_clone_kprobe", BIO_CLONE)], &["BIO_CLONE_ARG", "OFF_BIO_SIZE"]),
        ],
    },
    Part {
        gives: "bios as they are queued",
        role: Role::StandIn,
        rungs: &[
            poorer(
                &[TpBtf("bio_stand_in_btf", "block_bio_queue")],
                &["BIO_QUEUE_ARG", "OFF_BIO_SIZE", "OFF_BIO_VCNT", "OFF_BIO_OPF"],
                "bios that are allocated and not queued; those that are queued again count again",
            ),
            poorer(
                &[Tracepoint("bio_stand_in_tp", "block", "block_bio_queue")],
                &["TP_BIO_NR_SECTOR", "TP_BIO_RWBS"],
                "vectors, and bios that are allocated and not queued",
            ),
        ],
    },
];

/// Latest name first: bio_alloc_clone since 5.18.
const BIO_CLONE: &[&str] = &["bio_alloc_clone", "bio_clone_fast"];

const READ_ENTRY: &[&str] = &[
    "OFF_KIOCB_FILP",
    "OFF_KIOCB_POS",
    "OFF_ITER_COUNT",
    "OFF_FILE_INODE",
    "OFF_FILE_FLAGS",
    "OFF_INODE_MODE",
    "OFF_INODE_SIZE",
    "OFF_INODE_RDEV",
    "OFF_INODE_SB",
    "OFF_SB_DEV",
    "OFF_SB_TYPE",
    "OFF_FS_TYPE_NAME",
];

/// A file system's read_iter; through kprobe if it is a module's, since BTF programs are for the
/// kernel proper.
macro_rules! read_entry {
    ($gives:literal, $program:literal, $function:literal) => {
        Part {
            gives: $gives,
            role: Role::OneOf,
            rungs: &[
                rung(&[Fentry($program, &[$function])], READ_ENTRY),
                rung(&[Kprobe("read_kprobe", &[$function])], READ_ENTRY),
            ],
        }
    };
}

const READ: &[Part] = &[
    read_entry!("reads of ext4", "read_ext4", "ext4_file_read_iter"),
    read_entry!("reads of xfs", "read_xfs", "xfs_file_read_iter"),
    read_entry!("reads of btrfs", "read_btrfs", "btrfs_file_read_iter"),
    read_entry!("reads of bcachefs", "read_bcachefs", "bch2_read_iter"),
    read_entry!("reads of f2fs", "read_f2fs", "f2fs_file_read_iter"),
    read_entry!("reads of block devices", "read_blkdev", "blkdev_read_iter"),
    Part {
        gives: "reads of other file systems",
        role: Role::OneOf,
        rungs: &[
            rung(&[Fentry("read_generic", &["generic_file_read_iter"])], READ_GENERIC),
            rung(&[Kprobe("read_generic_kprobe", &["generic_file_read_iter"])], READ_GENERIC),
        ],
    },
    Part {
        gives: "reads by system calls",
        role: Role::StandIn,
        rungs: &[poorer(
            &[
                Tracepoint("sys_read", "syscalls", "sys_enter_read"),
                Tracepoint("sys_pread", "syscalls", "sys_enter_pread64"),
                Tracepoint("sys_readv", "syscalls", "sys_enter_readv"),
                Tracepoint("sys_preadv", "syscalls", "sys_enter_preadv"),
            ],
            READ_SYSCALL,
            "reads by page faults, sendfile, splice and the kernel itself, except as lookups in the page cache; \
             every system call becomes some 50 ns slower while its tracepoints are on",
        )],
    },
    Part {
        gives: "reads by libaio",
        role: Role::StandIn,
        rungs: &[poorer(
            &[Tracepoint("sys_io_submit", "syscalls", "sys_enter_io_submit")],
            READ_SYSCALL,
            "requests of one io_submit behind the 16th",
        )],
    },
    Part {
        gives: "reads by io_uring",
        role: Role::StandIn,
        rungs: &[poorer(
            &[TpBtf("io_uring_submit", "io_uring_submit_req")],
            READ_URING,
            "reads by io_uring of registered files, and the exact bytes of its vectored reads",
        )],
    },
    Part {
        gives: "lookups in the page cache",
        role: Role::StandIn,
        rungs: &[rung(
            &[TpBtf("filemap_get_pages", "mm_filemap_get_pages")],
            &[
                "OFF_MAPPING_HOST",
                "OFF_INODE_SB",
                "OFF_SB_DEV",
                "OFF_SB_TYPE",
                "OFF_FS_TYPE_NAME",
                "OFF_INODE_RDEV",
            ],
        )],
    },
];

const READ_GENERIC: &[&str] = &[
    "OFF_KIOCB_FILP",
    "OFF_KIOCB_POS",
    "OFF_ITER_COUNT",
    "OFF_FILE_INODE",
    "OFF_FILE_FLAGS",
    "OFF_FILE_OP",
    "OFF_FOP_READ_ITER",
    "OFF_INODE_MODE",
    "OFF_INODE_SIZE",
    "OFF_INODE_RDEV",
    "OFF_INODE_SB",
    "OFF_SB_DEV",
    "OFF_SB_TYPE",
    "OFF_FS_TYPE_NAME",
];

const READ_SYSCALL: &[&str] = &[
    "OFF_TASK_FILES",
    "OFF_FILES_FDT",
    "OFF_FDTABLE_FD",
    "OFF_FDTABLE_MAX",
    "OFF_FILE_POS",
    "OFF_FILE_INODE",
    "OFF_FILE_FLAGS",
    "OFF_INODE_MODE",
    "OFF_INODE_SIZE",
    "OFF_INODE_RDEV",
    "OFF_INODE_SB",
    "OFF_SB_DEV",
    "OFF_SB_TYPE",
    "OFF_FS_TYPE_NAME",
];

const READ_URING: &[&str] = &[
    "OFF_IO_KIOCB_OPCODE",
    "OFF_IO_KIOCB_FD",
    "OFF_IO_KIOCB_FLAGS",
    "OFF_TASK_FILES",
    "OFF_FILES_FDT",
    "OFF_FDTABLE_FD",
    "OFF_FDTABLE_MAX",
    "OFF_IO_RW_POS",
    "OFF_IO_RW_LEN",
    "OFF_FILE_INODE",
    "OFF_FILE_FLAGS",
    "OFF_INODE_MODE",
    "OFF_INODE_SIZE",
    "OFF_INODE_RDEV",
    "OFF_INODE_SB",
    "OFF_SB_DEV",
    "OFF_SB_TYPE",
    "OFF_FS_TYPE_NAME",
];

/// Not a probe, but attached like one: follows the children of a measured command.
pub const FOLLOW_FORK: &[Part] = &[
    Part {
        gives: "the command's children",
        role: Role::Essential,
        rungs: &[
            rung(&[TpBtf("fork_btf", "sched_process_fork")], &["OFF_TASK_TGID"]),
            poorer(
                &[Tracepoint("fork_tp", "sched", "sched_process_fork")],
                &["TP_FORK_PARENT", "TP_FORK_CHILD"],
                "children forked by threads other than the first",
            ),
        ],
    },
    Part {
        gives: "the end of processes, whose ids may come back as others",
        role: Role::Useful,
        rungs: &[rung(&[TpBtf("free_btf", "sched_process_free")], &["OFF_TASK_TGID", "OFF_TASK_PID"])],
    },
];

/// The probe with this name.
pub fn probe(name: &str) -> Option<&'static ProbeSpec> {
    PROBES.iter().find(|probe| probe.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_are_of_one_kind_and_need_known_globals() {
        let config = include_str!("../../../profiler-ebpf/src/config.rs");
        for part in PROBES.iter().flat_map(|probe| probe.parts).chain(FOLLOW_FORK) {
            for rung in part.rungs {
                assert!(rung.attach.iter().all(|attach| attach.how() == rung.how()), "{}", part.gives);
                for global in rung.needs {
                    assert!(config.contains(&format!(" {global}: u32")), "{global} is not in config.rs");
                }
            }
        }
    }

    #[test]
    fn a_stand_in_comes_after_what_it_stands_in_for() {
        for probe in PROBES {
            let first = probe.parts.iter().position(|part| part.role == Role::StandIn);
            let last = probe.parts.iter().rposition(|part| part.role == Role::OneOf);
            if let (Some(first), Some(last)) = (first, last) {
                assert!(first > last, "{}", probe.name);
            }
        }
    }
}
