//! Stands in for `read` where functions cannot be attached: the read system calls, libaio, io_uring,
//! and the page cache's own tracepoint. About 200 ns a read; task context.
//!
//! What a system call asks for is found through the file descriptor. Reads that are no system
//! calls of these (page faults on mapped files, sendfile and splice, the kernel's own) are seen
//! only as lookups in the page cache.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::bpf_probe_read_user;
use aya_ebpf::helpers::generated::bpf_get_current_task;
use aya_ebpf::macros::{btf_tracepoint, tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, TracePointContext};
use profiler_common::{Stream, read as how};

use crate::config::*;
use crate::kernel::read;
use crate::read::{asked, count_read};
use crate::record::{Slot, with_slot};

/// Records of syscalls:sys_enter_*: 8 bytes of header, the number, then the arguments.
const ARG: [u32; 6] = [16, 24, 32, 40, 48, 56];

/// Segments of a vectored read, and requests of one io_submit, that are looked at. More are rare,
/// and only their bytes are missed. (Segments of each of many requests would take the verifier
/// a second, so they are fewer.)
const MAX_SEGMENTS: u64 = 16;
const MAX_REQUESTS: u64 = 16;
const MAX_SEGMENTS_OF_REQUEST: u64 = 2;

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
struct IoVec {
    base: u64,
    length: u64,
}

/// `struct iocb` (include/uapi/linux/aio_abi.h).
#[repr(C)]
#[derive(Clone, Copy)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: u16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: u64,
}

/// IOCB_CMD_PREAD and IOCB_CMD_PREADV.
const AIO_PREAD: u16 = 0;
const AIO_PREADV: u16 = 7;

/// IORING_OP_READV, IORING_OP_READ_FIXED and IORING_OP_READ (include/uapi/linux/io_uring.h).
const URING_READV: u8 = 1;
const URING_READ_FIXED: u8 = 4;
const URING_READ: u8 = 22;

/// read(fd, buffer, count)
#[tracepoint]
pub fn sys_read(ctx: TracePointContext) -> u32 {
    with_slot(Stream::Read, |_, slot| {
        let file = file_of(arg(&ctx, 0));
        let position: u64 = read(file, OFF_FILE_POS.load());
        asked(slot, file, position, arg(&ctx, 2));
    });
    0
}

/// pread64(fd, buffer, count, position)
#[tracepoint]
pub fn sys_pread(ctx: TracePointContext) -> u32 {
    with_slot(Stream::Read, |_, slot| asked(slot, file_of(arg(&ctx, 0)), arg(&ctx, 3), arg(&ctx, 2)));
    0
}

/// readv(fd, vector, segments)
#[tracepoint]
pub fn sys_readv(ctx: TracePointContext) -> u32 {
    with_slot(Stream::Read, |_, slot| {
        let file = file_of(arg(&ctx, 0));
        let position: u64 = read(file, OFF_FILE_POS.load());
        asked(slot, file, position, vector_bytes::<MAX_SEGMENTS>(arg(&ctx, 1), arg(&ctx, 2)));
    });
    0
}

/// preadv(fd, vector, segments, position, position_high) and preadv2
#[tracepoint]
pub fn sys_preadv(ctx: TracePointContext) -> u32 {
    with_slot(Stream::Read, |_, slot| {
        let bytes = vector_bytes::<MAX_SEGMENTS>(arg(&ctx, 1), arg(&ctx, 2));
        asked(slot, file_of(arg(&ctx, 0)), arg(&ctx, 3), bytes);
    });
    0
}

/// io_submit(context, requests, pointers to requests)
#[tracepoint]
pub fn sys_io_submit(ctx: TracePointContext) -> u32 {
    with_slot(Stream::Read, |_, slot| {
        let (requests, pointers) = (arg(&ctx, 1), arg(&ctx, 2));
        for i in 0..MAX_REQUESTS {
            if i >= requests {
                break;
            }
            submitted(slot, pointers + 8 * i);
        }
    });
    0
}

