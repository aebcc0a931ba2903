//! Running the profiler around a piece of work, and what the kernel itself counts.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use profiler::profile::{Labels, ProbeState, Session, Stack, store};

/// Where a test leaves what the host shall see.
pub fn out() -> PathBuf {
    variable("GUEST_OUT").into()
}

/// A disk that tests may overwrite.
pub fn scratch() -> String {
    variable("GUEST_SCRATCH")
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: `cargo xtask vm` runs these tests"))
}

/// Runs `profiler attach` with these arguments to its end.
pub fn attach(args: &[&str]) -> Session {
    attach_to(&tempfile::tempdir().unwrap().path().join("session"), args)
}

/// As [`attach`], with the session saved in a folder that stays.
pub fn attach_to(session: &Path, args: &[&str]) -> Session {
    let output = command(session, args).output().expect("the profiler can be run");
    finished(session, &output)
}

/// Runs `profiler attach` with these arguments around `work`.
pub fn attach_around(args: &[&str], work: impl FnOnce()) -> Session {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("session");
    let mut child = command(&session, args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the profiler can be run");
    let mut stderr = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
    let mut said = String::new();
    // It says so when it is attached.
    while !said.contains("measuring with") {
        let length = stderr.read_line(&mut said).expect("what it says is text");
        assert!(length > 0, "the profiler ended: {said}");
    }
    work();
    // SAFETY: the child has not been waited for, so that its id is still its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    stderr.read_to_string(&mut said).expect("what it says is text");
    let status = child.wait().expect("the profiler ends");
    assert!(status.success(), "the profiler failed ({status}): {said}");
    store::load(&session).unwrap()
}

fn command(session: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(variable("PROFILER_BIN"));
    command.arg("attach").arg("--output").arg(session).args(args);
    command
}

fn finished(session: &Path, output: &std::process::Output) -> Session {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the profiler failed ({}): {stderr}", output.status);
    store::load(session).unwrap()
}

/// Runs a command, which must succeed.
pub fn sh(script: &str) {
    if let Err(error) = try_sh(script) {
        panic!("`{script}` failed: {error}");
    }
}

/// Runs a command; the error is what it says.
pub fn try_sh(script: &str) -> Result<(), String> {
    let output = Command::new("sh").args(["-ec", script]).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" "))
}

/// How a probe is attached: its rung and places, or the reason why it is not.
pub fn state<'s>(session: &'s Session, probe: &str) -> Result<(&'s str, &'s [String]), &'s str> {
    match &session.probe(probe).unwrap_or_else(|| panic!("no probe {probe}")).state {
        ProbeState::Attached { rung, to, .. } => Ok((rung, to)),
        ProbeState::Failed { reason } => Err(reason),
        ProbeState::Off => Err("off"),
    }
}

/// The rung of a probe that every kernel must be able to attach.
pub fn rung<'s>(session: &'s Session, probe: &str) -> &'s str {
    match state(session, probe) {
        Ok((rung, _)) => rung,
        Err(reason) => panic!("{probe} is not attached: {reason}"),
    }
}

/// Whether the kernel has a tracepoint.
pub fn has_tracepoint(name: &str) -> bool {
    Path::new("/sys/kernel/tracing/events").join(name).is_dir()
}

/// Sum over the stacks for which `wanted` holds.
pub fn weight_of(session: &Session, wanted: impl Fn(&Stack, &Labels) -> bool) -> u64 {
    let profile = &session.profile;
    profile
        .stacks()
        .iter()
        .filter(|stack| wanted(stack, profile.labels(stack.labels)))
        .map(|stack| stack.weight)
        .sum()
}

/// Asserts that `got` is within `percent` of `expected`.
#[track_caller]
pub fn assert_near(what: &str, got: u64, expected: u64, percent: u64) {
    let allowed = expected * percent / 100;
    assert!(got.abs_diff(expected) <= allowed, "{what}: {got}, expected {expected} within {percent} %");
}

/// Runs `work` in a thread of this name and returns what it returns.
pub fn in_thread<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work).unwrap();
        thread.join().unwrap()
    })
}
