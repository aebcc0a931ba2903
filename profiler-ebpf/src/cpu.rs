//! `cpu`: samples of what each CPU does, at a fixed rate.

use aya_ebpf::macros::perf_event;
use aya_ebpf::programs::PerfEventContext;
use profiler_common::{Stream, Weight, aux};

use crate::record::{Detail, Slot, claim};
use crate::who::{self, Task, Verdict};

/// One sample. About 2 us with its interrupt; runs in NMI (hardware cycles) or in a timer
/// interrupt (cpu-clock).
///
/// Every sample takes its stack. Samples of an idle CPU (thread 0) do so too: whether it idles
/// or serves an interrupt is known from the stack only.
#[perf_event]
pub fn cpu_sample(ctx: PerfEventContext) -> u32 {
    match who::verdict() {
        Verdict::Wanted(task) => claim(Stream::Cpu, |slot| sample(&ctx, slot, task)),
        Verdict::Own => claim(Stream::Cpu, |slot| slot.state.own += 1),
        Verdict::Unwanted => claim(Stream::Cpu, |slot| {
            let idle = who::current().tid == 0;
            slot.state.aux[if idle { aux::CPU_UNWANTED_IDLE } else { aux::CPU_UNWANTED }] += 1;
        }),
    }
    0
}

#[inline(always)]
fn sample(ctx: &PerfEventContext, slot: &mut Slot, task: Task) {
    slot.state.events += 1;
    slot.state.weight += 1;
    slot.state.stacks += 1;
    slot.add(ctx, Stream::Cpu, task, Detail { detail: 0, sub: 0 }, Weight { count: 1, weight: 1 });
}
