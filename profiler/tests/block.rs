//! Block I/O against /sys/block/NAME/stat, on a disk that nothing else uses.

mod common;

use common::disk::Stat;
use common::{Disk, Running, assert_attached, assert_near, exclusive, is_root, skip::skip};
use profiler::profile::{Histogram, IoOp, Kind, Measure, Session};

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
    let what = |what: &str| format!("{op:?} {what}");
    assert_near(&what("requests issued"), measured.requests, requests, 1.0);
    assert_near(&what("requests completed"), measured.completed, requests, 1.0);
    assert_near(&what("bytes issued"), measured.request_bytes, bytes, 1.0);
    assert_near(&what("bytes completed"), measured.completed_bytes, bytes, 1.0);
    assert_near(&what("bytes of bios"), measured.bio_bytes, bytes, 1.0);
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
