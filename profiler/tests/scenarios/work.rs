//! Work that the scenarios do themselves, as threads of this process, so that it is the same on every machine.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What O_DIRECT wants buffers to be aligned to, on any device here.
const ALIGNMENT: usize = 4096;

/// How a file is opened to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Through the page cache.
    Buffered,
    /// Through it, with POSIX_FADV_RANDOM.
    ToldRandom,
    /// Past it.
    Direct,
}

/// A buffer that O_DIRECT takes.
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    size: usize,
}

impl Buffer {
    /// One of this many bytes, none of which is zero or compresses well.
    pub fn new(size: usize) -> Self {
        let mut random = Random::new(1);
        let bytes: Vec<u8> = (0..size + ALIGNMENT).map(|_| random.below(255) as u8 + 1).collect();
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Self { bytes, start, size }
    }

    /// The aligned bytes.
    pub fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.size]
    }
}

/// The same numbers on every run (xorshift64).
pub struct Random(u64);

impl Random {
    /// A sequence.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Opens a file to be read.
pub fn open(path: &str, how: How) -> File {
    let flags = if how == How::Direct { libc::O_DIRECT } else { 0 };
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.unwrap_or_else(|error| panic!("{path}: {error}"));
    if how == How::ToldRandom {
        // SAFETY: the descriptor is open.
        assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) }, 0);
    }
    file
}

/// Writes a file of `mib` MiB in pieces of `piece` bytes, with O_DIRECT if `direct`, to disk.
pub fn write_file(path: &str, mib: u64, piece: usize, direct: bool) {
    let flags = if direct { libc::O_DIRECT } else { 0 };
    let file = OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(path);
    let file = file.unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut buffer = Buffer::new(piece);
    for at in (0..mib << 20).step_by(piece) {
        file.write_all_at(buffer.get(), at).unwrap_or_else(|error| panic!("{path} at {at}: {error}"));
    }
    file.sync_all().unwrap();
}

/// Overwrites a file in pieces of `piece` bytes with O_DIRECT, in random order.
pub fn overwrite_scattered(path: &str, piece: usize) {
    let file = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path);
    let file = file.unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut buffer = Buffer::new(piece);
    let mut random = Random::new(2);
    for number in shuffled(std::fs::metadata(path).unwrap().len() / piece as u64, &mut random) {
        file.write_all_at(buffer.get(), number * piece as u64).unwrap();
    }
    file.sync_all().unwrap();
}

/// The numbers below `count` in random order.
fn shuffled(count: u64, random: &mut Random) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    order
}

/// Drops what is cached of a file that has been written to disk, and leaves what others have cached alone.
pub fn forget(path: &str) {
    let file = open(path, How::Buffered);
    // SAFETY: the descriptor is open.
    assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
}

/// Reads a piece of `piece` bytes at some place in each `slot` bytes of a file, one slot after the other in random order
/// and each once; returns the bytes.
pub fn read_scattered(path: &str, how: How, piece: usize, slot: usize) -> u64 {
    let slots = std::fs::metadata(path).unwrap().len() / slot as u64;
    let mut random = Random::new(1);
    let order = shuffled(slots, &mut random);
    std::thread::scope(|scope| {
        let reader = named("random-reader").spawn_scoped(scope, || {
            let file = open(path, how);
            let mut buffer = Buffer::new(piece);
            for number in order {
                let at = number * slot as u64 + random.below((slot / piece) as u64) * piece as u64;
                file.read_exact_at(buffer.get(), at).unwrap();
            }
        });
        reader.unwrap().join().unwrap();
    });
    slots * piece as u64
}

