//! Reading whole maps in a few system calls.
//!
//! aya reads maps an element at a time, which would cost two system calls for each of thousands
//! of stacks; the kernel's batch commands (5.6 and later) read hundreds in one.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use aya::Pod;

const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;
const BPF_MAP_LOOKUP_AND_DELETE_BATCH: libc::c_long = 25;

/// Elements read by one system call. Larger than any hash bucket gets, else ENOSPC comes back.
const CHUNK: usize = 1024;

/// The `batch` member of `union bpf_attr` (include/uapi/linux/bpf.h).
#[repr(C)]
#[derive(Default)]
struct BatchAttr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// Calls `each` with every element of a hash map, and removes it.
///
/// # Errors
///
/// What bpf(2) reports. Elements seen before the error have been removed.
pub fn drain<K: Pod, V: Pod>(map: BorrowedFd<'_>, each: impl FnMut(&K, &V)) -> io::Result<()> {
    walk(map, BPF_MAP_LOOKUP_AND_DELETE_BATCH, each)
}

/// Calls `each` with every element of a hash map.
///
/// # Errors
///
/// What bpf(2) reports.
pub fn read<K: Pod, V: Pod>(map: BorrowedFd<'_>, each: impl FnMut(&K, &V)) -> io::Result<()> {
    walk(map, BPF_MAP_LOOKUP_BATCH, each)
}

fn walk<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    command: libc::c_long,
    mut each: impl FnMut(&K, &V),
) -> io::Result<()> {
    // The kernel's place in the map: a bucket number, written by one call and read by the next.
    let mut place = 0u32;
    let mut first = true;
    let mut keys: Vec<K> = Vec::with_capacity(CHUNK);
    let mut values: Vec<V> = Vec::with_capacity(CHUNK);
    loop {
        let mut next_place = 0u32;
        let mut attr = BatchAttr {
            in_batch: if first { 0 } else { &raw const place as u64 },
            out_batch: &raw mut next_place as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: CHUNK as u32,
            map_fd: map.as_raw_fd() as u32,
            ..BatchAttr::default()
        };
        // SAFETY: `keys` and `values` have room for `count` elements of the map's key and value
        // size, which K and V have; the kernel says in `count` how many it has written.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, command, &raw mut attr, size_of::<BatchAttr>() as libc::c_uint)
        };
        let error = if result < 0 { Some(io::Error::last_os_error()) } else { None };
        let at_end = error.as_ref().is_some_and(|error| error.raw_os_error() == Some(libc::ENOENT));
        let written = if error.is_none() || at_end { (attr.count as usize).min(CHUNK) } else { 0 };
        // SAFETY: the kernel has written this many; any bytes are valid for a Pod.
        unsafe {
            keys.set_len(written);
            values.set_len(written);
        }
        for (key, value) in keys.iter().zip(&values) {
            each(key, value);
        }
        keys.clear();
        values.clear();
        match error {
            Some(_) if at_end => return Ok(()),
            Some(error) => return Err(error),
            None => {}
        }
        place = next_place;
        first = false;
    }
}
