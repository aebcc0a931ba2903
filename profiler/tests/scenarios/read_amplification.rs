//! `read-amplification`: file systems that must read a whole extent for a part of it, and the same reads where they
//! need not.

use super::fio::fio;
use super::scenario::{Bench, EXT4, Expected, Scenario};
use super::work::{How, forget, needs, overwrite_scattered, read_at_random, read_scattered, write_file};
use crate::common::Disk;
use crate::common::disk::Stat;

const ID: &str = "read-amplification";

/// The most that btrfs compresses as one.
const BTRFS_EXTENT: usize = 128 << 10;

/// Size of a read.
const PIECE: usize = 4096;

/// Random reads of a cold file, and what the kernel has counted of its disk.
fn measure(bench: &mut Bench, disk: &Disk, file: &str, read: impl FnOnce() -> u64) -> (u64, Stat) {
    forget(file);
    let before = disk.stat();
    let asked = bench.measure(read);
    (asked, disk.stat().since(before))
}

fn amplified(disk: &Disk, asked: u64, stat: Stat) -> Expected {
    Expected::disk(disk)
        .figure(
            "amplification",
            stat.read_bytes as f64 / asked as f64,
            "/sys/block/*/stat and the bytes read",
        )
        .figure("device_read_bytes", stat.read_bytes as f64 / stat.reads as f64, "/sys/block/*/stat")
}

/// A file on btrfs, of data that compresses to less than half.
fn btrfs(bench: &mut Bench, options: &str) -> Result<(Disk, String), String> {
    needs("fio")?;
    let disk = bench.disk(1024, "mkfs.btrfs -q", options)?;
    let file = disk.file("data");
    let name = format!("--filename={file}");
    let options = [name.as_str(), "--rw=write", "--bs=1M", "--size=256M", "--end_fsync=1"];
    // fio fills each piece half with zeroes, half with random bytes. What is preallocated is never compressed.
    let data = [
        "--buffer_compress_percentage=50",
        "--buffer_compress_chunk=4k",
        "--refill_buffers",
        "--fallocate=none",
    ];
    let written = fio(&[&options[..], &data[..]].concat())?;
    assert_eq!(written.written, 256 << 20);
    Ok((disk, file))
}

/// A read for each extent: of one that was read before, much is cached.
fn scattered(file: &str) -> u64 {
    read_scattered(file, How::ToldRandom, PIECE, BTRFS_EXTENT)
}

/// Compressed extents are read and decompressed whole.
pub fn compressed_btrfs() -> Scenario {
    Scenario::reproducer(
        ID,
        "reads of 4 KiB in each 128 KiB of a file on btrfs with compress-force=zstd",
        |bench| {
            let (disk, file) = btrfs(bench, "noatime,compress-force=zstd")?;
            let (asked, stat) = measure(bench, &disk, &file, || scattered(&file));
            Ok(amplified(&disk, asked, stat))
        },
    )
}

/// btrfs' checksums are of single blocks.
pub fn uncompressed_btrfs() -> Scenario {
    Scenario::look_alike(ID, "the same on btrfs without compression", |bench| {
        let (disk, file) = btrfs(bench, "noatime")?;
        measure(bench, &disk, &file, || scattered(&file));
        Expected::silence()
    })
}

/// What most machines do.
pub fn direct_ext4() -> Scenario {
    Scenario::look_alike(ID, "direct reads of 4 KiB at random places on ext4", |bench| {
        let disk = bench.disk(512, EXT4, "noatime")?;
        let file = disk.file("data");
        write_file(&file, 256, 1 << 20, false);
        measure(bench, &disk, &file, || read_at_random(&file, How::Direct, PIECE, 8000, 2));
        Expected::silence()
    })
}

/// An empty bcachefs of 512 MiB: the tools that make one are not to be had for the kernels that mount it.
const BCACHEFS: &[u8] = include_bytes!("bcachefs-512M.img.zst");
const BCACHEFS_MIB: u64 = 96;

fn on_bcachefs(bench: &mut Bench) -> Result<(Disk, String), String> {
    let disk = Disk::unpack(BCACHEFS)?;
    bench.owns(&disk);
    disk.mount_as("bcachefs")?;
    let file = disk.file("data");
    write_file(&file, BCACHEFS_MIB, 1 << 20, true);
    Ok((disk, file))
}

/// The case itself: extents of 64 KiB, with one checksum each.
pub fn bcachefs() -> Scenario {
    Scenario::reproducer(
        ID,
        "direct reads of 4 KiB at random places of a file on bcachefs, written in pieces of 1 MiB",
        |bench| {
            let (disk, file) = on_bcachefs(bench)?;
            let (asked, stat) =
                measure(bench, &disk, &file, || read_at_random(&file, How::Direct, PIECE, 700, 4));
            Ok(amplified(&disk, asked, stat).figure("bounce_pages", 16.0, "encoded_extent_max of 64 KiB"))
        },
    )
}

/// The same file with extents of the size of the reads.
pub fn rewritten_bcachefs() -> Scenario {
    Scenario::look_alike(
        ID,
        "the same after the file was overwritten in pieces of 4 KiB in random order",
        |bench| {
            let (disk, file) = on_bcachefs(bench)?;
            // In order, neighbours would be merged into extents of 64 KiB again.
            overwrite_scattered(&file, PIECE);
            measure(bench, &disk, &file, || read_at_random(&file, How::Direct, PIECE, 3000, 4));
            Expected::silence()
        },
    )
}
