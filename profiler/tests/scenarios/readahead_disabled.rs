//! `readahead-disabled`: a file that is read with a window of nothing, and reads that have no use for a window.

use super::scenario::{Bench, EXT4, Expected, Scenario};
use super::work::{How, forget, read_at_random, read_through, write_file};
use crate::common::Disk;
use crate::common::disk::Stat;

const ID: &str = "readahead-disabled";
/// Size of the file.
const MIB: u64 = 64;
/// What programs such as dd and cat read at a time.
const PIECE: usize = 128 << 10;

/// A cold file on a disk with this readahead, in KiB.
fn cold_file(bench: &mut Bench, readahead_kib: u32) -> Result<(Disk, String), String> {
    let disk = bench.disk(256, EXT4, "noatime")?;
    let file = disk.file("data");
    write_file(&file, MIB, 1 << 20, false);
    disk.set_readahead(readahead_kib * 2);
    forget(&file);
    Ok((disk, file))
}

/// Reads from the cold file, and returns what the kernel has counted of its disk meanwhile.
fn measure(
    bench: &mut Bench,
    readahead_kib: u32,
    work: impl FnOnce(&str) -> u64,
) -> Result<(Disk, Stat), String> {
    let (disk, file) = cold_file(bench, readahead_kib)?;
    let before = disk.stat();
    bench.measure(|| work(&file));
    let stat = disk.stat().since(before);
    Ok((disk, stat))
}

/// The case itself.
pub fn sequential_read() -> Scenario {
    Scenario::reproducer(ID, "read a cold file of ext4 in pieces of 128 KiB, read_ahead_kb 0", |bench| {
        let (disk, stat) = measure(bench, 0, |file| read_through(file, How::Buffered, PIECE))?;
        let request = stat.read_bytes as f64 / stat.reads as f64;
        Ok(Expected::disk(&disk)
            .figure("request_bytes", request, "/sys/block/*/stat")
            .figure("requests", stat.reads as f64, "/sys/block/*/stat")
            .figure("read_bytes", PIECE as f64, "what is read at a time"))
    })
}

/// The cure.
pub fn with_readahead() -> Scenario {
    Scenario::look_alike(ID, "the same with read_ahead_kb 128", |bench| {
        measure(bench, 128, |file| read_through(file, How::Buffered, PIECE))?;
        Expected::silence()
    })
}

/// The other cure: no readahead either, and yet reads are not cut.
pub fn told_random() -> Scenario {
    Scenario::look_alike(ID, "reads of 128 KiB at random places with POSIX_FADV_RANDOM", |bench| {
        measure(bench, 128, |file| read_at_random(file, How::ToldRandom, PIECE, 1000, 1))?;
        Expected::silence()
    })
}

/// What does not go through the page cache does not miss readahead.
pub fn direct() -> Scenario {
    Scenario::look_alike(ID, "direct reads of 128 KiB, read_ahead_kb 0", |bench| {
        measure(bench, 0, |file| read_through(file, How::Direct, PIECE))?;
        Expected::silence()
    })
}

/// Reads of single pages cannot be cut.
pub fn single_pages() -> Scenario {
    Scenario::look_alike(ID, "reads of 4 KiB at random places, read_ahead_kb 0", |bench| {
        measure(bench, 0, |file| read_at_random(file, How::Buffered, 4096, 10_000, 1))?;
        Expected::silence()
    })
}
