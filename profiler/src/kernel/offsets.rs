//! The numbers that the eBPF programs need about the running kernel, and where each comes from.
//!
//! Every global of `profiler-ebpf/src/config.rs` that starts with `OFF_` or `TP_` stands here
//! once. A number that this kernel does not have is absent from [`Offsets`], and the programs
//! that need it are not loaded.

use std::collections::BTreeMap;

use super::btf::Btf;
use super::tracefs::Format;

/// A member of a kernel structure.
type Member = (&'static str, &'static str);

/// Globals filled from BTF: the first member that exists counts.
const MEMBERS: &[(&str, &[Member])] = &[
    ("OFF_TASK_CGROUPS", &[("task_struct", "cgroups")]),
    ("OFF_TASK_TGID", &[("task_struct", "tgid")]),
    ("OFF_TASK_PID", &[("task_struct", "pid")]),
    ("OFF_CSS_SET_DFL_CGRP", &[("css_set", "dfl_cgrp")]),
    ("OFF_CSS_SET_SUBSYS", &[("css_set", "subsys")]),
    ("OFF_CSS_CGROUP", &[("cgroup_subsys_state", "cgroup")]),
    ("OFF_CSS_PARENT", &[("cgroup_subsys_state", "parent")]),
    ("OFF_CGROUP_SELF", &[("cgroup", "self")]),
    ("OFF_CGROUP_KN", &[("cgroup", "kn")]),
    ("OFF_KN_ID", &[("kernfs_node", "id")]),
    ("OFF_INODE_INO", &[("inode", "i_ino")]),
    ("OFF_INODE_SB", &[("inode", "i_sb")]),
    ("OFF_INODE_SIZE", &[("inode", "i_size")]),
    ("OFF_SB_DEV", &[("super_block", "s_dev")]),
    ("OFF_RA_PAGES", &[("file_ra_state", "ra_pages")]),
    ("OFF_RA_PREV_POS", &[("file_ra_state", "prev_pos")]),
    ("OFF_RA_SIZE", &[("file_ra_state", "size")]),
    ("OFF_BIO_BDEV", &[("bio", "bi_bdev")]),
    ("OFF_BDEV_DEV", &[("block_device", "bd_dev")]),
    ("OFF_BIO_SIZE", &[("bio", "bi_iter.bi_size")]),
    ("OFF_BIO_OPF", &[("bio", "bi_opf")]),
    ("OFF_RQ_DATA_LEN", &[("request", "__data_len")]),
    ("OFF_RQ_CMD_FLAGS", &[("request", "cmd_flags")]),
    ("OFF_RQ_SECTOR", &[("request", "__sector")]),
    // Requests knew their disk directly before 5.17.
    ("OFF_RQ_QUEUE", &[("request", "rq_disk"), ("request", "q")]),
    ("OFF_QUEUE_DISK", &[("request_queue", "disk")]),
    ("OFF_DISK_MAJOR", &[("gendisk", "major")]),
    ("OFF_DISK_FIRST_MINOR", &[("gendisk", "first_minor")]),
    ("OFF_RACTL_MAPPING", &[("readahead_control", "mapping")]),
    ("OFF_RACTL_INDEX", &[("readahead_control", "_index")]),
    ("OFF_RACTL_RA", &[("readahead_control", "ra")]),
    ("OFF_MAPPING_HOST", &[("address_space", "host")]),
    ("OFF_BIO_VCNT", &[("bio", "bi_vcnt")]),
    ("OFF_KIOCB_FILP", &[("kiocb", "ki_filp")]),
    ("OFF_KIOCB_POS", &[("kiocb", "ki_pos")]),
    ("OFF_ITER_COUNT", &[("iov_iter", "count")]),
    ("OFF_FILE_INODE", &[("file", "f_inode")]),
    ("OFF_FILE_FLAGS", &[("file", "f_flags")]),
    ("OFF_FILE_POS", &[("file", "f_pos")]),
    ("OFF_FILE_OP", &[("file", "f_op")]),
    ("OFF_FOP_READ_ITER", &[("file_operations", "read_iter")]),
    ("OFF_INODE_MODE", &[("inode", "i_mode")]),
    ("OFF_INODE_RDEV", &[("inode", "i_rdev")]),
    ("OFF_SB_TYPE", &[("super_block", "s_type")]),
    ("OFF_FS_TYPE_NAME", &[("file_system_type", "name")]),
    ("OFF_TASK_FILES", &[("task_struct", "files")]),
    ("OFF_FILES_FDT", &[("files_struct", "fdt")]),
    ("OFF_FDTABLE_FD", &[("fdtable", "fd")]),
    ("OFF_FDTABLE_MAX", &[("fdtable", "max_fds")]),
    ("OFF_IO_KIOCB_OPCODE", &[("io_kiocb", "opcode")]),
    ("OFF_IO_KIOCB_FD", &[("io_kiocb", "cqe.fd")]),
    ("OFF_IO_KIOCB_FLAGS", &[("io_kiocb", "flags")]),
    ("OFF_IO_RW_POS", &[("io_rw", "kiocb.ki_pos")]),
    ("OFF_IO_RW_LEN", &[("io_rw", "len")]),
];

