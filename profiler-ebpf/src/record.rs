//! Counting, sampling and stacks: what every probe does with an event.

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::{BPF_F_USER_STACK, BPF_NOEXIST};
use aya_ebpf::helpers::generated::{bpf_get_prandom_u32, bpf_get_stack};
use aya_ebpf::helpers::{bpf_get_current_comm, bpf_get_smp_processor_id, bpf_ktime_get_ns};
use aya_ebpf::maps::HashMap;
use aya_log_ebpf::debug;
use profiler_common::{
    BUCKETS, Frames, Hist, HistKey, LockTotals, MAX_FRAMES, SLOTS, Stream, StreamState, Weight, WeightKey,
    aux,
};

use crate::config::{STACK_RATE, USER_STACKS};
use crate::maps::{
    CPU, GENERATION, HISTS, RUNNING, SCRATCH, STACKS_0, STACKS_1, STATE, WEIGHTS_0, WEIGHTS_1, ZERO,
};
use crate::who::{self, Task, Verdict};

/// Error number of an element that is there already.
const EEXIST: i64 = 17;

/// The sampler looks at its rate this often, ns.
const WINDOW_NS: u64 = 100_000_000;

/// Frames that are hashed together.
const GROUP: usize = 16;

/// An event's own detail, see [`WeightKey`].
#[derive(Clone, Copy)]
pub struct Detail {
    pub detail: u64,
    pub sub: u8,
}

/// A claim on one of the CPU's slots: its holder alone touches the slot's state and scratch.
///
/// Programs nest (task, softirq, hardirq, NMI), each nested one running to its end before the
/// outer one goes on, so a free slot can be claimed without atomics.
pub struct Slot {
    index: u32,
    pub state: &'static mut StreamState,
}

/// Runs `then` with a slot if the current task is wanted. About 15 ns besides `then`; any context.
#[inline(always)]
pub fn with_slot(stream: Stream, then: impl FnOnce(Task, &mut Slot)) {
    if !running() {
        return;
    }
    match who::verdict() {
        Verdict::Wanted(task) => claim(stream, |slot| then(task, slot)),
        Verdict::Own => claim(stream, |slot| slot.state.own += 1),
        Verdict::Unwanted => {}
    }
}

/// Whether events are to be counted.
#[inline(always)]
pub fn running() -> bool {
    RUNNING.get(0).is_some_and(|running| *running != 0)
}

/// Runs `then` with a slot, whoever the current task is.
#[inline(always)]
pub fn claim(stream: Stream, then: impl FnOnce(&mut Slot)) {
    let Some(cpu) = CPU.get_ptr_mut(0) else { return };
    // SAFETY: map values of this CPU live as long as the map; see `Slot` for exclusive use.
    let cpu = unsafe { &mut *cpu };
    // The lowest free slot, by arithmetic: a loop would have the verifier follow everything that
    // comes after once for each slot.
    let index = cpu.busy.trailing_ones() & 7;
    if index >= SLOTS {
        cpu.no_slot[stream as usize] += 1;
        return;
    }
    let Some(state) = STATE.get_ptr_mut(stream as u32 * SLOTS + index) else { return };
    let bit = 1u64 << index;
    cpu.busy |= bit;
    compiler_barrier();
    // SAFETY: as above.
    let mut slot = Slot { index, state: unsafe { &mut *state } };
    then(&mut slot);
    compiler_barrier();
    cpu.busy &= !bit;
}

/// Keeps the compiler from moving memory accesses across it. No cost; any context.
#[inline(always)]
fn compiler_barrier() {
    // `compiler_fence` would do, but LLVM 22.1.4 (nightly 1.97) cannot select it for BPF.
    #[cfg(target_arch = "bpf")]
    // SAFETY: no instructions; not `nomem`, so that the compiler takes memory as read and written here.
    unsafe {
        core::arch::asm!("", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "bpf"))]
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

impl Slot {
    /// Counts an event of weight `weight` and, if a stack is due, takes it and adds everything
    /// counted since the last one to it. 5 ns without a stack, about 1 us with one, 1.5 us with a
    /// user stack as well; any context.
    ///
    /// The chance of a stack is in proportion to an event's weight, so that shares stay unbiased;
    /// whatever the sampler leaves out is carried by the next stack, so that totals stay exact.
    #[inline(always)]
    pub fn event<C: EbpfContext>(
        &mut self,
        ctx: &C,
        stream: Stream,
        task: Task,
        detail: Detail,
        weight: u64,
    ) {
        let state = &mut *self.state;
        state.events += 1;
        state.weight += weight;
        state.pending_events += 1;
        state.pending_weight += weight;
        if state.pending_weight < state.threshold {
            return;
        }
        let taken = Weight { count: state.pending_events, weight: state.pending_weight };
        state.pending_events = 0;
        state.pending_weight = 0;
        state.stacks += 1;
        steer(state, &taken);
        self.add(ctx, stream, task, detail, taken);
    }

