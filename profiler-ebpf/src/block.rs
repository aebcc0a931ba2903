//! `block`: bios as they are queued, requests as they are issued and completed.
//!
//! About 150 ns for each of the three. A bio is queued in the context of whoever reads or writes;
//! requests may be issued by a worker and complete in an interrupt, so that they belong to the
//! device, and a filter for processes or a control group does not apply to them.

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::BPF_ANY;
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::{btf_tracepoint, tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, TracePointContext};
use profiler_common::{HistKey, InFlight, Stream, aux, measure, op};

use crate::config::*;
use crate::contiguous::{self, Place};
use crate::kernel::read;
use crate::maps::IN_FLIGHT;
use crate::record::{Detail, claim, running, with_slot};

/// Bytes of a sector, the block layer's unit whatever the device has.
pub const SECTOR: u64 = 512;

/// Number that OFF_QUEUE_DISK has when requests know their disk directly.
const NO_QUEUE: u32 = u32::MAX;

/// A request as the probes see it.
#[derive(Clone, Copy)]
struct Request {
    /// What identifies it from issue to completion.
    key: u64,
    device: u32,
    op: u8,
}

/// block_bio_queue(struct bio *) (after a request_queue before 5.11). Task context mostly.
#[btf_tracepoint(function = "block_bio_queue")]
pub fn bio_queue_btf(ctx: BtfTracePointContext) -> u32 {
    let bio: *const u8 = if BIO_QUEUE_ARG.load() == 0 { ctx.arg(0) } else { ctx.arg(1) };
    let bio = bio as u64;
    let bdev: u64 = read(bio, OFF_BIO_BDEV.load());
    let device: u32 = read(bdev, OFF_BDEV_DEV.load());
    let bytes: u32 = read(bio, OFF_BIO_SIZE.load());
    let flags: u32 = read(bio, OFF_BIO_OPF.load());
    queued(&ctx, device, op_of(flags), u64::from(bytes));
    0
}

/// block_rq_issue(struct request *) (after a request_queue before 5.11). Task or worker context.
#[btf_tracepoint(function = "block_rq_issue")]
pub fn rq_issue_btf(ctx: BtfTracePointContext) -> u32 {
    let rq: *const u8 = if RQ_ISSUE_ARG.load() == 0 { ctx.arg(0) } else { ctx.arg(1) };
    let request = request_of(rq as u64);
    let bytes: u32 = read(rq as u64, OFF_RQ_DATA_LEN.load());
    let flags: u32 = read(rq as u64, OFF_RQ_CMD_FLAGS.load());
    let sector: u64 = read(rq as u64, OFF_RQ_SECTOR.load());
    issued(request, sector, u64::from(bytes), flags & REQ_FUA.load() != 0);
    0
}

/// block_rq_complete(struct request *, int error, unsigned int nr_bytes). Interrupt context.
#[btf_tracepoint(function = "block_rq_complete")]
pub fn rq_complete_btf(ctx: BtfTracePointContext) -> u32 {
    let rq: *const u8 = ctx.arg(0);
    let bytes: u32 = ctx.arg(2);
    completed(request_of(rq as u64), u64::from(bytes));
    0
}

/// The same from the tracepoint's record.
#[tracepoint]
pub fn bio_queue_tp(ctx: TracePointContext) -> u32 {
    let record = ctx.as_ptr() as u64;
    let sectors: u32 = read(record, TP_BIO_NR_SECTOR.load());
    let op = op_of_rwbs(record, TP_BIO_RWBS.load());
    queued(&ctx, read(record, TP_BIO_DEV.load()), op, u64::from(sectors) * SECTOR);
    0
}

/// The same from the tracepoint's record.
#[tracepoint]
pub fn rq_issue_tp(ctx: TracePointContext) -> u32 {
    let record = ctx.as_ptr() as u64;
    let device: u32 = read(record, TP_RQ_ISSUE_DEV.load());
    let sector: u64 = read(record, TP_RQ_ISSUE_SECTOR.load());
    let bytes: u32 = read(record, TP_RQ_ISSUE_BYTES.load());
    let op = op_of_rwbs(record, TP_RQ_ISSUE_RWBS.load());
    let fua = fua_of_rwbs(record, TP_RQ_ISSUE_RWBS.load());
    issued(Request { key: sector_key(device, sector, op), device, op }, sector, u64::from(bytes), fua);
    0
}

/// The same from the tracepoint's record. The second part of a request that completes in parts
/// has another sector, so that only the first part's latency is measured on this rung.
#[tracepoint]
pub fn rq_complete_tp(ctx: TracePointContext) -> u32 {
    let record = ctx.as_ptr() as u64;
    let device: u32 = read(record, TP_RQ_COMPLETE_DEV.load());
    let sector: u64 = read(record, TP_RQ_COMPLETE_SECTOR.load());
    let sectors: u32 = read(record, TP_RQ_COMPLETE_NR_SECTOR.load());
    let op = op_of_rwbs(record, TP_RQ_COMPLETE_RWBS.load());
    completed(Request { key: sector_key(device, sector, op), device, op }, u64::from(sectors) * SECTOR);
    0
}

