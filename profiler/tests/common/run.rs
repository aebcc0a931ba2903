//! Runs of the program.

use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use profiler::profile::{Session, store};
use tempfile::TempDir;

/// How long the program may take to attach or to report: only there so that a test ends at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// Path of the program where it was built.
pub const PROFILER: &str = env!("CARGO_BIN_EXE_profiler");

/// Path of the program, which may have been taken elsewhere.
pub fn program() -> String {
    std::env::var("PROFILER_BIN").unwrap_or_else(|_| PROFILER.to_owned())
}

/// A run that has ended.
pub struct Run {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it had to say.
    pub stderr: String,
    /// Where the session is.
    pub output: PathBuf,
    folder: TempDir,
}

impl Run {
    /// The exit code; a signal is no code and fails the test.
    #[track_caller]
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("{}\n{}", self.status, self.stderr))
    }

    /// The session that it has saved.
    #[track_caller]
    pub fn session(&self) -> Session {
        match store::load(&self.output) {
            Ok(session) => session,
            Err(error) => panic!("{error}; {}\n{}", self.status, self.stderr),
        }
    }

    /// The lines of the measured command, which writes to the same standard output as the report, after `key`.
    #[track_caller]
    pub fn value(&self, key: &str) -> u64 {
        value(&self.stdout, key)
    }
}

/// The number in the line that begins with `key`.
#[track_caller]
pub fn value(text: &str, key: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no line `{key} NUMBER` in\n{text}"))
}

/// `profiler`, without arguments.
pub fn profiler() -> Command {
    Command::new(program())
}

/// `sh -c script`, for programs and pipes around the profiler, which is `$PROFILER`.
pub fn command(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("PROFILER", program());
    command
}

/// Runs `profiler attach` with these arguments to its end.
pub fn attach<S: AsRef<OsStr>>(args: &[S]) -> Run {
    Running::start(args, false).finish()
}

/// A run that goes on. It is killed when dropped.
pub struct Running {
    child: Child,
    folder: Option<TempDir>,
    output: PathBuf,
}

impl Running {
    /// Starts `profiler attach`, by the tracepoint rung only if `tracepoints`: in a mount namespace of its own, with
    /// tracefs, so that nothing changes for others.
    pub fn start<S: AsRef<OsStr>>(args: &[S], tracepoints: bool) -> Self {
        let mut command = if tracepoints {
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c"]);
            command.arg(
                "test -e /sys/kernel/tracing/events || mount -t tracefs tracefs /sys/kernel/tracing || exit 99; \
                 exec \"$@\"",
            );
            command.args(["sh", &program(), "attach", "--without", "tp_btf"]);
            command
        } else {
            let mut command = profiler();
            command.arg("attach");
            command
        };
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("session");
        command.arg("--output").arg(&output).args(args);
        Self::spawn(command, folder, output)
    }

    /// Starts a command that runs the profiler and saves in `output`.
    pub fn spawn(mut command: Command, folder: TempDir, output: PathBuf) -> Self {
        // Files, not pipes: nobody has to read them for the program to go on.
        let file = |name: &str| File::create(folder.path().join(name)).unwrap();
        let child = command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr")).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        Self { child, folder: Some(folder), output }
    }

    /// Waits until the probes are attached.
    #[track_caller]
    pub fn attached(mut self) -> Self {
        let start = Instant::now();
        while !self.text("stderr").contains("measuring with") {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && start.elapsed() < PATIENCE, "{ended:?}\n{}", self.text("stderr"));
            std::thread::sleep(Duration::from_millis(5));
        }
        self
    }

    /// Process id of the profiler.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// What it has printed so far.
    pub fn stdout(&self) -> String {
        self.text("stdout")
    }

    /// Waits for its end.
    #[track_caller]
    pub fn finish(mut self) -> Run {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "no end after {PATIENCE:?}\n{}", self.text("stderr"));
            std::thread::sleep(Duration::from_millis(10));
        };
        let (stdout, stderr) = (self.text("stdout"), self.text("stderr"));
        let output = std::mem::take(&mut self.output);
        Run { status, stdout, stderr, output, folder: self.folder.take().expect("taken once only") }
    }

    /// Ends the measurement as Ctrl-C does, and waits for the report.
    #[track_caller]
    pub fn interrupt(self) -> Run {
        self.signal(Signal::SIGINT);
        self.finish()
    }

    fn text(&self, name: &str) -> String {
        let folder = self.folder.as_ref().expect("there until the end");
        String::from_utf8_lossy(&std::fs::read(folder.path().join(name)).unwrap()).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
