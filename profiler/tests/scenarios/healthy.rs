//! Ordinary work, of which nothing may be said.

use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::fio::fio;
use super::scenario::{Expected, Scenario};
use super::work::{How, forget, needs, read_at_random, read_through, repeat, sh, write_file};

const TIME: Duration = Duration::from_secs(2);

fn folder() -> TempDir {
    // Not /tmp, which may be a tmpfs.
    let root = ["/var/tmp", "/tmp"].into_iter().find(|path| std::path::Path::new(path).is_dir());
    tempfile::tempdir_in(root.unwrap_or("/")).unwrap()
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).into_os_string().into_string().unwrap()
}

/// Nothing.
pub fn idle() -> Scenario {
    Scenario::ordinary("nothing", |bench| {
        bench.measure(|| std::thread::sleep(TIME));
        Expected::silence()
    })
}

/// A compiler.
pub fn compile() -> Scenario {
    Scenario::ordinary("compile a C program over and over", |bench| {
        needs("cc")?;
        let folder = folder();
        let source = path(&folder, "main.c");
        std::fs::write(&source, include_str!("../workloads/locks.c")).unwrap();
        bench.measure(|| sh(&format!("while :; do cc -O2 -pthread -o {source}.out {source}; done"), TIME));
        Expected::silence()
    })
}

/// Many small files.
pub fn tar() -> Scenario {
    Scenario::ordinary("pack a tree of small files over and over", |bench| {
        let folder = folder();
        for number in 0..1000 {
            std::fs::write(folder.path().join(number.to_string()), vec![b'x'; 3000 + number]).unwrap();
        }
        let tree = folder.path().display().to_string();
        // Beside the tree; of a pipe it would know that nobody reads it.
        bench.measure(|| sh(&format!("while :; do tar -cf - -C {tree} . | cat > /dev/null; done"), TIME));
        Expected::silence()
    })
}

/// Sequential reads of what is cached.
pub fn cached_reads() -> Scenario {
    Scenario::ordinary("read a cached file through, over and over", |bench| {
        let folder = folder();
        let file = path(&folder, "data");
        write_file(&file, 64, 1 << 20, false);
        bench.measure(|| repeat("again", 1, TIME, |_| read_through(&file, How::Buffered, 64 << 10)));
        Expected::silence()
    })
}

/// Random reads of what is cached.
pub fn random_cached_reads() -> Scenario {
    Scenario::ordinary("two threads read a cached file at random places", |bench| {
        let folder = folder();
        let file = path(&folder, "data");
        write_file(&file, 64, 1 << 20, false);
        bench.measure(|| repeat("again", 1, TIME, |_| read_at_random(&file, How::Buffered, 4096, 10_000, 2)));
        Expected::silence()
    })
}

/// The log of a database.
pub fn fdatasync() -> Scenario {
    Scenario::ordinary("write a log in pieces of 4 KiB, each with fdatasync", |bench| {
        needs("fio")?;
        let folder = folder();
        let name = format!("--filename={}", path(&folder, "log"));
        let options = ["--rw=write", "--bs=4k", "--size=64M", "--fdatasync=1", "--time_based", "--runtime=2"];
        bench.measure(|| fio(&[&[name.as_str()], &options[..]].concat()))?;
        Expected::silence()
    })
}

/// The network, without a wire.
pub fn loopback() -> Scenario {
    Scenario::ordinary("send over TCP to 127.0.0.1", |bench| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let address = listener.local_addr().unwrap();
        bench.measure(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let (mut from, _) = listener.accept().unwrap();
                    let mut buffer = vec![0; 64 << 10];
                    while from.read(&mut buffer).unwrap() > 0 {}
                });
                let mut to = std::net::TcpStream::connect(address).unwrap();
                let (piece, begin) = (vec![1; 64 << 10], Instant::now());
                while begin.elapsed() < TIME {
                    to.write_all(&piece).unwrap();
                }
            });
        });
        Expected::silence()
    })
}

/// Processes that come and go.
pub fn forks() -> Scenario {
    Scenario::ordinary("start programs, one after the other, from two shells", |bench| {
        bench.measure(|| sh("work() { while :; do /bin/true; done; }; work & work", TIME));
        Expected::silence()
    })
}

/// Threads that do next to nothing.
pub fn sleepers() -> Scenario {
    Scenario::ordinary("a hundred threads that sleep for 1 ms at a time", |bench| {
        bench.measure(|| repeat("sleeper", 100, TIME, |_| std::thread::sleep(Duration::from_millis(1))));
        Expected::silence()
    })
}

