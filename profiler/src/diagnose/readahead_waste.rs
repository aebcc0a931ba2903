//! `readahead-waste`: readahead pulls in pages that nobody reads.

use super::devices::{block_io, disks_below, file_systems_on, place, queue_directory, subjects};
use super::facts::{Facts, share};
use super::{About, Pathology, Threshold, number};
use crate::profile::{
    Advice, Confidence, Device, Evidence, Finding, Impact, IoOp, Kind, ReadHow, Resource, Session, Severity,
    Subject, Unit, units,
};

/// See [`ABOUT`].
pub struct ReadaheadWaste;

static ABOUT: About = About {
    id: "readahead-waste",
    title: "readahead reads far more than programs ask for",
    symptom: "The device is busy and delivers a lot, programs get little of it, and the mean device read is larger \
              than the mean read of the programs.",
    why: "A read that continues the one before it, or finds pages cached before it, looks sequential to the page \
          cache, which then reads a whole window ahead (read_ahead_kb, growing up to it). Programs that read short \
          runs and jump on (indexes, key-value stores, columns of a table) use a few pages of each window; the \
          rest costs bandwidth and throws other pages out of the cache.",
    cures: &[
        "posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) for files that are read at random, madvise(MADV_RANDOM) for \
         mapped ones: reads are then neither widened nor cut.",
        "O_DIRECT, where the program has a cache of its own.",
        "A smaller read_ahead_kb, not below the size of the program's own reads. Never 0: that cuts every buffered \
         read of the device into single pages (readahead-disabled).",
    ],
    confirmed_by: "probes `readahead`, `read` and `block`: bytes that readahead made the device read, and bytes that \
                   readers asked for",
    suspected_by: "",
    thresholds: &[
        Threshold {
            what: "part of the device's reads that nobody asked for",
            value: WASTE,
            reason: "runs of four 4 KiB reads at random places: 59 % at read_ahead_kb 128, 70 % at 2560; random \
                     reads of 4 to 128 KiB: 9 % and 26 %; single random reads: 1 to 11 %; sequential reads: 0 %",
        },
        Threshold {
            what: "bytes that nobody asked for",
            value: BYTES as f64,
            reason: "16 MiB: several full windows, which a sequential reader may be ahead by when the run ends",
        },
        Threshold {
            what: "readahead windows in flight, of each file's reader, that are no waste",
            value: WINDOWS as f64,
            reason: "the window that is read and the one behind it, when the run ends",
        },
    ],
    explained_by: &[],
};

const WASTE: f64 = 0.3;
const BYTES: u64 = 16 << 20;
const WINDOWS: u64 = 2;
/// From this part on, what programs get is the smaller part by far.
const CRITICAL_WASTE: f64 = 0.75;

impl Pathology for ReadaheadWaste {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn find(&self, facts: &Facts<'_>) -> Vec<Finding> {
        let mut devices: Vec<Device> = facts.session.readahead.iter().map(|stat| stat.device).collect();
        devices.sort_unstable();
        devices.dedup();
        devices.into_iter().filter_map(|device| wasted(facts, device)).collect()
    }
}

/// What readahead did for the readers of one file system. Files that are only mapped have no readers.
struct Ahead {
    issued: u64,
    calls: u64,
    random: u64,
    /// Bytes that may be on their way when the run ends.
    in_flight: u64,
}

fn ahead(session: &Session, device: Device) -> Ahead {
    let page = session.host.page_size.max(1);
    let mut ahead = Ahead { issued: 0, calls: 0, random: 0, in_flight: 0 };
    let files = session.readahead.iter().filter(|stat| stat.device == device && stat.sync + stat.async_ > 0);
    for stat in files {
        ahead.issued += stat.issued_pages * page;
        ahead.calls += stat.sync + stat.async_;
        ahead.random += stat.random;
        // No more than the file's readers had read for them.
        ahead.in_flight += (WINDOWS * u64::from(stat.ra_pages)).min(stat.issued_pages) * page;
    }
    ahead
}

