use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::super::histogram::{Histogram, Measure};
use super::super::kind::Kind;
use super::super::labels::{Device, IoOp, Labels, LockKind};
use super::super::session::{
    BlockDevice, BlockStat, Counter, LockStat, Loss, Mount, Probe, ProbeState, ReadaheadStat, Source, Target,
};
use super::super::stacks::{Frame, Stack};
use super::*;

fn session(comm: &str) -> Session {
    let mut session = Session::new(Source::Live);
    session.started = Some("2024-05-01T10:00:00Z".parse().unwrap());
    session.losses.push(Loss { probe: "cpu".into(), cause: "map full".into(), count: 3 });
    let frame = session.profile.intern_frame(Frame::kernel("f"));
    let location = session.profile.intern_location(frame, 0);
    let labels = session.profile.intern_labels(Labels { comm: Some(comm.into()), ..Labels::default() });
    session.profile.push(Stack {
        kind: Kind::Cpu,
        frames: Box::new([location]),
        labels,
        count: 5,
        weight: 5,
    });
    session
}

fn comm_of(dir: &Path) -> String {
    let session = load(dir).unwrap();
    session.profile.labels(session.profile.stacks()[0].labels).comm.as_deref().unwrap().to_owned()
}

fn entries(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_session_is_read_back_and_private() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let saved = session("fio");
    save(&saved, &dir, |folder| {
        std::fs::create_dir(folder.join("flamegraphs"))?;
        std::fs::write(folder.join("flamegraphs/cpu.svg"), "<svg/>")?;
        Ok(std::fs::write(folder.join("report.txt"), "hello")?)
    })
    .unwrap();

    let loaded = load(&dir).unwrap();
    assert_eq!(serde_json::to_value(&loaded).unwrap(), serde_json::to_value(&saved).unwrap());
    assert_eq!(loaded.profile.stacks(), saved.profile.stacks());
    assert_eq!(entries(parent.path()), ["run"]);
    assert_eq!(entries(&dir), ["flamegraphs", "profile.pb.gz", "report.txt", "session.json"]);
    for folder in ["", "flamegraphs"] {
        assert_eq!(mode(&dir.join(folder)), 0o700, "{folder}");
    }
    for file in ["session.json", "profile.pb.gz", "report.txt", "flamegraphs/cpu.svg"] {
        assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
    }
}

#[test]
fn the_earlier_session_is_kept_once() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    for comm in ["first", "second", "third"] {
        save(&session(comm), &dir, |_| Ok(())).unwrap();
    }
    assert_eq!(entries(parent.path()), ["run", "run.old"]);
    assert_eq!(comm_of(&dir), "third");
    assert_eq!(comm_of(&parent.path().join("run.old")), "second");
}

#[test]
fn an_empty_folder_is_taken() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    std::fs::create_dir(&dir).unwrap();
    check_destination(&dir).unwrap();
    save(&session("fio"), &dir, |_| Ok(())).unwrap();
    assert_eq!(entries(parent.path()), ["run"]);
}

#[test]
fn what_is_no_session_is_left_alone() {
    let parent = tempfile::tempdir().unwrap();
    let path = |name: &str| parent.path().join(name);
    std::fs::write(path("file"), "").unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    std::fs::write(path("folder/session.json"), "{}").unwrap();
    symlink("folder", path("link")).unwrap();
    symlink("nowhere", path("dangling")).unwrap();
    for name in ["file", "folder", "link", "dangling"] {
        let error = check_destination(&path(name)).unwrap_err();
        assert!(matches!(error, StoreError::Occupied { .. }), "{name}: {error}");
        let error = save(&session("fio"), &path(name), |_| panic!("too late")).unwrap_err();
        assert!(matches!(error, StoreError::Occupied { .. }), "{name}: {error}");
    }

    save(&session("fio"), &path("run"), |_| Ok(())).unwrap();
    std::fs::create_dir(path("run.old")).unwrap();
    std::fs::write(path("run.old/precious"), "").unwrap();
    let error = check_destination(&path("run")).unwrap_err();
    assert!(error.to_string().contains("run.old"), "{error}");
}

