//! `reclaim`: time that tasks spend on making memory free, from vmscan:mm_vmscan_*_reclaim_* and
//! compaction:mm_compaction_*.
//!
//! Task context only; about 200 ns each for phases of some ten microseconds and more.

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::BPF_ANY;
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::{btf_tracepoint, tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, TracePointContext};
use profiler_common::{Reclaiming, Stream, aux, reclaim};

use crate::config::*;
use crate::kernel::read;
use crate::maps::{RECLAIM, RECLAIMING};
use crate::record::{Detail, add_atomic, running, with_slot};
use crate::who::Task;

/// mm_vmscan_direct_reclaim_begin(int order, gfp_t gfp_flags): __alloc_pages found no page.
#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_begin")]
pub fn direct_reclaim_begin_btf(ctx: BtfTracePointContext) -> u32 {
    begin(reclaim::DIRECT, order_of(&ctx));
    0
}

/// mm_vmscan_direct_reclaim_end(unsigned long nr_reclaimed).
#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_end")]
pub fn direct_reclaim_end_btf(ctx: BtfTracePointContext) -> u32 {
    end(&ctx, reclaim::DIRECT, ctx.arg(0));
    0
}

/// mm_vmscan_memcg_reclaim_begin(int order, gfp_t gfp_flags): a control group is at its limit.
#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_begin")]
pub fn memcg_reclaim_begin_btf(ctx: BtfTracePointContext) -> u32 {
    begin(reclaim::MEMCG, order_of(&ctx));
    0
}

/// mm_vmscan_memcg_reclaim_end(unsigned long nr_reclaimed).
#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_end")]
pub fn memcg_reclaim_end_btf(ctx: BtfTracePointContext) -> u32 {
    end(&ctx, reclaim::MEMCG, ctx.arg(0));
    0
}

/// mm_compaction_begin: a zone is compacted, for a task or by kcompactd.
#[btf_tracepoint(function = "mm_compaction_begin")]
pub fn compaction_begin_btf(_ctx: BtfTracePointContext) -> u32 {
    begin(reclaim::COMPACTION, reclaim::NO_ORDER);
    0
}

/// mm_compaction_end.
#[btf_tracepoint(function = "mm_compaction_end")]
pub fn compaction_end_btf(ctx: BtfTracePointContext) -> u32 {
    end(&ctx, reclaim::COMPACTION, 0);
    0
}

/// mm_vmscan_kswapd_wake(int nid, int zid, int order): in kswapd.
#[btf_tracepoint(function = "mm_vmscan_kswapd_wake")]
pub fn kswapd_wake_btf(_ctx: BtfTracePointContext) -> u32 {
    kswapd_wakes();
    0
}

/// The same from the tracepoint's record.
#[tracepoint]
pub fn direct_reclaim_begin_tp(ctx: TracePointContext) -> u32 {
    begin(reclaim::DIRECT, order_in(&ctx, TP_DIRECT_RECLAIM_ORDER.load()));
    0
}

/// The same from the tracepoint's record.
#[tracepoint]
pub fn direct_reclaim_end_tp(ctx: TracePointContext) -> u32 {
    end(&ctx, reclaim::DIRECT, read(ctx.as_ptr() as u64, TP_DIRECT_RECLAIM_PAGES.load()));
    0
}

/// The same from the tracepoint's record.
#[tracepoint]
pub fn memcg_reclaim_begin_tp(ctx: TracePointContext) -> u32 {
    begin(reclaim::MEMCG, order_in(&ctx, TP_MEMCG_RECLAIM_ORDER.load()));
    0
}

/// The same from the tracepoint's record.
#[tracepoint]
pub fn memcg_reclaim_end_tp(ctx: TracePointContext) -> u32 {
    end(&ctx, reclaim::MEMCG, read(ctx.as_ptr() as u64, TP_MEMCG_RECLAIM_PAGES.load()));
    0
}

/// The same by the plain tracepoint.
#[tracepoint]
pub fn compaction_begin_tp(_ctx: TracePointContext) -> u32 {
    begin(reclaim::COMPACTION, reclaim::NO_ORDER);
    0
}

/// The same by the plain tracepoint.
#[tracepoint]
pub fn compaction_end_tp(ctx: TracePointContext) -> u32 {
    end(&ctx, reclaim::COMPACTION, 0);
    0
}

/// The same by the plain tracepoint.
#[tracepoint]
pub fn kswapd_wake_tp(_ctx: TracePointContext) -> u32 {
    kswapd_wakes();
    0
}

#[inline(always)]
fn order_of(ctx: &BtfTracePointContext) -> u64 {
    let order: u32 = if RECLAIM_ORDER_ARG.load() == 2 { ctx.arg(1) } else { ctx.arg(0) };
    u64::from(order & 0xff)
}

#[inline(always)]
fn order_in(ctx: &TracePointContext, offset: u32) -> u64 {
    let order: u32 = read(ctx.as_ptr() as u64, offset);
    u64::from(order & 0xff)
}

/// Whatever the cause, a task is in one phase of it at a time; compaction can come about within reclaim.
#[inline(always)]
fn key(task: Task, cause: usize) -> u64 {
    u64::from(task.tid) << 2 | cause as u64
}

#[inline(always)]
fn begin(cause: usize, order: u64) {
    with_slot(Stream::Reclaim, |task, slot| {
        // SAFETY: takes no arguments.
        let since = unsafe { bpf_ktime_get_ns() };
        if RECLAIMING.insert(key(task, cause), Reclaiming { since, order }, u64::from(BPF_ANY)).is_err() {
            slot.state.aux[aux::RECLAIM_LOST_BEGIN] += 1;
        }
    });
}

#[inline(always)]
fn end<C: EbpfContext>(ctx: &C, cause: usize, pages: u64) {
    with_slot(Stream::Reclaim, |task, slot| {
        // SAFETY: takes no arguments.
        let now = unsafe { bpf_ktime_get_ns() };
        let key = key(task, cause);
        // SAFETY: only this task touches the entry.
        let Some(begun) = unsafe { RECLAIMING.get(key) }.copied() else {
            slot.state.aux[aux::RECLAIM_UNPAIRED_END] += 1;
            return;
        };
        let _ = RECLAIMING.remove(key);
        let ns = now.saturating_sub(begun.since);
        if let Some(totals) = RECLAIM.get_ptr_mut(0) {
            // SAFETY: a value of this CPU that is never removed; a task may be preempted in here, hence the
            // atomic additions.
            let phases = unsafe { &mut (*totals).by_cause[cause & (reclaim::CAUSES - 1)] };
            add_atomic(&raw mut phases.count, 1);
            add_atomic(&raw mut phases.ns, ns);
            add_atomic(&raw mut phases.pages, pages);
        }
        let detail = Detail { detail: begun.order, sub: cause as u8 };
        slot.event(ctx, Stream::Reclaim, task, detail, ns);
    });
}

/// kswapd works for everybody: it is counted whoever is measured.
#[inline(always)]
fn kswapd_wakes() {
    if running()
        && let Some(totals) = RECLAIM.get_ptr_mut(0)
    {
        // SAFETY: as above.
        add_atomic(unsafe { &raw mut (*totals).kswapd_wakes }, 1);
    }
}
