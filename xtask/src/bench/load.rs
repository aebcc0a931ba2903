//! Work for the profiler to see.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// Writes, syncs and reads a file of 64 MiB over and over, in short-lived processes. Needs coreutils only.
const SCRIPT: &str = "while :; do \
    dd if=/dev/zero of=\"$1\" bs=64k count=1024 conv=fsync; \
    dd if=\"$1\" iflag=nocache of=/dev/null bs=4k; \
    sha256sum \"$1\"; \
done";

/// What keeps every CPU busy with processes, memory and buffered I/O, until it is dropped.
pub struct Load(Vec<Child>);

impl Load {
    /// Starts one loop a CPU, each with its own file in `folder`.
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        let mut load = Self(Vec::new());
        for cpu in 0..cpus {
            let mut command = Command::new("sh");
            command.args(["-c", SCRIPT, "load"]).arg(folder.join(format!("load-{cpu}")));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            // A process group each, to end the shell with what it runs.
            load.0.push(command.process_group(0).spawn().context("cannot start the load")?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            if let Ok(pid) = i32::try_from(child.id()) {
                // SAFETY: kill takes no pointers; the shell has not been waited for, so the group is ours.
                unsafe { libc::kill(-pid, libc::SIGKILL) };
            }
            let _ = child.wait();
        }
    }
}
