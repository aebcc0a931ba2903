//! `spinlock-contention`: threads that open and close files, of one table or each of its own.

use std::time::Duration;

use profiler::profile::Subject;

use super::scenario::{Expected, Scenario};
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

/// Memory that is taken and given back in large pieces: the lists of free pages of each CPU run over, and all go to the
/// zone's.
pub fn page_storm() -> Scenario {
    Scenario::reproducer(ID, "threads that take and give back 8 MiB of memory over and over", |bench| {
        needs_cpus(4)?;
        bench.measure(|| {
            repeat_after(
                "allocator",
                crowd(),
                TIME,
                |_| {},
                |_| {
                    // SAFETY: no address is given; the mapping is this thread's own, and goes again right away.
                    unsafe {
                        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
                        let prot = libc::PROT_READ | libc::PROT_WRITE;
                        let memory = libc::mmap(std::ptr::null_mut(), 8 << 20, prot, flags, -1, 0);
                        assert_ne!(memory, libc::MAP_FAILED);
                        libc::munmap(memory, 8 << 20);
                    }
                },
            );
        });
        Ok(Expected::about(Subject::Lock("zone.lock".to_owned())))
    })
}

/// The same work, a lock each.
pub fn own_file_tables() -> Scenario {
    Scenario::look_alike(ID, "the same, each thread with a file table of its own", |bench| {
        bench.measure(|| {
            open_and_close(|_| {
                // SAFETY: no pointers; this thread's table of files becomes its own.
                assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
            });
        });
        Expected::silence()
    })
}
