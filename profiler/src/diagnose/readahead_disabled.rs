//! `readahead-disabled`: buffered reads of several pages reach the device page by page.

use super::devices::{block_io, disks_below, mount_of, place, queue_directory, subjects};
use super::facts::{Facts, share};
use super::{About, Pathology, Threshold, number};
use crate::profile::{
    Advice, Confidence, Device, Evidence, Finding, Impact, IoOp, Kind, ReadHow, ReadaheadStat, Resource,
    Session, Severity, Subject, Unit, units,
};

/// See [`ABOUT`].
pub struct ReadaheadDisabled;

static ABOUT: About = About {
    id: "readahead-disabled",
    title: "buffered reads are cut into single pages because readahead is off",
    symptom: "Buffered reads are slow, the device's mean read is one page (4 KiB) although programs read in large \
              pieces, and the device does many more requests than the programs do reads.",
    why: "With read_ahead_kb 0 the page cache asks the file system for one page at a time (page_cache_sync_ra cuts \
          the request to one page if ra_pages is 0), so that a read of 128 KiB becomes 32 requests, each of which \
          is waited for before the next is sent. Readahead is often turned off because random reads pulled in \
          pages that nobody wanted; that is what POSIX_FADV_RANDOM is for, which reads exactly what was asked, \
          in one piece.",
    cures: &[
        "Set read_ahead_kb to a sensible size again (128 is the kernel's default). Files that are open keep the \
         old value: reopen them.",
        "Where random reads were the reason for turning it off: posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) in the \
         program that reads at random, or O_DIRECT.",
    ],
    confirmed_by: "probe `readahead`: files whose ra_pages is 0 while their readers want several pages a call",
    suspected_by: "page_cache_sync_ra calling force_page_cache_ra, on a device whose read_ahead_kb is known to be 0",
    thresholds: &[
        Threshold {
            what: "pages that readers want at a readahead call, mean",
            value: WANTED,
            reason: "reads of one page want exactly 1; reads of two pages, page by page, 1.5 on average \
                     ((2 + 1) / 2); reads of 128 KiB 16.5",
        },
        Threshold {
            what: "pages read that way",
            value: PAGES as f64,
            reason: "1 MiB: less is not worth a report, and a device that is not used has none",
        },
        Threshold {
            what: "share of the device's reads",
            value: SHARE,
            reason: "below it the device mostly does something else, and the finding is an info",
        },
    ],
    explained_by: &[],
};

const WANTED: f64 = 1.4;
const PAGES: u64 = 256;
const SHARE: f64 = 0.1;
/// From this share on the device does hardly anything else.
const CRITICAL_SHARE: f64 = 0.5;
/// CPU time under force_page_cache_ra that makes one suspicious; a device that is waited for leaves less.
const SUSPICIOUS_CPU: f64 = 0.05;

impl Pathology for ReadaheadDisabled {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn find(&self, facts: &Facts<'_>) -> Vec<Finding> {
        let session = facts.session;
        let mut devices: Vec<Device> = session.readahead.iter().map(|stat| stat.device).collect();
        devices.sort_unstable();
        devices.dedup();
        let measured: Vec<Finding> =
            devices.into_iter().filter_map(|device| measured(facts, device)).collect();
        if !measured.is_empty() || facts.probe("readahead").is_some() {
            return measured;
        }
        let counted = by_counts(facts);
        if counted.is_empty() { suspected(facts).into_iter().collect() } else { counted }
    }
}

/// Sums of the files that were read page by page, though more was wanted.
#[derive(Default)]
struct Cut {
    files: u64,
    calls: u64,
    wanted: u64,
    pages: u64,
}

impl Cut {
    fn of(stats: &[ReadaheadStat], device: Device) -> Self {
        let mut cut = Self::default();
        for stat in stats.iter().filter(|stat| stat.device == device && stat.ra_pages == 0) {
            let calls = stat.sync + stat.async_;
            if calls > 0 && stat.wanted_pages as f64 >= WANTED * calls as f64 {
                cut.files += 1;
                cut.calls += calls;
                cut.wanted += stat.wanted_pages;
                cut.pages += stat.issued_pages;
            }
        }
        cut
    }
}

