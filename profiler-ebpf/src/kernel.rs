//! Reading kernel memory.

use aya_ebpf::helpers::bpf_probe_read_kernel;

/// The `T` at `base + offset`, or zero if that is not readable. Costs about 15 ns; any context.
///
/// Zero serves as the error value because a null pointer, size or id is treated as "none" by
/// all callers.
#[inline(always)]
pub fn read<T: Copy + Default>(base: u64, offset: u32) -> T {
    // SAFETY: bpf_probe_read_kernel checks the address itself.
    unsafe { bpf_probe_read_kernel((base + u64::from(offset)) as *const T) }.unwrap_or_default()
}
