//! Block I/O against /sys/block/NAME/stat, on a disk that nothing else uses.

mod common;

use common::disk::Stat;
use common::{Disk, Running, assert_attached, assert_near, exclusive, is_root, kept_away, skip::skip};
use profiler::profile::{Finding, Histogram, IoOp, Kind, Measure, Session, Severity, Subject};

/// Bytes that the block layer puts into one request of a loop device at most (max_sectors_kb is 1280 by default).
const LARGEST_REQUEST: u64 = 1280 << 10;

fn histogram(session: &Session, disk: &Disk, measure: Measure, op: IoOp) -> Histogram {
    let device = Some(disk.device());
    let mut of_disk = session
        .histograms
        .iter()
        .filter(|hist| (hist.measure, hist.device, hist.op) == (measure, device, Some(op)));
    of_disk.next().unwrap_or_else(|| panic!("no histogram {measure:?} {op:?}")).clone()
}

/// Compares what was measured in one direction with the kernel's `requests` and `bytes`.
fn compare(session: &Session, disk: &Disk, op: IoOp, requests: u64, bytes: u64) {
    let measured = disk.measured(session, op).unwrap_or_else(|| panic!("no {op:?} measured"));
    // Of whichever disk, direction and tracepoint they are.
    let lost = kept_away(session, "block");
    assert!(lost * 20 <= requests, "{lost} events lost while there were {requests} requests");
    let check = |what: &str, value: u64, expected: u64, lost: u64| {
        // As much of what is missing as can be lost is taken for that.
        let with_lost = value + lost.min(expected.saturating_sub(value));
        assert_near(&format!("{op:?} {what}, {lost} of them lost at most"), with_lost, expected, 1.0);
    };
    let lost_bytes = lost * LARGEST_REQUEST;
    check("requests issued", measured.requests, requests, lost);
    check("requests completed", measured.completed, requests, lost);
    check("bytes issued", measured.request_bytes, bytes, lost_bytes);
    check("bytes completed", measured.completed_bytes, bytes, lost_bytes);
    check("bytes of bios", measured.bio_bytes, bytes, lost_bytes);
    let sizes = histogram(session, disk, Measure::RequestSize, op);
    assert_eq!((sizes.count, sizes.sum), (measured.requests, measured.request_bytes), "{op:?}");
    assert_eq!(histogram(session, disk, Measure::RequestLatency, op).count, measured.completed, "{op:?}");
}

/// Measures `script` on `disk` by both rungs of the ladder. The script mounts and unmounts, so that before and
/// after it the disk is still, and the kernel's counts are those of the script alone.
fn measure(disk: &Disk, script: &str, check: impl Fn(&Session, Stat)) {
    for tracepoints in [false, true] {
        Disk::drop_caches();
        let before = disk.stat();
        let run = Running::start(&["--probes", "block", "--", "sh", "-ec", script], tracepoints).finish();
        let stat = disk.stat().since(before);
        assert_eq!(run.code(), 0, "{}\n{}", run.stderr, run.stdout);
        let session = run.session();
        assert_attached(&session, "block", if tracepoints { "tracepoint" } else { "tp_btf" });
        check(&session, stat);
    }
}

/// Buffered and direct reads and writes, small and large, with the file system's own.
#[test]
fn requests_and_bytes_are_the_kernels() {
    let name = "block::requests_and_bytes_are_the_kernels";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    // Nothing is left to do in the background after the first mount.
    let mkfs = "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0";
    let disk = match Disk::format(512, mkfs) {
        Ok(disk) => disk,
        Err(reason) => return skip(name, &reason),
    };
    let script = format!(
        "mount {device} {mount}
         dd if=/dev/zero of={file} bs=1M count=64 conv=fsync
         dd if=/dev/zero of={file} bs=4k count=2000 oflag=direct conv=notrunc
         echo 3 > /proc/sys/vm/drop_caches
         dd if={file} of=/dev/null bs=128k
         dd if={file} of=/dev/null bs=4k count=2000 iflag=direct
         umount {mount}",
        device = disk.path,
        mount = disk.mount_point().display(),
        file = disk.file("file"),
    );
    measure(&disk, &script, |session, stat| {
        assert!(stat.reads > 2000 && stat.writes > 2000, "{stat:?}");
        compare(session, &disk, IoOp::Read, stat.reads, stat.read_bytes);
        compare(session, &disk, IoOp::Write, stat.writes, stat.written_bytes);
        let flushes = disk.measured(session, IoOp::Flush).map_or(0, |flush| flush.completed);
        assert!(flushes.abs_diff(stat.flushes) <= 2, "{flushes} flushes measured, {} made", stat.flushes);

        // All of the stacks' bytes are somewhere, and dd's user stacks lead to them.
        let device = Some(disk.device());
        let on_disk = session
            .profile
            .of_kind(Kind::BlockIo)
            .filter(|stack| session.profile.labels(stack.labels).device == device);
        let bytes: u64 = on_disk.map(|stack| stack.weight).sum();
        assert_near("bytes of the stacks", bytes, stat.read_bytes + stat.written_bytes, 5.0);
    });
}