fn measured(facts: &Facts<'_>, device: Device) -> Option<Finding> {
    let session = facts.session;
    let cut = Cut::of(&session.readahead, device);
    // One page a call is what makes it the pathology: with FADV_RANDOM a call gets all that it wants.
    if cut.pages < PAGES || cut.pages as f64 > 1.5 * cut.calls as f64 {
        return None;
    }
    let disks = disks_below(session, device);
    let block = block_io(session, &disks, IoOp::Read);
    let bytes = cut.pages * session.host.page_size.max(1);
    // What the device read: what was issued, where nobody counted.
    let device_bytes = block.as_ref().map_or(bytes, |block| block.request_bytes.max(1));
    let part = share(bytes.min(device_bytes), device_bytes);
    let mean_wanted = cut.wanted as f64 / cut.calls as f64;

    let mut evidence = vec![Evidence::new(
        "wanted_pages",
        mean_wanted,
        Unit::Pages,
        format!(
            "{mean_wanted:.1} pages wanted at a readahead call, 1 page read ({} calls, {} pages, ra_pages 0)",
            units::grouped(cut.calls),
            units::grouped(cut.pages)
        ),
    )];
    if let Some(block) = block.as_ref().filter(|block| block.requests > 0) {
        let mean = block.request_bytes as f64 / block.requests as f64;
        evidence.push(Evidence::new(
            "request_bytes",
            mean,
            Unit::Bytes,
            format!(
                "mean device read {} ({} requests, {})",
                units::bytes(mean),
                units::grouped(block.requests),
                units::bytes(block.request_bytes as f64)
            ),
        ));
        evidence.push(Evidence::new(
            "requests",
            block.requests as f64,
            Unit::Events,
            rate(facts, block.requests, block.request_bytes),
        ));
    }
    if let Some((calls, bytes)) = buffered(session, device) {
        let mean = bytes as f64 / calls as f64;
        evidence.push(Evidence::new(
            "read_bytes",
            mean,
            Unit::Bytes,
            format!("mean buffered read {} ({} reads)", units::bytes(mean), units::grouped(calls)),
        ));
    }
    let severity = match part {
        part if part >= CRITICAL_SHARE => Severity::Critical,
        part if part >= SHARE => Severity::Warning,
        _ => Severity::Info,
    };
    Some(finding(facts, device, severity, Confidence::Confirmed, part, evidence))
}

fn rate(facts: &Facts<'_>, requests: u64, bytes: u64) -> String {
    match facts.seconds() {
        Some(seconds) => format!(
            "{} device reads/s, {}/s",
            units::number(requests as f64 / seconds),
            units::bytes(bytes as f64 / seconds)
        ),
        None => format!("{} device reads", units::grouped(requests)),
    }
}

/// Calls and bytes of the buffered reads that a file system was asked for.
fn buffered(session: &Session, device: Device) -> Option<(u64, u64)> {
    let stat = session.reads.iter().find(|stat| stat.device == device && stat.how == ReadHow::Buffered)?;
    (stat.calls > 0).then_some((stat.calls, stat.bytes))
}

/// Without the readahead probe: what was asked and what the device did, on a device whose readahead is off.
fn by_counts(facts: &Facts<'_>) -> Vec<Finding> {
    let session = facts.session;
    let page = session.host.page_size.max(1) as f64;
    let off = |device: Device| {
        let disk = disks_below(session, device).first().and_then(|disk| session.device(*disk));
        let of_mount = mount_of(session, device).and_then(|mount| mount.read_ahead_kb);
        of_mount.or(disk.and_then(|disk| disk.read_ahead_kb)) == Some(0)
    };
    let reads = session.reads.iter().filter(|stat| stat.how == ReadHow::Buffered && off(stat.device));
    reads
        .filter_map(|stat| {
            let block = block_io(session, &disks_below(session, stat.device), IoOp::Read)?;
            let asked = stat.bytes as f64 / stat.calls.max(1) as f64;
            let mean = block.request_bytes as f64 / block.requests.max(1) as f64;
            // Reads of several pages, and a device that never gets more than one.
            if asked < 2.0 * page || mean > 1.1 * page || block.requests < PAGES {
                return None;
            }
            let evidence = vec![
                Evidence::new(
                    "read_bytes",
                    asked,
                    Unit::Bytes,
                    format!(
                        "mean buffered read {} ({} reads)",
                        units::bytes(asked),
                        units::grouped(stat.calls)
                    ),
                ),
                Evidence::new(
                    "request_bytes",
                    mean,
                    Unit::Bytes,
                    format!("mean device read {}, read_ahead_kb 0", units::bytes(mean)),
                ),
                Evidence::new(
                    "requests",
                    block.requests as f64,
                    Unit::Events,
                    rate(facts, block.requests, block.request_bytes),
                ),
            ];
            Some(finding(facts, stat.device, Severity::Warning, Confidence::Likely, 1.0, evidence))
        })
        .collect()
}

