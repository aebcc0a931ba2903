//! Following the children of a measured command, so that `-- make` measures the compilers too.
//!
//! Fork and exit only: about 100 ns each, task context.

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::BPF_ANY;
use aya_ebpf::macros::{btf_tracepoint, tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, TracePointContext};

use crate::config::{OFF_TASK_PID, OFF_TASK_TGID, TP_FORK_CHILD, TP_FORK_PARENT};
use crate::kernel::read;
use crate::maps::TARGETS;

/// sched_process_fork(struct task_struct *parent, struct task_struct *child).
#[btf_tracepoint(function = "sched_process_fork")]
pub fn fork_btf(ctx: BtfTracePointContext) -> u32 {
    let parent: *const u8 = ctx.arg(0);
    let child: *const u8 = ctx.arg(1);
    let parent_tgid: u32 = read(parent as u64, OFF_TASK_TGID.load());
    let child_tgid: u32 = read(child as u64, OFF_TASK_TGID.load());
    if parent_tgid != child_tgid {
        follow(parent_tgid, child_tgid);
    }
    0
}

/// The same from the tracepoint's record. It has thread ids: a child forked by a thread other
/// than the first of its process is not followed on this rung.
#[tracepoint]
pub fn fork_tp(ctx: TracePointContext) -> u32 {
    let record = ctx.as_ptr() as u64;
    follow(read(record, TP_FORK_PARENT.load()), read(record, TP_FORK_CHILD.load()));
    0
}

/// sched_process_free(struct task_struct *): a process that is gone makes room for others, and its
/// id may come back as somebody else's.
#[btf_tracepoint(function = "sched_process_free")]
pub fn free_btf(ctx: BtfTracePointContext) -> u32 {
    let task: *const u8 = ctx.arg(0);
    let tgid: u32 = read(task as u64, OFF_TASK_TGID.load());
    let tid: u32 = read(task as u64, OFF_TASK_PID.load());
    if tgid == tid {
        let _ = TARGETS.remove(tgid);
    }
    0
}

#[inline(always)]
fn follow(parent: u32, child: u32) {
    // SAFETY: the value is not looked at.
    if unsafe { TARGETS.get(parent) }.is_some() {
        let _ = TARGETS.insert(child, 1, u64::from(BPF_ANY));
    }
}