/// Globals that are the index of an argument: of the functions, the first that exists counts, and
/// of the argument's names the one that it has.
const ARGUMENTS: &[(&str, &[&str], &[&str])] = &[
    ("BIO_VECS_ARG", &["bio_alloc_bioset"], &["nr_vecs", "nr_iovecs"]),
    ("RECLAIM_ORDER_ARG", &["__traceiter_mm_vmscan_direct_reclaim_begin"], &["order"]),
    ("BIO_CLONE_ARG", &["bio_alloc_clone", "bio_clone_fast"], &["bio_src", "bio"]),
];

/// Globals filled from the format of a tracepoint: the first field that exists counts.
const FIELDS: &[(&str, &str, &str, &[&str])] = &[
    ("TP_PAGE_ALLOC_PFN", "kmem", "mm_page_alloc", &["pfn"]),
    ("TP_PAGE_ALLOC_ORDER", "kmem", "mm_page_alloc", &["order"]),
    ("TP_LOCK_ADDR", "lock", "contention_begin", &["lock_addr"]),
    ("TP_LOCK_FLAGS", "lock", "contention_begin", &["flags"]),
    ("TP_LOCK_END_ADDR", "lock", "contention_end", &["lock_addr"]),
    ("TP_RA_INO", "readahead", "page_cache_sync_ra", &["i_ino"]),
    ("TP_RA_DEV", "readahead", "page_cache_sync_ra", &["s_dev"]),
    ("TP_RA_INDEX", "readahead", "page_cache_sync_ra", &["index"]),
    ("TP_RA_PAGES", "readahead", "page_cache_sync_ra", &["ra_pages"]),
    ("TP_RA_PREV_POS", "readahead", "page_cache_sync_ra", &["prev_pos"]),
    ("TP_RA_REQ_COUNT", "readahead", "page_cache_sync_ra", &["req_count"]),
    ("TP_RA_UNBOUNDED_INO", "readahead", "page_cache_ra_unbounded", &["i_ino"]),
    ("TP_RA_UNBOUNDED_DEV", "readahead", "page_cache_ra_unbounded", &["s_dev"]),
    ("TP_RA_UNBOUNDED_INDEX", "readahead", "page_cache_ra_unbounded", &["index"]),
    ("TP_RA_UNBOUNDED_NR", "readahead", "page_cache_ra_unbounded", &["nr_to_read"]),
    ("TP_RA_ORDER_INO", "readahead", "page_cache_ra_order", &["i_ino"]),
    ("TP_RA_ORDER_DEV", "readahead", "page_cache_ra_order", &["s_dev"]),
    ("TP_RA_ORDER_INDEX", "readahead", "page_cache_ra_order", &["index"]),
    ("TP_RA_ORDER_SIZE", "readahead", "page_cache_ra_order", &["size"]),
    ("TP_BIO_DEV", "block", "block_bio_queue", &["dev"]),
    ("TP_BIO_NR_SECTOR", "block", "block_bio_queue", &["nr_sector"]),
    ("TP_BIO_RWBS", "block", "block_bio_queue", &["rwbs"]),
    ("TP_RQ_ISSUE_DEV", "block", "block_rq_issue", &["dev"]),
    ("TP_RQ_ISSUE_SECTOR", "block", "block_rq_issue", &["sector"]),
    ("TP_RQ_ISSUE_BYTES", "block", "block_rq_issue", &["bytes"]),
    ("TP_RQ_ISSUE_RWBS", "block", "block_rq_issue", &["rwbs"]),
    ("TP_RQ_COMPLETE_DEV", "block", "block_rq_complete", &["dev"]),
    ("TP_RQ_COMPLETE_SECTOR", "block", "block_rq_complete", &["sector"]),
    ("TP_RQ_COMPLETE_NR_SECTOR", "block", "block_rq_complete", &["nr_sector"]),
    ("TP_RQ_COMPLETE_RWBS", "block", "block_rq_complete", &["rwbs"]),
    ("TP_DIRECT_RECLAIM_ORDER", "vmscan", "mm_vmscan_direct_reclaim_begin", &["order"]),
    ("TP_DIRECT_RECLAIM_PAGES", "vmscan", "mm_vmscan_direct_reclaim_end", &["nr_reclaimed"]),
    ("TP_MEMCG_RECLAIM_ORDER", "vmscan", "mm_vmscan_memcg_reclaim_begin", &["order"]),
    ("TP_MEMCG_RECLAIM_PAGES", "vmscan", "mm_vmscan_memcg_reclaim_end", &["nr_reclaimed"]),
    ("TP_FORK_PARENT", "sched", "sched_process_fork", &["parent_pid"]),
    ("TP_FORK_CHILD", "sched", "sched_process_fork", &["child_pid"]),
];

