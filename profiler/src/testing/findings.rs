//! Findings, and what they are of.

use super::finding;
use crate::diagnose::About;
use crate::profile::*;

/// A pathology for tests.
pub(crate) const fn about(id: &'static str) -> About {
    About {
        id,
        title: "readers wait",
        symptom: "Reads are slow, and nobody knows why.",
        why: "Somebody turned it off.",
        cures: &["Turn it on: `blockdev --setra 256 /dev/sda`."],
        confirmed_by: "`readahead`",
        suspected_by: "many calls of `page_cache_sync_ra` below one read",
        thresholds: &[],
        explained_by: &[],
    }
}

/// Findings as a session may have them: one of each severity, with much and with little to say.
pub(crate) fn findings() -> Vec<Finding> {
    let amplification = Finding {
        title: "direct reads from bcachefs make nvme0n1 read 16.0 times what was asked for".to_owned(),
        severity: Severity::Critical,
        confidence: Confidence::Confirmed,
        impact: Impact { share: 0.9375, of: Resource::DeviceBandwidth },
        about: vec![
            Subject::Device("nvme0n1".to_owned()),
            Subject::FileSystem("bcachefs".to_owned()),
            Subject::Mount("/mnt/\x1b[2Jdata".to_owned()),
            Subject::Process("fio".to_owned()),
        ],
        evidence: vec![
            Evidence::new(
                "amplification",
                16.0,
                None,
                "device reads per byte asked: 16.0 (40.8 GiB for 2.55 GiB)",
            ),
            Evidence::new(
                "bounce_pages",
                16.0,
                Unit::Pages,
                "bounce pages allocated per read: 16.0 pages (10.7 M pages for 668,160 reads), all of them below \
                 bch2_bio_alloc_pages_pool, and freed again once the checksum is verified",
            ),
        ],
        why: "Extents are checksummed as a whole, so that a read of 4 KiB has to read all of the extent (64 KiB) \
              into pages of its own, verify it, and copy 4 KiB out. The file was written in large pieces, which \
              made its extents as large as they may be."
            .to_owned(),
        advice: vec![
            Advice::paste(
                "Let new extents be no larger than what is read at once. Sequential reads become slower; files \
                 that are there already keep their extents until they are written again.",
                "mount -o remount,encoded_extent_max=4k /mnt/data",
            ),
            Advice::new("Or do without checksums for this file, if its data is checked elsewhere."),
        ],
        ..finding("read-amplification", Severity::Critical, &["bch2_bio_alloc_pages_pool"])
    };
    let readahead = Finding {
        title: "readahead is off on loop0".to_owned(),
        confidence: Confidence::Likely,
        impact: Impact { share: 0.412, of: Resource::WallTime },
        about: vec![Subject::Device("loop0".to_owned())],
        evidence: vec![Evidence::new("ra_pages", 0.0, Unit::Pages, "ra_pages: 0")],
        why: "With a window of 0 pages the page cache asks for one page at a time.".to_owned(),
        advice: vec![Advice::paste(
            "Turn readahead on again, and keep it so after a reboot:",
            "echo 128 > /sys/block/loop0/queue/read_ahead_kb\n\
             echo 'ACTION==\"add|change\", KERNEL==\"loop0\", ATTR{queue/read_ahead_kb}=\"128\"' | tee \
             /etc/udev/rules.d/60-readahead.rules",
        )],
        ..finding("readahead-disabled", Severity::Warning, &["xfs_agino_range [xfs]"])
    };
    let bare = Finding {
        title: "small I/O by \"\x1b[31mred;\nforged\"".to_owned(),
        impact: Impact { share: 0.0, of: Resource::CpuTime },
        ..finding("small-io", Severity::Info, &[])
    };
    vec![amplification, readahead, bare]
}
