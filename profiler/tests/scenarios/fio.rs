//! fio, which counts what it reads and writes itself.

use std::process::Command;

use super::work::needs;

/// What fio says of a job.
pub struct Job {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

/// Runs fio with these options of one job.
///
/// # Errors
///
/// If it is not installed.
pub fn fio(options: &[&str]) -> Result<Job, String> {
    needs("fio")?;
    let mut command = Command::new("fio");
    // Threads named after the job need no second process.
    command.args(["--name=fio", "--output-format=json", "--thread", "--randseed=7"]).args(options);
    let output = command.output().map_err(|error| format!("fio: {error}"))?;
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    // Notes may come before.
    let json = &text[text.find('{').unwrap_or(0)..];
    let result: serde_json::Value = serde_json::from_str(json).expect("fio writes JSON");
    let bytes =
        |direction: &str| result["jobs"][0][direction]["io_bytes"].as_u64().expect("fio counts bytes");
    Ok(Job { read: bytes("read"), written: bytes("write") })
}
