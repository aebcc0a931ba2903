//! `page-alloc`: pages handed out by the page allocator, from kmem:mm_page_alloc.
//!
//! It can fire a million times a second. Counting costs about 30 ns an event.

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::{btf_tracepoint, fexit, kprobe, tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, FExitContext, ProbeContext, TracePointContext};
use profiler_common::{Stream, aux};

use crate::config::{TP_PAGE_ALLOC_ORDER, TP_PAGE_ALLOC_PFN};
use crate::maps::{ORDER_COUNTS, ORDERS};
use crate::record::{Detail, add_atomic, with_slot};

/// mm_page_alloc(struct page *page, unsigned int order, gfp_t gfp_flags, int migratetype).
/// Any context.
#[btf_tracepoint(function = "mm_page_alloc")]
pub fn page_alloc_btf(ctx: BtfTracePointContext) -> u32 {
    let page: *const u8 = ctx.arg(0);
    let order: u32 = ctx.arg(1);
    allocated(&ctx, !page.is_null(), order);
    0
}

/// The same from the tracepoint's record, where a failed allocation has the page number -1.
#[tracepoint]
pub fn page_alloc_tp(ctx: TracePointContext) -> u32 {
    // SAFETY: the helper checks the address.
    let record = unsafe {
        (
            ctx.read_at::<u64>(TP_PAGE_ALLOC_PFN.load() as usize),
            ctx.read_at::<u32>(TP_PAGE_ALLOC_ORDER.load() as usize),
        )
    };
    if let (Ok(pfn), Ok(order)) = record {
        allocated(&ctx, pfn != u64::MAX, order);
    }
    0
}

/// struct page *__alloc_pages(gfp_t, unsigned int order, int nid, nodemask_t *), under its many names;
/// the returned page comes after the arguments.
#[fexit(function = "__alloc_pages")]
pub fn page_alloc_fexit(ctx: FExitContext) -> u32 {
    let order: u32 = ctx.arg(1);
    let page: *const u8 = ctx.arg(4);
    allocated(&ctx, !page.is_null(), order);
    0
}

/// Its entry.
#[kprobe]
pub fn page_alloc_kprobe(ctx: ProbeContext) -> u32 {
    if let Some(order) = ctx.arg::<u32>(1) {
        allocated(&ctx, true, order);
    }
    0
}

#[inline(always)]
fn allocated<C: EbpfContext>(ctx: &C, success: bool, order: u32) {
    with_slot(Stream::PageAlloc, |task, slot| {
        if !success {
            slot.state.aux[aux::PAGE_ALLOC_FAILED] += 1;
            return;
        }
        if order >= ORDERS {
            return;
        }
        if let Some(count) = ORDER_COUNTS.get_ptr_mut(order) {
            add_atomic(count, 1);
        }
        let detail = Detail { detail: u64::from(order), sub: 0 };
        slot.event(ctx, Stream::PageAlloc, task, detail, 1 << order);
    });
}
