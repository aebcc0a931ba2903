//! `mutex-spinning`: threads that overwrite cached pages, of one file or each of its own.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use profiler::profile::Subject;

use super::scenario::{Bench, EXT4, Expected, Scenario};
use super::work::{crowd, needs_cpus, repeat};
use crate::common::Disk;

const ID: &str = "mutex-spinning";
const TIME: Duration = Duration::from_secs(3);
/// Copying this much takes a few microseconds: a waiter finds its holder on a CPU, and spins.
const PIECE: usize = 64 << 10;

fn overwrite(bench: &mut Bench, file: impl Fn(usize) -> usize + Sync) -> Result<Disk, String> {
    let disk = bench.disk(256, EXT4, "noatime")?;
    let files: Vec<File> =
        (0..crowd()).map(|number| File::create(disk.file(&number.to_string())).unwrap()).collect();
    let piece = vec![1; PIECE];
    bench.measure(|| {
        repeat("overwriter", crowd(), TIME, |number| files[file(number)].write_all_at(&piece, 0).unwrap())
    });
    Ok(disk)
}

/// One rw_semaphore for all of them: that of the file's inode.
pub fn one_file() -> Scenario {
    Scenario::reproducer(ID, "threads that overwrite the same 64 KiB of one cached file", |bench| {
        needs_cpus(4)?;
        overwrite(bench, |_| 0)?;
        Ok(Expected::about(Subject::Process("overwriter".to_owned())))
    })
}

/// The same work, a file each.
pub fn own_files() -> Scenario {
    Scenario::look_alike(ID, "the same, each thread in a file of its own", |bench| {
        overwrite(bench, |number| number)?;
        Expected::silence()
    })
}