#[test]
fn destinations_without_a_place_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    for path in ["/", "..", ".", ""] {
        assert!(matches!(check_destination(Path::new(path)), Err(StoreError::NoName { .. })), "{path}");
    }
    let error = check_destination(&parent.path().join("missing/run")).unwrap_err();
    assert!(matches!(error, StoreError::NoParent { .. }), "{error}");
    std::fs::write(parent.path().join("file"), "").unwrap();
    let error = check_destination(&parent.path().join("file/run")).unwrap_err();
    assert!(error.to_string().contains("Not a directory"), "{error}");
    // Nobody, not even root, can create folders here.
    let error = check_destination(Path::new("/proc/run")).unwrap_err();
    assert!(error.to_string().starts_with("cannot create a folder in `/proc`: "), "{error}");
    assert!(!error.to_string().contains("/fd/"), "{error}");
    check_destination(&parent.path().join("run")).unwrap();
    assert_eq!(entries(parent.path()), ["file"]);
}

#[test]
fn failing_reports_leave_nothing_behind() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    save(&session("first"), &dir, |_| Ok(())).unwrap();
    let error = save(&session("second"), &dir, |folder| {
        let path = folder.join("missing/report.txt");
        std::fs::write(&path, "").map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))
    })
    .unwrap_err()
    .to_string();
    let shown = dir.join("missing/report.txt").display().to_string();
    assert!(error.contains(&shown) && error.contains("No such file"), "{error}");
    assert_eq!(entries(parent.path()), ["run"]);
    assert_eq!(comm_of(&dir), "first");
}

#[test]
fn links_among_the_reports_are_not_followed() {
    let parent = tempfile::tempdir().unwrap();
    let victim = parent.path().join("victim");
    std::fs::write(&victim, "").unwrap();
    std::fs::set_permissions(&victim, std::fs::Permissions::from_mode(0o644)).unwrap();
    let dir = parent.path().join("run");
    let error = save(&session("fio"), &dir, |folder| Ok(symlink(&victim, folder.join("link"))?)).unwrap_err();
    assert!(error.to_string().contains("run/link"), "{error}");
    assert_eq!(mode(&victim), 0o644);
    assert_eq!(entries(parent.path()), ["victim"]);
}

