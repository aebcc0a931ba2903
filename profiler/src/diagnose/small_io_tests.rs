use super::*;
use crate::diagnose::diagnose;
use crate::profile::{Histogram, Labels, Mount, Session, Source};
use crate::testing::{kernel, push};

const DISK: Device = Device { major: 259, minor: 0 };
const PARTITION: Device = Device { major: 259, minor: 1 };

/// `requests` of `size` bytes in ten seconds, `contiguous` of them, 100 us each, by dd with O_DIRECT on ext4.
fn session(op: IoOp, requests: u64, contiguous: u64, size: u64) -> Session {
    let mut session = Session::new(Source::Live);
    session.duration_ns = 10_000_000_000;
    session.host.devices = vec![
        BlockDevice {
            name: "nvme0n1".to_owned(),
            device: Some(DISK),
            max_sectors_kb: Some(1280),
            scheduler: Some("none".to_owned()),
            nomerges: Some(0),
            ..BlockDevice::default()
        },
        BlockDevice {
            name: "nvme0n1p1".to_owned(),
            device: Some(PARTITION),
            parent: Some("nvme0n1".to_owned()),
            ..BlockDevice::default()
        },
    ];
    session.host.mounts = vec![Mount {
        device: PARTITION,
        source: "/dev/nvme0n1p1".to_owned(),
        mount_point: "/data".to_owned(),
        fs_type: "ext4".to_owned(),
        ..Mount::default()
    }];
    session.block = vec![BlockStat {
        device: DISK,
        op,
        requests,
        request_bytes: requests * size,
        completed: requests,
        completed_bytes: requests * size,
        contiguous,
        contiguous_bytes: contiguous * size,
        ..BlockStat::default()
    }];
    latency(&mut session, op, requests, 100_000);
    let labels = session.profile.intern_labels(Labels {
        comm: Some("dd".into()),
        device: Some(PARTITION),
        op: Some(op),
        ..Labels::default()
    });
    let frames = ["vfs_read", "ext4_file_read_iter", "iomap_dio_rw", "submit_bio_noacct_nocheck"].map(kernel);
    push(&mut session.profile, Kind::BlockIo, labels, &frames, requests * size);
    session
}

fn latency(session: &mut Session, op: IoOp, requests: u64, ns: u64) {
    let mut buckets = vec![0; Histogram::bucket_of(ns) + 1];
    buckets[Histogram::bucket_of(ns)] = requests;
    session.histograms = vec![Histogram {
        measure: Measure::RequestLatency,
        device: Some(DISK),
        op: Some(op),
        lock_kind: None,
        count: requests,
        sum: requests * ns,
        buckets,
    }];
}

#[track_caller]
fn only(session: &Session) -> Finding {
    let findings = diagnose(session);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.into_iter().next().unwrap()
}

#[test]
fn direct_reads_of_a_page_at_a_time_are_found() {
    let finding = only(&session(IoOp::Read, 50_000, 49_990, 4096));
    assert_eq!(
        (finding.id.as_str(), finding.severity, finding.confidence),
        ("small-io", Severity::Warning, Confidence::Confirmed)
    );
    assert_eq!(
        finding.title,
        "nvme0n1 (/data, ext4) is read in contiguous requests of 4.00 KiB, which nothing makes larger"
    );
    let subject = |subject: Subject| assert!(finding.about.contains(&subject), "{:?}", finding.about);
    subject(Subject::Device("nvme0n1".to_owned()));
    subject(Subject::Mount("/data".to_owned()));
    subject(Subject::Process("dd".to_owned()));
    assert_eq!(finding.value("request_size"), Some(4096.0));
    assert_eq!(finding.value("requests_per_second"), Some(5000.0));
    assert_eq!(finding.value("busy"), Some(0.5));
    assert_eq!(finding.value("allowed_size"), Some(1280.0 * 1024.0));
    assert_eq!(finding.value("direct"), Some(1.0));
    assert_eq!(finding.marks[0].frame, "iomap_dio_rw");
    assert!((finding.impact.share - 0.5).abs() < 0.01);
    // Each request waits for the one before: there is nothing that a scheduler could merge.
    assert!(finding.advice.iter().all(|advice| advice.paste.is_none()), "{:?}", finding.advice);
}

#[test]
fn the_queues_own_settings_are_advised_on() {
    let mut session = session(IoOp::Write, 50_000, 50_000, 4096);
    session.host.devices[0].nomerges = Some(2);
    latency(&mut session, IoOp::Write, 50_000, 1_000_000);
    let finding = only(&session);
    let pastes: Vec<&str> = finding.advice.iter().filter_map(|advice| advice.paste.as_deref()).collect();
    assert_eq!(
        pastes,
        [
            "echo 0 > /sys/block/nvme0n1/queue/nomerges",
            "echo mq-deadline > /sys/block/nvme0n1/queue/scheduler"
        ]
    );
    assert!(finding.why.contains("nomerges is 2"));
    // Five at a time keep it busy for all of the time, not for more.
    assert_eq!((finding.value("busy"), finding.impact.share), (Some(1.0), 1.0));
}

#[test]
fn thresholds_decide() {
    let found = |session: &Session| !diagnose(session).is_empty();
    let read = |requests, contiguous, size| session(IoOp::Read, requests, contiguous, size);
    // (found, not found) on both sides of each.
    assert!(found(&read(50_000, 45_000, 4096)) && !found(&read(50_000, 44_000, 4096)), "contiguous");
    assert!(found(&read(50_000, 50_000, 8192)) && !found(&read(50_000, 50_000, 8704)), "size");
    let few = |requests| {
        let mut session = read(requests, requests, 4096);
        latency(&mut session, IoOp::Read, requests, 5_000_000);
        session
    };
    assert!(found(&few(1000)) && !found(&few(999)), "requests");
    assert!(found(&read(10_000, 10_000, 4096)) && !found(&read(9_900, 9_900, 4096)), "busy");
    let largest = |kib| {
        let mut session = read(50_000, 50_000, 4096);
        session.host.devices[0].max_sectors_kb = Some(kib);
        session
    };
    assert!(found(&largest(16)) && !found(&largest(15)), "larger");
}

#[test]
fn logs_that_have_to_be_durable_are_well() {
    let writes = |flushes, fua| {
        let mut session = session(IoOp::Write, 50_000, 50_000, 4096);
        session.block[0].fua = fua;
        session.block.push(BlockStat {
            device: DISK,
            op: IoOp::Flush,
            requests: flushes,
            ..BlockStat::default()
        });
        diagnose(&session).len()
    };
    assert_eq!((writes(5000, 0), writes(4999, 0)), (0, 1));
    assert_eq!((writes(0, 5000), writes(0, 4999)), (0, 1));
}

#[test]
fn a_session_without_the_new_counts_is_silent() {
    // As older programs wrote it.
    assert_eq!(diagnose(&session(IoOp::Read, 50_000, 0, 4096)), []);
}

#[test]
fn of_several_file_systems_none_is_named() {
    let mut session = session(IoOp::Read, 50_000, 50_000, 4096);
    let other = Mount { device: DISK, mount_point: "/other".to_owned(), ..session.host.mounts[0].clone() };
    session.host.mounts.push(other);
    let finding = only(&session);
    assert!(finding.title.starts_with("nvme0n1 is read"), "{}", finding.title);
    assert!(!finding.about.iter().any(|subject| matches!(subject, Subject::Mount(_))));
}
