//! Spinlock waits where there is no lock:contention_begin (before 5.19): the slow paths themselves.
//! 200 ns each way, for a wait; any context.

use aya_ebpf::macros::{fentry, fexit, kprobe, kretprobe};
use aya_ebpf::programs::{FEntryContext, FExitContext, ProbeContext, RetProbeContext};

use crate::lock::{SPIN, begin, end};
use crate::maps::SPINNING;

/// native_queued_spin_lock_slowpath(struct qspinlock *lock, u32 val), on bare metal.
#[fentry(function = "native_queued_spin_lock_slowpath")]
pub fn native_slowpath_fentry(ctx: FEntryContext) -> u32 {
    let lock: *const u8 = ctx.arg(0);
    begin(&ctx, lock as u64, SPIN);
    0
}

/// Its end.
#[fexit(function = "native_queued_spin_lock_slowpath")]
pub fn native_slowpath_fexit(ctx: FExitContext) -> u32 {
    let lock: *const u8 = ctx.arg(0);
    end(&ctx, lock as u64);
    0
}

/// __pv_queued_spin_lock_slowpath, in a virtual machine.
#[fentry(function = "__pv_queued_spin_lock_slowpath")]
pub fn pv_slowpath_fentry(ctx: FEntryContext) -> u32 {
    let lock: *const u8 = ctx.arg(0);
    begin(&ctx, lock as u64, SPIN);
    0
}

/// Its end.
#[fexit(function = "__pv_queued_spin_lock_slowpath")]
pub fn pv_slowpath_fexit(ctx: FExitContext) -> u32 {
    let lock: *const u8 = ctx.arg(0);
    end(&ctx, lock as u64);
    0
}

/// The start of either. The lock is kept for the return, which does not see arguments.
#[kprobe]
pub fn slowpath_kprobe(ctx: ProbeContext) -> u32 {
    let Some(lock) = ctx.arg::<*const u8>(0) else { return 0 };
    let Some(spinning) = SPINNING.get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's own; whoever nests in here leaves it as it was.
    let spinning = unsafe { &mut *spinning };
    // Masked before anything else, so that every verifier knows that it is within the array.
    let depth = (spinning[0] & 7) + 1;
    if depth < 8 {
        spinning[0] = depth;
        spinning[depth as usize] = lock as u64;
        begin(&ctx, lock as u64, SPIN);
    }
    0
}

/// The end of either. A spinning CPU is not preempted, so ends come in the reverse order of starts.
#[kretprobe]
pub fn slowpath_kretprobe(ctx: RetProbeContext) -> u32 {
    let Some(spinning) = SPINNING.get_ptr_mut(0) else { return 0 };
    // SAFETY: as above.
    let spinning = unsafe { &mut *spinning };
    let depth = spinning[0] & 7;
    if depth > 0 {
        spinning[0] = depth - 1;
        end(&ctx, spinning[depth as usize]);
    }
    0
}