    /// The state of another stream, on the same claim.
    #[inline(always)]
    pub fn sibling(&self, stream: Stream) -> Option<Slot> {
        let state = STATE.get_ptr_mut(stream as u32 * SLOTS + self.index)?;
        // SAFETY: the slot is claimed, see `Slot`.
        Some(Slot { index: self.index, state: unsafe { &mut *state } })
    }

    /// Takes the stacks and adds `taken` to their weight.
    #[inline(always)]
    pub fn add<C: EbpfContext>(
        &mut self,
        ctx: &C,
        stream: Stream,
        task: Task,
        detail: Detail,
        taken: Weight,
    ) {
        let Some(scratch) = SCRATCH.get_ptr_mut(self.index) else { return };
        // SAFETY: the slot is claimed, see `Slot`.
        let scratch = unsafe { &mut *scratch };
        let generation = GENERATION.get(0).copied().unwrap_or(0);

        let kernel_stack = self.stack(ctx, &mut scratch.kernel, 0, generation, taken.count);
        // Threads of the kernel have no user stack, and neither has idle.
        let user_stack = if USER_STACKS.load() != 0 && task.tgid != 0 {
            self.stack(ctx, &mut scratch.user, u64::from(BPF_F_USER_STACK), generation, taken.count)
        } else {
            0
        };
        let key = WeightKey {
            kernel_stack,
            user_stack,
            detail: detail.detail,
            cgroup: who::cgroup_id(),
            tgid: task.tgid,
            cpu: unsafe { bpf_get_smp_processor_id() } as u16,
            stream: stream as u8,
            sub: detail.sub,
            comm: bpf_get_current_comm().unwrap_or_default(),
        };
        let weights = if generation == 0 { &WEIGHTS_0 } else { &WEIGHTS_1 };
        if !add_weight(weights, &key, &taken) {
            if self.state.lost_weights == 0 {
                debug!(ctx, "stream {}: the map of weights is full", stream as u8);
            }
            self.state.lost_weights += taken.count;
        }
    }

    /// Walks a stack and returns its hash, under which it is now in the map; 0: no stack.
    #[inline(always)]
    fn stack<C: EbpfContext>(
        &mut self,
        ctx: &C,
        frames: &mut Frames,
        flags: u64,
        generation: u32,
        count: u64,
    ) -> u64 {
        let size = (MAX_FRAMES * 8) as u32;
        // SAFETY: `ips` is as large as `size` says.
        let bytes = unsafe { bpf_get_stack(ctx.as_ptr(), frames.ips.as_mut_ptr().cast(), size, flags) };
        if bytes <= 0 {
            // In user mode there is no kernel stack, in a kernel thread no user stack: no loss.
            // Anything but EFAULT (14) and an empty stack is one.
            if bytes < 0 && bytes != -14 {
                self.state.lost_walks += count;
            }
            return 0;
        }
        let len = bytes as u64 / 8;
        frames.len = len;
        let hash = hash(frames);
        let stacks = if generation == 0 { &STACKS_0 } else { &STACKS_1 };
        if !insert_stack(stacks, hash, frames) {
            if self.state.lost_stacks == 0 {
                debug!(ctx, "the map of stacks is full");
            }
            self.state.lost_stacks += count;
            return 0;
        }
        hash
    }

    /// Adds a value to a log2 histogram. About 60 ns; any context.
    #[inline(always)]
    pub fn histogram(&mut self, key: HistKey, value: u64) {
        let hist = match HISTS.get_ptr_mut(key) {
            Some(hist) => hist,
            None => {
                let Some(zero) = zeroed::<Hist>() else { return };
                let _ = HISTS.insert(key, zero, u64::from(BPF_NOEXIST));
                match HISTS.get_ptr_mut(key) {
                    Some(hist) => hist,
                    None => {
                        self.state.aux[aux::LOST_HISTOGRAM] += 1;
                        return;
                    }
                }
            }
        };
        // SAFETY: a value of this CPU that is never removed. Programs nested in this one add to it
        // as well, hence the atomic additions.
        let hist = unsafe { &mut *hist };
        add_atomic(&raw mut hist.count, 1);
        add_atomic(&raw mut hist.sum, value);
        add_atomic(&raw mut hist.buckets[bucket_of(value)], 1);
    }
}

