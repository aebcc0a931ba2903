//! `read-amplification`: the device reads many times what was asked for, below the page cache.

use std::collections::BTreeMap;

use super::devices::{block_io, disks_below, file_systems_on, mount_of, place, subjects};
use super::facts::{Facts, StackView, share};
use super::{About, Pathology, Threshold, number};
use crate::profile::{
    Advice, BlockStat, Confidence, Device, Evidence, Finding, Impact, IoOp, Kind, ReadHow, Resource, Session,
    Severity, Subject, Unit, units,
};

/// See [`ABOUT`].
pub struct ReadAmplification;

static ABOUT: About = About {
    id: "read-amplification",
    title: "the device reads many times what was asked for",
    symptom: "Small reads at random places are slow although the device delivers a lot: its mean read is a multiple \
              of the programs'. In the profile, allocating pages and bios below the file system's read stands out, \
              or checksumming and decompressing.",
    why: "The file system cannot read less than a whole extent, record or stripe: its checksum covers all of it, or \
          it is compressed as a whole. Each small read then reads all of it into freshly allocated bounce pages, \
          verifies or decompresses it, and copies the few bytes out that were wanted. Which pages of a profile look \
          hot (page allocation, checksums) is only how that cost shows.",
    cures: &[
        "bcachefs checksums extents as a whole, up to encoded_extent_max (64 KiB): format with a smaller one for \
         data that is read at random.",
        "btrfs compresses in pieces of up to 128 KiB: no compression for such files (btrfs property set FILE \
         compression none, then rewrite them), or larger reads.",
        "ZFS reads whole records: a recordsize of the read size (zfs set recordsize=...), then rewrite the file.",
    ],
    confirmed_by: "probes `read` and `block` (and readahead for buffered reads): bytes that the file system was asked \
                   for, and bytes that it made the device read; page-alloc counts the bounce pages",
    suspected_by: "bounce pages (bch2_bio_alloc_pages_pool) as a large part of the file system's read path",
    thresholds: &[
        Threshold {
            what: "bytes that the device reads for each that was asked for",
            value: FACTOR,
            reason: "uncompressed files read at random: 1.0 to 1.1 (ext4, XFS, btrfs, bcachefs written in 4 KiB \
                     pieces); bcachefs written in 1 MiB pieces: 16.0; compressed btrfs: 5 and more",
        },
        Threshold {
            what: "mean device read in mean reads of programs",
            value: WIDER,
            reason: "metadata that is read besides comes in requests of its own, no larger than the programs' reads",
        },
        Threshold {
            what: "bytes that nobody asked for",
            value: BYTES as f64,
            reason: "16 MiB: less costs nobody anything",
        },
        Threshold {
            what: "share of the read path's CPU time that allocates bounce pages",
            value: BOUNCE,
            reason: "the founding case: 72.9 % of __bch2_read_extent with amplification, none without",
        },
    ],
    explained_by: &[],
};

const FACTOR: f64 = 2.5;
const WIDER: f64 = 2.0;
const BYTES: u64 = 16 << 20;
const BOUNCE: f64 = 0.2;
/// From this factor on, the device works mostly for nothing.
const CRITICAL_FACTOR: f64 = 4.0;
/// Less CPU time than this below the read path is no slow read.
const CPU: f64 = 0.05;

/// Functions that allocate the pages of a bounce buffer for a read, and the reads that call them.
const BOUNCE_PAGES: &[(&str, &[&str])] = &[
    ("bch2_bio_alloc_pages_pool", &["__bch2_read_extent", "__bch2_read", "bch2_read", "bch2_rbio_retry"]),
    ("bch2_bio_alloc_pages", &["__bch2_read_extent", "__bch2_read", "bch2_read"]),
    ("btrfs_alloc_folio_array", &["btrfs_submit_compressed_read"]),
    ("btrfs_alloc_page_array", &["btrfs_submit_compressed_read"]),
    ("btrfs_alloc_compr_folio", &["btrfs_submit_compressed_read"]),
    ("abd_alloc", &["zio_read", "arc_read"]),
];

impl Pathology for ReadAmplification {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn find(&self, facts: &Facts<'_>) -> Vec<Finding> {
        let session = facts.session;
        if !session.reads.is_empty() && !session.block.is_empty() {
            return asked_by_disks(session)
                .into_iter()
                .filter_map(|(disks, asked)| measured(facts, &disks, &asked))
                .collect();
        }
        suspected(facts).into_iter().collect()
    }
}