#[inline(always)]
fn submitted(slot: &mut Slot, pointer: u64) {
    // SAFETY: the helper checks the addresses.
    let iocb = unsafe {
        bpf_probe_read_user(pointer as *const u64).and_then(|iocb| bpf_probe_read_user(iocb as *const Iocb))
    };
    let Ok(iocb) = iocb else { return };
    let bytes = match iocb.opcode {
        AIO_PREAD => iocb.bytes,
        // `bytes` is the number of segments then.
        AIO_PREADV => vector_bytes::<MAX_SEGMENTS_OF_REQUEST>(iocb.buffer, iocb.bytes),
        _ => return,
    };
    asked(slot, file_of(u64::from(iocb.fd)), iocb.offset, bytes);
}

/// io_uring_submit_req(struct io_kiocb *) (io_uring_submit_sqe before 6.4 has other arguments).
#[btf_tracepoint(function = "io_uring_submit_req")]
pub fn io_uring_submit(ctx: BtfTracePointContext) -> u32 {
    let request: *const u8 = ctx.arg(0);
    let request = request as u64;
    let opcode: u8 = read(request, OFF_IO_KIOCB_OPCODE.load());
    if matches!(opcode, URING_READ | URING_READ_FIXED | URING_READV) {
        with_slot(Stream::Read, |_, slot| {
            // The file is looked up when the request is issued; until then there is its descriptor, or,
            // with REQ_F_FIXED_FILE, an index of registered files, which cannot be followed here.
            let flags: u64 = read(request, OFF_IO_KIOCB_FLAGS.load());
            if flags & 1 != 0 {
                return;
            }
            let fd: u32 = read(request, OFF_IO_KIOCB_FD.load());
            let file = file_of(u64::from(fd));
            let position: u64 = read(request, OFF_IO_RW_POS.load());
            let length: u32 = read(request, OFF_IO_RW_LEN.load());
            // For vectors, `len` is the number of segments, and where they are differs between kernels.
            let bytes = if opcode == URING_READV {
                u64::from(length) << PAGE_SHIFT.load()
            } else {
                u64::from(length)
            };
            asked(slot, file, position, bytes);
        });
    }
    0
}

/// mm_filemap_get_pages(struct address_space *, pgoff_t index, pgoff_t last_index): a reader looks
/// pages up in the page cache. A long read comes back for the rest of its pages, so it is counted
/// at its first page only: when it wants more than the call before got.
#[btf_tracepoint(function = "mm_filemap_get_pages")]
pub fn filemap_get_pages(ctx: BtfTracePointContext) -> u32 {
    let mapping: *const u8 = ctx.arg(0);
    let (index, last): (u64, u64) = (ctx.arg(1), ctx.arg(2));
    with_slot(Stream::Read, |_, slot| {
        let inode: u64 = read(mapping as u64, OFF_MAPPING_HOST.load());
        let pages = last.saturating_sub(index).max(1);
        // This stream takes no stacks, so its sampler's memory is free for the call before.
        let before = (slot.state.window_start, slot.state.window_weight);
        slot.state.window_start = mapping as u64;
        slot.state.window_weight = last;
        if before == (mapping as u64, last) {
            return;
        }
        count_read(slot, inode, false, how::PAGE_CACHE, pages << PAGE_SHIFT.load());
    });
    0
}

#[inline(always)]
fn arg(ctx: &TracePointContext, index: usize) -> u64 {
    read(ctx.as_ptr() as u64, ARG[index])
}

/// `struct file` of a descriptor of the current task; 0 if there is none.
#[inline(always)]
fn file_of(fd: u64) -> u64 {
    // SAFETY: takes no arguments.
    let task = unsafe { bpf_get_current_task() };
    let files: u64 = read(task, OFF_TASK_FILES.load());
    let table: u64 = read(files, OFF_FILES_FDT.load());
    let size: u32 = read(table, OFF_FDTABLE_MAX.load());
    let fd = fd & 0xffff_ffff;
    if fd >= u64::from(size) {
        return 0;
    }
    let array: u64 = read(table, OFF_FDTABLE_FD.load());
    read(array + 8 * fd, 0)
}

#[inline(always)]
fn vector_bytes<const MAX: u64>(vector: u64, segments: u64) -> u64 {
    let mut bytes = 0;
    for i in 0..MAX {
        if i >= segments {
            break;
        }
        // SAFETY: the helper checks the address.
        if let Ok(segment) = unsafe { bpf_probe_read_user((vector + 16 * i) as *const IoVec) } {
            bytes += segment.length;
        }
    }
    bytes
}
