//! `profiler diff` on the command line.

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;

const REPORTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/xfs-agino-range.txt");

fn diff(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::new(env!("CARGO_BIN_EXE_profiler")).arg("diff").args(args).assert()
}

fn chosen(which: &str) -> String {
    format!("{REPORTS}#{which}")
}

#[test]
fn two_profiles_of_one_file() {
    for (a, b) in [("1", "2"), ("Machine A", "machine b")] {
        diff(&[&chosen(a), &chosen(b)])
            .success()
            .stdout(contains("25.83%   2.75%  -23.08  0.11").and(contains("#2 (Machine B)")));
    }
    diff(&[&chosen("1"), &chosen("3"), "--format", "json"]).success().stdout(contains("\"only-shares\""));
}

#[test]
fn what_is_not_clear_is_asked() {
    diff(&[REPORTS]).failure().stderr(contains("holds 3 profiles").and(contains("#2  Machine B")));
    diff(&[&chosen("1")]).failure().stderr(contains("holds one profile only"));
    diff(&[&chosen("9"), &chosen("1")]).failure().stderr(contains("has no profile `9`"));
    diff(&["/no/such/file", REPORTS]).failure().stderr(contains("/no/such/file"));
}

#[test]
fn a_folder_with_everything() {
    let folder = tempfile::tempdir().unwrap();
    let two = folder.path().join("two.folded");
    std::fs::write(&two, "fio;vfs_read_[k] 90\nfio;vfs_write_[k] 10\n").unwrap();
    let other = folder.path().join("other.folded");
    std::fs::write(&other, "fio;vfs_read_[k] 10\nfio;vfs_write_[k] 90\n").unwrap();
    let output = folder.path().join("out");
    let args = [two.to_str().unwrap(), other.to_str().unwrap(), "--output", output.to_str().unwrap()];
    diff(&args).success().stdout(contains("90.00%  10.00%  -80.00"));
    for name in ["diff.txt", "diff.json", "diff-A-B.svg", "diff-B-A.svg"] {
        assert!(std::fs::metadata(output.join(name)).unwrap().len() > 0, "{name}");
    }
    // Nothing is overwritten.
    diff(&args).failure().stderr(contains("exists already"));
}
