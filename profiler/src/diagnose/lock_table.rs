//! Which function takes which lock: names a lock where nothing but the callers is known.
//!
//! Names of functions are those that [`normalize`] leaves. Only locks that a function takes itself, or that
//! one takes which compilers put into it, stand here; where it takes several of a class, the one that is
//! fought for.

use super::symbols::normalize;
use crate::profile::LockKind;

use LockClass::{Mutex, PercpuRwsem, Rwlock, Rwsem, Semaphore, Spin};

/// Kinds of locks, however one waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockClass {
    /// Spinlock.
    Spin,
    /// `rwlock_t`.
    Rwlock,
    /// Mutex, spinning or asleep.
    Mutex,
    /// `rw_semaphore`.
    Rwsem,
    /// Counting semaphore.
    Semaphore,
    /// `percpu_rw_semaphore`.
    PercpuRwsem,
}

impl LockClass {
    /// The class of a kind of lock. `None` for an rt_mutex, as which a kernel with PREEMPT_RT makes all kinds.
    pub fn of(kind: LockKind) -> Option<Self> {
        Some(match kind {
            LockKind::Spin => Spin,
            LockKind::RwlockRead | LockKind::RwlockWrite => Rwlock,
            LockKind::Mutex | LockKind::MutexSpin => Mutex,
            LockKind::RwsemRead | LockKind::RwsemWrite => Rwsem,
            LockKind::Semaphore => Semaphore,
            LockKind::PercpuRwsem => PercpuRwsem,
            LockKind::RtMutex => return None,
        })
    }
}

/// Beginnings of the names of functions that are part of a lock, or that do nothing but take one they are given.
const PRIMITIVES: &[&str] = &[
    "_raw_spin_",
    "_raw_read_",
    "_raw_write_",
    "__raw_spin_",
    "do_raw_",
    "native_queued_spin_",
    "__pv_queued_spin_",
    "queued_spin_",
    "queued_read_lock_",
    "queued_write_lock_",
    "pv_wait",
    "kvm_wait",
    "mutex_lock",
    "__mutex_lock",
    "mutex_spin_on_owner",
    "mutex_optimistic_spin",
    "osq_lock",
    "down_read",
    "down_write",
    "down_killable",
    "down_interruptible",
    "down_timeout",
    "__down",
    "___down",
    "rwsem_",
    "percpu_down_",
    "__percpu_down_read",
    "percpu_rwsem_wait",
    "rt_mutex_",
    "__rt_mutex_",
    "rtlock_",
    "rt_spin_",
    "schedule_timeout",
    "schedule_preempt_disabled",
    "__list_lru_lock",
    "inode_lock",
    "mmap_read_lock",
    "mmap_write_lock",
    "xfs_ilock",
];

/// Whether a function, by its [`normalize`]d name, is part of a lock.
pub fn is_primitive(name: &str) -> bool {
    matches!(name, "down" | "schedule") || PRIMITIVES.iter().any(|prefix| name.starts_with(prefix))
}

/// The lock of this class that a stack waits for, by its functions from the innermost on, as any tool names
/// them.
///
/// ```
/// use profiler::diagnose::{LockClass, lock_of};
/// let stack = ["native_queued_spin_lock_slowpath", "_raw_spin_lock", "alloc_fd", "__x64_sys_dup"];
/// assert_eq!(lock_of(LockClass::Spin, stack), Some("files_struct.file_lock"));
/// ```
pub fn lock_of<'n>(
    class: LockClass,
    innermost_first: impl IntoIterator<Item = &'n str>,
) -> Option<&'static str> {
    // Not further out: whatever runs in a work queue has process_one_work behind it.
    let taker = innermost_first.into_iter().map(normalize).find(|name| !is_primitive(name))?;
    let entry = TABLE.iter().find(|(caller, of, _)| *of == class && *caller == taker);
    entry.map(|(_, _, lock)| *lock)
}

/// Functions that take this lock, by the table.
pub fn sites_of(lock: &str) -> impl Iterator<Item = &'static str> {
    TABLE.iter().filter(move |(_, _, of)| *of == lock).map(|(caller, ..)| *caller)
}

