//! `bio`: bios as they are allocated. One for each I/O of a file system: about 60 ns, and 1 us for
//! those that take a stack. Task context mostly.
//!
//! Their bytes are what their vectors can hold, a page each; a clone has the bytes of its source.
//! Where no function can be attached, bios are counted as they are queued.

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::{btf_tracepoint, fentry, kprobe, tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, FEntryContext, ProbeContext, TracePointContext};
use profiler_common::{Stream, aux};

use crate::block::{SECTOR, op_of, op_of_rwbs};
use crate::config::*;
use crate::kernel::read;
use crate::record::{Detail, with_slot};

/// bio_alloc_bioset(bdev, nr_vecs, opf, gfp, bio_set); (gfp, nr_iovecs, bio_set) before 5.18.
#[fentry(function = "bio_alloc_bioset")]
pub fn bio_alloc_fentry(ctx: FEntryContext) -> u32 {
    // Both are read, since the verifier wants to see constant offsets into the context, and out of
    // one read or the other the compiler makes a variable one.
    let (first, second): (u16, u16) = (ctx.arg(0), ctx.arg(1));
    let vectors = if BIO_VECS_ARG.load() == 0 { first } else { second };
    allocated(&ctx, u64::from(vectors));
    0
}

/// The same.
#[kprobe]
pub fn bio_alloc_kprobe(ctx: ProbeContext) -> u32 {
    let (first, second): (u16, u16) = (ctx.arg(0).unwrap_or(0), ctx.arg(1).unwrap_or(0));
    let vectors = if BIO_VECS_ARG.load() == 0 { first } else { second };
    allocated(&ctx, u64::from(vectors));
    0
}

/// bio_alloc_clone(bdev, bio_src, gfp, bio_set); bio_clone_fast(bio, gfp, bio_set) before 5.18. Both
/// allocate a bio without vectors by bio_alloc_bioset, which is counted there.
#[fentry(function = "bio_alloc_clone")]
pub fn bio_clone_fentry(ctx: FEntryContext) -> u32 {
    let (first, second): (*const u8, *const u8) = (ctx.arg(0), ctx.arg(1));
    let source = if BIO_CLONE_ARG.load() == 0 { first } else { second };
    cloned(&ctx, source as u64);
    0
}

/// The same.
#[kprobe]
pub fn bio_clone_kprobe(ctx: ProbeContext) -> u32 {
    let (first, second): (u64, u64) = (ctx.arg(0).unwrap_or(0), ctx.arg(1).unwrap_or(0));
    let source = if BIO_CLONE_ARG.load() == 0 { first } else { second };
    cloned(&ctx, source);
    0
}

/// Stands in where functions cannot be attached: bios as they are queued.
#[btf_tracepoint(function = "block_bio_queue")]
pub fn bio_stand_in_btf(ctx: BtfTracePointContext) -> u32 {
    let bio: *const u8 = if BIO_QUEUE_ARG.load() == 0 { ctx.arg(0) } else { ctx.arg(1) };
    let bytes: u32 = read(bio as u64, OFF_BIO_SIZE.load());
    let vectors: u16 = read(bio as u64, OFF_BIO_VCNT.load());
    let flags: u32 = read(bio as u64, OFF_BIO_OPF.load());
    queued(&ctx, u64::from(bytes), u64::from(vectors), op_of(flags));
    0
}

/// The same from the tracepoint's record, which does not have the vectors.
#[tracepoint]
pub fn bio_stand_in_tp(ctx: TracePointContext) -> u32 {
    let record = ctx.as_ptr() as u64;
    let sectors: u32 = read(record, TP_BIO_NR_SECTOR.load());
    queued(&ctx, u64::from(sectors) * SECTOR, 0, op_of_rwbs(record, TP_BIO_RWBS.load()));
    0
}

#[inline(always)]
fn allocated<C: EbpfContext>(ctx: &C, vectors: u64) {
    with_slot(Stream::Bio, |task, slot| {
        slot.state.aux[aux::BIO_VECTORS] += vectors;
        slot.event(ctx, Stream::Bio, task, Detail { detail: 0, sub: 0 }, vectors << PAGE_SHIFT.load());
    });
}

#[inline(always)]
fn cloned<C: EbpfContext>(ctx: &C, source: u64) {
    with_slot(Stream::Bio, |task, slot| {
        slot.state.aux[aux::BIO_CLONES] += 1;
        let bytes: u32 = read(source, OFF_BIO_SIZE.load());
        slot.event(ctx, Stream::Bio, task, Detail { detail: 0, sub: 0 }, u64::from(bytes));
    });
}

#[inline(always)]
fn queued<C: EbpfContext>(ctx: &C, bytes: u64, vectors: u64, op: u8) {
    with_slot(Stream::Bio, |task, slot| {
        slot.state.aux[aux::BIO_VECTORS] += vectors;
        slot.event(ctx, Stream::Bio, task, Detail { detail: 0, sub: op }, bytes);
    });
}