/// Reads `count` pieces of `piece` bytes at random places of a file, from each of `threads` threads; returns the bytes.
pub fn read_at_random(path: &str, how: How, piece: usize, count: u64, threads: u64) -> u64 {
    let size = std::fs::metadata(path).unwrap().len();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            named("random-reader")
                .spawn_scoped(scope, move || {
                    let file = open(path, how);
                    let mut buffer = Buffer::new(piece);
                    let mut random = Random::new(thread + 1);
                    for _ in 0..count {
                        let at = random.below(size / piece as u64) * piece as u64;
                        file.read_exact_at(buffer.get(), at).unwrap();
                    }
                })
                .unwrap();
        }
    });
    threads * count * piece as u64
}

/// Reads all of a file, one piece after the other, and returns its size.
pub fn read_through(path: &str, how: How, piece: usize) -> u64 {
    std::thread::scope(|scope| {
        let reader = named("reader").spawn_scoped(scope, || {
            let file = open(path, how);
            let mut buffer = Buffer::new(piece);
            let mut at = 0;
            loop {
                match file.read_at(buffer.get(), at).unwrap() {
                    0 => return at,
                    length => at += length as u64,
                }
            }
        });
        reader.unwrap().join().unwrap()
    })
}

/// Runs `each`, given the thread's number, over and over for this time in each of `threads` threads of this name, and
/// returns how often.
pub fn repeat<R>(name: &str, threads: usize, time: Duration, each: impl Fn(usize) -> R + Sync) -> u64 {
    repeat_after(name, threads, time, |_| {}, each)
}

/// As [`repeat`], with something that each thread does first.
pub fn repeat_after<R>(
    name: &str,
    threads: usize,
    time: Duration,
    first: impl Fn(usize) + Sync,
    each: impl Fn(usize) -> R + Sync,
) -> u64 {
    let stop = AtomicBool::new(false);
    let (stop, first, each) = (&stop, &first, &each);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|number| {
                named(name)
                    .spawn_scoped(scope, move || {
                        first(number);
                        let mut count = 0;
                        while !stop.load(Ordering::Relaxed) {
                            each(number);
                            count += 1;
                        }
                        count
                    })
                    .unwrap()
            })
            .collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// Threads that more than keep all CPUs busy, so that some always wait.
pub fn crowd() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (2 * cpus).max(4)
}

fn named(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(name.to_owned())
}

/// Runs a shell script to its end, or for at most `time`: what it was about to do is then left.
pub fn sh(script: &str, time: Duration) -> Output {
    let start = Instant::now();
    let output = Command::new("timeout")
        .args(["-s", "KILL", &format!("{}", time.as_secs_f64()), "sh", "-ec", script])
        .output()
        .expect("cannot run timeout(1)");
    let ended_in_time = start.elapsed() < time;
    assert!(
        output.status.success() || !ended_in_time,
        "`{script}` failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Whether there are this many CPUs: two threads that fight for a lock hardly ever queue. The error says that there are not.
pub fn needs_cpus(needed: usize) -> Result<(), String> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if cpus >= needed { Ok(()) } else { Err(format!("{cpus} CPUs; {needed} have to fight for a lock")) }
}

/// Whether a program is there; the error says that it is not.
pub fn needs(program: &str) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(Into::into));
    if folders.map(|folder| folder.join(program)).any(|file| file.is_file()) {
        Ok(())
    } else {
        Err(format!("no {program}"))
    }
}

/// `perf stat` that counts a tracepoint on all CPUs.
pub struct PerfStat(Child);

impl PerfStat {
    /// Counts `event` where the tracepoint's fields match `filter`, from now on.
    pub fn start(event: &str, filter: &str) -> Self {
        let mut command = Command::new("perf");
        command.args(["stat", "-a", "-x,", "-e", event, "--filter", filter]);
        // It counts when its child has started, and until that has read all.
        command.args(["--", "sh", "-c", "echo; exec cat"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut ready = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).expect("perf stat cannot count here");
        Self(child)
    }

    /// Ends it. Returns the number of events.
    pub fn stop(mut self) -> u64 {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let count = text.lines().find_map(|line| line.split(',').next()?.trim().parse().ok());
        count.unwrap_or_else(|| panic!("perf stat said:\n{text}"))
    }
}
