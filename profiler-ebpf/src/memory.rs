//! Kernel memory for user space: structures that locks lie in, code that samples fall on.
//!
//! Attached to nothing. User space runs it with BPF_PROG_TEST_RUN, which raw tracepoint programs have
//! since 5.10.

use aya_ebpf::helpers::generated::{bpf_get_current_task, bpf_probe_read_kernel};
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;
use profiler_common::MEMORY_LEN;

use crate::maps::MEMORY;

/// Arguments: address and length, less than `MEMORY_LEN`. Leaves what is there in `MEMORY`; for a length of 0,
/// the address of the current task. Returns 0, or the error number.
#[raw_tracepoint]
pub fn read_memory(ctx: RawTracePointContext) -> u32 {
    let address: u64 = ctx.arg(0);
    let length: u64 = ctx.arg(1);
    let Some(memory) = MEMORY.get_ptr_mut(0) else { return 1 };
    if length == 0 {
        // SAFETY: the map's value is longer than an address, and aligned to 8 bytes.
        unsafe { *memory.cast::<u64>() = bpf_get_current_task() };
        return 0;
    }
    // Masked, so that every verifier sees that it is within the map's value.
    let length = length as u32 & (MEMORY_LEN as u32 - 1);
    // SAFETY: the helper checks the address, the verifier the length.
    let result = unsafe { bpf_probe_read_kernel(memory.cast(), length, address as *const _) };
    result.unsigned_abs() as u32
}