#[test]
fn damaged_sessions_say_what_is_wrong() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    save(&session("fio"), &dir, |_| Ok(())).unwrap();
    let with_json = |json: &str| {
        std::fs::write(dir.join(SESSION_FILE), json).unwrap();
        load(&dir).unwrap_err().to_string().replace(&*parent.path().to_string_lossy(), "")
    };
    let messages = [
        with_json(r#"{"schema": 2, "host": "changed"}"#),
        with_json(r#"{"tool": "0.1.0"}"#),
        with_json(r#"{"schema": 1, "duration_ns": "long"}"#),
        with_json("{"),
    ];
    insta::assert_snapshot!(messages.join("\n"), @r#"
    `/run/session.json` has schema version 2, this program knows versions up to 1: use the version of profiler that wrote it, or a later one
    `/run/session.json` cannot be understood: missing field `schema` at line 1 column 17
    `/run/session.json` cannot be understood: invalid type: string "long", expected u64 at line 1 column 35
    `/run/session.json` cannot be understood: EOF while parsing an object at line 1 column 1
    "#);

    std::fs::write(dir.join(SESSION_FILE), r#"{"schema": 1, "later_addition": true}"#).unwrap();
    assert_eq!(comm_of(&dir), "fio", "missing and unknown fields do not matter");
    std::fs::write(dir.join(PROFILE_FILE), "nonsense").unwrap();
    assert!(matches!(load(&dir), Err(StoreError::Profile { .. })));
    std::fs::remove_file(dir.join(PROFILE_FILE)).unwrap();
    assert!(load(&dir).unwrap_err().to_string().contains("profile.pb.gz"));
    std::fs::remove_file(dir.join(SESSION_FILE)).unwrap();
    assert!(matches!(load(&dir), Err(StoreError::NotASession { .. })));
    assert!(matches!(load(&parent.path().join("missing")), Err(StoreError::Io { .. })));
}

/// A session in which every field has a value.
fn full_session() -> Session {
    let device = Device { major: 8, minor: 0 };
    let mut session = session("fio");
    session.source = Source::Imported { format: "perf.data".into() };
    session.target = Target::Command { argv: vec!["fio".into()], status: Some(0) };
    session.host.steal = Some(0.25);
    session.host.devices.push(BlockDevice { device: Some(device), ..BlockDevice::default() });
    session.host.memory_limits.push(crate::profile::MemoryLimit::default());
    session.host.mounts.push(Mount { read_ahead_kb: Some(128), ..Mount::default() });
    let state = |notes: &[&str]| ProbeState::Attached {
        rung: "fentry".into(),
        to: vec!["submit_bio".into()],
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
    };
    let counter = Counter { name: "merged".into(), unit: Kind::Cpu.unit(), value: 1 };
    session.probes = vec![
        Probe { state: state(&["slow"]), counters: vec![counter], ..Probe::off("bio", Some(Kind::Bio)) },
        Probe { state: ProbeState::Failed { reason: "EPERM".into() }, ..Probe::off("lock", None) },
    ];
    session.histograms.push(Histogram {
        measure: Measure::LockWait,
        device: Some(device),
        op: Some(IoOp::Read),
        lock_kind: Some(LockKind::Spin),
        count: 1,
        sum: 1,
        buckets: vec![0, 1],
    });
    session.locks.push(LockStat {
        address: u64::MAX,
        name: Some("lock".into()),
        named_by: Some(super::super::NamedBy::Caller),
        kind: LockKind::Spin,
        waits: 1,
        total_ns: 2,
        max_ns: 2,
        buckets: vec![0, 1],
    });
    session.readahead.push(ReadaheadStat {
        device,
        inode: 1,
        sync: 1,
        async_: 1,
        sequential: 1,
        random: 1,
        wanted_pages: 1,
        issued_pages: 1,
        ra_pages: 32,
    });
    session.block.push(BlockStat {
        device,
        op: IoOp::Write,
        bios: 1,
        bio_bytes: 1,
        requests: 1,
        request_bytes: 1,
        completed: 1,
        completed_bytes: 1,
        ..BlockStat::default()
    });
    session
}

fn keys(value: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                found.insert(key.clone());
                keys(value, found);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn every_field_is_kept_and_documented() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let saved = serde_json::to_value(full_session()).unwrap();
    save(&full_session(), &dir, |_| Ok(())).unwrap();
    assert_eq!(serde_json::to_value(load(&dir).unwrap()).unwrap(), saved);

    let mut found = std::collections::BTreeSet::new();
    keys(&saved, &mut found);
    let documentation = include_str!("../../../../docs/recording-format.md");
    found.retain(|key| !documentation.contains(&format!("`{key}`")));
    assert!(found.is_empty(), "docs/recording-format.md does not mention {found:?}");
}

#[test]
fn machine_code_and_instruction_addresses_are_read_back() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let mut saved = session("fio");
    let frame = saved.profile.intern_frame(Frame::kernel("f"));
    // Two instructions of one function stay apart, also when equal stacks are merged.
    for (address, count) in
        [(0xffff_ffff_8100_0003, 7), (0xffff_ffff_8100_0007, 2), (0xffff_ffff_8100_0003, 1)]
    {
        let location = saved.profile.intern_location(frame, address);
        let (labels, frames) = (saved.profile.intern_labels(Labels::default()), Box::new([location]));
        saved.profile.push(Stack { kind: Kind::Cpu, frames, labels, count, weight: count });
    }
    saved.profile.merge_equal();
    saved.text = vec![FunctionText {
        name: "f".into(),
        module: None,
        origin: super::super::stacks::Origin::Kernel,
        start: 0xffff_ffff_8100_0000,
        bytes: vec![0x48, 0x8b, 0x0f, 0xc3],
        targets: vec![(0xffff_ffff_8100_1000, "g".into())],
    }];
    save(&saved, &dir, |_| Ok(())).unwrap();
    let loaded = load(&dir).unwrap();
    assert_eq!(loaded.text, []);
    assert_eq!(load_text(&dir).unwrap(), saved.text);
    let samples = crate::code::samples_by_address(&loaded, &Frame::kernel("f"));
    let expected = [(0, 5), (0xffff_ffff_8100_0003, 8), (0xffff_ffff_8100_0007, 2)];
    assert_eq!(samples.into_iter().collect::<Vec<_>>(), expected);

    // Sessions without code have none, and damage is an error.
    std::fs::remove_file(dir.join(CODE_FILE)).unwrap();
    assert_eq!(load_text(&dir).unwrap(), []);
    std::fs::write(dir.join(CODE_FILE), "no gzip").unwrap();
    assert!(matches!(load_text(&dir), Err(StoreError::Io { .. })));
}
