//! Requests that begin where another one has just ended, so that the two could have been one.
//!
//! The ends of the latest requests are remembered by device and direction, for all CPUs together: a task that
//! waits for each of its requests wakes up on one CPU and another. That is a cache line which the CPUs pass
//! on to each other; about 60 ns a request, and some 100 ns more on a busy device of a large machine.

use aya_ebpf::bindings::BPF_NOEXIST;
use profiler_common::{ENDS, Ends, EndsKey};

use crate::block::SECTOR;
use crate::maps;
use crate::record::{add_atomic, zeroed};

/// Where a request is.
pub enum Place {
    /// Right behind another one.
    Contiguous,
    Elsewhere,
    /// The map is full.
    NoRoom,
}

/// Where a request is that is issued, and remembers its end.
#[inline(always)]
pub fn place(device: u32, op: u8, sector: u64, bytes: u64) -> Place {
    let key = EndsKey { device, op: u32::from(op) };
    let ends = match maps::ENDS.get_ptr_mut(key) {
        Some(ends) => ends,
        None => {
            let Some(zero) = zeroed::<Ends>() else { return Place::NoRoom };
            let _ = maps::ENDS.insert(key, zero, u64::from(BPF_NOEXIST));
            match maps::ENDS.get_ptr_mut(key) {
                Some(ends) => ends,
                None => return Place::NoRoom,
            }
        }
    };
    // SAFETY: entries of ENDS are never removed. Two CPUs may write to one place: then one of two ends is lost,
    // and a request that goes on there is not seen to be contiguous.
    let ends = unsafe { &mut *ends };
    let mut found = false;
    for end in &ends.sectors {
        found |= *end == sector;
    }
    let place = ends.next as usize & (ENDS - 1);
    add_atomic(&raw mut ends.next, 1);
    ends.sectors[place] = sector + bytes / SECTOR;
    // 0 is also what ends are before there are any.
    if found && sector != 0 { Place::Contiguous } else { Place::Elsewhere }
}