/// Function, class and name of the lock that it takes; the comment names the kernel's source files.
const TABLE: &[(&str, LockClass, &str)] = &[
    // mm/page_alloc.c
    ("rmqueue_bulk", Spin, "zone.lock"),
    ("rmqueue", Spin, "zone.lock"),
    ("rmqueue_buddy", Spin, "zone.lock"),
    ("__rmqueue_pcplist", Spin, "zone.lock"),
    ("get_page_from_freelist", Spin, "zone.lock"),
    ("free_pcppages_bulk", Spin, "zone.lock"),
    ("free_one_page", Spin, "zone.lock"),
    ("free_unref_page_commit", Spin, "zone.lock"),
    ("free_frozen_page_commit", Spin, "zone.lock"),
    // mm/swap.c, mm/vmscan.c
    ("folio_lruvec_lock", Spin, "lruvec.lru_lock"),
    ("folio_lruvec_lock_irq", Spin, "lruvec.lru_lock"),
    ("folio_lruvec_lock_irqsave", Spin, "lruvec.lru_lock"),
    ("lock_page_lruvec_irqsave", Spin, "lruvec.lru_lock"),
    ("folio_batch_move_lru", Spin, "lruvec.lru_lock"),
    ("pagevec_lru_move_fn", Spin, "lruvec.lru_lock"),
    ("__pagevec_lru_add", Spin, "lruvec.lru_lock"),
    ("lru_add_drain_cpu", Spin, "lruvec.lru_lock"),
    ("__page_cache_release", Spin, "lruvec.lru_lock"),
    ("release_pages", Spin, "lruvec.lru_lock"),
    ("shrink_inactive_list", Spin, "lruvec.lru_lock"),
    ("shrink_active_list", Spin, "lruvec.lru_lock"),
    ("evict_folios", Spin, "lruvec.lru_lock"),
    ("lru_note_cost", Spin, "lruvec.lru_lock"),
    // mm/slub.c
    ("___slab_alloc", Spin, "kmem_cache_node.list_lock"),
    ("get_partial_node", Spin, "kmem_cache_node.list_lock"),
    ("get_any_partial", Spin, "kmem_cache_node.list_lock"),
    ("__slab_free", Spin, "kmem_cache_node.list_lock"),
    ("deactivate_slab", Spin, "kmem_cache_node.list_lock"),
    ("__unfreeze_partials", Spin, "kmem_cache_node.list_lock"),
    ("__put_partials", Spin, "kmem_cache_node.list_lock"),
    ("free_to_partial_list", Spin, "kmem_cache_node.list_lock"),
    // mm/list_lru.c
    ("list_lru_add", Spin, "list_lru_node.lock"),
    ("list_lru_del", Spin, "list_lru_node.lock"),
    ("list_lru_add_obj", Spin, "list_lru_node.lock"),
    ("list_lru_del_obj", Spin, "list_lru_node.lock"),
    ("lock_list_lru_of_memcg", Spin, "list_lru_node.lock"),
    ("list_lru_walk_one", Spin, "list_lru_node.lock"),
    ("list_lru_walk_node", Spin, "list_lru_node.lock"),
    ("d_lru_add", Spin, "list_lru_node.lock"),
    ("d_lru_del", Spin, "list_lru_node.lock"),
    // mm/filemap.c, mm/page-writeback.c
    ("__filemap_add_folio", Spin, "address_space.i_pages.xa_lock"),
    ("__add_to_page_cache_locked", Spin, "address_space.i_pages.xa_lock"),
    ("filemap_remove_folio", Spin, "address_space.i_pages.xa_lock"),
    ("delete_from_page_cache_batch", Spin, "address_space.i_pages.xa_lock"),
    ("__remove_mapping", Spin, "address_space.i_pages.xa_lock"),
    ("__folio_mark_dirty", Spin, "address_space.i_pages.xa_lock"),
    ("__folio_end_writeback", Spin, "address_space.i_pages.xa_lock"),
    ("__folio_start_writeback", Spin, "address_space.i_pages.xa_lock"),
    ("test_clear_page_writeback", Spin, "address_space.i_pages.xa_lock"),
    ("__test_set_page_writeback", Spin, "address_space.i_pages.xa_lock"),
    // mm/memory.c, mm/pgtable-generic.c
    ("__pte_offset_map_lock", Spin, "ptdesc.ptl"),
    ("pte_offset_map_lock", Spin, "ptdesc.ptl"),
    ("zap_pte_range", Spin, "ptdesc.ptl"),
    // mm/percpu.c
    ("pcpu_alloc", Spin, "pcpu_lock"),
    ("free_percpu", Spin, "pcpu_lock"),
    // mm/percpu.c
    ("pcpu_alloc", Mutex, "pcpu_alloc_mutex"),
    // lib/percpu_counter.c
    ("percpu_counter_add_batch", Spin, "percpu_counter.lock"),
    ("__percpu_counter_sum", Spin, "percpu_counter.lock"),
    ("__percpu_counter_compare", Spin, "percpu_counter.lock"),
    ("percpu_counter_set", Spin, "percpu_counter.lock"),
    // mm, arch/x86/mm/fault.c
    ("do_user_addr_fault", Rwsem, "mm_struct.mmap_lock"),
    ("lock_mm_and_find_vma", Rwsem, "mm_struct.mmap_lock"),
    ("vm_mmap_pgoff", Rwsem, "mm_struct.mmap_lock"),
    ("__vm_munmap", Rwsem, "mm_struct.mmap_lock"),
    ("do_madvise", Rwsem, "mm_struct.mmap_lock"),
    ("madvise_lock", Rwsem, "mm_struct.mmap_lock"),
    ("do_mprotect_pkey", Rwsem, "mm_struct.mmap_lock"),
    ("__do_sys_brk", Rwsem, "mm_struct.mmap_lock"),
    ("__x64_sys_brk", Rwsem, "mm_struct.mmap_lock"),
    ("dup_mmap", Rwsem, "mm_struct.mmap_lock"),
    ("exit_mmap", Rwsem, "mm_struct.mmap_lock"),
    ("get_user_pages_unlocked", Rwsem, "mm_struct.mmap_lock"),
    ("internal_get_user_pages_fast", Rwsem, "mm_struct.mmap_lock"),
    ("gup_fast_fallback", Rwsem, "mm_struct.mmap_lock"),
    // mm/rmap.c
    ("anon_vma_fork", Rwsem, "anon_vma.rwsem"),
    ("anon_vma_clone", Rwsem, "anon_vma.rwsem"),
    ("unlink_anon_vmas", Rwsem, "anon_vma.rwsem"),
    ("folio_lock_anon_vma_read", Rwsem, "anon_vma.rwsem"),
    ("rmap_walk_anon", Rwsem, "anon_vma.rwsem"),
    // mm/vma.c, mm/rmap.c
    ("unlink_file_vma", Rwsem, "address_space.i_mmap_rwsem"),
    ("unlink_file_vma_batch_process", Rwsem, "address_space.i_mmap_rwsem"),
    ("rmap_walk_file", Rwsem, "address_space.i_mmap_rwsem"),
    // fs/file.c
    ("alloc_fd", Spin, "files_struct.file_lock"),
    ("__alloc_fd", Spin, "files_struct.file_lock"),
    ("get_unused_fd_flags", Spin, "files_struct.file_lock"),
    ("__get_unused_fd_flags", Spin, "files_struct.file_lock"),
    ("put_unused_fd", Spin, "files_struct.file_lock"),
    ("fd_install", Spin, "files_struct.file_lock"),
    ("close_fd", Spin, "files_struct.file_lock"),
    ("__close_fd", Spin, "files_struct.file_lock"),
    ("file_close_fd", Spin, "files_struct.file_lock"),
    ("close_fd_get_file", Spin, "files_struct.file_lock"),
    ("__do_sys_close_range", Spin, "files_struct.file_lock"),
    ("__x64_sys_close_range", Spin, "files_struct.file_lock"),
    ("set_close_on_exec", Spin, "files_struct.file_lock"),
    ("do_dup2", Spin, "files_struct.file_lock"),
    ("ksys_dup3", Spin, "files_struct.file_lock"),
    ("dup_fd", Spin, "files_struct.file_lock"),
    // fs/inode.c
    ("inode_sb_list_add", Spin, "super_block.s_inode_list_lock"),
    ("inode_sb_list_del", Spin, "super_block.s_inode_list_lock"),
    // fs/inode.c
    ("__insert_inode_hash", Spin, "inode_hash_lock"),
    ("__remove_inode_hash", Spin, "inode_hash_lock"),
    ("inode_insert5", Spin, "inode_hash_lock"),
    ("iget_locked", Spin, "inode_hash_lock"),
    // fs/inode.c, fs/stat.c
    ("igrab", Spin, "inode.i_lock"),
    ("inode_add_bytes", Spin, "inode.i_lock"),
    ("inode_sub_bytes", Spin, "inode.i_lock"),
    ("inode_set_bytes", Spin, "inode.i_lock"),
    // fs/fs-writeback.c
    ("locked_inode_to_wb_and_lock_list", Spin, "bdi_writeback.list_lock"),
    ("inode_to_wb_and_lock_list", Spin, "bdi_writeback.list_lock"),
    // fs/fs-writeback.c
    ("sb_mark_inode_writeback", Spin, "super_block.s_inode_wblist_lock"),
    ("sb_clear_inode_writeback", Spin, "super_block.s_inode_wblist_lock"),
    // fs/dcache.c, lib/lockref.c
    ("dput", Spin, "dentry.d_lockref.lock"),
    ("fast_dput", Spin, "dentry.d_lockref.lock"),
    ("dget_parent", Spin, "dentry.d_lockref.lock"),
    ("d_alloc", Spin, "dentry.d_lockref.lock"),
    ("d_delete", Spin, "dentry.d_lockref.lock"),
    ("lockref_get", Spin, "dentry.d_lockref.lock"),
    ("lockref_get_not_zero", Spin, "dentry.d_lockref.lock"),
    ("lockref_get_not_dead", Spin, "dentry.d_lockref.lock"),
    ("lockref_put_or_lock", Spin, "dentry.d_lockref.lock"),
    ("lockref_put_return", Spin, "dentry.d_lockref.lock"),
    // fs/locks.c
    ("posix_lock_inode", Spin, "file_lock_context.flc_lock"),
    ("posix_test_lock", Spin, "file_lock_context.flc_lock"),
    ("flock_lock_inode", Spin, "file_lock_context.flc_lock"),
    ("locks_remove_posix", Spin, "file_lock_context.flc_lock"),
    // fs/eventpoll.c
    ("ep_poll_callback", Spin, "eventpoll.lock"),
    ("ep_poll", Spin, "eventpoll.lock"),
    ("ep_start_scan", Spin, "eventpoll.lock"),
    ("ep_done_scan", Spin, "eventpoll.lock"),
    // fs/eventpoll.c
    ("ep_poll_callback", Rwlock, "eventpoll.lock"),
    ("ep_poll", Rwlock, "eventpoll.lock"),
    ("ep_start_scan", Rwlock, "eventpoll.lock"),
    ("ep_done_scan", Rwlock, "eventpoll.lock"),
    // fs/eventpoll.c
    ("do_epoll_ctl", Mutex, "eventpoll.mtx"),
    ("ep_send_events", Mutex, "eventpoll.mtx"),
    ("ep_scan_ready_list", Mutex, "eventpoll.mtx"),
    // fs/pipe.c
    ("pipe_read", Mutex, "pipe_inode_info.mutex"),
    ("pipe_write", Mutex, "pipe_inode_info.mutex"),
    ("anon_pipe_read", Mutex, "pipe_inode_info.mutex"),
    ("anon_pipe_write", Mutex, "pipe_inode_info.mutex"),
    ("pipe_release", Mutex, "pipe_inode_info.mutex"),
    // fs/namei.c, fs/readdir.c, fs/open.c
    ("do_unlinkat", Rwsem, "inode.i_rwsem"),
    ("do_rmdir", Rwsem, "inode.i_rwsem"),
    ("filename_create", Rwsem, "inode.i_rwsem"),
    ("open_last_lookups", Rwsem, "inode.i_rwsem"),
    ("path_openat", Rwsem, "inode.i_rwsem"),
    ("lookup_slow", Rwsem, "inode.i_rwsem"),
    ("lock_rename", Rwsem, "inode.i_rwsem"),
    ("iterate_dir", Rwsem, "inode.i_rwsem"),
    ("wrap_directory_iterator", Rwsem, "inode.i_rwsem"),
    ("do_truncate", Rwsem, "inode.i_rwsem"),
    ("chmod_common", Rwsem, "inode.i_rwsem"),
    ("chown_common", Rwsem, "inode.i_rwsem"),
    ("vfs_setxattr", Rwsem, "inode.i_rwsem"),
    ("vfs_removexattr", Rwsem, "inode.i_rwsem"),
    // writers of file systems, under inode_lock()
    ("generic_file_write_iter", Rwsem, "inode.i_rwsem"),
    ("ext4_buffered_write_iter", Rwsem, "inode.i_rwsem"),
    ("ext4_file_write_iter", Rwsem, "inode.i_rwsem"),
    ("ext4_dio_write_iter", Rwsem, "inode.i_rwsem"),
    ("shmem_file_write_iter", Rwsem, "inode.i_rwsem"),
    ("blkdev_write_iter", Rwsem, "inode.i_rwsem"),
    ("btrfs_inode_lock", Rwsem, "inode.i_rwsem"),
    ("xfs_file_buffered_write", Rwsem, "inode.i_rwsem"),
    ("xfs_file_dio_write_aligned", Rwsem, "inode.i_rwsem"),
    ("xfs_file_dio_write_unaligned", Rwsem, "inode.i_rwsem"),
    ("xfs_file_buffered_read", Rwsem, "inode.i_rwsem"),
    ("xfs_file_dio_read", Rwsem, "inode.i_rwsem"),
    ("f2fs_file_write_iter", Rwsem, "inode.i_rwsem"),
    ("fuse_file_write_iter", Rwsem, "inode.i_rwsem"),
    // fs/namei.c
    ("lock_rename", Mutex, "super_block.s_vfs_rename_mutex"),
    // fs/namespace.c
    ("namespace_lock", Rwsem, "namespace_sem"),
    // fs/kernfs
    ("kernfs_iop_permission", Rwsem, "kernfs_root.kernfs_rwsem"),
    ("kernfs_iop_lookup", Rwsem, "kernfs_root.kernfs_rwsem"),
    ("kernfs_iop_getattr", Rwsem, "kernfs_root.kernfs_rwsem"),
    ("kernfs_dop_revalidate", Rwsem, "kernfs_root.kernfs_rwsem"),
    ("kernfs_fop_readdir", Rwsem, "kernfs_root.kernfs_rwsem"),
    // kernel/sched/core.c, fair.c
    ("try_to_wake_up", Spin, "rq.__lock"),
    ("raw_spin_rq_lock_nested", Spin, "rq.__lock"),
    ("task_rq_lock", Spin, "rq.__lock"),
    ("__task_rq_lock", Spin, "rq.__lock"),
    ("__schedule", Spin, "rq.__lock"),
    ("scheduler_tick", Spin, "rq.__lock"),
    ("sched_tick", Spin, "rq.__lock"),
    ("load_balance", Spin, "rq.__lock"),
    ("sched_balance_rq", Spin, "rq.__lock"),
    ("newidle_balance", Spin, "rq.__lock"),
    ("sched_balance_newidle", Spin, "rq.__lock"),
    // kernel/futex
    ("futex_q_lock", Spin, "futex_hash_bucket.lock"),
    ("futex_wait_setup", Spin, "futex_hash_bucket.lock"),
    ("futex_wake", Spin, "futex_hash_bucket.lock"),
    ("futex_wake_op", Spin, "futex_hash_bucket.lock"),
    ("futex_requeue", Spin, "futex_hash_bucket.lock"),
    ("futex_unqueue", Spin, "futex_hash_bucket.lock"),
    ("__futex_wait", Spin, "futex_hash_bucket.lock"),
    ("futex_wait", Spin, "futex_hash_bucket.lock"),
    ("do_futex", Spin, "futex_hash_bucket.lock"),
    // kernel/sched/wait.c
    ("add_wait_queue", Spin, "wait_queue_head.lock"),
    ("add_wait_queue_exclusive", Spin, "wait_queue_head.lock"),
    ("remove_wait_queue", Spin, "wait_queue_head.lock"),
    ("prepare_to_wait", Spin, "wait_queue_head.lock"),
    ("prepare_to_wait_exclusive", Spin, "wait_queue_head.lock"),
    ("prepare_to_wait_event", Spin, "wait_queue_head.lock"),
    ("finish_wait", Spin, "wait_queue_head.lock"),
    ("__wake_up", Spin, "wait_queue_head.lock"),
    ("__wake_up_common_lock", Spin, "wait_queue_head.lock"),
    ("__wake_up_sync_key", Spin, "wait_queue_head.lock"),
    // kernel/workqueue.c
    ("__queue_work", Spin, "worker_pool.lock"),
    ("process_one_work", Spin, "worker_pool.lock"),
    ("worker_thread", Spin, "worker_pool.lock"),
    // kernel/time/timer.c
    ("lock_timer_base", Spin, "timer_base.lock"),
    ("__mod_timer", Spin, "timer_base.lock"),
    ("mod_timer", Spin, "timer_base.lock"),
    ("add_timer_on", Spin, "timer_base.lock"),
    // kernel/time/hrtimer.c
    ("lock_hrtimer_base", Spin, "hrtimer_cpu_base.lock"),
    ("hrtimer_start_range_ns", Spin, "hrtimer_cpu_base.lock"),
    ("hrtimer_try_to_cancel", Spin, "hrtimer_cpu_base.lock"),
    ("hrtimer_interrupt", Spin, "hrtimer_cpu_base.lock"),
    // kernel/rcu/tree.c
    ("note_gp_changes", Spin, "rcu_node.lock"),
    ("rcu_report_qs_rdp", Spin, "rcu_node.lock"),
    ("rcu_report_qs_rnp", Spin, "rcu_node.lock"),
    ("force_qs_rnp", Spin, "rcu_node.lock"),
    // kernel/cgroup/rstat.c
    ("cgroup_rstat_flush", Spin, "cgroup_rstat_lock"),
    ("cgroup_rstat_flush_locked", Spin, "cgroup_rstat_lock"),
    ("__cgroup_rstat_lock", Spin, "cgroup_rstat_lock"),
    ("css_rstat_flush", Spin, "cgroup_rstat_lock"),
    ("__css_rstat_lock", Spin, "cgroup_rstat_lock"),
    // kernel/cgroup/rstat.c
    ("cgroup_rstat_updated", Spin, "cgroup_rstat_cpu_lock"),
    ("css_rstat_updated", Spin, "cgroup_rstat_cpu_lock"),
    ("_cgroup_rstat_cpu_lock", Spin, "cgroup_rstat_cpu_lock"),
    // kernel/cgroup/cgroup.c
    ("cgroup_post_fork", Spin, "css_set_lock"),
    ("cgroup_exit", Spin, "css_set_lock"),
    ("cgroup_release", Spin, "css_set_lock"),
    ("find_css_set", Spin, "css_set_lock"),
    // kernel/cgroup/cgroup.c
    ("cgroup_kn_lock_live", Mutex, "cgroup_mutex"),
    ("cgroup_lock_and_drain_offline", Mutex, "cgroup_mutex"),
    // kernel/cgroup/cgroup.c, kernel/signal.c
    ("cgroup_can_fork", PercpuRwsem, "cgroup_threadgroup_rwsem"),
    ("cgroup_css_set_fork", PercpuRwsem, "cgroup_threadgroup_rwsem"),
    ("exit_signals", PercpuRwsem, "cgroup_threadgroup_rwsem"),
    ("cgroup_attach_lock", PercpuRwsem, "cgroup_threadgroup_rwsem"),
    // kernel/fork.c, kernel/exit.c
    ("copy_process", Rwlock, "tasklist_lock"),
    ("release_task", Rwlock, "tasklist_lock"),
    ("exit_notify", Rwlock, "tasklist_lock"),
    ("do_wait", Rwlock, "tasklist_lock"),
    ("__do_wait", Rwlock, "tasklist_lock"),
    // kernel/pid.c
    ("alloc_pid", Spin, "pidmap_lock"),
    ("free_pid", Spin, "pidmap_lock"),
    // kernel/signal.c
    ("__lock_task_sighand", Spin, "sighand_struct.siglock"),
    ("lock_task_sighand", Spin, "sighand_struct.siglock"),
    ("get_signal", Spin, "sighand_struct.siglock"),
    ("do_sigaction", Spin, "sighand_struct.siglock"),
    ("__set_current_blocked", Spin, "sighand_struct.siglock"),
    ("sigprocmask", Spin, "sighand_struct.siglock"),
    // fs/jbd2/transaction.c, commit.c
    ("start_this_handle", Rwlock, "journal_s.j_state_lock"),
    ("jbd2__journal_start", Rwlock, "journal_s.j_state_lock"),
    ("jbd2_log_wait_commit", Rwlock, "journal_s.j_state_lock"),
    ("jbd2_log_start_commit", Rwlock, "journal_s.j_state_lock"),
    ("jbd2_journal_commit_transaction", Rwlock, "journal_s.j_state_lock"),
    ("jbd2_complete_transaction", Rwlock, "journal_s.j_state_lock"),
    // fs/jbd2/transaction.c
    ("jbd2_journal_file_inode", Spin, "journal_s.j_list_lock"),
    ("jbd2_journal_release_jbd_inode", Spin, "journal_s.j_list_lock"),
    ("jbd2_journal_file_buffer", Spin, "journal_s.j_list_lock"),
    ("jbd2_log_do_checkpoint", Spin, "journal_s.j_list_lock"),
    // fs/jbd2/checkpoint.c
    ("__jbd2_log_wait_for_space", Mutex, "journal_s.j_checkpoint_mutex"),
    ("jbd2_mark_journal_empty", Mutex, "journal_s.j_checkpoint_mutex"),
    // fs/ext4/extents_status.c
    ("ext4_es_lookup_extent", Rwlock, "ext4_inode_info.i_es_lock"),
    ("ext4_es_insert_extent", Rwlock, "ext4_inode_info.i_es_lock"),
    ("ext4_es_remove_extent", Rwlock, "ext4_inode_info.i_es_lock"),
    ("ext4_es_cache_extent", Rwlock, "ext4_inode_info.i_es_lock"),
    // fs/ext4/ialloc.c: of the group of blocks that the inode lies in
    ("__ext4_new_inode", Spin, "blockgroup_lock.locks"),
    ("ext4_free_inode", Spin, "blockgroup_lock.locks"),
    // fs/ext4/inode.c
    ("ext4_map_blocks", Rwsem, "ext4_inode_info.i_data_sem"),
    ("ext4_da_map_blocks", Rwsem, "ext4_inode_info.i_data_sem"),
    ("ext4_truncate", Rwsem, "ext4_inode_info.i_data_sem"),
    // fs/ext4/orphan.c
    ("ext4_orphan_add", Mutex, "ext4_sb_info.s_orphan_lock"),
    ("ext4_orphan_del", Mutex, "ext4_sb_info.s_orphan_lock"),
    // fs/xfs/xfs_buf.c
    ("xfs_buf_lock", Semaphore, "xfs_buf.b_sema"),
    ("xfs_buf_find_lock", Semaphore, "xfs_buf.b_sema"),
    ("xfs_buf_find", Semaphore, "xfs_buf.b_sema"),
    ("xfs_buf_get_map", Semaphore, "xfs_buf.b_sema"),
    // fs/xfs/xfs_icache.c
    ("xfs_inodegc_set_reclaimable", Spin, "xfs_perag.pag_ici_lock"),
    ("xfs_iget_cache_miss", Spin, "xfs_perag.pag_ici_lock"),
    ("xfs_reclaim_inode", Spin, "xfs_perag.pag_ici_lock"),
    // fs/xfs/xfs_trans_ail.c
    ("xfs_trans_ail_update_bulk", Spin, "xfs_ail.ail_lock"),
    ("xfs_trans_ail_delete", Spin, "xfs_ail.ail_lock"),
    ("xfsaild_push", Spin, "xfs_ail.ail_lock"),
    ("xfs_ail_push_all_sync", Spin, "xfs_ail.ail_lock"),
    // fs/xfs/xfs_log.c
    ("xlog_grant_head_check", Spin, "xlog_grant_head.lock"),
    ("xlog_grant_head_wait", Spin, "xlog_grant_head.lock"),
    // fs/xfs/xfs_log.c
    ("xlog_state_release_iclog", Spin, "xlog.l_icloglock"),
    ("xlog_state_get_iclog_space", Spin, "xlog.l_icloglock"),
    ("xlog_state_done_syncing", Spin, "xlog.l_icloglock"),
    ("xfs_log_force", Spin, "xlog.l_icloglock"),
    ("xlog_force_lsn", Spin, "xlog.l_icloglock"),
    // fs/xfs/xfs_log_cil.c
    ("xlog_cil_commit", Rwsem, "xfs_cil.xc_ctx_lock"),
    ("xlog_cil_push_work", Rwsem, "xfs_cil.xc_ctx_lock"),
    // fs/btrfs/locking.c
    ("btrfs_tree_lock", Rwsem, "extent_buffer.lock"),
    ("__btrfs_tree_lock", Rwsem, "extent_buffer.lock"),
    ("btrfs_tree_lock_nested", Rwsem, "extent_buffer.lock"),
    ("btrfs_tree_read_lock", Rwsem, "extent_buffer.lock"),
    ("btrfs_tree_read_lock_nested", Rwsem, "extent_buffer.lock"),
    ("__btrfs_tree_read_lock", Rwsem, "extent_buffer.lock"),
    ("btrfs_lock_root_node", Rwsem, "extent_buffer.lock"),
    ("btrfs_read_lock_root_node", Rwsem, "extent_buffer.lock"),
    // fs/btrfs/transaction.c
    ("join_transaction", Spin, "btrfs_fs_info.trans_lock"),
    // fs/btrfs/tree-log.c
    ("btrfs_sync_log", Mutex, "btrfs_root.log_mutex"),
    ("start_log_trans", Mutex, "btrfs_root.log_mutex"),
    // fs/btrfs/space-info.c
    ("__reserve_bytes", Spin, "btrfs_space_info.lock"),
    ("btrfs_reserve_metadata_bytes", Spin, "btrfs_space_info.lock"),
    // fs/btrfs/extent-io-tree.c
    ("__set_extent_bit", Spin, "extent_io_tree.lock"),
    ("set_extent_bit", Spin, "extent_io_tree.lock"),
    ("__clear_extent_bit", Spin, "extent_io_tree.lock"),
    ("btrfs_clear_extent_bit_changeset", Spin, "extent_io_tree.lock"),
    ("lock_extent", Spin, "extent_io_tree.lock"),
    ("btrfs_lock_extent_bits", Spin, "extent_io_tree.lock"),
    // block/mq-deadline.c
    ("dd_insert_requests", Spin, "deadline_data.lock"),
    ("dd_dispatch_request", Spin, "deadline_data.lock"),
    ("dd_bio_merge", Spin, "deadline_data.lock"),
    // block/bfq-iosched.c
    ("bfq_insert_requests", Spin, "bfq_data.lock"),
    ("bfq_insert_request", Spin, "bfq_data.lock"),
    ("bfq_dispatch_request", Spin, "bfq_data.lock"),
    ("bfq_finish_requeue_request", Spin, "bfq_data.lock"),
    ("bfq_bio_merge", Spin, "bfq_data.lock"),
    // drivers/nvme/host/pci.c
    ("nvme_queue_rq", Spin, "nvme_queue.sq_lock"),
    ("nvme_queue_rqs", Spin, "nvme_queue.sq_lock"),
    ("nvme_commit_rqs", Spin, "nvme_queue.sq_lock"),
    // drivers/block/virtio_blk.c
    ("virtio_queue_rq", Spin, "virtio_blk_vq.lock"),
    ("virtblk_done", Spin, "virtio_blk_vq.lock"),
    // drivers/md/raid5.c
    ("raid5_get_active_stripe", Spin, "r5conf.hash_locks"),
    ("raid5_release_stripe", Spin, "r5conf.hash_locks"),
    // net/core/sock.c, net/ipv4/tcp_ipv4.c
    ("lock_sock_nested", Spin, "sock.sk_lock.slock"),
    ("release_sock", Spin, "sock.sk_lock.slock"),
    ("tcp_v4_rcv", Spin, "sock.sk_lock.slock"),
    // net/core/skbuff.c
    ("skb_queue_tail", Spin, "sk_buff_head.lock"),
    ("skb_queue_head", Spin, "sk_buff_head.lock"),
    ("skb_dequeue", Spin, "sk_buff_head.lock"),
    // net/sched/sch_generic.c
    ("sch_direct_xmit", Spin, "netdev_queue._xmit_lock"),
    // net/core/rtnetlink.c
    ("rtnl_lock", Mutex, "rtnl_mutex"),
    ("rtnetlink_rcv_msg", Mutex, "rtnl_mutex"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_next_to_the_lock_names_it() {
        for (class, stack, lock) in [
            (
                Spin,
                &["__pv_queued_spin_lock_slowpath", "_raw_spin_lock", "close_fd"][..],
                "files_struct.file_lock",
            ),
            (Spin, &["_raw_spin_lock_irqsave", "rmqueue_bulk.isra.0", "get_page_from_freelist"], "zone.lock"),
            (Spin, &["_raw_spin_lock", "__list_lru_lock", "list_lru_add", "d_lru_add"], "list_lru_node.lock"),
            (
                Semaphore,
                &["schedule_timeout", "___down_common", "__down", "down", "xfs_buf_lock [xfs]"],
                "xfs_buf.b_sema",
            ),
            (Rwsem, &["schedule", "rwsem_down_write_slowpath", "down_write", "do_unlinkat"], "inode.i_rwsem"),
            (
                Rwsem,
                &["down_write", "xfs_ilock", "xfs_ilock_iocb", "xfs_file_buffered_write"],
                "inode.i_rwsem",
            ),
            (Rwsem, &["osq_lock", "rwsem_optimistic_spin", "down_write", "path_openat"], "inode.i_rwsem"),
            (
                Mutex,
                &["mutex_spin_on_owner", "__mutex_lock.constprop.0", "pipe_write"],
                "pipe_inode_info.mutex",
            ),
        ] {
            assert_eq!(lock_of(class, stack.iter().copied()), Some(lock), "{stack:?}");
        }
    }

    #[test]
    fn a_function_far_away_or_of_another_class_names_nothing() {
        assert_eq!(lock_of(Spin, ["_raw_spin_lock", "mix_interrupt_randomness", "process_one_work"]), None);
        // Under the directory's rw_semaphore, a spinlock of something else.
        assert_eq!(lock_of(Spin, ["_raw_spin_lock", "something", "do_unlinkat"]), None);
        assert_eq!(lock_of(Spin, []), None);
    }

    #[test]
    fn every_function_stands_there_once_for_a_class_and_by_its_comparable_name() {
        for (index, (caller, class, lock)) in TABLE.iter().enumerate() {
            let again = TABLE[..index].iter().any(|(other, of, _)| other == caller && of == class);
            assert!(!again, "{caller} stands there twice");
            assert_eq!(normalize(caller), *caller);
            assert!(!is_primitive(caller), "{caller} is part of a lock");
            assert!(lock.is_ascii() && !lock.is_empty());
        }
    }
}