/// Two threads that wait for each other in the kernel.
pub fn pipe_ping_pong() -> Scenario {
    Scenario::ordinary("two threads that pass a byte back and forth through pipes", |bench| {
        let (mut from_a, mut to_b) = std::io::pipe().map_err(|error| error.to_string())?;
        let (mut from_b, mut to_a) = std::io::pipe().map_err(|error| error.to_string())?;
        bench.measure(|| {
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let mut byte = [0];
                    while from_a.read(&mut byte).unwrap() > 0 {
                        to_a.write_all(&byte).unwrap();
                    }
                });
                let (begin, mut byte) = (Instant::now(), [0]);
                while begin.elapsed() < TIME {
                    to_b.write_all(&byte).unwrap();
                    from_b.read_exact(&mut byte).unwrap();
                }
                drop(to_b);
            });
        });
        Expected::silence()
    })
}

/// The same through futexes.
pub fn futex_ping_pong() -> Scenario {
    Scenario::ordinary("two threads that wake each other through a futex", |bench| {
        bench.measure(|| {
            let turn = AtomicU32::new(0);
            let begin = Instant::now();
            let play = |own: u32| {
                loop {
                    match turn.load(Ordering::Acquire) {
                        u32::MAX => return,
                        // For a while only: the other one may have left.
                        now if now % 2 != own => wait(&turn, now),
                        now => {
                            let next = if begin.elapsed() < TIME { (now + 1) % 2 } else { u32::MAX };
                            turn.store(next, Ordering::Release);
                            wake(&turn);
                        }
                    }
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(|| play(1));
                play(0);
            });
        });
        Expected::silence()
    })
}

fn wait(word: &AtomicU32, value: u32) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    // SAFETY: the word and the time live for the length of the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const time) };
}

fn wake(word: &AtomicU32) {
    // SAFETY: the word lives for the length of the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

/// A mapped file, read through.
pub fn mapped_reads() -> Scenario {
    Scenario::ordinary("read a cold mapped file from begin to end", |bench| {
        needs("fio")?;
        let folder = folder();
        let file = path(&folder, "data");
        write_file(&file, 256, 1 << 20, false);
        forget(&file);
        let name = format!("--filename={file}");
        let options =
            ["--rw=read", "--ioengine=mmap", "--bs=64k", "--size=256M", "--time_based", "--runtime=2"];
        bench.measure(|| fio(&[&[name.as_str()], &options[..]].concat()))?;
        Expected::silence()
    })
}

/// Writers of large files.
pub fn parallel_writes() -> Scenario {
    Scenario::ordinary("two dd that write files of their own, in pieces of 1 MiB", |bench| {
        let folder = folder();
        let out = folder.path().display().to_string();
        let script = format!(
            "work() {{ while :; do dd if=/dev/zero of={out}/$1 bs=1M count=64 conv=fsync 2>/dev/null; done; }}; \
             work 1 & work 2"
        );
        bench.measure(|| sh(&script, TIME));
        Expected::silence()
    })
}

/// A compressor.
pub fn gzip() -> Scenario {
    Scenario::ordinary("compress /dev/urandom with gzip", |bench| {
        needs("gzip")?;
        bench.measure(|| sh("gzip < /dev/urandom > /dev/null", TIME));
        Expected::silence()
    })
}

/// A reader that computes.
pub fn sha256sum() -> Scenario {
    Scenario::ordinary("sha256sum of a file that is cold at first", |bench| {
        needs("sha256sum")?;
        let folder = folder();
        let file = path(&folder, "data");
        write_file(&file, 256, 1 << 20, false);
        forget(&file);
        bench.measure(|| sh(&format!("while :; do sha256sum {file}; done"), TIME));
        Expected::silence()
    })
}

/// The pages of a database.
pub fn random_writes() -> Scenario {
    Scenario::ordinary("write 4 KiB at random places, fsync after every 32", |bench| {
        needs("fio")?;
        let folder = folder();
        let name = format!("--filename={}", path(&folder, "database"));
        let options =
            ["--rw=randwrite", "--bs=4k", "--size=128M", "--fsync=32", "--time_based", "--runtime=2"];
        bench.measure(|| fio(&[&[name.as_str()], &options[..]].concat()))?;
        Expected::silence()
    })
}
