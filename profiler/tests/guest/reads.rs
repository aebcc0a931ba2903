//! Reads from the file system's entry to the device: what was asked, what readahead made of it, and
//! what the device did, on every kernel and every rung.

use std::os::unix::fs::MetadataExt as _;

use profiler::profile::session::ReadHow;
use profiler::profile::{Device, IoOp, Kind, Session};

use crate::guest::{assert_near, attach_around, rung, scratch, sh, state, try_sh};
use crate::skip::skip;

const FILE_KIB: u64 = 16 * 1024;
const PAGE: u64 = 4096;

/// A file system with one file on the scratch disk, unmounted in the end.
struct Mounted {
    file: String,
    fs_type: &'static str,
}

impl Mounted {
    /// `None` if this kernel does not have the file system.
    fn new(fs_type: &'static str) -> Option<Self> {
        let disk = scratch();
        let folder = format!("/tmp/{fs_type}");
        if fs_type != "ext4" && try_sh(&format!("modprobe {fs_type}")).is_err() {
            return None;
        }
        // mkfs.xfs may be newer than the kernel.
        let options = if fs_type == "ext4" { "-F" } else { "-f -m reflink=0,rmapbt=0" };
        let mount = format!(
            "mkfs.{fs_type} -q {options} {disk}; mkdir -p {folder}; mount -t {fs_type} {disk} {folder}"
        );
        match try_sh(&mount) {
            Err(_) if fs_type != "ext4" => return None,
            result => result.unwrap_or_else(|error| panic!("`{mount}` failed: {error}")),
        }
        let mounted = Self { file: format!("{folder}/file"), fs_type };
        sh(&format!("dd if=/dev/zero of={} bs=1M count={} conv=fsync", mounted.file, FILE_KIB / 1024));
        Some(mounted)
    }

    /// Reads the file in pieces of 128 KiB, nothing of it cached, with this readahead (in KiB).
    fn read(&self, readahead_kib: u64, args: &[&str]) -> Session {
        let disk = scratch();
        sh(&format!(
            "blockdev --setra {} {disk}; sync; echo 3 > /proc/sys/vm/drop_caches",
            readahead_kib * 2
        ));
        attach_around(&[&["--probes", "read,readahead,bio,block"], args].concat(), || {
            sh(&format!("dd if={} of=/dev/null bs=128k", self.file));
        })
    }

    fn folder(&self) -> &str {
        self.file.rsplit_once('/').map_or("/", |(folder, _)| folder)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = try_sh(&format!("umount {}", self.folder()));
    }
}

/// Device number as st_dev and st_rdev have it here.
fn device_of(number: u64) -> Device {
    Device { major: libc::major(number), minor: libc::minor(number) }
}

/// Mean size of the device's read requests, in KiB.
fn mean_request_kib(session: &Session) -> u64 {
    let disk = device_of(std::fs::metadata(scratch()).unwrap().rdev());
    let stat = session.block.iter().find(|stat| stat.device == disk && stat.op == IoOp::Read);
    let stat = stat.unwrap_or_else(|| panic!("no reads of {disk} in {:?}", session.block));
    stat.request_bytes / 1024 / stat.requests.max(1)
}

/// Asserts what is true of every read of the file, and returns the readahead probe's rung.
fn check(mounted: &Mounted, session: &Session, readahead_kib: u64) -> String {
    let metadata = std::fs::metadata(&mounted.file).unwrap();

    rung(session, "read");
    let asked: u64 = session
        .reads
        .iter()
        .filter(|read| read.fs_type == mounted.fs_type && read.how == ReadHow::Buffered)
        .filter(|read| read.device == device_of(metadata.dev()))
        .map(|read| read.bytes)
        .sum();
    assert_near("bytes asked", asked, FILE_KIB << 10, 1);

    let file = session
        .readahead
        .iter()
        .find(|file| file.inode == metadata.ino() && file.device == device_of(metadata.dev()))
        .unwrap_or_else(|| panic!("inode {} is not in {:?}", metadata.ino(), session.readahead));
    assert_eq!(u64::from(file.ra_pages), readahead_kib * 1024 / PAGE, "{file:?}");
    assert_near("pages issued", file.issued_pages, FILE_KIB * 1024 / PAGE, 2);
    // One in a hundred, as for all counts here: where the kernel skips a program, the next call looks random.
    assert!(file.random * 100 <= file.sync + file.async_, "{file:?}");

    rung(session, "bio");
    let bio = session.profile.total(Kind::Bio);
    // What bios can hold: at least the file, and not a multiple of it.
    assert!((FILE_KIB << 10..3 * (FILE_KIB << 10)).contains(&bio), "{bio} bytes of bios");
    rung(session, "readahead").to_owned()
}

fn with_and_without_readahead(fs_type: &'static str) {
    let Some(mounted) = Mounted::new(fs_type) else {
        return skip(&format!("reads::readahead_on_{fs_type}"), "the kernel cannot mount it");
    };
    let with = mounted.read(128, &[]);
    check(&mounted, &with, 128);
    assert_near("KiB a request with readahead", mean_request_kib(&with), 128, 5);
    let without = mounted.read(0, &[]);
    check(&mounted, &without, 0);
    assert_near("KiB a request without readahead", mean_request_kib(&without), 4, 5);
}

#[test]
fn readahead_on_ext4() {
    with_and_without_readahead("ext4");
}

#[test]
fn readahead_on_xfs() {
    with_and_without_readahead("xfs");
}

/// A rung that is forced off falls to the next one, which counts the same.
#[test]
fn functions_count_the_same_by_kprobe() {
    let mounted = Mounted::new("ext4").unwrap();
    let without = "fentry,tp_btf:page_cache_sync_ra,tp_btf:page_cache_ra_unbounded,\
                   tracepoint:page_cache_sync_ra,tracepoint:page_cache_ra_unbounded";
    let session = mounted.read(128, &["--without", without]);
    assert_eq!(check(&mounted, &session, 128), "kprobe");
    assert_eq!(rung(&session, "read"), "kprobe");
    assert_eq!(rung(&session, "bio"), "kprobe");
}

/// And with no function at all, system calls and the block layer stand in, where they can.
#[test]
fn stand_ins_count_the_same() {
    let mounted = Mounted::new("ext4").unwrap();
    let session = mounted.read(128, &["--without", "fentry,kprobe"]);
    let asked: u64 = session
        .reads
        .iter()
        .filter(|read| read.fs_type == "ext4" && read.how == ReadHow::Buffered)
        .filter(|read| read.device == device_of(std::fs::metadata(&mounted.file).unwrap().dev()))
        .map(|read| read.bytes)
        .sum();
    assert_near("bytes asked by system calls", asked, FILE_KIB << 10, 1);
    assert!(rung(&session, "read").contains("tracepoint"), "{:?}", state(&session, "read"));
    // Somebody else may read from another disk meanwhile: all that is queued is what the block layer saw of all disks.
    let queued: u64 = session.block.iter().map(|stat| stat.bio_bytes).sum();
    assert!(queued >= FILE_KIB << 10, "{queued}");
    assert_near("bytes of queued bios", session.profile.total(Kind::Bio), queued, 2);
}
