//! `small-io`: a file that is read or written in tiny pieces past the page cache, and what only looks like that.

use super::scenario::{Bench, EXT4, Expected, Scenario};
use super::work::{How, forget, read_at_random, read_through, write_file};
use crate::common::Disk;
use crate::common::disk::Stat;

const ID: &str = "small-io";
const MIB: u64 = 64;
/// A tiny piece.
const TINY: usize = 4096;

/// Does something to a cold file, and returns what the kernel has counted of its disk meanwhile.
fn measure(bench: &mut Bench, work: impl FnOnce(&str) -> u64) -> Result<(Disk, Stat), String> {
    let disk = bench.disk(256, EXT4, "noatime")?;
    let file = disk.file("data");
    write_file(&file, MIB, 1 << 20, false);
    forget(&file);
    let before = disk.stat();
    bench.measure(|| work(&file));
    let stat = disk.stat().since(before);
    Ok((disk, stat))
}

/// dd bs=4k iflag=direct.
pub fn direct_reads() -> Scenario {
    Scenario::reproducer(ID, "read a file from begin to end in direct reads of 4 KiB", |bench| {
        let (disk, stat) = measure(bench, |file| read_through(file, How::Direct, TINY))?;
        let size = stat.read_bytes as f64 / stat.reads as f64;
        Ok(Expected::disk(&disk).figure("request_size", size, "/sys/block/*/stat"))
    })
}

/// dd bs=4k oflag=direct.
pub fn direct_writes() -> Scenario {
    Scenario::reproducer(ID, "write a file from begin to end in direct writes of 4 KiB", |bench| {
        let (disk, stat) = measure(bench, |file| {
            write_file(file, MIB, TINY, true);
            MIB << 20
        })?;
        let size = stat.written_bytes as f64 / stat.writes as f64;
        Ok(Expected::disk(&disk).figure("request_size", size, "/sys/block/*/stat"))
    })
}

/// The cure.
pub fn large_direct_reads() -> Scenario {
    Scenario::look_alike(ID, "the same in direct reads of 1 MiB", |bench| {
        measure(bench, |file| (0..4).map(|_| read_through(file, How::Direct, 1 << 20)).sum())?;
        Expected::silence()
    })
}

/// The page cache makes large requests of small reads.
pub fn buffered_reads() -> Scenario {
    Scenario::look_alike(ID, "the same in buffered reads of 4 KiB", |bench| {
        measure(bench, |file| read_through(file, How::Buffered, TINY))?;
        Expected::silence()
    })
}

/// Nothing could be merged there.
pub fn random_direct_reads() -> Scenario {
    Scenario::look_alike(ID, "direct reads of 4 KiB at random places", |bench| {
        measure(bench, |file| read_at_random(file, How::Direct, TINY, 10_000, 1))?;
        Expected::silence()
    })
}