fn wasted(facts: &Facts<'_>, device: Device) -> Option<Finding> {
    let session = facts.session;
    let disks = disks_below(session, device);
    let block = block_io(session, &disks, IoOp::Read)?;
    let asked = |how: ReadHow, device: Device| {
        session
            .reads
            .iter()
            .filter(|stat| stat.device == device && stat.how == how)
            .fold((0u64, 0u64), |sum, stat| (sum.0 + stat.calls, sum.1 + stat.bytes))
    };
    let (calls, bytes) = asked(ReadHow::Buffered, device);
    if calls == 0 {
        // Nobody counted what was asked for: then nothing can be said.
        return None;
    }
    let ahead = ahead(session, device);
    // Windows are counted with pages that were cached already, so the device's own count bounds them; of
    // that, what O_DIRECT asked for is no readahead.
    let direct: u64 = disks
        .iter()
        .flat_map(|disk| file_systems_on(session, *disk).into_iter().chain([*disk]))
        .map(|device| asked(ReadHow::Direct, device).1)
        .sum();
    let read = ahead.issued.min(block.request_bytes.saturating_sub(direct));
    let waste = read.saturating_sub(bytes).saturating_sub(ahead.in_flight.min(read / 4));
    let part = share(waste, block.request_bytes);
    if part < WASTE || waste < BYTES {
        return None;
    }

    let mean_asked = bytes as f64 / calls as f64;
    let mean_read = block.request_bytes as f64 / block.requests.max(1) as f64;
    let factor = read as f64 / bytes.max(1) as f64;
    let random = share(ahead.random, ahead.calls);
    let mut evidence = vec![
        Evidence::new(
            "read_per_asked",
            factor,
            None,
            format!(
                "the device read {} for {} that buffered reads asked for: {}",
                units::bytes(read as f64),
                units::bytes(bytes as f64),
                number::times(factor)
            ),
        ),
        Evidence::new(
            "wasted_bytes",
            waste as f64,
            Unit::Bytes,
            format!(
                "at least {} read for nobody, {} of the device's reads",
                units::bytes(waste as f64),
                number::percent(part)
            ),
        ),
        Evidence::new(
            "request_bytes",
            mean_read,
            Unit::Bytes,
            format!(
                "mean device read {}, mean buffered read {}",
                units::bytes(mean_read),
                units::bytes(mean_asked)
            ),
        ),
        Evidence::new(
            "random_share",
            random,
            None,
            format!(
                "{} of {} readahead calls do not continue the read before",
                number::percent(random),
                units::grouped(ahead.calls)
            ),
        ),
    ];
    let window =
        session.readahead.iter().filter(|stat| stat.device == device).map(|stat| stat.ra_pages).max();
    if let Some(window) = window {
        evidence.push(Evidence::new(
            "ra_pages",
            f64::from(window),
            Unit::Pages,
            format!("readahead window of up to {window} pages"),
        ));
    }
    let mut about = subjects(session, device);
    let readers = facts.stacks(Kind::Readahead).filter(|stack| stack.labels().device == Some(device));
    let process = facts.main_process(readers).map(|(name, _)| name);
    about.extend(process.clone().map(Subject::Process));
    Some(Finding {
        id: ABOUT.id.to_owned(),
        title: format!("{}: {}", place(session, device), ABOUT.title),
        severity: if part >= CRITICAL_WASTE { Severity::Critical } else { Severity::Warning },
        confidence: Confidence::Confirmed,
        impact: Impact { share: part, of: Resource::DeviceBandwidth },
        about,
        evidence,
        why: ABOUT.why.to_owned(),
        advice: advice(session, &disks, mean_asked, process.as_deref()),
        marks: facts.marks(Some(Kind::Readahead), &facts.named(&["page_cache_ra_order"])),
    })
}

