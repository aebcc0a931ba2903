//! `lock`: waits for contended locks, from lock:contention_begin and _end.
//!
//! Both run in the waiter's slow path: 200 ns each for a wait of microseconds or more. Taking the
//! lock without contention costs nothing.

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST};
use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use aya_ebpf::macros::{btf_tracepoint, tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, TracePointContext};
use profiler_common::{HistKey, LockKey, LockTotals, Stream, Wait, WaitKey, aux, measure};

use crate::config::{TP_LOCK_ADDR, TP_LOCK_END_ADDR, TP_LOCK_FLAGS};
use crate::maps::{LOCKS, WAITS};
use crate::record::{Detail, Slot, add_atomic, bucket_of, with_slot, zeroed};
use crate::who::Task;

/// LCB_F_SPIN: the waiter keeps its CPU.
pub const SPIN: u64 = 1;

/// LCB_F_MUTEX: a wait that goes over from spinning to sleeping and back.
const MUTEX: u64 = 32;

/// contention_begin(void *lock, unsigned int flags). Any context.
#[btf_tracepoint(function = "contention_begin")]
pub fn contention_begin_btf(ctx: BtfTracePointContext) -> u32 {
    let lock: *const u8 = ctx.arg(0);
    let flags: u32 = ctx.arg(1);
    begin(&ctx, lock as u64, u64::from(flags));
    0
}

/// contention_end(void *lock, int ret). Any context.
#[btf_tracepoint(function = "contention_end")]
pub fn contention_end_btf(ctx: BtfTracePointContext) -> u32 {
    let lock: *const u8 = ctx.arg(0);
    end(&ctx, lock as u64);
    0
}

/// The same from the tracepoint's record.
#[tracepoint]
pub fn contention_begin_tp(ctx: TracePointContext) -> u32 {
    // SAFETY: the helper checks the address.
    let record = unsafe {
        (ctx.read_at::<u64>(TP_LOCK_ADDR.load() as usize), ctx.read_at::<u32>(TP_LOCK_FLAGS.load() as usize))
    };
    if let (Ok(lock), Ok(flags)) = record {
        begin(&ctx, lock, u64::from(flags));
    }
    0
}

/// The same from the tracepoint's record.
#[tracepoint]
pub fn contention_end_tp(ctx: TracePointContext) -> u32 {
    // SAFETY: the helper checks the address.
    if let Ok(lock) = unsafe { ctx.read_at::<u64>(TP_LOCK_END_ADDR.load() as usize) } {
        end(&ctx, lock);
    }
    0
}

/// The idle tasks of all CPUs have thread id 0; their waits never change the CPU.
#[inline(always)]
fn wait_key(task: Task, lock: u64) -> WaitKey {
    let waiter = if task.tid == 0 {
        // SAFETY: takes no arguments.
        1 << 32 | u64::from(unsafe { bpf_get_smp_processor_id() })
    } else {
        u64::from(task.tid)
    };
    WaitKey { waiter, lock }
}

#[inline(always)]
fn stream_of(flags: u64) -> Stream {
    if flags & SPIN != 0 { Stream::LockSpin } else { Stream::LockSleep }
}

/// A wait begins, or a mutex goes over from spinning to sleeping or back: the time until here
/// then belongs to the phase before.
#[inline(always)]
pub fn begin<C: EbpfContext>(ctx: &C, lock: u64, flags: u64) {
    with_slot(Stream::LockSpin, |task, slot| {
        // SAFETY: takes no arguments.
        let now = unsafe { bpf_ktime_get_ns() };
        let key = wait_key(task, lock);
        // SAFETY: only this task touches the entry.
        let before = unsafe { WAITS.get(key) }.copied();
        if WAITS.insert(key, Wait { since: now, flags }, u64::from(BPF_ANY)).is_err() {
            slot.state.aux[aux::LOCK_LOST_BEGIN] += 1;
        }
        match before {
            Some(before) if flags & MUTEX != 0 => phase(ctx, slot, task, lock, before, now),
            // The end of that wait was kept from us: an interrupt that waited within this program's own run
            // on the CPU. When it ended is not known, so it is taken for the one that begins.
            Some(_) => {}
            None => slot.state.aux[aux::LOCK_BEGUN] += 1,
        }
    });
}

#[inline(always)]
pub fn end<C: EbpfContext>(ctx: &C, lock: u64) {
    with_slot(Stream::LockSpin, |task, slot| {
        // SAFETY: takes no arguments.
        let now = unsafe { bpf_ktime_get_ns() };
        let key = wait_key(task, lock);
        // SAFETY: only this task touches the entry.
        let Some(wait) = unsafe { WAITS.get(key) }.copied() else {
            slot.state.aux[aux::LOCK_UNPAIRED_END] += 1;
            return;
        };
        let _ = WAITS.remove(key);
        phase(ctx, slot, task, lock, wait, now);
    });
}

/// Accounts for a wait, or a phase of one, that lasted until `now`.
#[inline(always)]
fn phase<C: EbpfContext>(ctx: &C, slot: &mut Slot, task: Task, lock: u64, wait: Wait, now: u64) {
    let ns = now.saturating_sub(wait.since);
    slot.histogram(HistKey { measure: measure::LOCK_WAIT, op: wait.flags as u16, device: 0 }, ns);
    if !add_to_lock(lock, wait.flags, ns) {
        slot.state.aux[aux::LOCK_LOST_STATS] += 1;
    }
    let detail = Detail { detail: lock, sub: wait.flags as u8 };
    let stream = stream_of(wait.flags);
    if let Some(mut own) = slot.sibling(stream) {
        own.event(ctx, stream, task, detail, ns);
    }
}

#[inline(always)]
fn add_to_lock(lock: u64, flags: u64, ns: u64) -> bool {
    let key = LockKey { lock, flags };
    let totals = match LOCKS.get_ptr_mut(key) {
        Some(totals) => totals,
        None => {
            let Some(zero) = zeroed::<LockTotals>() else { return false };
            let _ = LOCKS.insert(key, zero, u64::from(BPF_NOEXIST));
            match LOCKS.get_ptr_mut(key) {
                Some(totals) => totals,
                None => return false,
            }
        }
    };
    // SAFETY: entries of LOCKS are never removed.
    let totals = unsafe { &mut *totals };
    add_atomic(&raw mut totals.waits, 1);
    add_atomic(&raw mut totals.total, ns);
    // Two CPUs may race here: then the longer of their waits may be missed, by the maximum only.
    if ns > totals.max {
        totals.max = ns;
    }
    add_atomic(&raw mut totals.buckets[bucket_of(ns)], 1);
    true
}
