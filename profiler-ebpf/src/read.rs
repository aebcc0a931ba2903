//! `read`: what file systems are asked to read, at their read_iter: bytes, direct or buffered, by
//! type of file system and device. About 150 ns a read; task context.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::helpers::bpf_probe_read_kernel_str_bytes;
use aya_ebpf::macros::{fentry, kprobe};
use aya_ebpf::programs::{FEntryContext, ProbeContext};
use profiler_common::{ReadKey, ReadTotals, Stream, aux, read as how};

use crate::config::*;
use crate::kernel::read;
use crate::maps::READS;
use crate::record::{Slot, add_atomic, with_slot};

/// S_IFMT, S_IFBLK and S_IFREG (include/uapi/linux/stat.h).
const S_IFMT: u16 = 0o170_000;
const S_IFBLK: u16 = 0o060_000;
const S_IFREG: u16 = 0o100_000;

macro_rules! read_entries {
    ($($(#[$doc:meta])* $program:ident = $function:literal;)*) => {
        $(
            $(#[$doc])*
            #[fentry(function = $function)]
            pub fn $program(ctx: FEntryContext) -> u32 {
                let (iocb, iter): (*const u8, *const u8) = (ctx.arg(0), ctx.arg(1));
                entered(iocb as u64, iter as u64);
                0
            }
        )*
    };
}

// One for each function, since a program is loaded for one function.
read_entries! {
    /// ext4_file_read_iter(struct kiocb *, struct iov_iter *), and so on for the others.
    read_ext4 = "ext4_file_read_iter";
    read_xfs = "xfs_file_read_iter";
    read_btrfs = "btrfs_file_read_iter";
    read_bcachefs = "bch2_read_iter";
    read_f2fs = "f2fs_file_read_iter";
    read_blkdev = "blkdev_read_iter";
}

/// Any of these functions.
#[kprobe]
pub fn read_kprobe(ctx: ProbeContext) -> u32 {
    let args: (Option<*const u8>, Option<*const u8>) = (ctx.arg(0), ctx.arg(1));
    if let (Some(iocb), Some(iter)) = args {
        entered(iocb as u64, iter as u64);
    }
    0
}

/// generic_file_read_iter, for file systems that have no read_iter of their own. Others call it, too,
/// and are counted at their own.
#[fentry(function = "generic_file_read_iter")]
pub fn read_generic(ctx: FEntryContext) -> u32 {
    let (iocb, iter): (*const u8, *const u8) = (ctx.arg(0), ctx.arg(1));
    if is_generic(iocb as u64) {
        entered(iocb as u64, iter as u64);
    }
    0
}

/// The same.
#[kprobe]
pub fn read_generic_kprobe(ctx: ProbeContext) -> u32 {
    let args: (Option<*const u8>, Option<*const u8>) = (ctx.arg(0), ctx.arg(1));
    if let (Some(iocb), Some(iter)) = args
        && is_generic(iocb as u64)
    {
        entered(iocb as u64, iter as u64);
    }
    0
}

#[inline(always)]
fn is_generic(iocb: u64) -> bool {
    let file: u64 = read(iocb, OFF_KIOCB_FILP.load());
    let operations: u64 = read(file, OFF_FILE_OP.load());
    let read_iter: u64 = read(operations, OFF_FOP_READ_ITER.load());
    read_iter == GENERIC_READ_ITER.load()
}

#[inline(always)]
fn entered(iocb: u64, iter: u64) {
    with_slot(Stream::Read, |_, slot| {
        let file: u64 = read(iocb, OFF_KIOCB_FILP.load());
        let position: u64 = read(iocb, OFF_KIOCB_POS.load());
        let count: u64 = read(iter, OFF_ITER_COUNT.load());
        asked(slot, file, position, count);
    });
}

/// Counts a read of `count` bytes at `position` of `file`, if that is a regular file or a block device.
#[inline(always)]
pub fn asked(slot: &mut Slot, file: u64, position: u64, count: u64) {
    let inode: u64 = read(file, OFF_FILE_INODE.load());
    let mode: u16 = read::<u16>(inode, OFF_INODE_MODE.load()) & S_IFMT;
    let mut bytes = count;
    if mode == S_IFREG {
        // A read past the end asks nothing of the device.
        let size: u64 = read(inode, OFF_INODE_SIZE.load());
        bytes = count.min(size.saturating_sub(position));
    } else if mode != S_IFBLK {
        return;
    }
    let flags: u32 = read(file, OFF_FILE_FLAGS.load());
    let how = if flags & O_DIRECT.load() != 0 { how::DIRECT } else { how::BUFFERED };
    count_read(slot, inode, mode == S_IFBLK, how, bytes);
}

/// Adds a read to its file system's totals.
#[inline(always)]
pub fn count_read(slot: &mut Slot, inode: u64, is_device: bool, how: u32, bytes: u64) {
    let sb: u64 = read(inode, OFF_INODE_SB.load());
    let fs_type: u64 = read(sb, OFF_SB_TYPE.load());
    let name: u64 = read(fs_type, OFF_FS_TYPE_NAME.load());
    let device = if is_device { read(inode, OFF_INODE_RDEV.load()) } else { read(sb, OFF_SB_DEV.load()) };
    let mut fs_type = [0; 16];
    // SAFETY: the helper checks the address. What lies behind the name stays zero.
    let _ = unsafe { bpf_probe_read_kernel_str_bytes(name as *const u8, &mut fs_type) };
    slot.state.events += 1;
    slot.state.weight += bytes;
    let key = ReadKey { fs_type, device, how };
    if READS.get_ptr(key).is_none() {
        let _ = READS.insert(key, ReadTotals::default(), u64::from(BPF_NOEXIST));
    }
    match READS.get_ptr_mut(key) {
        Some(totals) => {
            // SAFETY: entries of READS are never removed.
            let totals = unsafe { &mut *totals };
            add_atomic(&raw mut totals.calls, 1);
            add_atomic(&raw mut totals.bytes, bytes);
        }
        None => slot.state.aux[aux::READ_LOST] += 1,
    }
}