fn advice(session: &Session, disks: &[Device], mean_asked: f64, process: Option<&str>) -> Vec<Advice> {
    let who = process.map_or_else(|| "the program that reads".to_owned(), |name| format!("`{name}`"));
    let mut advice = vec![Advice::paste(
        format!("Have {who} say that it reads at random (mapped files: madvise with MADV_RANDOM)."),
        "posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);",
    )];
    // A window of two of the program's own reads: they are not cut, and little is read beside them.
    let kib = ((2.0 * mean_asked / 1024.0).ceil() as u64).clamp(16, 1 << 20).next_power_of_two();
    for disk in disks {
        let now = session.device(*disk).and_then(|disk| disk.read_ahead_kb);
        if now.is_none_or(|now| now > kib) {
            let setting = format!("{}/read_ahead_kb", queue_directory(session, *disk));
            advice.push(Advice::paste(
                "If the program cannot be changed, a smaller window for the whole device; sequential readers lose by \
                 it. Not 0: that cuts every buffered read into single pages (readahead-disabled).",
                format!("echo {kib} > {setting}"),
            ));
        }
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{BlockDevice, BlockStat, ReadStat, ReadaheadStat};

    const LOOP: Device = Device { major: 7, minor: 0 };

    /// `asked` and `read` bytes, and the readahead calls of one file, as measured.
    fn session(asked: (u64, u64), read: (u64, u64), file: ReadaheadStat) -> Session {
        let mut session = Session::default();
        session.host.page_size = 4096;
        session.host.devices = vec![BlockDevice {
            name: "loop0".to_owned(),
            device: Some(LOOP),
            read_ahead_kb: Some(u64::from(file.ra_pages) * 4),
            ..BlockDevice::default()
        }];
        session.readahead = vec![file];
        session.reads = vec![ReadStat {
            fs_type: "ext4".to_owned(),
            device: LOOP,
            how: ReadHow::Buffered,
            calls: asked.0,
            bytes: asked.1,
        }];
        session.block = vec![BlockStat {
            device: LOOP,
            op: IoOp::Read,
            bios: read.0,
            bio_bytes: read.1,
            requests: read.0,
            request_bytes: read.1,
            completed: read.0,
            completed_bytes: read.1,
            ..BlockStat::default()
        }];
        session
    }

    fn file(sync: u64, async_: u64, random: u64, wanted: u64, issued: u64, ra_pages: u32) -> ReadaheadStat {
        ReadaheadStat {
            device: LOOP,
            inode: 12,
            sync,
            async_,
            sequential: sync + async_ - random,
            random,
            wanted_pages: wanted,
            issued_pages: issued,
            ra_pages,
        }
    }

    fn found(session: &Session) -> Vec<Finding> {
        ReadaheadWaste.find(&Facts::new(session))
    }

    #[test]
    fn short_runs_at_random_places_are_found() {
        let small = session(
            (66_318, 271_638_528),
            (42_163, 664_449_024),
            file(27_347, 14_631, 13_536, 42_592, 174_561, 32),
        );
        let findings = found(&small);
        assert_eq!((findings.len(), findings[0].severity), (1, Severity::Warning));
        assert!((findings[0].impact.share - 0.59).abs() < 0.01, "{}", findings[0].impact.share);
        assert_eq!(findings[0].about, [Subject::Device("loop0".into())]);
        assert_eq!(
            findings[0].advice[1].paste.as_deref(),
            Some("echo 16 > /sys/block/loop0/queue/read_ahead_kb")
        );

        let large = session(
            (120_118, 492_003_328),
            (52_995, 1_617_920_000),
            file(28_810, 17_098, 14_233, 47_940, 666_223, 640),
        );
        assert!(found(&large)[0].value("read_per_asked").unwrap() > 3.0);
    }

    #[test]
    fn the_cure_is_never_to_turn_readahead_off() {
        let session = session(
            (66_318, 271_638_528),
            (42_163, 664_449_024),
            file(27_347, 14_631, 13_536, 42_592, 174_561, 32),
        );
        for advice in found(&session).into_iter().flat_map(|finding| finding.advice) {
            assert!(!advice.paste.is_some_and(|paste| paste.starts_with("echo 0 ")));
        }
    }

    #[test]
    fn what_only_looks_like_it_is_silent() {
        // Random reads, each as large as was asked.
        let random = session(
            (25_125, 102_912_000),
            (25_126, 104_022_016),
            file(25_117, 2, 25_117, 25_119, 25_408, 32),
        );
        assert_eq!(found(&random), []);
        // Sequential, a window or two ahead of its reader.
        let ahead =
            session((7_917, 1_037_697_024), (3_960, 1_038_090_240), file(1, 3_959, 0, 126_720, 253_440, 64));
        assert_eq!(found(&ahead), []);
        // All in the cache.
        let cached = session((1_000_000, 4_096_000_000), (10, 40_960), file(10, 0, 10, 10, 10, 32));
        assert_eq!(found(&cached), []);
        // Only mapped: nobody came by to ask.
        let mapped = session((10, 40_960), (2_000, 262_144_000), file(0, 0, 0, 0, 64_000, 32));
        assert_eq!(found(&mapped), []);
        // A little, as when the heads of some files are looked at.
        let little = session((100, 409_600), (100, 12_800_000), file(100, 0, 100, 100, 3_125, 32));
        assert_eq!(found(&little), []);
    }
}
