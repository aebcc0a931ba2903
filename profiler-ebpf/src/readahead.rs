//! `readahead`: how the page cache reads ahead, from the readahead:* tracepoints (6.18 and later).
//!
//! One or a few calls for each miss of the page cache: about 150 ns each.
//!
//! What readers wanted is counted at page_cache_sync_ra and page_cache_async_ra. What is then
//! asked of the file system goes through page_cache_ra_order, or where there is no readahead
//! window through page_cache_ra_unbounded. page_cache_ra_order itself calls the other one for what
//! it leaves: all of its window where the file system has no large folios, the rest of it once it
//! meets a page that is cached. These pages are counted already, so that a call of
//! page_cache_ra_unbounded inside the file's last window is not counted again.

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::macros::{btf_tracepoint, tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, TracePointContext};
use profiler_common::{HistKey, InodeKey, ReadaheadTotals, Stream, aux, measure};

use crate::config::*;
use crate::kernel::read;
use crate::maps::INODES;
use crate::record::{Detail, Slot, add_atomic, with_slot};

#[derive(Clone, Copy)]
pub struct File {
    pub device: u32,
    pub inode: u64,
}

/// A reader's call.
#[derive(Clone, Copy)]
pub struct Call {
    pub index: u64,
    pub wanted: u64,
    pub ra_pages: u32,
    pub prev_pos: i64,
    pub sync: bool,
}

/// What is asked of the file system.
#[derive(Clone, Copy)]
pub enum Request {
    /// A readahead window.
    Window { index: u64, pages: u64 },
    /// Pages outside of a window, or the part of one that is asked for page by page.
    Pages { index: u64, pages: u64 },
}

impl File {
    #[inline(always)]
    pub fn of(inode: u64) -> Self {
        let sb: u64 = read(inode, OFF_INODE_SB.load());
        Self { device: read(sb, OFF_SB_DEV.load()), inode: read(inode, OFF_INODE_INO.load()) }
    }
}

/// page_cache_sync_ra(struct inode *, pgoff_t index, struct file_ra_state *, unsigned long req_count).
#[btf_tracepoint(function = "page_cache_sync_ra")]
pub fn sync_ra_btf(ctx: BtfTracePointContext) -> u32 {
    called_btf(&ctx, true);
    0
}

/// page_cache_async_ra, with the same arguments.
#[btf_tracepoint(function = "page_cache_async_ra")]
pub fn async_ra_btf(ctx: BtfTracePointContext) -> u32 {
    called_btf(&ctx, false);
    0
}

/// page_cache_ra_unbounded(struct inode *, pgoff_t, unsigned long nr_to_read, unsigned long lookahead).
#[btf_tracepoint(function = "page_cache_ra_unbounded")]
pub fn ra_unbounded_btf(ctx: BtfTracePointContext) -> u32 {
    let inode: *const u8 = ctx.arg(0);
    issued(&ctx, File::of(inode as u64), Request::Pages { index: ctx.arg(1), pages: ctx.arg(2) });
    0
}

/// page_cache_ra_order(struct inode *, pgoff_t index, struct file_ra_state *).
#[btf_tracepoint(function = "page_cache_ra_order")]
pub fn ra_order_btf(ctx: BtfTracePointContext) -> u32 {
    let inode: *const u8 = ctx.arg(0);
    let ra: *const u8 = ctx.arg(2);
    issued(&ctx, File::of(inode as u64), window(inode as u64, ctx.arg(1), ra as u64));
    0
}

/// A readahead window at page `index`, up to the end of the file, which the last one of a file
/// mostly reaches beyond.
#[inline(always)]
pub fn window(inode: u64, index: u64, ra: u64) -> Request {
    let size: u32 = read(ra, OFF_RA_SIZE.load());
    let bytes: u64 = read(inode, OFF_INODE_SIZE.load());
    let shift = PAGE_SHIFT.load();
    let end = (bytes + (1 << shift) - 1) >> shift;
    let left = end.saturating_sub(index);
    let pages = if left < u64::from(size) { left } else { u64::from(size) };
    Request::Window { index, pages }
}

#[inline(always)]
fn called_btf(ctx: &BtfTracePointContext, sync: bool) {
    let inode: *const u8 = ctx.arg(0);
    let ra: *const u8 = ctx.arg(2);
    let call = Call {
        index: ctx.arg(1),
        wanted: ctx.arg(3),
        ra_pages: read(ra as u64, OFF_RA_PAGES.load()),
        prev_pos: read(ra as u64, OFF_RA_PREV_POS.load()),
        sync,
    };
    called(File::of(inode as u64), call);
}

/// The same from the tracepoint's record.
#[tracepoint]
pub fn sync_ra_tp(ctx: TracePointContext) -> u32 {
    called_tp(&ctx, true);
    0
}

