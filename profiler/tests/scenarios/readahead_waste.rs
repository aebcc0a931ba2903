//! `readahead-waste`: short runs at random places, and reads for which readahead reads no more than is asked.

use std::time::Duration;

use super::fio::{Job, fio};
use super::scenario::{Bench, EXT4, Expected, Scenario};
use super::work::{How, forget, needs, read_at_random, read_through, repeat, write_file};
use crate::common::Disk;
use crate::common::disk::Stat;

const ID: &str = "readahead-waste";
const MIB: u64 = 384;

fn cold_file(bench: &mut Bench, readahead_kib: u32) -> Result<(Disk, String), String> {
    let disk = bench.disk(512, EXT4, "noatime")?;
    let file = disk.file("data");
    write_file(&file, MIB, 1 << 20, false);
    disk.set_readahead(readahead_kib * 2);
    forget(&file);
    Ok((disk, file))
}

/// Has fio read a cold file, and returns what it and the kernel have counted.
fn measure(bench: &mut Bench, readahead_kib: u32, options: &[&str]) -> Result<(Disk, Job, Stat), String> {
    needs("fio")?;
    let (disk, file) = cold_file(bench, readahead_kib)?;
    let name = format!("--filename={file}");
    let before = disk.stat();
    let job = bench.measure(|| fio(&[&[name.as_str()], options].concat()))?;
    let stat = disk.stat().since(before);
    Ok((disk, job, stat))
}

/// Runs of four reads look sequential from the second one on.
pub fn short_runs() -> Scenario {
    Scenario::reproducer(ID, "four reads of 4 KiB in a row at random places, read_ahead_kb 2560", |bench| {
        // Without a hint, and places may repeat.
        let options = ["--rw=randread:4", "--bs=4k", "--io_size=32M", "--fadvise_hint=0", "--norandommap"];
        let (disk, job, stat) = measure(bench, 2560, &options)?;
        let factor = stat.read_bytes as f64 / job.read as f64;
        Ok(Expected::disk(&disk).figure("read_per_asked", factor, "/sys/block/*/stat and fio").figure(
            "request_bytes",
            stat.read_bytes as f64 / stat.reads as f64,
            "/sys/block/*/stat",
        ))
    })
}

/// What readahead is for.
pub fn sequential_read() -> Scenario {
    Scenario::look_alike(ID, "read a cold file in pieces of 128 KiB, read_ahead_kb 2560", |bench| {
        let (_disk, file) = cold_file(bench, 2560)?;
        bench.measure(|| read_through(&file, How::Buffered, 128 << 10));
        Expected::silence()
    })
}

/// The page cache notices these.
pub fn random_pages() -> Scenario {
    Scenario::look_alike(ID, "reads of 4 KiB at random places, read_ahead_kb 128", |bench| {
        let (_disk, file) = cold_file(bench, 128)?;
        bench.measure(|| read_at_random(&file, How::Buffered, 4096, 10_000, 1));
        Expected::silence()
    })
}

/// The cure, and a run in one read.
pub fn told_random() -> Scenario {
    Scenario::look_alike(
        ID,
        "reads of 16 KiB at random places with POSIX_FADV_RANDOM, read_ahead_kb 2560",
        |bench| {
            let (_disk, file) = cold_file(bench, 2560)?;
            bench.measure(|| read_at_random(&file, How::ToldRandom, 16 << 10, 4000, 1));
            Expected::silence()
        },
    )
}

/// What is cached is not read.
pub fn all_cached() -> Scenario {
    Scenario::look_alike(
        ID,
        "reads of 4 KiB at random places of a cached file, read_ahead_kb 2560",
        |bench| {
            let (_disk, file) = cold_file(bench, 2560)?;
            read_through(&file, How::Buffered, 1 << 20);
            bench.measure(|| {
                repeat("cached", 1, Duration::from_secs(2), |_| {
                    read_at_random(&file, How::Buffered, 4096, 10_000, 1);
                })
            });
            Expected::silence()
        },
    )
}