/// Decides how much weight the next stack will stand for, so that this CPU's stream stays at
/// `STACK_RATE` stacks a second: after 100 ms, or as soon as the window's share is used up.
#[inline(always)]
fn steer(state: &mut StreamState, taken: &Weight) {
    let rate = u64::from(STACK_RATE.load());
    if rate == 0 {
        return;
    }
    // SAFETY: takes no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    if state.window_start == 0 {
        state.window_start = now;
    }
    state.window_events += taken.count;
    state.window_weight += taken.weight;
    state.window_stacks += 1;
    let elapsed = now - state.window_start;
    // rate / 10 is the share of a window of 100 ms.
    if elapsed >= WINDOW_NS || state.window_stacks * 10 >= rate {
        let ns_per_stack = (1_000_000_000 / rate).max(1);
        let stacks_due = elapsed / ns_per_stack;
        state.period = if state.window_events <= stacks_due {
            0
        } else {
            state.window_weight / if stacks_due == 0 { 1 } else { stacks_due }
        };
        state.window_start = now;
        state.window_events = 0;
        state.window_weight = 0;
        state.window_stacks = 0;
    }
    state.threshold = if state.period == 0 {
        0
    } else {
        // Between half and one and a half periods, at random, so as not to beat with the load.
        // SAFETY: takes no arguments.
        let random = u64::from(unsafe { bpf_get_prandom_u32() });
        state.period / 2 + (state.period / 1024).wrapping_mul(random & 1023)
    };
}

/// Adds to the weight of `key`; false if the map has no room.
#[inline(always)]
fn add_weight(map: &HashMap<WeightKey, Weight>, key: &WeightKey, taken: &Weight) -> bool {
    if let Some(known) = map.get_ptr_mut(key) {
        add_both(known, taken);
        return true;
    }
    match map.insert(key, taken, u64::from(BPF_NOEXIST)) {
        Ok(()) => true,
        // Another CPU was faster.
        Err(_) => match map.get_ptr_mut(key) {
            Some(known) => {
                add_both(known, taken);
                true
            }
            None => false,
        },
    }
}

#[inline(always)]
fn add_both(known: *mut Weight, taken: &Weight) {
    // SAFETY: `known` points to a value in a map, which stays valid while the program runs.
    unsafe {
        add_atomic(&raw mut (*known).count, taken.count);
        add_atomic(&raw mut (*known).weight, taken.weight);
    }
}

/// Adds a stack unless it is there; false if the map has no room.
#[inline(always)]
fn insert_stack(map: &HashMap<u64, Frames>, hash: u64, frames: &Frames) -> bool {
    if map.get_ptr(hash).is_some() {
        return true;
    }
    match map.insert(hash, frames, u64::from(BPF_NOEXIST)) {
        Ok(()) => true,
        Err(error) => i64::from(error) == -EEXIST,
    }
}

/// 64-bit hash of the frames, never 0. Multiply and fold, after Murmur's finaliser: each frame
/// changes all bits, so that two of n stacks collide with a chance of n^2 / 2^65 only.
///
/// In groups, since bpf_get_stack zeroes what it does not fill: a way out after every frame would
/// have the verifier follow 127 * 127 paths through the two stacks of an event (130 ms a program).
#[inline(always)]
fn hash(frames: &Frames) -> u64 {
    let mut hash = frames.len;
    for group in 0..MAX_FRAMES.div_ceil(GROUP) {
        if (group * GROUP) as u64 >= frames.len {
            break;
        }
        for i in group * GROUP..group * GROUP + GROUP {
            if i >= MAX_FRAMES {
                break;
            }
            hash = (hash ^ frames.ips[i]).wrapping_mul(0xff51_afd7_ed55_8ccd);
            hash ^= hash >> 32;
        }
    }
    if hash == 0 { 1 } else { hash }
}

/// Zeroed memory, to copy values from that are too large for the BPF stack.
#[inline(always)]
pub fn zeroed<T>() -> Option<&'static T> {
    const { assert!(size_of::<T>() <= size_of::<LockTotals>()) };
    // SAFETY: all map values are integers, for which zero is valid, and none is larger.
    ZERO.get_ptr(0).map(|zero| unsafe { &*zero.cast::<T>() })
}

/// Adds without returning the sum: kernels before 5.12 have no other atomics, and `core` has none
/// for this target. About 5 ns, since the cache line is this CPU's most of the time.
#[inline(always)]
pub fn add_atomic(to: *mut u64, value: u64) {
    // SAFETY: callers pass aligned pointers into map values.
    #[cfg(target_arch = "bpf")]
    unsafe {
        core::arch::asm!("lock *(u64 *)({to} + 0) += {value}", to = in(reg) to, value = in(reg) value);
    }
    // The programs are compiled for the host by linters only.
    #[cfg(not(target_arch = "bpf"))]
    let _ = (to, value);
}

/// Bucket of a value: the number of its bits, 0 to 63; 64 bits is what no value here has.
///
/// Straight arithmetic (which is what the compiler makes of leading_zeros where there is no
/// instruction for it), and a mask at the end: of branches, verifiers before 6.12 follow every
/// combination through all that comes after.
#[inline(always)]
pub fn bucket_of(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize & (BUCKETS - 1)
}