/// The same from the tracepoint's record.
#[tracepoint]
pub fn async_ra_tp(ctx: TracePointContext) -> u32 {
    called_tp(&ctx, false);
    0
}

/// The same from the tracepoint's record.
#[tracepoint]
pub fn ra_unbounded_tp(ctx: TracePointContext) -> u32 {
    let record = ctx.as_ptr() as u64;
    let file = File {
        device: read(record, TP_RA_UNBOUNDED_DEV.load()),
        inode: read(record, TP_RA_UNBOUNDED_INO.load()),
    };
    let index = read(record, TP_RA_UNBOUNDED_INDEX.load());
    issued(&ctx, file, Request::Pages { index, pages: read(record, TP_RA_UNBOUNDED_NR.load()) });
    0
}

/// The same from the tracepoint's record.
#[tracepoint]
pub fn ra_order_tp(ctx: TracePointContext) -> u32 {
    let record = ctx.as_ptr() as u64;
    let file =
        File { device: read(record, TP_RA_ORDER_DEV.load()), inode: read(record, TP_RA_ORDER_INO.load()) };
    let size: u32 = read(record, TP_RA_ORDER_SIZE.load());
    let index = read(record, TP_RA_ORDER_INDEX.load());
    issued(&ctx, file, Request::Window { index, pages: u64::from(size) });
    0
}

#[inline(always)]
fn called_tp(ctx: &TracePointContext, sync: bool) {
    let record = ctx.as_ptr() as u64;
    let call = Call {
        index: read(record, TP_RA_INDEX.load()),
        wanted: read(record, TP_RA_REQ_COUNT.load()),
        ra_pages: read(record, TP_RA_PAGES.load()),
        prev_pos: read(record, TP_RA_PREV_POS.load()),
        sync,
    };
    called(File { device: read(record, TP_RA_DEV.load()), inode: read(record, TP_RA_INO.load()) }, call);
}

/// Counts what a reader wanted.
#[inline(always)]
pub fn called(file: File, call: Call) {
    with_slot(Stream::Readahead, |_, slot| {
        slot.histogram(key(measure::READAHEAD_WANTED, file), call.wanted);
        let Some(totals) = totals(slot, file) else { return };
        add_atomic(if call.sync { &raw mut totals.sync } else { &raw mut totals.async_ }, 1);
        add_atomic(&raw mut totals.wanted, call.wanted);
        // As mm/readahead.c judges: the same page as the read before, or the one after it. The
        // start of a file counts as a sequential read's start. prev_pos is -1 before any read, and
        // does not change during one, which without readahead makes a call for each of its pages:
        // hence the last call's page.
        let previous = (call.prev_pos >> PAGE_SHIFT.load()) as u64;
        let sequential = !call.sync
            || call.index == 0
            || call.index.wrapping_sub(previous) <= 1
            || call.index.wrapping_sub(totals.last_index) <= 1;
        add_atomic(if sequential { &raw mut totals.sequential } else { &raw mut totals.random }, 1);
        // Two readers of one file may overwrite each other here, which costs one misjudged call.
        totals.ra_pages = u64::from(call.ra_pages);
        totals.last_index = call.index;
        totals.window_start = 0;
        totals.window_end = 0;
    });
}

/// Counts what was asked of the file system, with the stack.
#[inline(always)]
pub fn issued<C: EbpfContext>(ctx: &C, file: File, request: Request) {
    with_slot(Stream::Readahead, |task, slot| {
        let (Request::Window { pages, .. } | Request::Pages { pages, .. }) = request;
        if let Some(totals) = totals(slot, file) {
            match request {
                Request::Pages { index, pages }
                    if index >= totals.window_start && index + pages <= totals.window_end =>
                {
                    return;
                }
                Request::Pages { .. } => {}
                Request::Window { index, pages } => {
                    totals.window_start = index;
                    totals.window_end = index + pages;
                }
            }
            add_atomic(&raw mut totals.issued, pages);
        }
        slot.histogram(key(measure::READAHEAD_ISSUED, file), pages);
        let detail = Detail { detail: u64::from(file.device), sub: 0 };
        slot.event(ctx, Stream::Readahead, task, detail, pages);
    });
}

#[inline(always)]
fn key(measure: u16, file: File) -> HistKey {
    HistKey { measure, op: 0, device: file.device }
}

#[inline(always)]
fn totals(slot: &mut Slot, file: File) -> Option<&'static mut ReadaheadTotals> {
    let key = InodeKey { inode: file.inode, device: u64::from(file.device) };
    if INODES.get_ptr(key).is_none() {
        let _ = INODES.insert(key, ReadaheadTotals::default(), u64::from(BPF_NOEXIST));
    }
    match INODES.get_ptr_mut(key) {
        // SAFETY: entries of INODES are never removed.
        Some(totals) => Some(unsafe { &mut *totals }),
        None => {
            slot.state.aux[aux::READAHEAD_LOST_INODE] += 1;
            None
        }
    }
}
