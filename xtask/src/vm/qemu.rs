//! Boots a guest and listens to it.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::run::{run, say, show};

/// Boots that may die before the guest's first program runs, which about one in a hundred does for no fault of the
/// guest's.
const BOOTS: u32 = 3;

/// How long a guest may take to its first program. It takes a few seconds.
const BOOT_TIME: Duration = Duration::from_secs(90);

/// A virtual machine that is ready to boot.
pub struct Machine {
    /// The compressed kernel.
    pub vmlinuz: PathBuf,
    /// Its initramfs.
    pub initramfs: PathBuf,
    /// The disks that the guest sees as /dev/vda, /dev/vdb and so on, and whether what it writes is kept.
    pub disks: Vec<(PathBuf, bool)>,
    /// Whether the kernel lies at a random address.
    pub kaslr: bool,
    /// What the kernel says goes to this file.
    pub console: PathBuf,
    /// From its first program to its end.
    pub timeout: Duration,
}

/// What the guest's command left.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The command's exit status.
    pub status: i32,
    /// What it printed.
    pub output: String,
}

/// A line of a guest's second serial port.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    /// The first program runs.
    Init,
    /// The command begins.
    Start,
    /// It has ended.
    End(i32),
    /// Something it printed.
    Text(&'a str),
}

impl Machine {
    /// Runs the guest to its end and passes on what its command prints.
    ///
    /// # Errors
    ///
    /// If it does not come to the end: the kernel crashed, or time is up.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        for _ in 1..BOOTS {
            match self.boot()? {
                Some(outcome) => return Ok(outcome),
                None => say("the guest died before its first program; booting it again"),
            }
        }
        self.boot()?.with_context(|| format!("the guest did not boot in {BOOTS} tries{}", self.last_words()))
    }

    /// Runs the guest once; `None` if its first program never ran.
    fn boot(&self) -> anyhow::Result<Option<Outcome>> {
        let mut command = self.command();
        say(format_args!("$ {}", show(&command)));
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run qemu-system-x86_64 (package qemu-system-x86)")?;
        let mut guest = Guest::listen(child)?;
        let mut outcome = Outcome { status: -1, output: String::new() };
        let mut ended = false;
        let (mut up, mut started) = (false, false);
        let mut deadline = Instant::now() + BOOT_TIME;
        loop {
            match guest.next_line(deadline) {
                Ok(line) => match understand(&line) {
                    Line::Init => {
                        up = true;
                        deadline = Instant::now() + self.timeout;
                    }
                    Line::Start => started = true,
                    Line::End(status) => {
                        outcome.status = status;
                        ended = true;
                    }
                    Line::Text(text) if started => {
                        // A closed standard output is no reason to stop.
                        let _ = writeln!(std::io::stdout(), "{text}");
                        outcome.output.push_str(text);
                        outcome.output.push('\n');
                    }
                    Line::Text(_) => {}
                },
                Err(RecvTimeoutError::Disconnected) if ended => return Ok(Some(outcome)),
                // What counts is there; only switching off did not work.
                Err(RecvTimeoutError::Timeout) if ended => return Ok(Some(outcome)),
                Err(_) if !up => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {
                    bail!("the guest took more than {} s{}", self.timeout.as_secs(), self.last_words())
                }
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("the guest ended before its command did{}", self.last_words())
                }
            }
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        // No stock kernel can be counted on to boot under nested KVM; emulation works everywhere.
        command.args(["-machine", "pc", "-accel", "tcg,thread=multi", "-smp", "4", "-m", "2G"]);
        // A kernel that knows of a hypervisor but finds no paravirtual locks takes test-and-set spinlocks, in which
        // contention cannot be seen.
        command.args(["-cpu", "max,-hypervisor"]);
        command.arg("-kernel").arg(&self.vmlinuz).arg("-initrd").arg(&self.initramfs);
        // Under emulation, zeroing each page that is handed out (init_on_alloc, on in Debian's kernels) takes so long that
        // nothing else of the page allocator shows.
        let kaslr = if self.kaslr { "" } else { " nokaslr" };
        command.arg("-append").arg(format!(
            "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic mitigations=off tsc=reliable init_on_alloc=0{kaslr}"
        ));
        command.arg("-serial").arg(format!("file:{}", self.console.display())).args(["-serial", "stdio"]);
        for (disk, kept) in &self.disks {
            let snapshot = if *kept { "off" } else { "on" };
            // A comma ends an option, unless it is doubled.
            let path = disk.display().to_string().replace(',', ",,");
            command
                .arg("-drive")
                .arg(format!("file={path},format=raw,if=virtio,cache=unsafe,snapshot={snapshot}"));
        }
        command
    }

    /// The end of what the kernel said, for error messages.
    fn last_words(&self) -> String {
        const LINES: usize = 25;
        let console = fs::read(&self.console).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let lines: Vec<&str> = console.lines().filter(|line| !line.trim().is_empty()).collect();
        if lines.is_empty() {
            return format!(", and its kernel said nothing ({})", self.console.display());
        }
        let last = lines[lines.len().saturating_sub(LINES)..].join("\n  ");
        format!("; the last its kernel said ({}):\n  {last}", self.console.display())
    }
}

/// A running QEMU, which ends with this.
struct Guest {
    child: Child,
    lines: Receiver<String>,
}

impl Guest {
    fn listen(mut child: Child) -> anyhow::Result<Self> {
        let output = child.stdout.take().context("the child has a standard output")?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                if send.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                    break;
                }
                line.clear();
            }
        });
        Ok(Self { child, lines })
    }

    fn next_line(&mut self, deadline: Instant) -> Result<String, RecvTimeoutError> {
        self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn understand(line: &str) -> Line<'_> {
    match line.strip_prefix("@@vm ") {
        Some("init") => Line::Init,
        Some("start") => Line::Start,
        Some(rest) => match rest.strip_prefix("end ").and_then(|status| status.parse().ok()) {
            Some(status) => Line::End(status),
            None => Line::Text(line),
        },
        None => Line::Text(line),
    }
}

/// Unpacks what the guest left in /out.
pub fn unpack_results(disk: &Path, into: &Path) -> anyhow::Result<()> {
    let _ = fs::remove_dir_all(into);
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    run(Command::new("tar")
        .arg("-xf")
        .arg(disk)
        .arg("-C")
        .arg(into)
        .args(["--no-same-owner", "--no-same-permissions"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_told_from_text() {
        assert_eq!(understand("@@vm init"), Line::Init);
        assert_eq!(understand("@@vm start"), Line::Start);
        assert_eq!(understand("@@vm end 101"), Line::End(101));
        assert_eq!(understand("@@vm end x"), Line::Text("@@vm end x"));
        assert_eq!(understand("test a ... ok"), Line::Text("test a ... ok"));
    }
}