/// From samples alone, where the host's settings are known.
fn suspected(facts: &Facts<'_>) -> Option<Finding> {
    let session = facts.session;
    let forced = facts.named(&["force_page_cache_ra"]);
    let sync = facts.named(&["page_cache_sync_ra"]);
    let stacks = || {
        let under = facts.stacks(Kind::Cpu).filter(|stack| stack.passes(&forced));
        under.filter(|stack| stack.passes(&sync))
    };
    let weight = stacks().fold(0u64, |sum, stack| sum.saturating_add(stack.weight()));
    let part = facts.share(Kind::Cpu, weight);
    let mount = session.host.mounts.iter().find(|mount| mount.read_ahead_kb == Some(0))?;
    if part < SUSPICIOUS_CPU {
        return None;
    }
    let evidence = vec![
        Evidence::new(
            "cpu_share",
            part,
            None,
            format!("{} of CPU time below force_page_cache_ra", number::percent(part)),
        ),
        Evidence::new("read_ahead_kb", 0.0, None, format!("read_ahead_kb of {} is 0", mount.mount_point)),
    ];
    let mut found = finding(facts, mount.device, Severity::Warning, Confidence::Suspected, part, evidence);
    found.impact = Impact { share: part, of: Resource::CpuTime };
    Some(found)
}

fn finding(
    facts: &Facts<'_>,
    device: Device,
    severity: Severity,
    confidence: Confidence,
    part: f64,
    evidence: Vec<Evidence>,
) -> Finding {
    let session = facts.session;
    let mut about = subjects(session, device);
    let readers = facts.stacks(Kind::Readahead).filter(|stack| stack.labels().device == Some(device));
    if let Some((process, _)) = facts.main_process(readers) {
        about.push(Subject::Process(process));
    }
    Finding {
        id: ABOUT.id.to_owned(),
        title: format!("{}: {}", place(session, device), ABOUT.title),
        severity,
        confidence,
        impact: Impact { share: part, of: Resource::DeviceBandwidth },
        about,
        evidence,
        why: ABOUT.why.to_owned(),
        advice: advice(session, device),
        marks: facts.marks(None, &facts.named(&["force_page_cache_ra"])),
    }
}

