//! How a test says that it cannot run on this machine.
//!
//! libtest knows only passed and failed, and hides what a passing test prints. So a test that lacks something notes it
//! in the file that `PROFILER_SKIPPED_LOG` names and returns; `cargo xtask test` lists these notes, counts them as
//! skipped instead of passed, and fails if there are too many. A plain `cargo test` only prints them.
//!
//! ```ignore
//! if !Path::new("/usr/bin/fio").exists() {
//!     return skip("randread_is_seen", "fio is not installed");
//! }
//! ```

use std::io::Write as _;
use std::path::Path;

/// Notes that the test `name` cannot run because of `reason`, a few words such as "no fio". The test then returns.
pub fn skip(name: &str, reason: &str) {
    eprintln!("skipped: {name}: {reason}");
    if let Some(log) = std::env::var_os("PROFILER_SKIPPED_LOG") {
        append(Path::new(&log), name, reason);
    }
}

/// Appends a line of the name, a tab and the reason, in one write since tests run side by side.
fn append(log: &Path, name: &str, reason: &str) {
    let line = format!("{}\t{}\n", one_line(name), one_line(reason));
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .and_then(|mut log| log.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("cannot note a skipped test in {}: {error}", log.display()));
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs in every test binary that has this module, which is cheap.
#[test]
fn skipped_tests_are_noted_on_a_line_each() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    append(&log, "first", "no\nfio");
    append(&log, "second", "no root\t");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "first\tno fio\nsecond\tno root\n");
}
