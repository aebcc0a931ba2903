//! `spinlock-contention`: threads that open and close files, of one table or each of its own.

use std::os::fd::IntoRawFd as _;
use std::time::Duration;

use profiler::profile::Subject;

use super::scenario::{EXT4, Expected, Scenario};
use super::work::{crowd, needs_cpus, repeat_after};

const ID: &str = "spinlock-contention";
const TIME: Duration = Duration::from_secs(3);

fn open_and_close(first: impl Fn(usize) + Sync) {
    repeat_after("opener", crowd(), TIME, first, |_| {
        for _ in 0..100 {
            // SAFETY: no pointers; the descriptor is a new one.
            unsafe { libc::close(libc::dup(0)) };
        }
    });
}

/// One lock for all of them: files_struct.file_lock.
pub fn one_file_table() -> Scenario {
    Scenario::reproducer(ID, "threads of one process that open and close files", |bench| {
        needs_cpus(4)?;
        bench.measure(|| open_and_close(|_| {}));
        Ok(Expected::about(Subject::Process("opener".to_owned())))
    })
}

/// Blocks of 16 pages, which the lists of free pages of each CPU do not keep: each is taken from the zone and given back
/// to it. The kernel takes one for the value of an extended attribute, and finds only then that there is no value.
pub fn page_storm() -> Scenario {
    Scenario::reproducer(ID, "threads that have the kernel take and give back blocks of 16 pages", |bench| {
        needs_cpus(4)?;
        bench.measure(|| {
            repeat_after(
                "allocator",
                crowd(),
                TIME,
                |_| {},
                |_| {
                    for _ in 0..100 {
                        // SAFETY: the kernel reads the value, and finds no memory there.
                        let answer = unsafe {
                            libc::fsetxattr(0, c"user.none".as_ptr(), std::ptr::null(), 64 << 10, 0)
                        };
                        assert_eq!(answer, -1);
                    }
                },
            );
        });
        Ok(Expected::about(Subject::Lock("zone.lock".to_owned())))
    })
}

/// Inodes of one file system that come and go, in directories of their own.
pub fn unlink_storm() -> Scenario {
    Scenario::reproducer(
        ID,
        "threads that make and remove files in directories of their own on one ext4",
        |bench| {
            needs_cpus(4)?;
            let disk = bench.disk(256, EXT4, "noatime")?;
            let threads = crowd();
            for number in 0..threads {
                std::fs::create_dir(disk.file(&number.to_string())).unwrap();
            }
            bench.measure(|| {
                repeat_after(
                    "remover",
                    threads,
                    TIME,
                    |_| {},
                    |number| {
                        let files: Vec<String> =
                            (0..32).map(|file| disk.file(&format!("{number}/{file}"))).collect();
                        files.iter().for_each(|path| drop(std::fs::File::create(path).unwrap()));
                        files.iter().for_each(|path| std::fs::remove_file(path).unwrap());
                    },
                )
            });
            Ok(Expected::about(Subject::Lock("blockgroup_lock.locks".to_owned())))
        },
    )
}

/// The same work, a lock each.
pub fn own_file_tables() -> Scenario {
    Scenario::look_alike(ID, "the same, each thread with a file table and a file of its own", |bench| {
        bench.measure(|| {
            open_and_close(|_| {
                // SAFETY: no pointers; this thread's table of files becomes its own.
                assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
                // A file of its own as well, since dup() counts it. It stays open in the table that ends with the thread.
                let file = std::fs::File::open("/dev/null").unwrap().into_raw_fd();
                // SAFETY: both descriptors are open, in a table that no other thread uses.
                assert_eq!(unsafe { libc::dup2(file, 0) }, 0);
            });
        });
        Expected::silence()
    })
}