/// What the file systems on some disks were asked for, below the page cache.
#[derive(Default)]
struct Asked {
    /// The file system that was asked most, or the disk.
    main: Option<(u64, Device)>,
    calls: u64,
    bytes: u64,
}

/// File systems share disks, and a file system may span several: for each set of disks, what was asked.
fn asked_by_disks(session: &Session) -> BTreeMap<Vec<Device>, Asked> {
    let mut by_disks: BTreeMap<Vec<Device>, Asked> = BTreeMap::new();
    let mut add = |device: Device, calls: u64, bytes: u64| {
        let disks = disks_below(session, device);
        if !disks.is_empty() && bytes > 0 {
            let asked = by_disks.entry(disks).or_default();
            asked.calls += calls;
            asked.bytes += bytes;
            asked.main = asked.main.max(Some((bytes, device)));
        }
    };
    for stat in session.reads.iter().filter(|stat| stat.how == ReadHow::Direct) {
        add(stat.device, stat.calls, stat.bytes);
    }
    // Of buffered reads, what the page cache had to ask for: what is cached reaches no file system.
    for stat in &session.readahead {
        let calls = (stat.sync + stat.async_).max(1);
        add(stat.device, calls, stat.issued_pages * session.host.page_size.max(1));
    }
    by_disks
}

fn measured(facts: &Facts<'_>, disks: &[Device], asked: &Asked) -> Option<Finding> {
    let session = facts.session;
    let device = asked.main?.1;
    // Another set of disks may overlap this one; then its reads cannot be told from these.
    let shared = disks.iter().flat_map(|disk| file_systems_on(session, *disk));
    if shared.into_iter().any(|other| disks_below(session, other) != disks) {
        return None;
    }
    let mut block = block_io(session, disks, IoOp::Read)?;
    let foreign = drivers_reads(facts, disks);
    block.request_bytes = block.request_bytes.saturating_sub(foreign);
    let factor = block.request_bytes as f64 / asked.bytes as f64;
    let excess = block.request_bytes.saturating_sub(asked.bytes);
    let mean_asked = asked.bytes as f64 / asked.calls as f64;
    let mean_read = mean_bio(&block)?;
    if factor < FACTOR || excess < BYTES || mean_read < WIDER * mean_asked {
        return None;
    }

    let mut evidence = vec![
        Evidence::new(
            "amplification",
            factor,
            None,
            format!(
                "the device read {} for {} that the file system was asked for: {}",
                units::bytes(block.request_bytes as f64),
                units::bytes(asked.bytes as f64),
                number::times(factor)
            ),
        ),
        Evidence::new(
            "device_read_bytes",
            mean_read,
            Unit::Bytes,
            format!(
                "mean device read {}, mean read asked for {}",
                units::bytes(mean_read),
                units::bytes(mean_asked)
            ),
        ),
    ];
    if let Some(seconds) = facts.seconds() {
        let (read, got) = (block.request_bytes as f64 / seconds, asked.bytes as f64 / seconds);
        evidence.push(Evidence::new(
            "device_bytes_per_second",
            read,
            Unit::Bytes,
            format!("the device delivers {}/s, programs get {}/s", units::bytes(read), units::bytes(got)),
        ));
    }
    evidence.extend(bounce_pages(facts, asked.calls));
    Some(finding(
        facts,
        device,
        if factor >= CRITICAL_FACTOR { Severity::Critical } else { Severity::Warning },
        Confidence::Confirmed,
        Impact { share: share(excess, block.request_bytes), of: Resource::DeviceBandwidth },
        evidence,
        Some(mean_asked),
    ))
}

/// Kernel drivers that read files or disks for others: of these reads nobody counts what was asked for.
const DRIVERS: &[&str] = &[
    "lo_rw_aio",
    "loop_process_work",
    "nvmet_file_execute_io",
    "fd_execute_rw",
    "vhost_worker",
    "md_thread",
];

/// Bytes that such drivers read from these disks.
fn drivers_reads(facts: &Facts<'_>, disks: &[Device]) -> u64 {
    let drivers = facts.named(DRIVERS);
    let reads = facts.stacks(Kind::BlockIo).filter(|stack| {
        let labels = stack.labels();
        let below = |device| disks_below(facts.session, device).iter().any(|disk| disks.contains(disk));
        labels.op == Some(IoOp::Read) && labels.device.is_some_and(below) && stack.passes(&drivers)
    });
    reads.fold(0, |sum, stack| sum.saturating_add(stack.weight()))
}