/// A request's queue leads on to its disk, unless the request has the disk itself.
const DISK_IN_REQUEST: u32 = u32::MAX;

/// Values of the globals that this kernel can fill.
#[derive(Debug, Default)]
pub struct Offsets {
    values: BTreeMap<&'static str, u32>,
}

impl Offsets {
    /// Looks everything up: members in `btf`, if there is one, fields in tracefs, if it is mounted.
    pub fn resolve(btf: Option<&Btf>) -> Self {
        let mut values = BTreeMap::new();
        if let Some(btf) = btf {
            for (global, members) in MEMBERS {
                let offset = members.iter().find_map(|(structure, path)| btf.offset_of(structure, path));
                if let Some(offset) = offset {
                    values.insert(*global, offset);
                }
            }
            if btf.offset_of("request", "rq_disk").is_some() {
                values.insert("OFF_QUEUE_DISK", DISK_IN_REQUEST);
            }
            // enum req_flag_bits has the number of the bit.
            if let Some(bit) = btf.enum_value("req_flag_bits", "__REQ_FUA") {
                values.insert("REQ_FUA", 1u32.checked_shl(bit as u32).unwrap_or(0));
            }
            for (global, functions, names) in ARGUMENTS {
                let index = functions.iter().find_map(|function| btf.argument_index(function, names));
                if let Some(index) = index {
                    values.insert(*global, index);
                }
            }
            for (global, tracepoint) in
                [("BIO_QUEUE_ARG", "block_bio_queue"), ("RQ_ISSUE_ARG", "block_rq_issue")]
            {
                // A request_queue came first before 5.11.
                if let Some(args) = btf.tracepoint_args(tracepoint) {
                    values.insert(global, args.saturating_sub(1));
                }
            }
        }
        for (global, category, tracepoint, fields) in FIELDS {
            let Ok(format) = Format::read(category, tracepoint) else { continue };
            if let Some(offset) = fields.iter().find_map(|field| format.offset_of(field)) {
                values.insert(*global, offset);
            }
        }
        Self { values }
    }

    /// The value of a global, if this kernel has it.
    pub fn get(&self, global: &str) -> Option<u32> {
        self.values.get(global).copied()
    }

    /// All values, by global.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &u32)> {
        self.values.iter().map(|(global, value)| (*global, value))
    }

    /// Those of `needed` that this kernel lacks.
    pub fn missing(&self, needed: &[&'static str]) -> Vec<&'static str> {
        needed.iter().copied().filter(|global| !self.values.contains_key(global)).collect()
    }

    /// What a global stands for, for messages: `bio.bi_bdev`, `block:block_rq_issue.dev`.
    pub fn describe(global: &str) -> String {
        if let Some((_, members)) = MEMBERS.iter().find(|(name, _)| *name == global) {
            let (structure, path) = members[0];
            return format!("{structure}.{path}");
        }
        if let Some((_, category, tracepoint, fields)) = FIELDS.iter().find(|(name, ..)| *name == global) {
            return format!("{category}:{tracepoint}.{}", fields[0]);
        }
        if let Some((_, functions, names)) = ARGUMENTS.iter().find(|(name, ..)| *name == global) {
            return format!("{}({})", functions[0], names[0]);
        }
        global.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_what_is_missing() {
        assert_eq!(Offsets::describe("OFF_BIO_SIZE"), "bio.bi_iter.bi_size");
        assert_eq!(Offsets::describe("TP_BIO_DEV"), "block:block_bio_queue.dev");
        assert_eq!(Offsets::default().missing(&["OFF_BIO_SIZE"]), ["OFF_BIO_SIZE"]);
    }

    #[test]
    fn every_global_stands_in_the_ebpf_configuration() {
        let config = include_str!("../../../profiler-ebpf/src/config.rs");
        let globals = MEMBERS
            .iter()
            .map(|(global, _)| *global)
            .chain(FIELDS.iter().map(|field| field.0))
            .chain(ARGUMENTS.iter().map(|argument| argument.0));
        for global in globals {
            assert!(config.contains(&format!("{global}: u32")), "{global} is not in config.rs");
        }
    }
}
