//! Read-only globals: user space fills them in before loading, the verifier then sees constants
//! and drops the branches that are not taken.
//!
//! Offsets are byte offsets in structures of the running kernel, from its BTF. A program whose
//! offsets are not known is not loaded, so none of them needs a check here.

use aya_ebpf::Global;

macro_rules! globals {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$doc])* #[unsafe(no_mangle)] pub static $name: Global<$type> = Global::new($value);)*
    };
}

globals! {
    /// The profiler's own process id; its events are counted and left out. 0: none is left out.
    SELF_TGID: u32 = 0;
    /// Who is measured: a number of `profiler_common::filter`.
    FILTER: u32 = 0;
    /// Device and inode number of the pid namespace of the profiler; 0: the initial one.
    PIDNS_DEV: u64 = 0;
    PIDNS_INO: u64 = 0;
    /// Stacks a second and CPU that each stream may take; 0: no limit.
    STACK_RATE: u32 = 1000;
    /// 1: user stacks are taken too.
    USER_STACKS: u32 = 1;

    /// id of the control group that is measured.
    CGROUP_ID: u64 = 0;
    /// 1: a task's control group is read from a v1 hierarchy through `OFF_CGROUP_SUBSYS`, 0: from v2.
    CGROUP_V1: u32 = 0;
    /// task_struct.cgroups
    OFF_TASK_CGROUPS: u32 = 0;
    /// css_set.dfl_cgrp
    OFF_CSS_SET_DFL_CGRP: u32 = 0;
    /// css_set.subsys[controller]
    OFF_CSS_SET_SUBSYS: u32 = 0;
    /// cgroup_subsys_state.cgroup
    OFF_CSS_CGROUP: u32 = 0;
    /// cgroup_subsys_state.parent
    OFF_CSS_PARENT: u32 = 0;
    /// cgroup.self
    OFF_CGROUP_SELF: u32 = 0;
    /// cgroup.kn
    OFF_CGROUP_KN: u32 = 0;
    /// kernfs_node.id
    OFF_KN_ID: u32 = 0;

    /// task_struct.tgid
    OFF_TASK_TGID: u32 = 0;
    /// task_struct.pid
    OFF_TASK_PID: u32 = 0;

    /// inode.i_ino
    OFF_INODE_INO: u32 = 0;
    /// inode.i_sb
    OFF_INODE_SB: u32 = 0;
    /// inode.i_size
    OFF_INODE_SIZE: u32 = 0;
    /// super_block.s_dev
    OFF_SB_DEV: u32 = 0;
    /// file_ra_state.ra_pages
    OFF_RA_PAGES: u32 = 0;
    /// file_ra_state.prev_pos
    OFF_RA_PREV_POS: u32 = 0;
    /// file_ra_state.size
    OFF_RA_SIZE: u32 = 0;

    /// bio.bi_bdev
    OFF_BIO_BDEV: u32 = 0;
    /// block_device.bd_dev
    OFF_BDEV_DEV: u32 = 0;
    /// bio.bi_iter.bi_size
    OFF_BIO_SIZE: u32 = 0;
    /// bio.bi_opf
    OFF_BIO_OPF: u32 = 0;
    /// request.__data_len
    OFF_RQ_DATA_LEN: u32 = 0;
    /// request.cmd_flags
    OFF_RQ_CMD_FLAGS: u32 = 0;
    /// request.__sector
    OFF_RQ_SECTOR: u32 = 0;
    /// REQ_FUA in request.cmd_flags; 0: not known, and no request has it.
    REQ_FUA: u32 = 0;
    /// Index of the bio among the arguments of block_bio_queue (a queue came first before 5.11).
    BIO_QUEUE_ARG: u32 = 0;
    /// Index of the request among the arguments of block_rq_issue, likewise.
    RQ_ISSUE_ARG: u32 = 0;
    /// request.q (then `OFF_QUEUE_DISK` follows), or request.rq_disk before 5.17.
    OFF_RQ_QUEUE: u32 = 0;
    /// request_queue.disk; `u32::MAX`: `OFF_RQ_QUEUE` leads to the disk itself.
    OFF_QUEUE_DISK: u32 = 0;
    /// gendisk.major
    OFF_DISK_MAJOR: u32 = 0;
    /// gendisk.first_minor
    OFF_DISK_FIRST_MINOR: u32 = 0;

    /// readahead_control.mapping
    OFF_RACTL_MAPPING: u32 = 0;
    /// readahead_control._index
    OFF_RACTL_INDEX: u32 = 0;
    /// readahead_control.ra, since 5.13
    OFF_RACTL_RA: u32 = 0;
    /// address_space.host
    OFF_MAPPING_HOST: u32 = 0;

    /// Index of the order among the arguments of the functions behind mm_vmscan_*_reclaim_begin, of which
    /// the first is the tracepoint's own.
    RECLAIM_ORDER_ARG: u32 = 1;

    /// Index of the number of vectors among the arguments of bio_alloc_bioset.
    BIO_VECS_ARG: u32 = 0;
    /// Index of the source bio among the arguments of bio_alloc_clone.
    BIO_CLONE_ARG: u32 = 0;
    /// bio.bi_vcnt
    OFF_BIO_VCNT: u32 = 0;

    /// kiocb.ki_filp
    OFF_KIOCB_FILP: u32 = 0;
    /// kiocb.ki_pos
    OFF_KIOCB_POS: u32 = 0;
    /// iov_iter.count
    OFF_ITER_COUNT: u32 = 0;
    /// file.f_inode
    OFF_FILE_INODE: u32 = 0;
    /// file.f_flags
    OFF_FILE_FLAGS: u32 = 0;
    /// file.f_pos
    OFF_FILE_POS: u32 = 0;
    /// file.f_op
    OFF_FILE_OP: u32 = 0;
    /// file_operations.read_iter
    OFF_FOP_READ_ITER: u32 = 0;
    /// Address of generic_file_read_iter; 0: not known.
    GENERIC_READ_ITER: u64 = 0;
    /// inode.i_mode
    OFF_INODE_MODE: u32 = 0;
    /// inode.i_rdev
    OFF_INODE_RDEV: u32 = 0;
    /// super_block.s_type
    OFF_SB_TYPE: u32 = 0;
    /// file_system_type.name
    OFF_FS_TYPE_NAME: u32 = 0;
    /// task_struct.files
    OFF_TASK_FILES: u32 = 0;
    /// files_struct.fdt
    OFF_FILES_FDT: u32 = 0;
    /// fdtable.fd
    OFF_FDTABLE_FD: u32 = 0;
    /// fdtable.max_fds
    OFF_FDTABLE_MAX: u32 = 0;
    /// io_kiocb.opcode
    OFF_IO_KIOCB_OPCODE: u32 = 0;
    /// io_kiocb.cqe.fd
    OFF_IO_KIOCB_FD: u32 = 0;
    /// io_kiocb.flags
    OFF_IO_KIOCB_FLAGS: u32 = 0;
    /// io_rw.kiocb.ki_pos (an io_rw lies at the beginning of its io_kiocb)
    OFF_IO_RW_POS: u32 = 0;
    /// io_rw.len
    OFF_IO_RW_LEN: u32 = 0;

    /// O_DIRECT, which differs between architectures.
    O_DIRECT: u32 = 0o40000;

    /// Base 2 logarithm of the page size.
    PAGE_SHIFT: u32 = 12;

    // Offsets in the records of plain tracepoints, from their format files in tracefs.
    TP_PAGE_ALLOC_PFN: u32 = 0;
    TP_PAGE_ALLOC_ORDER: u32 = 0;
    TP_LOCK_ADDR: u32 = 0;
    TP_LOCK_FLAGS: u32 = 0;
    TP_LOCK_END_ADDR: u32 = 0;
    TP_RA_INO: u32 = 0;
    TP_RA_DEV: u32 = 0;
    TP_RA_INDEX: u32 = 0;
    TP_RA_PAGES: u32 = 0;
    TP_RA_PREV_POS: u32 = 0;
    TP_RA_REQ_COUNT: u32 = 0;
    TP_RA_UNBOUNDED_INO: u32 = 0;
    TP_RA_UNBOUNDED_DEV: u32 = 0;
    TP_RA_UNBOUNDED_INDEX: u32 = 0;
    TP_RA_UNBOUNDED_NR: u32 = 0;
    TP_RA_ORDER_INO: u32 = 0;
    TP_RA_ORDER_DEV: u32 = 0;
    TP_RA_ORDER_INDEX: u32 = 0;
    TP_RA_ORDER_SIZE: u32 = 0;
    TP_BIO_DEV: u32 = 0;
    TP_BIO_NR_SECTOR: u32 = 0;
    TP_BIO_RWBS: u32 = 0;
    TP_RQ_ISSUE_DEV: u32 = 0;
    TP_RQ_ISSUE_SECTOR: u32 = 0;
    TP_RQ_ISSUE_BYTES: u32 = 0;
    TP_RQ_ISSUE_RWBS: u32 = 0;
    TP_RQ_COMPLETE_DEV: u32 = 0;
    TP_RQ_COMPLETE_SECTOR: u32 = 0;
    TP_RQ_COMPLETE_NR_SECTOR: u32 = 0;
    TP_RQ_COMPLETE_RWBS: u32 = 0;
    TP_DIRECT_RECLAIM_ORDER: u32 = 0;
    TP_DIRECT_RECLAIM_PAGES: u32 = 0;
    TP_MEMCG_RECLAIM_ORDER: u32 = 0;
    TP_MEMCG_RECLAIM_PAGES: u32 = 0;
    TP_FORK_PARENT: u32 = 0;
    TP_FORK_CHILD: u32 = 0;
}
