//! A command that is measured from its exec to its exit.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};

use anyhow::Context as _;
use tokio::sync::oneshot;

/// A process that waits to become the command.
pub struct Child {
    /// Its process id.
    pub pid: u32,
    /// What it is to execute.
    pub name: String,
    go: File,
    /// Its end, or why the command could not be executed.
    pub ended: oneshot::Receiver<io::Result<ExitStatus>>,
}

/// Where the command's standard output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdout {
    /// To the profiler's.
    Shared,
    /// To standard error, since the profiler's standard output is for a program to read.
    ToStderr,
}

/// A command that could not be executed.
#[derive(Debug, thiserror::Error)]
#[error("cannot execute `{name}`: {reason}")]
pub struct NotExecuted {
    /// Its name, fit for a terminal.
    pub name: String,
    /// Why.
    pub reason: io::Error,
}

impl NotExecuted {
    /// The status that shells give it (POSIX, Shell Command Language, section 2.8.2).
    pub fn exit_code(&self) -> u8 {
        if self.reason.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

impl Child {
    /// Forks the process. It executes the command when [`release`](Self::release) says so; should the
    /// profiler die before, it ends.
    ///
    /// # Errors
    ///
    /// If there is no room for another process or pipe.
    pub fn prepare(argv: &[OsString], stdout: Stdout) -> anyhow::Result<Self> {
        let (program, args) = argv.split_first().context("no command after --")?;
        let (mut pid_reader, pid_writer) = pipe()?;
        let (go_reader, go_writer) = pipe()?;

        let mut command = Command::new(program);
        command.args(args);
        if stdout == Stdout::ToStderr {
            command.stdout(io::stderr().as_fd().try_clone_to_owned().context("cannot share standard error")?);
        }
        let pid_fd = pid_writer.as_raw_fd();
        let go_fd = go_reader.as_raw_fd();
        let own_go_fd = go_writer.as_raw_fd();
        // SAFETY: the closure runs in the forked child and only calls async-signal-safe functions:
        // getpid, write, close, read. All descriptors are close-on-exec.
        unsafe {
            command.pre_exec(move || {
                let pid = libc::getpid().to_ne_bytes();
                libc::write(pid_fd, pid.as_ptr().cast(), pid.len());
                // The child's own copy of the writing end would keep the pipe open for ever.
                libc::close(own_go_fd);
                let mut byte = 0u8;
                match libc::read(go_fd, (&raw mut byte).cast(), 1) {
                    1 => Ok(()),
                    _ => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
                }
            });
        }
        let (sender, ended) = oneshot::channel();
        // A thread of its own, since spawn returns only when the child has executed the command.
        std::thread::Builder::new().name("command".to_owned()).spawn(move || {
            let spawned = command.spawn();
            // Kept open until the child has its own copies.
            drop((pid_writer, go_reader));
            // Nobody listens any more when the measurement was ended first.
            let _ = sender.send(spawned.and_then(|mut child| child.wait()));
        })?;
        let mut pid = [0; 4];
        pid_reader.read_exact(&mut pid).context("the command's process did not start")?;
        let pid = u32::try_from(i32::from_ne_bytes(pid))?;
        let name = program.to_string_lossy().into_owned();
        Ok(Self { pid, name, go: File::from(OwnedFd::from(go_writer)), ended })
    }

    /// Lets the process execute the command.
    ///
    /// # Errors
    ///
    /// If the process is gone.
    pub fn release(&mut self) -> io::Result<()> {
        self.go.write_all(&[1])
    }
}

fn pipe() -> io::Result<(io::PipeReader, io::PipeWriter)> {
    // std's pipes are close-on-exec.
    io::pipe()
}

/// The status to pass on, as shells do: the code, or 128 + the signal.
pub fn exit_code(status: ExitStatus) -> i32 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    }
}
