//! `go tool pprof` reads our files and agrees with us about the totals.

mod common;

use std::path::Path;
use std::process::Command;

use common::skip;

use profiler::profile::{Device, Frame, IoOp, Kind, Labels, Session, Source, Stack, pprof};

/// A session with three kinds, kernel and user frames, a module and labels.
fn session() -> Session {
    let mut session = Session::new(Source::Live);
    session.duration_ns = 1_000_000_000;
    let profile = &mut session.profile;
    let mut module = Frame::kernel("bch2_read");
    module.module = Some("bcachefs".into());
    let frames = [
        (Frame::user("main", "/usr/bin/fio"), 0x40_1000),
        (Frame { module: None, ..Frame::user("0x7f0000001234", "") }, 0x7f00_0000_1234),
        (Frame::kernel("entry_SYSCALL_64"), 0xffff_ffff_8100_0000),
        (module, 0xffff_ffff_c000_0000),
    ];
    let locations = frames.map(|(frame, address)| {
        let frame = profile.intern_frame(frame);
        profile.intern_location(frame, address)
    });
    let labels = profile.intern_labels(Labels {
        comm: Some("fio".into()),
        pid: Some(42),
        cpu: Some(0),
        device: Some(Device { major: 8, minor: 0 }),
        op: Some(IoOp::Read),
        ..Labels::default()
    });
    let mut push = |kind, depth: usize, count, weight| {
        profile.push(Stack { kind, frames: locations[..depth].into(), labels, count, weight });
    };
    push(Kind::Cpu, 4, 30, 30);
    push(Kind::Cpu, 3, 12, 12);
    push(Kind::BlockIo, 4, 5, 5 * 65536);
    push(Kind::LockWait, 2, 7, 123_456_789);
    session
}

/// What `go tool pprof` prints about a session, or `None` where there is no `go`.
fn go_tool_pprof(args: &[&str], session: &Session) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("profile.pb.gz");
    std::fs::write(&file, pprof::encode(session)).unwrap();
    go_tool_pprof_of(args, &file)
}

/// What it prints about a file, with single spaces between the words.
fn go_tool_pprof_of(args: &[&str], file: &Path) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("go")
        .args(["tool", "pprof"])
        .args(args)
        .arg(file)
        .env("HOME", dir.path())
        .env("PPROF_TMPDIR", dir.path())
        .env("GOFLAGS", "-mod=mod")
        .current_dir(dir.path())
        .output()
        .ok()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "go tool pprof {args:?}: {stderr}");
    let words: Vec<_> = std::str::from_utf8(&output.stdout).unwrap().split_whitespace().collect();
    Some(words.join(" "))
}

#[test]
fn totals_are_the_same() {
    let session = session();
    for (index, unit, total) in [
        ("cpu", "samples", "42samples total"),
        ("block-io", "bytes", "327680B total"),
        ("block-io-events", "events", "5events total"),
        ("lock-wait", "nanoseconds", "123456789ns total"),
        ("lock-wait-events", "events", "7events total"),
    ] {
        let index = format!("-sample_index={index}");
        let unit = format!("-unit={unit}");
        let Some(top) = go_tool_pprof(&["-top", &index, &unit], &session) else {
            return skip::skip("pprof_go::totals_are_the_same", "`go` is not installed");
        };
        assert!(top.contains(total), "{index}: expected `{total}` in\n{top}");
    }
}

#[test]
fn functions_labels_and_the_default_are_seen() {
    let session = session();
    let Some(top) = go_tool_pprof(&["-top"], &session) else {
        return skip::skip("pprof_go::functions_labels_and_the_default_are_seen", "`go` is not installed");
    };
    assert!(top.contains("Type: cpu"), "{top}");
    for line in ["30samples 71.43% 71.43% 30samples 71.43% bch2_read", "42samples 100% main"] {
        assert!(top.contains(line), "expected `{line}` in\n{top}");
    }
    let tags = go_tool_pprof(&["-tags"], &session).unwrap();
    for line in ["comm: Total 42.0 42.0 ( 100%): fio", "cpu: Total 42.0 42.0 ( 100%): 0 "] {
        assert!(tags.contains(line), "expected `{line}` in\n{tags}");
    }
}

/// A profile of the running kernel, as `attach` saves it.
#[test]
fn a_recorded_profile_is_read() {
    let name = "pprof_go::a_recorded_profile_is_read";
    if !common::is_root(name) {
        return;
    }
    let split = common::Workload::build("split");
    let run = common::attach(&["--frequency", "999", "--", &split.arg(), "1", "70"]);
    let session = run.session();
    let file = run.output.join("profile.pb.gz");
    let Some(top) = go_tool_pprof_of(&["-top"], &file) else {
        return skip::skip(name, "`go` is not installed");
    };
    assert!(top.contains("Type: cpu") && top.contains("% heavy") && top.contains("% light"), "{top}");
    for kind in session.profile.kinds() {
        let index = format!("-sample_index={}", kind.name());
        let unit = kind.unit().name();
        let top = go_tool_pprof_of(&["-top", &index, &format!("-unit={unit}")], &file).unwrap();
        let short = match unit {
            "bytes" => "B",
            "nanoseconds" => "ns",
            _ => unit,
        };
        let total = format!("{}{short} total", session.profile.total(kind));
        assert!(top.contains(&total), "{kind:?}: no `{total}` in\n{top}");
    }
}