/// The setting to change, for this very device.
fn advice(session: &Session, device: Device) -> Vec<Advice> {
    let again =
        "Turn readahead on again. Files that are open keep the old value: reopen them (restart the program).";
    let mut advice = Vec::new();
    let mount = mount_of(session, device);
    match mount.map(|mount| mount.fs_type.as_str()) {
        // Its own backing device info, 4 MiB by default, whatever the disk's queue says.
        Some("btrfs") => advice.push(Advice::paste(
            format!("{again} btrfs has a setting of its own, not that of the disk."),
            "for f in /sys/fs/btrfs/*/bdi/read_ahead_kb; do echo 4096 > $f; done",
        )),
        fs_type => {
            let disks = disks_below(session, device);
            if disks.is_empty() || matches!(fs_type, Some("nfs" | "nfs4" | "fuse" | "9p" | "ceph" | "cifs")) {
                let setting = format!("/sys/class/bdi/{device}/read_ahead_kb");
                advice.push(Advice::paste(again, format!("echo 128 > {setting}")));
            }
            for disk in &disks {
                let setting = format!("{}/read_ahead_kb", queue_directory(session, *disk));
                advice.push(Advice::paste(again, format!("echo 128 > {setting}")));
            }
        }
    }
    advice.push(Advice::paste(
        "If random reads were the reason for turning it off, have the program that reads at random say so: then its \
         reads are neither widened nor cut.",
        "posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);",
    ));
    advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{BlockDevice, BlockStat, Mount, ReadStat};
    use crate::testing::{attached, kernel, push};

    const SDA: Device = Device { major: 8, minor: 0 };

    /// What was measured of `dd bs=128k` of 64 MiB on ext4 with read_ahead_kb 0.
    fn session() -> Session {
        let mut session =
            Session { duration_ns: 1_000_000_000, probes: vec![attached("readahead")], ..Session::default() };
        session.host.page_size = 4096;
        session.host.devices = vec![BlockDevice {
            name: "sda".to_owned(),
            device: Some(SDA),
            read_ahead_kb: Some(0),
            ..BlockDevice::default()
        }];
        session.host.mounts = vec![Mount {
            device: SDA,
            source: "/dev/sda".to_owned(),
            mount_point: "/data".to_owned(),
            fs_type: "ext4".to_owned(),
            options: "rw".to_owned(),
            read_ahead_kb: Some(0),
        }];
        session.readahead = vec![ReadaheadStat {
            device: SDA,
            inode: 12,
            sync: 16384,
            async_: 0,
            sequential: 16384,
            random: 0,
            wanted_pages: 16384 / 32 * (32 * 33 / 2),
            issued_pages: 16384,
            ra_pages: 0,
        }];
        session.block = vec![BlockStat {
            device: SDA,
            op: IoOp::Read,
            bios: 16384,
            bio_bytes: 16384 * 4096,
            requests: 16384,
            request_bytes: 16384 * 4096,
            completed: 16384,
            completed_bytes: 16384 * 4096,
            ..BlockStat::default()
        }];
        session.reads = vec![ReadStat {
            fs_type: "ext4".to_owned(),
            device: SDA,
            how: ReadHow::Buffered,
            calls: 512,
            bytes: 64 << 20,
        }];
        session
    }

    fn found(session: &Session) -> Vec<Finding> {
        ReadaheadDisabled.find(&Facts::new(session))
    }

    #[test]
    fn page_by_page_is_found_with_its_device() {
        let findings = found(&session());
        assert_eq!(findings.len(), 1);
        let finding = &findings[0];
        assert_eq!((finding.severity, finding.confidence), (Severity::Critical, Confidence::Confirmed));
        assert_eq!(finding.about[..2], [Subject::Device("sda".into()), Subject::Mount("/data".into())]);
        assert_eq!(finding.value("wanted_pages"), Some(16.5));
        assert_eq!(finding.value("request_bytes"), Some(4096.0));
        assert_eq!(finding.value("read_bytes"), Some(131_072.0));
        let setting = "echo 128 > /sys/block/sda/queue/read_ahead_kb";
        assert_eq!(finding.advice[0].paste.as_deref(), Some(setting));
    }

    #[test]
    fn what_only_looks_like_it_is_silent() {
        // Reads of single pages.
        let mut tiny = session();
        tiny.readahead[0].wanted_pages = tiny.readahead[0].sync;
        assert_eq!(found(&tiny), []);
        // FADV_RANDOM with large reads: all that is wanted, at once.
        let mut random = session();
        random.readahead[0] = ReadaheadStat {
            sync: 512,
            issued_pages: 16384,
            wanted_pages: 16384,
            ..random.readahead[0].clone()
        };
        assert_eq!(found(&random), []);
        // Readahead on.
        let mut on = session();
        on.readahead[0].ra_pages = 32;
        assert_eq!(found(&on), []);
        // Hardly anything read.
        let mut little = session();
        little.readahead[0] =
            ReadaheadStat { sync: 200, issued_pages: 200, wanted_pages: 3300, ..little.readahead[0].clone() };
        assert_eq!(found(&little), []);
    }

    #[test]
    fn a_small_part_of_the_device_is_an_info() {
        let mut session = session();
        session.block[0].request_bytes *= 20;
        assert_eq!(found(&session)[0].severity, Severity::Info);
        assert_eq!(found(&session)[0].impact.share, 0.05);
    }

    #[test]
    fn without_the_probe_counts_and_settings_make_it_likely() {
        let mut session = session();
        session.probes.clear();
        session.readahead.clear();
        assert_eq!(found(&session)[0].confidence, Confidence::Likely);
        session.host.mounts[0].read_ahead_kb = Some(128);
        assert_eq!(found(&session), []);
    }

    #[test]
    fn samples_need_the_setting_to_be_suspicious() {
        let mut session = session();
        session.probes.clear();
        session.readahead.clear();
        session.block.clear();
        session.reads.clear();
        let labels = session.profile.intern_labels(Default::default());
        let stack = ["filemap_read", "page_cache_sync_ra", "force_page_cache_ra", "blk_mq_submit_bio"];
        push(&mut session.profile, Kind::Cpu, labels, &stack.map(kernel), 30);
        push(&mut session.profile, Kind::Cpu, labels, &[kernel("cpu_work")], 70);
        let findings = found(&session);
        assert_eq!((findings[0].confidence, findings[0].impact.share), (Confidence::Suspected, 0.3));
        session.host.mounts[0].read_ahead_kb = None;
        assert_eq!(found(&session), []);
    }
}
