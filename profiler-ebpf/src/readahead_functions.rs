//! `readahead` before it had tracepoints: at the functions of mm/readahead.c that readers call.
//! The same counts, at the same cost.

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::{fentry, kprobe};
use aya_ebpf::programs::{FEntryContext, ProbeContext};

use crate::config::*;
use crate::kernel::read;
use crate::readahead::{Call, File, Request, called, issued, window};

/// page_cache_sync_ra(struct readahead_control *, unsigned long req_count).
#[fentry(function = "page_cache_sync_ra")]
pub fn sync_ra_fentry(ctx: FEntryContext) -> u32 {
    let ractl: *const u8 = ctx.arg(0);
    reader(ractl as u64, ra_of(ractl as u64), ctx.arg(1), true);
    0
}

/// page_cache_async_ra(struct readahead_control *, struct folio *, unsigned long req_count).
#[fentry(function = "page_cache_async_ra")]
pub fn async_ra_fentry(ctx: FEntryContext) -> u32 {
    let ractl: *const u8 = ctx.arg(0);
    reader(ractl as u64, ra_of(ractl as u64), ctx.arg(2), false);
    0
}

/// The same.
#[kprobe]
pub fn sync_ra_kprobe(ctx: ProbeContext) -> u32 {
    let ractl: u64 = ctx.arg(0).unwrap_or(0);
    reader(ractl, ra_of(ractl), ctx.arg(1).unwrap_or(0), true);
    0
}

/// The same.
#[kprobe]
pub fn async_ra_kprobe(ctx: ProbeContext) -> u32 {
    let ractl: u64 = ctx.arg(0).unwrap_or(0);
    reader(ractl, ra_of(ractl), ctx.arg(2).unwrap_or(0), false);
    0
}

/// Before 5.13 readahead_control had no `ra`, and a struct file_ra_state * came second.
#[fentry(function = "page_cache_sync_ra")]
pub fn sync_ra_old_fentry(ctx: FEntryContext) -> u32 {
    let (ractl, ra): (*const u8, *const u8) = (ctx.arg(0), ctx.arg(1));
    reader(ractl as u64, ra as u64, ctx.arg(2), true);
    0
}

/// Likewise.
#[fentry(function = "page_cache_async_ra")]
pub fn async_ra_old_fentry(ctx: FEntryContext) -> u32 {
    let (ractl, ra): (*const u8, *const u8) = (ctx.arg(0), ctx.arg(1));
    reader(ractl as u64, ra as u64, ctx.arg(3), false);
    0
}

/// Likewise.
#[kprobe]
pub fn sync_ra_old_kprobe(ctx: ProbeContext) -> u32 {
    let (ractl, ra): (u64, u64) = (ctx.arg(0).unwrap_or(0), ctx.arg(1).unwrap_or(0));
    reader(ractl, ra, ctx.arg(2).unwrap_or(0), true);
    0
}

/// Likewise.
#[kprobe]
pub fn async_ra_old_kprobe(ctx: ProbeContext) -> u32 {
    let (ractl, ra): (u64, u64) = (ctx.arg(0).unwrap_or(0), ctx.arg(1).unwrap_or(0));
    reader(ractl, ra, ctx.arg(3).unwrap_or(0), false);
    0
}

#[inline(always)]
fn ra_of(ractl: u64) -> u64 {
    read(ractl, OFF_RACTL_RA.load())
}

/// page_cache_ra_unbounded(struct readahead_control *, unsigned long nr_to_read, unsigned long lookahead).
#[fentry(function = "page_cache_ra_unbounded")]
pub fn ra_unbounded_fentry(ctx: FEntryContext) -> u32 {
    let ractl: *const u8 = ctx.arg(0);
    unbounded(&ctx, ractl as u64, ctx.arg(1));
    0
}

/// The same.
#[kprobe]
pub fn ra_unbounded_kprobe(ctx: ProbeContext) -> u32 {
    unbounded(&ctx, ctx.arg(0).unwrap_or(0), ctx.arg(1).unwrap_or(0));
    0
}

/// page_cache_ra_order(struct readahead_control *, struct file_ra_state *, ..), since 5.18.
#[fentry(function = "page_cache_ra_order")]
pub fn ra_order_fentry(ctx: FEntryContext) -> u32 {
    let (ractl, ra): (*const u8, *const u8) = (ctx.arg(0), ctx.arg(1));
    ordered(&ctx, ractl as u64, ra as u64);
    0
}

/// The same.
#[kprobe]
pub fn ra_order_kprobe(ctx: ProbeContext) -> u32 {
    ordered(&ctx, ctx.arg(0).unwrap_or(0), ctx.arg(1).unwrap_or(0));
    0
}

#[inline(always)]
fn unbounded<C: EbpfContext>(ctx: &C, ractl: u64, pages: u64) {
    let index = read(ractl, OFF_RACTL_INDEX.load());
    issued(ctx, file_of(ractl), Request::Pages { index, pages });
}

#[inline(always)]
fn ordered<C: EbpfContext>(ctx: &C, ractl: u64, ra: u64) {
    let mapping: u64 = read(ractl, OFF_RACTL_MAPPING.load());
    let inode: u64 = read(mapping, OFF_MAPPING_HOST.load());
    let request = window(inode, read(ractl, OFF_RACTL_INDEX.load()), ra);
    issued(ctx, File::of(inode), request);
}

#[inline(always)]
fn reader(ractl: u64, ra: u64, wanted: u64, sync: bool) {
    let call = Call {
        index: read(ractl, OFF_RACTL_INDEX.load()),
        wanted,
        ra_pages: read(ra, OFF_RA_PAGES.load()),
        prev_pos: read(ra, OFF_RA_PREV_POS.load()),
        sync,
    };
    called(file_of(ractl), call);
}

#[inline(always)]
fn file_of(ractl: u64) -> File {
    let mapping: u64 = read(ractl, OFF_RACTL_MAPPING.load());
    File::of(read(mapping, OFF_MAPPING_HOST.load()))
}
