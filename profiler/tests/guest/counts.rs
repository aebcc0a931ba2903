//! What the probes count is what the kernel counts.

use std::time::{Duration, Instant};

use profiler::profile::{Device, IoOp, Kind};

use crate::guest::{assert_near, attach, attach_around, in_thread, rung, scratch, sh, weight_of};

#[test]
fn a_spinning_thread_gets_a_sample_for_each_period() {
    const SPIN: Duration = Duration::from_secs(3);
    let mut cpu_time = Duration::ZERO;
    let session = attach_around(&["--probes", "cpu"], || {
        cpu_time = in_thread("spinner", || {
            let begin = Instant::now();
            while begin.elapsed() < SPIN {
                std::hint::spin_loop();
            }
            thread_time()
        });
    });
    let cpu = session.probe("cpu").unwrap();
    let lost: u64 = session.losses.iter().filter(|loss| loss.probe == "cpu").map(|loss| loss.count).sum();
    // Every period is accounted for; one for each CPU may be under way.
    let rested: u64 = cpu
        .counters
        .iter()
        .filter(|counter| counter.name.contains("rested"))
        .map(|counter| counter.value)
        .sum();
    let accounted = cpu.events + session.own_samples + rested + lost;
    assert!(
        cpu.due.abs_diff(accounted) <= u64::from(session.host.cpus),
        "{} due, {accounted} known",
        cpu.due
    );

    let samples = weight_of(&session, |stack, labels| {
        stack.kind == Kind::Cpu && labels.comm.as_deref() == Some("spinner")
    });
    // Timers come late in an emulator whose own threads have to wait.
    assert_near("samples of the spinning thread", samples, (cpu_time.as_millis() as u64 * 99) / 1000, 20);
}

/// CPU time of this thread.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn block_bytes_are_those_of_the_device() {
    block_bytes(&[]);
}

#[test]
fn block_bytes_are_the_same_from_tracepoints() {
    let rung = block_bytes(&["--without", "tp_btf"]);
    assert_eq!(rung, "tracepoint");
}

/// Reads and writes a known amount, and returns the rung that saw it.
fn block_bytes(args: &[&str]) -> String {
    const MIB: u64 = 48;
    let disk = scratch();
    let before = Stat::read(&disk);
    let script = format!(
        "dd if=/dev/zero of={disk} bs=64k count={} oflag=direct; dd if={disk} of=/dev/null bs=32k count={} iflag=direct",
        MIB * 16,
        MIB * 32
    );
    let session = attach(&[&["--probes", "block"], args, &["--", "sh", "-ec", &script]].concat());
    let after = Stat::read(&disk);

    for (op, device_bytes) in
        [(IoOp::Write, after.written - before.written), (IoOp::Read, after.read - before.read)]
    {
        // udev or the kernel may look at the disk, too; dd is the most of it.
        assert_near("bytes by the device", device_bytes, MIB << 20, 1);
        let stat = session
            .block
            .iter()
            .find(|stat| stat.device == after.device && stat.op == op)
            .unwrap_or_else(|| panic!("no {op:?} of {disk} in {:?}", session.block));
        assert_near("bytes of bios", stat.bio_bytes, MIB << 20, 1);
        assert_near("bytes of requests", stat.request_bytes, device_bytes, 1);
        assert_near("bytes completed", stat.completed_bytes, device_bytes, 1);
        assert_eq!(stat.requests, stat.completed, "{stat:?}");
        let stacks = weight_of(&session, |stack, labels| {
            stack.kind == Kind::BlockIo && labels.device == Some(after.device) && labels.op == Some(op)
        });
        // Stacks stand for events of either direction that came since the one before.
        assert_near("bytes of stacks", stacks, MIB << 20, 25);
    }
    rung(&session, "block").to_owned()
}

/// What the kernel has counted for a disk, in bytes.
struct Stat {
    device: Device,
    read: u64,
    written: u64,
}

impl Stat {
    fn read(disk: &str) -> Self {
        let folder = disk.replace("/dev/", "/sys/block/");
        let text = std::fs::read_to_string(format!("{folder}/stat")).unwrap();
        let numbers: Vec<u64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let device = std::fs::read_to_string(format!("{folder}/dev")).unwrap();
        let (major, minor) = device.trim().split_once(':').unwrap();
        Self {
            device: Device { major: major.parse().unwrap(), minor: minor.parse().unwrap() },
            // In sectors (Documentation/block/stat.rst).
            read: numbers[2] * 512,
            written: numbers[6] * 512,
        }
    }
}

#[test]
fn allocated_pages_are_those_of_vmstat() {
    allocated_pages(&[]);
}

#[test]
fn allocated_pages_are_the_same_from_tracepoints() {
    let rung = allocated_pages(&["--without", "tp_btf"]);
    assert_eq!(rung, "tracepoint");
}

/// Allocates much, and returns the rung that saw it.
fn allocated_pages(args: &[&str]) -> String {
    let mut allocated = 0;
    let session = attach_around(&[&["--probes", "page-alloc"], args].concat(), || {
        let before = pages_allocated();
        // Each fills a buffer of its own.
        sh("for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=/dev/null bs=64M count=1; done");
        allocated = pages_allocated() - before;
    });
    assert!(allocated > 8 * 16384, "dd allocated {allocated} pages only");
    let probe = session.probe("page-alloc").unwrap();
    // Before and after the work little happens but on the profiler's own account, which does not count.
    assert_near("pages", probe.weight, allocated, 5);
    let stacks = weight_of(&session, |stack, _| stack.kind == Kind::PageAlloc);
    assert_near("pages of stacks", stacks, probe.weight, 5);
    rung(&session, "page-alloc").to_owned()
}

/// Pages that the kernel has handed out, from all zones.
fn pages_allocated() -> u64 {
    let vmstat = std::fs::read_to_string("/proc/vmstat").unwrap();
    let counts = vmstat.lines().filter_map(|line| line.strip_prefix("pgalloc_")?.split_once(' '));
    counts.map(|(_, count)| count.parse::<u64>().unwrap()).sum()
}
