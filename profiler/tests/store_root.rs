//! What only root can try: a full disk, and sessions that belong to the user who called sudo.

#[path = "common/skip.rs"]
mod skip;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use profiler::profile::store::{self, Owner};
use profiler::profile::{Frame, Kind, Labels, Session, Source, Stack};

/// A session whose files take well over 64 KiB, compressed, too.
fn large_session() -> Session {
    let mut session = Session::new(Source::Live);
    let labels = session.profile.intern_labels(Labels::default());
    for number in 0..20_000u64 {
        let name = format!("function_{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let frame = session.profile.intern_frame(Frame::kernel(&name));
        let location = session.profile.intern_location(frame, number);
        session.profile.push(Stack {
            kind: Kind::Cpu,
            frames: Box::new([location]),
            labels,
            count: 1,
            weight: 1,
        });
    }
    session
}

/// A tiny file system, unmounted when dropped.
struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    fn mount(path: &'a Path) -> Option<Self> {
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(path).output().ok()?;
        mount.status.success().then_some(Self(path))
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_is_reported_and_left_clean() {
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = Tmpfs::mount(place.path()) else {
        return skip::skip("store_root::a_full_disk_is_reported_and_left_clean", "cannot mount a tmpfs");
    };
    let dir = disk.0.join("run");
    store::check_destination(&dir).unwrap();

    let error = store::save(&large_session(), &dir, |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("run/profile.pb.gz") && error.contains("No space left"), "{error}");
    assert_eq!(std::fs::read_dir(disk.0).unwrap().count(), 0);

    let error = store::save(&Session::new(Source::Live), &dir, |folder| {
        Ok(std::fs::write(folder.join("report.txt"), vec![b'x'; 1 << 20])?)
    })
    .unwrap_err()
    .to_string();
    assert!(error.contains("reports") && error.contains("No space left"), "{error}");
    assert_eq!(std::fs::read_dir(disk.0).unwrap().count(), 0);
}

#[test]
fn with_sudo_the_session_belongs_to_the_user() {
    let parent = tempfile::tempdir().unwrap();
    if parent.path().metadata().unwrap().uid() != 0 {
        return skip::skip("store_root::with_sudo_the_session_belongs_to_the_user", "needs root");
    }
    let owner = Owner { uid: 12345, gid: 23456 };
    let dir = parent.path().join("run");
    for _ in 0..2 {
        store::save_for(Some(owner), &Session::new(Source::Live), &dir, |folder| {
            std::fs::create_dir(folder.join("flamegraphs"))?;
            Ok(std::fs::write(folder.join("flamegraphs/cpu.svg"), "")?)
        })
        .unwrap();
    }
    for path in ["run", "run/session.json", "run/flamegraphs", "run/flamegraphs/cpu.svg", "run.old"] {
        let metadata = parent.path().join(path).metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (owner.uid, owner.gid), "{path}");
    }
}
