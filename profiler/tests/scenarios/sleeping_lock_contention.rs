//! `sleeping-lock-contention`: threads that make and remove files, in one directory or each in its own.
//!
//! On ext4, what they do is on disk before they go on (dirsync), so that the lock is held for longer than it takes to be given a
//! CPU: however busy the machine is otherwise, it is the lock that is waited for.

use std::time::Duration;

use profiler::profile::Subject;

use super::scenario::{Bench, EXT4, Expected, Scenario};
use super::work::{PerfStat, needs, repeat};

const ID: &str = "sleeping-lock-contention";
const TIME: Duration = Duration::from_secs(3);
const THREADS: usize = 4;

fn make_and_remove(bench: &mut Bench, folder: impl Fn(usize) -> usize + Sync) -> Result<(), String> {
    let disk = bench.disk(256, EXT4, "noatime,dirsync")?;
    for number in 0..THREADS {
        std::fs::create_dir(disk.file(&number.to_string())).unwrap();
    }
    bench.measure(|| {
        repeat("remover", THREADS, TIME, |number| {
            let path = disk.file(&format!("{}/{number}", folder(number)));
            std::fs::File::create(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
        })
    });
    Ok(())
}

/// One rw_semaphore for all of them: that of the directory's inode.
pub fn one_directory() -> Scenario {
    Scenario::reproducer(
        ID,
        "four threads that make and remove files in one directory of ext4 with dirsync",
        |bench| {
            make_and_remove(bench, |_| 0)?;
            Ok(Expected::about(Subject::Process("remover".to_owned())))
        },
    )
}

/// Directories of an XFS that lie in one allocation group: to make and remove inodes takes the lock of that group's AGI
/// buffer, a semaphore, until the transaction is committed. New directories go to the groups in turn.
pub fn one_allocation_group() -> Scenario {
    Scenario::reproducer(
        ID,
        "four threads that make and remove files in directories of their own, in one allocation group of an XFS",
        |bench| {
            needs("perf")?;
            let disk = bench.disk(512, "mkfs.xfs -q -f -d agcount=2 -m reflink=0,rmapbt=0", "noatime")?;
            for number in 0..2 * THREADS {
                std::fs::create_dir(disk.file(&number.to_string())).unwrap();
            }
            let counted = bench.measure(|| {
                // A semaphore has no flags (LCB_F_*, include/trace/events/lock.h), and XFS's are all that are fought for.
                let counter = PerfStat::start("lock:contention_begin", "flags==0");
                repeat("remover", THREADS, TIME, |number| {
                    let number = 2 * number;
                    let files: Vec<String> =
                        (0..32).map(|file| disk.file(&format!("{number}/{file}"))).collect();
                    files.iter().for_each(|path| drop(std::fs::File::create(path).unwrap()));
                    files.iter().for_each(|path| std::fs::remove_file(path).unwrap());
                });
                counter.stop()
            });
            let expected = Expected::about(Subject::Lock("xfs_buf.b_sema".to_owned()));
            Ok(expected.figure("waits", counted as f64, "perf stat"))
        },
    )
}

/// The same work, a directory each.
pub fn own_directories() -> Scenario {
    Scenario::look_alike(ID, "the same, each thread in a directory of its own", |bench| {
        make_and_remove(bench, |number| number)?;
        Expected::silence()
    })
}