/// The mean size of what the file system sent: bios where they were seen, since requests may be merged.
fn mean_bio(block: &BlockStat) -> Option<f64> {
    let (bytes, count) =
        if block.bios > 0 { (block.bio_bytes, block.bios) } else { (block.request_bytes, block.requests) };
    (count > 0).then(|| bytes as f64 / count as f64)
}

/// Whether a stack allocates bounce pages of a read.
fn is_bounce(stack: StackView<'_, '_>) -> bool {
    let mut callers: Vec<&str> = Vec::new();
    for name in stack.names() {
        let known = BOUNCE_PAGES.iter().find(|(function, _)| *function == name);
        if known.is_some_and(|(_, reads)| callers.iter().any(|caller| reads.contains(caller))) {
            return true;
        }
        callers.push(name);
    }
    false
}

/// Pages allocated for bounce buffers, a read.
fn bounce_pages(facts: &Facts<'_>, calls: u64) -> Option<Evidence> {
    facts.probe("page-alloc")?;
    let pages: u64 =
        facts.stacks(Kind::PageAlloc).filter(|stack| is_bounce(*stack)).map(StackView::weight).sum();
    let each = pages as f64 / calls.max(1) as f64;
    (pages > 0).then(|| {
        let text = format!("{each:.1} bounce pages allocated a read ({} in all)", units::grouped(pages));
        Evidence::new("bounce_pages", each, Unit::Pages, text)
    })
}

/// From samples alone: bounce pages take a large part of a file system's read path.
fn suspected(facts: &Facts<'_>) -> Option<Finding> {
    let bounce: u64 = facts.stacks(Kind::Cpu).filter(|stack| is_bounce(*stack)).map(StackView::weight).sum();
    if bounce == 0 {
        return None;
    }
    // The innermost of the reads that call for them, as the profile has it.
    let reads: Vec<&str> = BOUNCE_PAGES.iter().flat_map(|(_, reads)| reads.iter().copied()).collect();
    let below = |name: &&str| facts.through(Kind::Cpu, &facts.named(&[*name]));
    let (read, path) = reads
        .iter()
        .map(|name| (*name, below(name)))
        .filter(|(_, weight)| *weight >= bounce)
        .min_by_key(|(_, weight)| *weight)?;
    let part = share(bounce, path);
    if part < BOUNCE || facts.share(Kind::Cpu, path) < CPU {
        return None;
    }
    let of_all = facts.share(Kind::Cpu, bounce);
    let evidence = vec![Evidence::new(
        "bounce_share",
        part,
        None,
        format!(
            "{} of {read} allocates bounce pages, {} of all CPU time",
            number::percent(part),
            number::percent(of_all)
        ),
    )];
    let severity = if of_all >= CPU { Severity::Warning } else { Severity::Info };
    let impact = Impact { share: of_all, of: Resource::CpuTime };
    Some(finding(facts, Device::default(), severity, Confidence::Suspected, impact, evidence, None))
}

fn finding(
    facts: &Facts<'_>,
    device: Device,
    severity: Severity,
    confidence: Confidence,
    impact: Impact,
    evidence: Vec<Evidence>,
    mean_asked: Option<f64>,
) -> Finding {
    let session = facts.session;
    let functions: Vec<&str> = BOUNCE_PAGES.iter().map(|(function, _)| *function).collect();
    let marks = facts.marks(None, &facts.named(&functions));
    let known = confidence != Confidence::Suspected;
    let fs_type = match mount_of(session, device) {
        Some(mount) if known => Some(mount.fs_type.as_str()),
        _ => file_system_of(facts),
    };
    let mut about = if known { subjects(session, device) } else { Vec::new() };
    if !known {
        about.extend(fs_type.map(|name| Subject::FileSystem(name.to_owned())));
        about.extend(marks.iter().map(|mark| Subject::Function(mark.frame.clone())));
    }
    let readers = facts.stacks(Kind::BlockIo).filter(|stack| {
        stack.labels().op == Some(IoOp::Read)
            && stack
                .labels()
                .device
                .is_some_and(|read| disks_below(session, read) == disks_below(session, device))
    });
    about.extend(facts.main_process(readers).map(|(name, _)| Subject::Process(name)));
    let place = match (known, fs_type) {
        (true, _) => place(session, device),
        (false, Some(fs_type)) => fs_type.to_owned(),
        (false, None) => "reads".to_owned(),
    };
    Finding {
        id: ABOUT.id.to_owned(),
        title: format!("{place}: {}", ABOUT.title),
        severity,
        confidence,
        impact,
        about,
        evidence,
        why: format!("{}{}", ABOUT.why, particular(fs_type)),
        advice: advice(
            fs_type,
            mount_of(session, device).map(|mount| mount.mount_point.as_str()),
            mean_asked,
        ),
        marks,
    }
}

