//! What to do about a lock that is fought for, by its name.

use crate::profile::Advice;

/// A cure: what it does and costs, and what to paste (empty: nothing).
type Cure = (&'static str, &'static str);

const CURES: &[(&str, &[Cure])] = &[
    (
        "files_struct.file_lock",
        &[
            (
                "Every open, dup, accept and close of the process takes this one lock: keep descriptors open and reuse \
                 them, or spread the work over several processes.",
                "",
            ),
            (
                "A thread whose descriptors no other thread needs can have a table of its own; those open at that \
                 moment are copied.",
                "unshare(CLONE_FILES);",
            ),
        ],
    ),
    (
        "zone.lock",
        &[
            (
                "Let each CPU keep more free pages, so that it comes to the zone's lock less often (1/8 of a zone at most; \
                 0 is the kernel's own choice).",
                "sysctl -w vm.percpu_pagelist_high_fraction=8",
            ),
            ("Allocate less often: reuse buffers, or use huge pages for large areas.", ""),
        ],
    ),
    (
        "lruvec.lru_lock",
        &[
            (
                "The multi-generational LRU moves pages under this lock less often (6.1 and later, if it was built in).",
                "echo y > /sys/kernel/mm/lru_gen/enabled",
            ),
            (
                "Each memory control group has LRU lists and a lock of its own: split the work over several.",
                "",
            ),
        ],
    ),
    (
        "futex_hash_bucket.lock",
        &[
            (
                "Threads block and wake on one futex, or on several in one bucket: split the mutex or condition variable.",
                "",
            ),
            (
                "From 6.16 on a process can have a hash table of its own.",
                "prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, 64, 0);",
            ),
        ],
    ),
    (
        "dentry.d_lockref.lock",
        &[(
            "Many threads look up the same path: keep the directory open and open files relative to it (openat), or keep \
             the file itself open.",
            "",
        )],
    ),
    (
        "super_block.s_inode_list_lock",
        &[(
            "All inodes of a file system are in one list: many creations at a time are faster on several file systems; \
             recycle files instead of making new ones.",
            "",
        )],
    ),
    (
        "list_lru_node.lock",
        &[(
            "Inodes and dentries come and go on one NUMA node's list: memory control groups have lists of their own.",
            "",
        )],
    ),
    (
        "bdi_writeback.list_lock",
        &[(
            "Many inodes become dirty at once: write fewer and larger files, or spread them over several file systems.",
            "",
        )],
    ),
    (
        "file_lock_context.flc_lock",
        &[(
            "All locks on one file are in a list under this lock: lock fewer ranges, or lock with a futex in shared memory.",
            "",
        )],
    ),
    (
        "inode.i_rwsem",
        &[
            (
                "Creating, removing and renaming in one directory go one at a time: spread the files over several directories.",
                "",
            ),
            (
                "Writers of one file go one at a time as well: XFS and ext4 let direct writes within the file's size go side \
                 by side (O_DIRECT).",
                "",
            ),
        ],
    ),
    (
        "blockgroup_lock.locks",
        &[
            (
                "ext4 hands out the inodes and blocks of a block group under one spinlock, and puts the files of a directory \
                 into one group as long as it has room: spread the files over several directories right below the root of \
                 the file system, which go into different groups.",
                "",
            ),
            (
                "A small file system has few groups (of 128 MiB with blocks of 4 KiB): a larger one spreads the work.",
                "",
            ),
        ],
    ),
    (
        "xfs_buf.b_sema",
        &[
            (
                "Allocations and frees in one allocation group go one at a time, under the locks of its AGF and AGI buffers: \
                 make the file system with more groups (new file systems only; about two for each thread that changes it).",
                "mkfs.xfs -d agcount=32 DEVICE",
            ),
            ("Spread new files over several directories: XFS puts directories into different groups.", ""),
        ],
    ),
    (
        "mm_struct.mmap_lock",
        &[
            (
                "Threads map, unmap and fault in one address space: map less often (larger arenas), or use processes.",
                "",
            ),
            (
                "glibc returns and fetches memory by mmap for large blocks: raise the threshold.",
                "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=4294967296",
            ),
        ],
    ),
    (
        "pipe_inode_info.mutex",
        &[("Many readers or writers share one pipe: give each its own, or move more bytes at a time.", "")],
    ),
    (
        "eventpoll.lock",
        &[(
            "Many threads share one epoll instance: give each thread its own (EPOLLEXCLUSIVE for shared sockets).",
            "",
        )],
    ),
    (
        "journal_s.j_state_lock",
        &[(
            "Many small transactions: batch changes, fsync less often, or put the journal on a faster device.",
            "",
        )],
    ),
    (
        "journal_s.j_checkpoint_mutex",
        &[(
            "The journal is too small for the changes: make it larger (the file system has to be unmounted).",
            "tune2fs -O ^has_journal DEVICE && tune2fs -J size=1024 DEVICE",
        )],
    ),
    (
        "cgroup_rstat_lock",
        &[(
            "Statistics of control groups are read too often: read memory.stat and cpu.stat less often, of fewer groups.",
            "",
        )],
    ),
    (
        "rq.__lock",
        &[(
            "Tasks are woken from other CPUs at a high rate: wake fewer at a time, batch the work, or pin tasks to CPUs.",
            "",
        )],
    ),
    (
        "kmem_cache_node.list_lock",
        &[("Objects are freed on other CPUs than they came from: free them where they were allocated.", "")],
    ),
    (
        "tasklist_lock",
        &[(
            "Processes come and go at a high rate: keep workers alive instead of starting one for each job.",
            "",
        )],
    ),
    (
        "sighand_struct.siglock",
        &[(
            "Threads of one process send and take signals at a high rate: timers and signals in fewer threads.",
            "",
        )],
    ),
];

/// What to do about a lock of this name; empty if nothing particular is known.
pub fn cures(lock: Option<&str>) -> Vec<Advice> {
    let known = CURES.iter().find(|(name, _)| lock == Some(*name));
    known
        .into_iter()
        .flat_map(|(_, cures)| *cures)
        .map(|(text, paste)| if paste.is_empty() { Advice::new(*text) } else { Advice::paste(*text, *paste) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::lock_table::sites_of;

    #[test]
    fn cures_are_for_locks_that_the_table_names() {
        for (lock, cures) in CURES {
            assert!(sites_of(lock).next().is_some(), "{lock}");
            assert!(!cures.is_empty());
        }
        assert!(cures(None).is_empty() && cures(Some("unheard.of")).is_empty());
    }
}
