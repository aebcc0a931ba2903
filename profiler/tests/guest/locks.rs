//! Waits for a lock that threads fight for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use profiler::profile::{Kind, LockKind, NamedBy, Session};

use crate::guest::{attach_around, has_tracepoint, rung, weight_of};
use crate::skip::skip;

/// As many as the machine has CPUs: two never queue, as one of them waits on the lock word itself.
const THREADS: usize = 4;

const CONTENTION: &str = "lock/contention_begin";

#[test]
fn a_fought_for_spinlock_is_seen() {
    let session = fight(&[]);
    // Before 5.19 there are functions to attach to, but no tracepoint.
    let expected: &[&str] = if has_tracepoint(CONTENTION) { &["tp_btf"] } else { &["fentry", "kprobe"] };
    assert!(expected.contains(&rung(&session, "lock")), "{}", rung(&session, "lock"));
}

#[test]
fn a_fought_for_spinlock_is_seen_from_tracepoints() {
    if !has_tracepoint(CONTENTION) {
        let name = "locks::a_fought_for_spinlock_is_seen_from_tracepoints";
        return skip(name, "this kernel has no lock:contention_begin (5.19 brought it)");
    }
    assert_eq!(rung(&fight(&["--without", "tp_btf"]), "lock"), "tracepoint");
}

#[test]
fn a_static_lock_has_its_symbol() {
    if !has_tracepoint(CONTENTION) {
        let reason =
            "this kernel has no lock:contention_begin (5.19 brought it), so only spinlocks are measured";
        return skip("locks::a_static_lock_has_its_symbol", reason);
    }
    let session = attach_around(&["--probes", "lock"], || {
        // Setting the host's name takes `uts_sem`. More threads than CPUs, so that some lose theirs while they hold it.
        together(4 * THREADS, || {
            // SAFETY: five bytes are there to be read.
            let result = unsafe { libc::sethostname(c"guest".as_ptr(), 5) };
            assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        });
    });
    let lock = session.locks.iter().find(|lock| lock.name.as_deref() == Some("uts_sem"));
    let lock = lock.unwrap_or_else(|| panic!("{:?}", &session.locks[..session.locks.len().min(10)]));
    assert_eq!((lock.kind, lock.named_by), (LockKind::RwsemWrite, Some(NamedBy::Symbol)));
}

/// Has threads do something over and over, for three seconds.
fn together(threads: usize, work: impl Fn() + Sync) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            std::thread::Builder::new()
                .name("fighter".to_owned())
                .spawn_scoped(scope, || {
                    while !stop.load(Ordering::Relaxed) {
                        work();
                    }
                })
                .unwrap();
        }
        std::thread::sleep(Duration::from_secs(3));
        stop.store(true, Ordering::Relaxed);
    });
}

/// Has threads open and close files, all of them under the lock of the process' table of files.
fn fight(args: &[&str]) -> Session {
    let session = attach_around(&[&["--probes", "lock,cpu"], args].concat(), || {
        together(THREADS, || {
            // SAFETY: no pointers; the descriptor is a new one.
            unsafe { libc::close(libc::dup(0)) };
        });
    });
    let probe = session.probe("lock").unwrap();
    assert!(probe.events >= 200, "only {} waits", probe.events);

    // One lock has most of them.
    let most = session.locks.iter().max_by_key(|lock| lock.waits).unwrap();
    assert_eq!(most.kind, LockKind::Spin);
    assert_eq!(most.name.as_deref(), Some("files_struct.file_lock"));
    assert_eq!(most.named_by, Some(NamedBy::SlabMember), "{:?}", probe.state);
    assert!(most.waits * 2 > probe.events, "{} of {} waits", most.waits, probe.events);
    let waited = weight_of(&session, |stack, labels| {
        stack.kind == Kind::LockWait
            && labels.comm.as_deref() == Some("fighter")
            && labels.lock_kind == Some(LockKind::Spin)
    });
    assert!(waited * 2 > probe.weight, "{waited} ns of {}", probe.weight);

    // Their callers are those that take the lock.
    let callers = weight_of(&session, |stack, _| {
        stack.kind == Kind::LockWait
            && stack.frames.iter().any(|frame| {
                let name = &session.profile.frame_of(*frame).name;
                ["alloc_fd", "__alloc_fd", "fd_install", "close_fd", "file_close_fd", "__close_fd"]
                    .contains(&&**name)
            })
    });
    assert!(callers * 2 > probe.weight, "{callers} ns of {} in the functions that take it", probe.weight);
    session
}
