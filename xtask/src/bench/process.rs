//! A running `profiler attach`, and what it uses.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// The line that the profiler writes when its probes have started, where standard error is no terminal.
const MEASURING: &str = "measuring with ";

/// A profiler that measures.
pub struct Attached {
    child: Child,
    /// From the exec to the start of the measurement.
    pub start_up: Duration,
    output: PathBuf,
}

/// What a profiler that has ended used.
pub struct Ended {
    /// From the signal to the end of the process, with the report written.
    pub report: Duration,
    /// CPU time in user space, of the whole run.
    pub user: Duration,
    /// CPU time in the kernel on its own behalf, of the whole run.
    pub system: Duration,
    /// Peak of resident memory, in bytes.
    pub peak: u64,
    /// Size of the session's folder, in bytes.
    pub saved: u64,
}

impl Attached {
    /// Starts a profiler and waits until it measures. It saves its session below `folder`.
    pub fn start(profiler: &Path, folder: &Path, args: &[&str]) -> anyhow::Result<Self> {
        let output = folder.join("session");
        let _ = std::fs::remove_dir_all(&output);
        let report = std::fs::File::create(folder.join("report.txt")).context("cannot create the report")?;
        let mut command = Command::new(profiler);
        command.arg("attach").arg("--output").arg(&output).args(args);
        command.stdin(Stdio::null()).stdout(report).stderr(Stdio::piped());
        let begin = Instant::now();
        let mut child = spawn(&mut command).with_context(|| format!("cannot run {}", profiler.display()))?;
        let mut lines = BufReader::new(child.stderr.take().context("the profiler has no stderr")?).lines();
        let mut said = Vec::new();
        let started = loop {
            match lines.next() {
                Some(Ok(line)) if line.starts_with(MEASURING) => break Some(begin.elapsed()),
                Some(Ok(line)) => said.push(line),
                _ => break None,
            }
        };
        // The rest is read, or the profiler would wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let Some(start_up) = started else {
            let _ = child.wait();
            bail!("the profiler did not begin to measure:\n{}", said.join("\n"));
        };
        Ok(Self { child, start_up, output })
    }

    /// CPU time that its threads have used so far, with the kernel's work on their behalf.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let mut sum = 0;
        for task in std::fs::read_dir(&tasks).with_context(|| format!("cannot read {tasks}"))? {
            // A thread may have ended meanwhile.
            let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            sum += text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        }
        Ok(Duration::from_nanos(sum))
    }

    /// Sends SIGINT and waits for the end.
    pub fn interrupt(self) -> anyhow::Result<Ended> {
        let pid = i32::try_from(self.child.id())?;
        let begin = Instant::now();
        // SAFETY: kill takes no pointers; the child has not been waited for, so the id is still its own.
        unsafe { libc::kill(pid, libc::SIGINT) };
        let (status, usage) = wait4(pid)?;
        let report = begin.elapsed();
        if status != 0 {
            bail!("the profiler failed (wait status {status})");
        }
        Ok(Ended {
            report,
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            // In KiB (getrusage(2)).
            peak: u64::try_from(usage.ru_maxrss)? << 10,
            saved: folder_size(&self.output)?,
        })
    }
}

/// What a process used.
pub struct Used {
    /// From its start to its end.
    pub wall: Duration,
    /// CPU time, user and system.
    pub cpu: Duration,
    /// Peak of resident memory, in bytes.
    pub peak: u64,
    /// Wait status, 0 if all went well.
    pub status: i32,
}

/// Starts a program whose peak of memory is to be measured.
///
/// The kernel counts the peak of who starts it as the child's own (exec_mmap in fs/exec.c), so this process forgets
/// its own first (clear_refs in proc(5)).
pub fn spawn(command: &mut Command) -> std::io::Result<Child> {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    command.spawn()
}

/// Waits for a child that was started at `begin`.
pub fn wait(child: Child, begin: Instant) -> anyhow::Result<Used> {
    let (status, usage) = wait4(i32::try_from(child.id())?)?;
    let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
    Ok(Used { wall: begin.elapsed(), cpu, peak: u64::try_from(usage.ru_maxrss)? << 10, status })
}

/// Waits for a child and returns its wait status with what it used.
fn wait4(pid: i32) -> anyhow::Result<(i32, libc::rusage)> {
    let mut status = 0;
    // SAFETY: rusage is made of integers, for which all bits zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to variables that outlive the call.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    if waited != pid {
        return Err(std::io::Error::last_os_error()).context("cannot wait for the profiler");
    }
    Ok((status, usage))
}

fn duration(time: libc::timeval) -> Duration {
    let micros = time.tv_sec * 1_000_000 + time.tv_usec;
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn folder_size(folder: &Path) -> anyhow::Result<u64> {
    let files = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    files.map(|file| Ok(file?.metadata()?.len())).sum()
}
