//! Says which tests could not run, so that a skipped test is never taken for a passed one.

use std::io::Write as _;

/// Notes that the test `name` was skipped, and why: on stderr, and in the file that the environment variable
/// `PROFILER_SKIPPED_LOG` names.
pub fn skip(name: &str, reason: &str) {
    eprintln!("SKIPPED {name}: {reason}");
    let Some(path) = std::env::var_os("PROFILER_SKIPPED_LOG") else { return };
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| writeln!(file, "{name}: {reason}"))
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