/// The file system whose functions allocate the bounce pages.
fn file_system_of(facts: &Facts<'_>) -> Option<&'static str> {
    let has = |prefix: &str| {
        facts
            .stacks(Kind::Cpu)
            .any(|stack| is_bounce(stack) && stack.names().any(|name| name.starts_with(prefix)))
    };
    [("bch2_", "bcachefs"), ("btrfs_", "btrfs"), ("zio_", "zfs")]
        .into_iter()
        .find_map(|(prefix, name)| has(prefix).then_some(name))
}

/// What it is in this file system.
fn particular(fs_type: Option<&str>) -> &'static str {
    match fs_type {
        Some("bcachefs") => {
            " bcachefs has one checksum for each extent of up to encoded_extent_max (64 KiB by default): data that \
             was written in large pieces is read in such pieces, 16 pages for a read of 4 KiB."
        }
        Some("btrfs") => {
            " btrfs compresses up to 128 KiB as one extent, which has to be read and decompressed whole. (Without \
             compression its checksums are of single blocks, and it reads what was asked.)"
        }
        Some("zfs") => " ZFS checksums and compresses whole records of recordsize (128 KiB by default).",
        _ => "",
    }
}

fn advice(fs_type: Option<&str>, mount_point: Option<&str>, mean_asked: Option<f64>) -> Vec<Advice> {
    // A profile alone does not say how large the reads are.
    let size = match mean_asked {
        Some(bytes) => format!("{}k", (bytes as u64).clamp(4096, 1 << 20).next_power_of_two() / 1024),
        None => "READ_SIZE".to_owned(),
    };
    let path = mount_point.unwrap_or("MOUNTPOINT");
    match fs_type {
        Some("bcachefs") => vec![
            Advice::paste(
                "Format with extents no larger than the reads: more metadata and more checksums for sequential \
                 reads. The option is set at format time.",
                format!("bcachefs format --encoded_extent_max={size} DEVICE"),
            ),
            Advice::new(
                "What a program overwrites at random places in pieces of that size, as databases do, is read exactly: each \
                 piece is an extent of its own. Rewriting the file in order does not help, since neighbouring pieces \
                 become large extents again.",
            ),
            Advice::paste(
                "Or give up checksums for files whose program has its own (databases); then rewrite them. Corruption \
                 by the device is no longer noticed.",
                "bcachefs set-file-option --data_checksum=none FILE",
            ),
        ],
        Some("btrfs") => vec![
            Advice::paste(
                "No compression for files that are read at random; rewrite them so that it takes effect. They take \
                 their full size then.",
                "btrfs property set FILE compression none && cp --reflink=never FILE FILE.new && mv FILE.new FILE",
            ),
            Advice::paste(
                "For a whole file system of such files: mount without compress=; existing files stay compressed \
                 until rewritten.",
                format!("mount -o remount,compress=none {path}"),
            ),
            Advice::new("Or read larger pieces: 128 KiB at a time use all that is read and decompressed."),
        ],
        Some("zfs") => vec![Advice::paste(
            "A record size of the reads, then rewrite the file: less compression, more metadata.",
            format!("zfs set recordsize={size} DATASET"),
        )],
        _ => vec![Advice::new(
            "Find what is between the file system and the device that reads in larger pieces (compression, checksums \
             of large blocks, RAID with parity, dm-integrity, a cache device's block size), and read in its size or \
             lower it.",
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{BlockDevice, Mount, Profile, ReadStat, Source};
    use crate::testing::{Node, attached, bcachefs_profile, kernel, push, push_tree};

    const VDC: Device = Device { major: 254, minor: 32 };
    const BCACHEFS: Device = Device { major: 0, minor: 40 };

    /// 4 KiB direct reads from bcachefs, with device reads of `device_read` bytes.
    fn session(device_read: u64) -> Session {
        let calls = 20_000;
        let mut session = Session::new(Source::Live);
        session.duration_ns = 4_000_000_000;
        session.host.page_size = 4096;
        session.probes = vec![attached("read"), attached("block"), attached("page-alloc")];
        session.host.devices =
            vec![BlockDevice { name: "vdc".to_owned(), device: Some(VDC), ..BlockDevice::default() }];
        session.host.mounts = vec![Mount {
            device: BCACHEFS,
            source: "/dev/vdc".to_owned(),
            mount_point: "/mnt".to_owned(),
            fs_type: "bcachefs".to_owned(),
            options: "rw".to_owned(),
            read_ahead_kb: None,
        }];
        session.reads = vec![ReadStat {
            fs_type: "bcachefs".to_owned(),
            device: BCACHEFS,
            how: ReadHow::Direct,
            calls,
            bytes: calls * 4096,
        }];
        session.block = vec![BlockStat {
            device: VDC,
            op: IoOp::Read,
            bios: calls,
            bio_bytes: calls * device_read,
            requests: calls,
            request_bytes: calls * device_read,
            completed: calls,
            completed_bytes: calls * device_read,
            ..BlockStat::default()
        }];
        session
    }

    fn found(session: &Session) -> Vec<Finding> {
        ReadAmplification.find(&Facts::new(session))
    }

    #[test]
    fn whole_extents_for_small_reads_are_measured() {
        let mut session = session(65_536);
        let labels = session.profile.intern_labels(Default::default());
        let stack =
            ["bch2_read_iter", "__bch2_read_extent", "bch2_bio_alloc_pages_pool", "alloc_pages_mpol_noprof"];
        push(&mut session.profile, Kind::PageAlloc, labels, &stack.map(kernel), 320_000);
        let findings = found(&session);
        assert_eq!(findings.len(), 1);
        let finding = &findings[0];
        assert_eq!((finding.severity, finding.confidence), (Severity::Critical, Confidence::Confirmed));
        assert_eq!(finding.value("amplification"), Some(16.0));
        assert_eq!(finding.value("bounce_pages"), Some(16.0));
        assert_eq!(finding.impact.share, 0.9375);
        assert_eq!(
            finding.about[..3],
            [
                Subject::Device("vdc".into()),
                Subject::Mount("/mnt".into()),
                Subject::FileSystem("bcachefs".into())
            ]
        );
        assert!(finding.advice[0].paste.as_ref().unwrap().contains("--encoded_extent_max=4k"));
    }

    #[test]
    fn exact_reads_are_silent() {
        assert_eq!(found(&session(4096)), []);
    }

    #[test]
    fn metadata_read_besides_is_no_amplification() {
        // Three requests of the reads' own size for each.
        let mut session = session(4096);
        let block = &mut session.block[0];
        for count in [&mut block.bios, &mut block.requests, &mut block.bio_bytes, &mut block.request_bytes] {
            *count *= 3;
        }
        assert_eq!(found(&session), []);
    }

    #[test]
    fn the_founding_profile_is_suspected_at_its_bounce_pages() {
        let mut session = Session::new(Source::Imported { format: "call tree".to_owned() });
        session.profile = bcachefs_profile();
        let findings = found(&session);
        assert_eq!((findings.len(), findings[0].confidence), (1, Confidence::Suspected));
        assert!((findings[0].value("bounce_share").unwrap() - 0.72933).abs() < 0.00001);
        assert_eq!(findings[0].marks[0].frame, "bch2_bio_alloc_pages_pool [bcachefs]");
        assert_eq!(findings[0].about[0], Subject::FileSystem("bcachefs".into()));
    }

    #[test]
    fn the_same_reads_without_bounce_pages_are_silent() {
        let mut session = Session::new(Source::Imported { format: "call tree".to_owned() });
        let mut profile = Profile::new();
        let labels = profile.intern_labels(Default::default());
        let tree = Node(
            "__bch2_read",
            7_883_577,
            &[Node(
                "__bch2_read_extent",
                2_804_346,
                &[
                    Node("submit_bio_noacct_nocheck", 1_299_974, &[]),
                    Node("bio_associate_blkg", 226_227, &[]),
                ],
            )],
        );
        push_tree(&mut profile, Kind::Cpu, labels, &[], &tree);
        session.profile = profile;
        assert_eq!(found(&session), []);
    }
}