/// Many requests at once, which the block layer merges: a request's size is what it has when it is issued.
#[test]
fn queued_and_merged_requests_are_counted() {
    let name = "block::queued_and_merged_requests_are_counted";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    if std::process::Command::new("fio").arg("--version").output().is_err() {
        return skip(name, "fio is not installed");
    }
    let disk = match Disk::format(256, "true") {
        Ok(disk) => disk,
        Err(reason) => return skip(name, &reason),
    };
    let script = format!(
        "fio --name=x --filename={} --ioengine=libaio --direct=1 --rw=rw --bs=4k --iodepth=32 \
         --iodepth_batch_submit=16 --iodepth_batch_complete_min=1 --size=64M --randrepeat=1 --output=/dev/null",
        disk.path
    );
    measure(&disk, &script, |session, stat| {
        assert!(stat.reads + stat.writes > 500, "{stat:?}");
        compare(session, &disk, IoOp::Read, stat.reads, stat.read_bytes);
        compare(session, &disk, IoOp::Write, stat.writes, stat.written_bytes);
    });
}

/// Zeroing writes and has no data; discarding is a direction of its own.
#[test]
fn zeroing_and_discarding_are_told_apart() {
    let name = "block::zeroing_and_discarding_are_told_apart";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    let disk = match Disk::format(64, "true") {
        Ok(disk) => disk,
        Err(reason) => return skip(name, &reason),
    };
    if std::process::Command::new("blkdiscard").arg("--version").output().is_err() {
        return skip(name, "blkdiscard is not installed");
    }
    let script = format!("blkdiscard -f -z -l 32M {0}; blkdiscard -f -l 16M {0}", disk.path);
    measure(&disk, &script, |session, stat| {
        assert_eq!((stat.written_bytes, stat.discarded_bytes), (32 << 20, 16 << 20), "{stat:?}");
        compare(session, &disk, IoOp::Write, stat.writes, stat.written_bytes);
        compare(session, &disk, IoOp::Discard, stat.discards, stat.discarded_bytes);
        let read = disk.measured(session, IoOp::Read).map_or(0, |read| read.request_bytes);
        assert_eq!(read, stat.read_bytes);
    });
}

fn small_io<'s>(session: &'s Session, disk: &Disk) -> Option<&'s Finding> {
    let name = disk.path.trim_start_matches("/dev/").to_owned();
    let about = Subject::Device(name);
    session.findings.iter().find(|finding| finding.id == "small-io" && finding.about.contains(&about))
}

/// Direct I/O in pages from the first to the last: each but the first begins where the one before ended.
#[test]
fn contiguous_requests_are_counted_and_found() {
    let name = "block::contiguous_requests_are_counted_and_found";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    let disk = match Disk::format(64, "true") {
        Ok(disk) => disk,
        Err(reason) => return skip(name, &reason),
    };
    let both = "dd if=D of=/dev/null bs=4k count=8000 iflag=direct; dd if=/dev/zero of=D bs=4k count=8000 oflag=direct";
    measure(&disk, &both.replace('D', &disk.path), |session, stat| {
        let lost = kept_away(session, "block");
        for (op, requests) in [(IoOp::Read, stat.reads), (IoOp::Write, stat.writes)] {
            let measured = disk.measured(session, op).unwrap();
            // Of a lost one, its successor does not know the end.
            assert!(requests >= 8000 && measured.contiguous < requests, "{op:?} {measured:?}");
            assert!(measured.contiguous + 1 + 2 * lost >= 8000, "{op:?} {measured:?}, {lost} lost at most");
            assert_eq!(measured.contiguous_bytes, measured.contiguous * 4096, "{op:?}");
            assert_eq!(measured.fua, 0, "{op:?}");
        }
        let finding = small_io(session, &disk).unwrap_or_else(|| panic!("{:#?}", session.findings));
        assert_eq!((finding.severity, finding.value("request_size")), (Severity::Warning, Some(4096.0)));
        assert!(finding.about.contains(&Subject::Process("dd".to_owned())), "{:?}", finding.about);
    });
}

/// Large, cached, scattered and durable I/O is well, though some of it is as small.
#[test]
fn other_small_requests_are_well() {
    let name = "block::other_small_requests_are_well";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    let disk = match Disk::format(64, "true") {
        Ok(disk) => disk,
        Err(reason) => return skip(name, &reason),
    };
    let mut scripts = vec![
        "dd if=D of=/dev/null bs=1M iflag=direct",
        "dd if=D of=/dev/null bs=4k",
        "dd if=/dev/zero of=D bs=4k count=8000 conv=fsync",
        "dd if=/dev/zero of=D bs=4k count=1500 oflag=direct,dsync",
    ];
    let random = "fio --name=x --filename=D --ioengine=psync --direct=1 --rw=randread --bs=4k --io_size=16M --size=64M \
                  --randrepeat=1 --output=/dev/null";
    if std::process::Command::new("fio").arg("--version").output().is_ok() {
        scripts.push(random);
    }
    for script in scripts {
        measure(&disk, &script.replace('D', &disk.path), |session, stat| {
            assert!(stat.reads + stat.writes > 40, "{script}: {stat:?}");
            assert_eq!(small_io(session, &disk), None, "{script}");
            if script == random {
                let measured = disk.measured(session, IoOp::Read).unwrap();
                assert!(measured.contiguous * 50 < measured.requests, "{measured:?}");
            }
        });
    }
}
