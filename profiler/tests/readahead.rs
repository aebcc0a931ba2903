//! Readahead: a buffered sequential read with and without it, against the file, its device and stat(2).

mod common;

use std::os::unix::fs::MetadataExt as _;

use common::{Disk, Running, assert_attached, assert_near, exclusive, is_root, skip::skip};
use profiler::profile::{IoOp, Kind, ReadaheadStat, Session};

/// Size of the file: 8192 pages of 4 KiB.
const MIB: u64 = 32;

fn page() -> u64 {
    // SAFETY: no pointers.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// A disk with a file of [`MIB`].
fn prepare(mkfs: &str, options: &str) -> Result<Disk, String> {
    let disk = Disk::format(512, mkfs)?;
    disk.mount(options)?;
    std::fs::write(disk.file("file"), vec![1; (MIB << 20) as usize]).map_err(|error| error.to_string())?;
    nix::unistd::sync();
    Ok(disk)
}

/// Reads the cold file as `dd bs=128k` does, with a readahead window of `sectors`.
fn read(disk: &Disk, sectors: u32, tracepoints: bool) -> Session {
    disk.set_readahead(sectors);
    Disk::drop_caches();
    let (file, input) = (disk.file("file"), format!("if={}", disk.file("file")));
    // The inode is read, too; stat(1) has done that before.
    std::fs::metadata(&file).unwrap();
    let before = disk.stat();
    let args = ["--probes", "block,readahead", "--", "dd", &input, "of=/dev/null", "bs=128k"];
    let run = Running::start(&args, tracepoints).finish();
    let stat = disk.stat().since(before);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let session = run.session();
    assert_attached(&session, "readahead", if tracepoints { "tracepoint" } else { "tp_btf" });
    let measured = disk.measured(&session, IoOp::Read).unwrap();
    assert_near("reads", measured.requests, stat.reads, 1.0);
    assert_near("bytes read", measured.request_bytes, stat.read_bytes, 1.0);
    assert_near("bytes read", measured.request_bytes, MIB << 20, 1.0);
    session
}

/// The file's line in the session: found by what stat(2) says of it.
fn of_file(disk: &Disk, session: &Session) -> ReadaheadStat {
    let metadata = std::fs::metadata(disk.file("file")).unwrap();
    let device = common::disk::device(metadata.dev());
    let mut files =
        session.readahead.iter().filter(|file| file.device == device && file.inode == metadata.ino());
    let file =
        files.next().unwrap_or_else(|| panic!("no inode {} in {:?}", metadata.ino(), session.readahead));
    assert!(files.next().is_none());
    file.clone()
}

fn mean_request(disk: &Disk, session: &Session) -> f64 {
    let reads = disk.measured(session, IoOp::Read).unwrap();
    reads.request_bytes as f64 / reads.requests as f64
}

fn with_and_without(name: &str, mkfs: &str, options: &str) {
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    let disk = match prepare(mkfs, options) {
        Ok(disk) => disk,
        Err(reason) => return skip(name, &reason),
    };
    let page = page();
    let file_pages = (MIB << 20) / page;
    let read_pages = (128 << 10) / page;

    for tracepoints in [false, true] {
        let session = read(&disk, 256, tracepoints);
        let file = of_file(&disk, &session);
        assert_near("mean request with readahead", mean_request(&disk, &session) as u64, 128 << 10, 2.0);
        assert_eq!(u64::from(file.ra_pages), (128 << 10) / page);
        assert_eq!(file.random, 0, "{file:?}");
        assert!(file.sync >= 1 && file.async_ > 0, "{file:?}");
        // Each page once. The last window ends with the file, which only tp_btf can tell.
        let beyond = if tracepoints { u64::from(file.ra_pages) } else { 0 };
        assert!((file_pages..=file_pages + beyond).contains(&file.issued_pages), "{file:?}");
        // A call wants what is left of a read of 128 KiB where it finds no page or the mark: all of it but for the
        // first mark, which lies inside of the first read.
        assert!((file_pages..file_pages + read_pages).contains(&file.wanted_pages), "{file:?}");
        let stacks: u64 = session
            .profile
            .of_kind(Kind::Readahead)
            .filter(|stack| session.profile.labels(stack.labels).device == Some(file.device))
            .map(|stack| stack.weight)
            .sum();
        assert_near("pages of the stacks", stacks, file.issued_pages, 5.0);

        let session = read(&disk, 0, tracepoints);
        let file = of_file(&disk, &session);
        assert_near("mean request without readahead", mean_request(&disk, &session) as u64, page, 2.0);
        assert_eq!(file.ra_pages, 0);
        // A call for each page, which wants what is left of its read: 32 pages, 31, ... 1.
        assert_eq!((file.sync, file.async_), (file_pages, 0), "{file:?}");
        assert_eq!(file.issued_pages, file_pages, "{file:?}");
        assert_eq!(file.wanted_pages, file_pages * (read_pages + 1) / 2, "{file:?}");
        assert_eq!((file.sequential, file.random), (file_pages, 0), "{file:?}");
    }
    disk.unmount();
}

#[test]
fn ext4_with_and_without_readahead() {
    with_and_without("readahead::ext4_with_and_without_readahead", "mkfs.ext4 -q", "rw");
}

#[test]
fn xfs_with_and_without_readahead() {
    with_and_without("readahead::xfs_with_and_without_readahead", "mkfs.xfs -q", "rw");
}

/// ext4 has no large folios in this mode: readahead then goes a longer way, on which its pages must not be counted
/// again.
#[test]
fn ext4_without_large_folios() {
    with_and_without("readahead::ext4_without_large_folios", "mkfs.ext4 -q", "data=journal");
}

/// Small files, shorter than the readahead window: no more pages are asked for than there are.
#[test]
fn small_files_end_where_they_end() {
    let name = "readahead::small_files_end_where_they_end";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    let disk = match prepare("mkfs.ext4 -q", "rw") {
        Ok(disk) => disk,
        Err(reason) => return skip(name, &reason),
    };
    let files: Vec<String> = (0..100).map(|number| disk.file(&format!("small{number}"))).collect();
    for file in &files {
        // Three pages and a byte.
        std::fs::write(file, vec![1; 3 * page() as usize + 1]).unwrap();
    }
    disk.set_readahead(256);
    Disk::drop_caches();
    let mut args = vec!["--probes", "readahead", "--", "cat"];
    args.extend(files.iter().map(String::as_str));
    let run = common::attach(&args);
    let session = run.session();
    for path in &files {
        let inode = std::fs::metadata(path).unwrap().ino();
        let file = session.readahead.iter().find(|file| file.device == disk.device() && file.inode == inode);
        let file = file.unwrap_or_else(|| panic!("nothing of {path}"));
        assert_eq!((file.issued_pages, file.random), (4, 0), "{file:?}");
    }
}

/// Random reads are told from sequential ones.
#[test]
fn random_reads_are_random() {
    let name = "readahead::random_reads_are_random";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    let disk = match prepare("mkfs.ext4 -q", "rw") {
        Ok(disk) => disk,
        Err(reason) => return skip(name, &reason),
    };
    disk.set_readahead(256);
    Disk::drop_caches();
    // Single pages, far from each other, from the end to the start.
    let script = format!(
        "exec 3< {}; for i in $(seq 200 -1 1); do dd bs=4k count=1 skip=$((i * 40)) iflag=fullblock if={} of=/dev/null \
         2> /dev/null; done",
        disk.file("file"),
        disk.file("file")
    );
    let session = common::attach(&["--probes", "readahead", "--", "sh", "-c", &script]).session();
    let file = of_file(&disk, &session);
    assert!(file.random >= 190 && file.sequential <= 10, "{file:?}");
}
