//! Requests that begin where another one has just ended, so that the two could have been one.
//!
//! Each CPU remembers the ends of its latest requests, by device and direction: as many readers or
//! writers may take turns there. A task that goes to another CPU between two requests makes one that is
//! not seen to be contiguous. About 80 ns a request.

use aya_ebpf::bindings::BPF_NOEXIST;
use profiler_common::{ENDS, IssueKey, Issued};

use crate::block::SECTOR;
use crate::maps::ISSUED;
use crate::record::{add_atomic, zeroed};

/// Where a request is on its device.
#[derive(Clone, Copy)]
pub struct Extent {
    pub sector: u64,
    pub bytes: u64,
    /// 1: it is on stable storage once it completes (REQ_FUA).
    pub fua: u64,
}

/// Takes note of a request that is issued; false if there is no room for its device.
#[inline(always)]
pub fn note(device: u32, op: u8, extent: Extent) -> bool {
    // Flushes, and commands of the driver's own, are nowhere.
    if extent.bytes == 0 {
        return true;
    }
    let key = IssueKey { device, op: u32::from(op) };
    let issued = match ISSUED.get_ptr_mut(key) {
        Some(issued) => issued,
        None => {
            let Some(zero) = zeroed::<Issued>() else { return false };
            let _ = ISSUED.insert(key, zero, u64::from(BPF_NOEXIST));
            match ISSUED.get_ptr_mut(key) {
                Some(issued) => issued,
                None => return false,
            }
        }
    };
    // SAFETY: a value of this CPU that is never removed. A program that interrupts this one may add to it as
    // well, hence the atomic additions; an end that both write is one stream's, and lost for one request.
    let issued = unsafe { &mut *issued };
    let place = issued.requests as usize & (ENDS - 1);
    add_atomic(&raw mut issued.requests, 1);
    add_atomic(&raw mut issued.fua, extent.fua);
    let mut found = false;
    for end in &issued.ends {
        found |= *end == extent.sector;
    }
    issued.ends[place] = extent.sector + extent.bytes / SECTOR;
    // No request ends at sector 0, which is also what ends are before there are any.
    if found && extent.sector != 0 {
        add_atomic(&raw mut issued.contiguous, 1);
        add_atomic(&raw mut issued.contiguous_bytes, extent.bytes);
    }
    true
}
