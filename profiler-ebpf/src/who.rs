//! Whose event is this, and is it wanted?

use aya_ebpf::bindings::bpf_pidns_info;
use aya_ebpf::helpers::generated::{bpf_get_current_task, bpf_get_ns_current_pid_tgid};
use aya_ebpf::helpers::{bpf_get_current_cgroup_id, bpf_get_current_pid_tgid};
use profiler_common::filter;

use crate::config::{
    CGROUP_ID, CGROUP_V1, FILTER, OFF_CGROUP_KN, OFF_CGROUP_SELF, OFF_CSS_CGROUP, OFF_CSS_PARENT,
    OFF_CSS_SET_DFL_CGRP, OFF_CSS_SET_SUBSYS, OFF_KN_ID, OFF_TASK_CGROUPS, PIDNS_DEV, PIDNS_INO, SELF_TGID,
};
use crate::kernel::read;
use crate::maps::TARGETS;

/// Control groups nest as deep as this at most (the kernel allows more; nobody builds more).
const MAX_CGROUP_DEPTH: u32 = 24;

/// The current task.
#[derive(Clone, Copy)]
pub struct Task {
    pub tgid: u32,
    pub tid: u32,
}

/// What to do with an event of the current task.
pub enum Verdict {
    Wanted(Task),
    Unwanted,
    /// The profiler's own.
    Own,
}

/// The current task's ids, as the profiler's pid namespace has them.
#[inline(always)]
pub fn current() -> Task {
    let mut ids = bpf_get_current_pid_tgid();
    if PIDNS_INO.load() != 0 {
        let mut info = bpf_pidns_info { pid: 0, tgid: 0 };
        let size = size_of::<bpf_pidns_info>() as u32;
        // SAFETY: `info` is as large as `size` says.
        let found =
            unsafe { bpf_get_ns_current_pid_tgid(PIDNS_DEV.load(), PIDNS_INO.load(), &raw mut info, size) };
        // A task outside the namespace keeps its global ids.
        if found == 0 {
            ids = u64::from(info.tgid) << 32 | u64::from(info.pid);
        }
    }
    Task { tgid: (ids >> 32) as u32, tid: ids as u32 }
}

/// Decides on the current task. Costs 5 ns for the whole system, 30 ns for processes, and 15 ns
/// a level for a control group. Any context; in an interrupt it decides on the interrupted task.
#[inline(always)]
pub fn verdict() -> Verdict {
    let task = current();
    if task.tgid == SELF_TGID.load() && SELF_TGID.load() != 0 {
        return Verdict::Own;
    }
    let wanted = match FILTER.load() {
        // SAFETY: the value is not looked at.
        filter::PROCESSES => unsafe { TARGETS.get(task.tgid) }.is_some(),
        filter::CGROUP => in_cgroup(),
        _ => true,
    };
    if wanted { Verdict::Wanted(task) } else { Verdict::Unwanted }
}

/// id of the current task's control group, in the hierarchy that user space chose.
#[inline(always)]
pub fn cgroup_id() -> u64 {
    if CGROUP_V1.load() == 0 {
        // SAFETY: takes no arguments.
        return unsafe { bpf_get_current_cgroup_id() };
    }
    id_of(current_cgroup())
}

/// `struct cgroup` of the current task.
#[inline(always)]
fn current_cgroup() -> u64 {
    // SAFETY: takes no arguments.
    let task = unsafe { bpf_get_current_task() };
    let css_set: u64 = read(task, OFF_TASK_CGROUPS.load());
    if CGROUP_V1.load() == 0 {
        read(css_set, OFF_CSS_SET_DFL_CGRP.load())
    } else {
        let css: u64 = read(css_set, OFF_CSS_SET_SUBSYS.load());
        read(css, OFF_CSS_CGROUP.load())
    }
}

#[inline(always)]
fn id_of(cgroup: u64) -> u64 {
    let kn: u64 = read(cgroup, OFF_CGROUP_KN.load());
    read(kn, OFF_KN_ID.load())
}

/// Whether the current task is in the measured control group or below it.
#[inline(always)]
fn in_cgroup() -> bool {
    let mut cgroup = current_cgroup();
    for _ in 0..MAX_CGROUP_DEPTH {
        if cgroup == 0 {
            return false;
        }
        if id_of(cgroup) == CGROUP_ID.load() {
            return true;
        }
        let parent: u64 = read(cgroup, OFF_CGROUP_SELF.load() + OFF_CSS_PARENT.load());
        if parent == 0 {
            return false;
        }
        cgroup = read(parent, OFF_CSS_CGROUP.load());
    }
    false
}