#[inline(always)]
fn request_of(rq: u64) -> Request {
    let mut disk: u64 = read(rq, OFF_RQ_QUEUE.load());
    if OFF_QUEUE_DISK.load() != NO_QUEUE {
        disk = read(disk, OFF_QUEUE_DISK.load());
    }
    let major: u32 = read(disk, OFF_DISK_MAJOR.load());
    let minor: u32 = read(disk, OFF_DISK_FIRST_MINOR.load());
    let flags: u32 = read(rq, OFF_RQ_CMD_FLAGS.load());
    Request { key: rq, device: major << 20 | minor & 0xf_ffff, op: op_of(flags) }
}

/// Identifies a request where its address is not known. A read and a write of one sector can be under way at a time;
/// two reads of it share a key, and one of their latencies is missing.
#[inline(always)]
fn sector_key(device: u32, sector: u64, op: u8) -> u64 {
    // A flush has none; the record of its issue says 0, that of its completion -1.
    let sector = if op == op::FLUSH { 0 } else { sector };
    (sector << 2 | u64::from(op)) << 20 ^ u64::from(device)
}

/// Direction from the low byte of bi_opf and cmd_flags (enum req_op in include/linux/blk_types.h:
/// 0 read, 1 write, 2 flush, 3 discard, 5 secure erase; odd numbers send data to the device).
#[inline(always)]
pub fn op_of(flags: u32) -> u8 {
    match flags & 0xff {
        2 => op::FLUSH,
        3 | 5 => op::DISCARD,
        number if number & 1 != 0 => op::WRITE,
        _ => op::READ,
    }
}

/// Direction from the string of a tracepoint: R, W, D, or F; F in front of another is a request
/// that flushes first. The rest are writes: N or WZ is a write of zeroes, and N also a command of the
/// driver's own, of which this does not say whether it reads.
#[inline(always)]
pub fn op_of_rwbs(record: u64, offset: u32) -> u8 {
    let first: u8 = read(record, offset);
    let second: u8 = read(record, offset + 1);
    match (first, second) {
        (b'R', _) | (b'F', b'R') => op::READ,
        (b'D', _) | (b'F', b'D') => op::DISCARD,
        (b'F', b'F' | 0) => op::FLUSH,
        _ => op::WRITE,
    }
}

/// Whether the string of a tracepoint has an F behind the direction, which in turn is behind the F of a flush.
#[inline(always)]
fn fua_of_rwbs(record: u64, offset: u32) -> bool {
    let first: u8 = read(record, offset);
    let place = if first == b'F' { 2 } else { 1 };
    let then: u8 = read(record, offset + place);
    then == b'F'
}

#[inline(always)]
fn key(measure: u16, request: Request) -> HistKey {
    HistKey { measure, op: u16::from(request.op), device: request.device }
}

#[inline(always)]
fn queued<C: EbpfContext>(ctx: &C, device: u32, op: u8, bytes: u64) {
    with_slot(Stream::Block, |task, slot| {
        slot.histogram(key(measure::BIO_SIZE, Request { key: 0, device, op }), bytes);
        slot.event(ctx, Stream::Block, task, Detail { detail: u64::from(device), sub: op }, bytes);
    });
}

#[inline(always)]
fn issued(request: Request, sector: u64, bytes: u64, fua: bool) {
    if !running() {
        return;
    }
    claim(Stream::Block, |slot| {
        // SAFETY: takes no arguments.
        let since = unsafe { bpf_ktime_get_ns() };
        // A driver without room sends a request back, and it is issued again later: the device sees
        // only the last time.
        let again = IN_FLIGHT.get_ptr(request.key).is_some();
        if !again {
            slot.histogram(key(measure::REQUEST_SIZE, request), bytes);
        }
        if IN_FLIGHT.insert(request.key, InFlight { since, left: bytes }, u64::from(BPF_ANY)).is_err() {
            slot.state.aux[aux::BLOCK_LOST_REQUEST] += 1;
        }
        // Flushes, and commands of the driver's own, are nowhere.
        if again || bytes == 0 {
            return;
        }
        if fua {
            slot.histogram(key(measure::FUA_SIZE, request), bytes);
        }
        match contiguous::place(request.device, request.op, sector, bytes) {
            Place::Contiguous => slot.histogram(key(measure::CONTIGUOUS_SIZE, request), bytes),
            Place::Elsewhere => {}
            Place::NoRoom => slot.state.aux[aux::BLOCK_LOST_END] += 1,
        }
    });
}

#[inline(always)]
fn completed(request: Request, bytes: u64) {
    if !running() {
        return;
    }
    if bytes == 0 && request.op != op::FLUSH {
        // A write without data asks for a flush only: another request is issued in its place.
        return;
    }
    claim(Stream::Block, |slot| {
        slot.histogram(key(measure::COMPLETED_SIZE, request), bytes);
        let Some(in_flight) = IN_FLIGHT.get_ptr_mut(request.key) else {
            slot.state.aux[aux::BLOCK_UNPAIRED_COMPLETION] += 1;
            return;
        };
        // SAFETY: a request completes on one CPU at a time, and only that removes it.
        let in_flight = unsafe { &mut *in_flight };
        if bytes < in_flight.left {
            // The device has done a part; the time ends with the last one.
            in_flight.left -= bytes;
            return;
        }
        // SAFETY: takes no arguments.
        let ns = unsafe { bpf_ktime_get_ns() }.saturating_sub(in_flight.since);
        let _ = IN_FLIGHT.remove(request.key);
        slot.histogram(key(measure::REQUEST_LATENCY, request), ns);
    });
}
