//! `profiler diagnose` and `profiler report`, as a user runs them. They need neither root nor other tools.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::{contains, diff, is_empty, starts_with};

fn profiler() -> Command {
    Command::cargo_bin("profiler").unwrap()
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[test]
fn a_text_with_several_profiles_makes_several_reports() {
    let run =
        profiler().arg("diagnose").arg(data("xfs-agino-range.txt")).assert().success().stderr(is_empty());
    let order = contains("Machine A\n=========\nprofiler: ")
        .and(contains("\n\nMachine B\n=========\nprofiler: "))
        .and(contains("  25.83%  [k] xfs_agino_range\n"))
        .and(contains("  13.90%  [k] __pv_queued_spin_lock_slowpath\n"));
    run.stdout(order);
}

#[test]
fn standard_input_is_read_like_a_file() {
    let from_file = profiler().arg("diagnose").arg(data("bcachefs-randread.txt")).output().unwrap();
    let text = std::fs::read(data("bcachefs-randread.txt")).unwrap();
    let expected = String::from_utf8(from_file.stdout).unwrap();
    assert!(
        expected.contains("io_submit_one(98.339% 2635814/2680333)\n    aio_read(96.756% 2550297/2635814)\n")
    );
    profiler().args(["diagnose", "-"]).write_stdin(text).assert().success().stdout(diff(expected));
}

/// What a report prints is itself a text that can be imported.
#[test]
fn a_report_of_a_report_is_the_same() {
    let once =
        profiler().args(["diagnose", "--min-percent", "0"]).arg(data("folded.txt")).output().unwrap().stdout;
    let twice =
        profiler().args(["diagnose", "--min-percent", "0", "-"]).write_stdin(once.clone()).output().unwrap();
    let tree =
        |text: Vec<u8>| String::from_utf8(text).unwrap().split_once("\nCPU time").unwrap().1.to_owned();
    assert_eq!(tree(twice.stdout), tree(once));
}

#[test]
fn sessions_are_saved_and_shown_again() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("session");
    profiler()
        .args(["diagnose", "--output"])
        .arg(&output)
        .arg(data("perf/script.txt"))
        .assert()
        .success()
        .stderr(starts_with("session saved in "));
    for file in ["session.json", "profile.pb.gz", "report.txt", "cpu.svg", "cpu.folded"] {
        assert!(output.join(file).is_file(), "{file}");
    }
    let report = std::fs::read_to_string(output.join("report.txt")).unwrap();
    profiler().arg("report").arg(&output).assert().success().stdout(diff(report.clone()));
    let root = profiler().arg("report").arg(&output).args(["--root", "vfs_write"]).assert().success();
    root.stdout(contains("below vfs_write: "));
    profiler().arg("diagnose").arg(&output).assert().success().stdout(diff(report.clone()));
    // The other renderings are texts that can be imported as well.
    for file in ["report.txt", "cpu.folded", "profile.pb.gz"] {
        let run = profiler().arg("diagnose").arg(output.join(file)).assert().success().stderr(is_empty());
        run.stdout(contains("copy_folio_from_iter_atomic("));
    }
}

#[test]
fn several_profiles_are_saved_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("machines");
    profiler()
        .args(["diagnose", "--output"])
        .arg(&output)
        .arg(data("xfs-agino-range.txt"))
        .assert()
        .success();
    let second = folder.path().join("machines-2");
    profiler().arg("report").arg(second).assert().success().stdout(starts_with("Machine B\n=========\n"));
}

#[test]
fn what_cannot_be_read_is_said_and_the_rest_is_reported() {
    let message = contains("missing`: No such file")
        .and(contains("readahead-disabled.txt` is in no format that can be imported; these can: "));
    let run = profiler()
        .arg("diagnose")
        .args([data("missing"), data("readahead-disabled.txt"), data("folded.txt")])
        .assert()
        .code(1);
    run.stderr(message).stdout(contains("aio_read("));
    profiler().arg("report").arg(data("missing")).assert().code(1).stderr(starts_with("profiler: "));
}

#[test]
fn odd_lines_are_warnings_on_standard_error() {
    let text = "main(100.000% 10/10)\n    a(150.000% 15/10)\n";
    let run = profiler().args(["diagnose", "-"]).write_stdin(text).assert().success();
    run.stderr(starts_with("warning: -: line 2: `a`")).stdout(contains("a(100.000% 15/15)"));
}

/// Names are hostile: they reach a terminal only escaped.
#[test]
fn names_are_escaped() {
    let text = "evil\x1b[2J;f\x1b]0;owned\x07_[k] 5\n\x1b[31mbroken\x1b line\na;b_[k] 1\na;b_[k] 1\na;b_[k] 1\na;b_[k] 1\na;b_[k] 1\n\
                a;b_[k] 1\na;b_[k] 1\na;b_[k] 1\na;b_[k] 1\na;b_[k] 1\n";
    let output = profiler().args(["diagnose", "--by", "comm", "-"]).write_stdin(text).output().unwrap();
    assert!(output.status.success());
    assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b));
    assert!(String::from_utf8_lossy(&output.stdout).contains("evil\\x1b[2J"));
}

#[test]
fn a_function_that_is_in_no_stack_is_an_error() {
    let run = profiler().args(["diagnose", "--root", "no_such"]).arg(data("folded.txt")).assert();
    run.code(1).stderr(contains("no_such"));
}
