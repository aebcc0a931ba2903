//! `profiler attach`: the main job.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior};

use super::child::{self, Child, NotExecuted, Stdout};
use super::present::{Format, PresentArgs, present};
use super::status::Status;
use super::views::ViewArgs;
use crate::collect::{Collector, Options, Scope};
use crate::diagnose;
use crate::kernel::probes::{self, PROBES};
use crate::kernel::{cgroup, privilege, sources::Sources};
use crate::profile::{Session, Target, store};
use crate::report;

/// Options of `profiler attach`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure this process with all its threads (may be repeated, or several with commas).
    #[arg(long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["cgroup", "command"])]
    pid: Vec<u32>,
    /// Measure the processes of this control group and those below it.
    #[arg(long, value_name = "PATH", conflicts_with = "command")]
    cgroup: Option<String>,
    /// Stop after this time, such as 30s or 2m; otherwise measure until Ctrl-C.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// CPU samples a second, on each CPU.
    #[arg(long, value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    frequency: u32,
    /// The probes to attach: cpu, lock, read, readahead, bio, block, page-alloc, reclaim.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = probe_name)]
    probes: Vec<String>,
    /// Folder to save the session in; by default profiler-DATE-TIME here.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Stacks that each kind of event may take, a second and CPU; 0: one for every event.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    stack_rate: u32,
    /// Take no user stacks.
    #[arg(long, conflicts_with = "user")]
    no_user_stacks: bool,
    /// Measure the profiler itself, too.
    #[arg(long)]
    include_self: bool,
    /// Do not use this way to attach: tp_btf, tracepoint, or tp_btf:NAME of a single one.
    #[arg(long, value_name = "RUNG", value_delimiter = ',')]
    without: Vec<String>,
    /// A function whose code is wanted, however few samples it has.
    #[arg(skip)]
    code_of: Option<String>,
    #[command(flatten)]
    present: PresentArgs,
    #[command(flatten)]
    view: ViewArgs,
    /// Start this command, and measure it and its children from its exec to its exit.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Measures and reports.
///
/// # Errors
///
/// Whatever keeps it from measuring, before anything is written; or from saving, after the report.
pub fn run(args: &Args, verbose: bool) -> anyhow::Result<ExitCode> {
    privilege::check()?;
    let output = args.output.clone().unwrap_or_else(default_output);
    store::check_destination(&output)?;
    let (scope, target) = scope(args)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?;
    let (mut session, status) = runtime.block_on(measure(args, scope, target, verbose))?;
    session.findings = crate::diagnose::diagnose(&session);

    let printed = present(&session, &args.view.view(), &args.present);
    let saved = save(&session, &output);
    match &saved {
        Ok(()) => eprintln!("session saved in {}", report::escape::sanitize(&output.to_string_lossy())),
        Err(error) => eprintln!("profiler: the session could not be saved: {error:#}"),
    }
    Ok(ExitCode::from(exit_status(status, saved.is_ok(), printed?)))
}

/// The status to exit with, given the command's, if one was started and has ended, whether the session could be
/// saved, and what the findings ask for. A command that failed has not done the work that was to be judged,
/// so its status comes first.
fn exit_status(command: Option<i32>, saved: bool, findings: u8) -> u8 {
    match command {
        Some(status) if status != 0 => u8::try_from(status).unwrap_or(1),
        _ if !saved => 1,
        _ => findings,
    }
}

/// Who is to be measured, checked. A command is started later.
fn scope(args: &Args) -> anyhow::Result<(Scope, Target)> {
    if !args.command.is_empty() {
        let argv = args.command.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        // The process id is filled in when the command's process exists.
        return Ok((Scope::Command(0), Target::Command { argv, status: None }));
    }
    if let Some(path) = &args.cgroup {
        let cgroup = cgroup::resolve(&Sources::default(), path)?;
        return Ok((Scope::Cgroup(cgroup), Target::Cgroup { path: path.clone() }));
    }
    if args.pid.is_empty() {
        return Ok((Scope::System, Target::System));
    }
    let pids = args.pid.iter().map(|pid| process_of(*pid)).collect::<anyhow::Result<Vec<u32>>>()?;
    Ok((Scope::Processes(pids.clone()), Target::Processes { pids }))
}

/// The process that a process or thread id belongs to.
fn process_of(pid: u32) -> anyhow::Result<u32> {
    let status = procfs::process::Process::new(i32::try_from(pid).unwrap_or(-1))
        .and_then(|process| process.status())
        .map_err(|_| anyhow::anyhow!("there is no process {pid}"))?;
    let process = u32::try_from(status.tgid)?;
    if process != pid {
        bail!("{pid} is a thread of process {process}; --pid {process} measures it with all its threads");
    }
    Ok(process)
}

/// Attaches, waits for the end, and makes the session. Returns the command's exit status as well.
async fn measure(
    args: &Args,
    scope: Scope,
    mut target: Target,
    verbose: bool,
) -> anyhow::Result<(Session, Option<i32>)> {
    // Before anything is attached: a signal must find us ready to report.
    let mut signals = Signals::new().context("cannot listen to signals")?;
    let stdout = match args.present.format {
        Format::Text => Stdout::Shared,
        Format::Json => Stdout::ToStderr,
    };
    let mut child = if args.command.is_empty() { None } else { Some(Child::prepare(&args.command, stdout)?) };
    let scope = match (&child, scope) {
        (Some(child), _) => Scope::Command(child.pid),
        (None, scope) => scope,
    };
    let pids = match &scope {
        Scope::Processes(pids) => pids.clone(),
        _ => Vec::new(),
    };
    let mut collector = Collector::start(Options {
        probes: if args.probes.is_empty() {
            PROBES.iter().map(|probe| probe.name.to_owned()).collect()
        } else {
            args.probes.clone()
        },
        scope,
        frequency: args.frequency,
        stack_rate: args.stack_rate,
        user_stacks: !args.no_user_stacks,
        include_self: args.include_self,
        verbose,
        without: args.without.clone(),
        code_of: args.code_of.clone(),
    })?;
    if let Some(child) = &mut child {
        child.release().context("the command's process is gone")?;
    }

    let status_line = Status::new(collector.probes());
    let ended = wait(args.duration, &pids, &mut child, &mut collector, &status_line, &mut signals).await;
    let status = match ended? {
        Ended::Command(status) => Some(child::exit_code(status)),
        Ended::Otherwise => None,
    };
    status_line.ended();
    if let Target::Command { status: known, .. } = &mut target {
        *known = status;
    }
    let mut session = collector.stop(target)?;
    session.findings = diagnose::diagnose(&session);
    status_line.finish();
    Ok((session, status))
}

/// Takes CPU samples of everything, or of these processes, and the code of `function`.
pub(super) fn sample(
    duration: Duration,
    frequency: u32,
    pids: &[u32],
    function: &str,
    verbose: bool,
) -> anyhow::Result<Session> {
    use clap::{Args as _, FromArgMatches as _};
    privilege::check()?;
    let command = Args::augment_args(clap::Command::new("attach"));
    let mut args = Args::from_arg_matches(&command.try_get_matches_from(["attach", "--probes", "cpu"])?)?;
    args.duration = Some(duration);
    args.frequency = frequency;
    args.pid = pids.to_vec();
    args.code_of = Some(function.to_owned());
    let (scope, target) = scope(&args)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?;
    let (session, _) = runtime.block_on(measure(&args, scope, target, verbose))?;
    Ok(session)
}

/// What ended the measurement.
enum Ended {
    /// The command, with its status.
    Command(std::process::ExitStatus),
    /// A signal, the time, or the end of all measured processes.
    Otherwise,
}

async fn wait(
    duration: Option<Duration>,
    pids: &[u32],
    child: &mut Option<Child>,
    collector: &mut Collector,
    status_line: &Status,
    signals: &mut Signals,
) -> anyhow::Result<Ended> {
    // Looking whether processes still live is a stat(2) each.
    const LIFE_CHECK: Duration = Duration::from_millis(200);
    let mut next_drain = tokio::time::Instant::now() + Duration::from_millis(200);
    let deadline = duration.map(|duration| tokio::time::Instant::now() + duration);
    // Outside of the loop: frequent drains must not keep the others from their turn.
    let mut status_ticks = status_line.interval().map(every);
    let mut life_checks = (!pids.is_empty()).then(|| every(LIFE_CHECK));
    loop {
        tokio::select! {
            () = signals.next() => return Ok(Ended::Otherwise),
            () = until(deadline) => return Ok(Ended::Otherwise),
            ended = end_of(child) => {
                return match ended {
                    Ok(status) => Ok(Ended::Command(status)),
                    Err(reason) => {
                        let name = child.as_ref().map_or("", |child| &child.name);
                        Err(NotExecuted { name: report::escape::sanitize(name).into(), reason }.into())
                    }
                };
            }
            () = tokio::time::sleep_until(next_drain) => {
                let pause = collector.drain().context("cannot read the probes' maps")?;
                next_drain = tokio::time::Instant::now() + pause;
            }
            () = next(&mut status_ticks) => status_line.update(collector),
            () = next(&mut life_checks) => {
                if !pids.iter().any(|pid| Path::new("/proc").join(pid.to_string()).exists()) {
                    return Ok(Ended::Otherwise);
                }
            }
        }
    }
}

async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Ticks after each `period`; those that were missed are not made up for.
fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn next(ticks: &mut Option<Interval>) {
    match ticks {
        Some(ticks) => drop(ticks.tick().await),
        None => std::future::pending().await,
    }
}

async fn end_of(child: &mut Option<Child>) -> io::Result<std::process::ExitStatus> {
    match child {
        Some(child) => {
            (&mut child.ended).await.unwrap_or_else(|_| Err(io::Error::other("its end was missed")))
        }
        None => std::future::pending().await,
    }
}

/// The signals that end a measurement: Ctrl-C, and what service managers and closing terminals send.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// Saves the session with all its renderings.
fn save(session: &Session, output: &Path) -> anyhow::Result<()> {
    Ok(store::save(session, output, |folder| report::write_all(session, folder))?)
}

fn default_output() -> PathBuf {
    let name = format!("profiler-{}", jiff::ZonedDateTime::now().strftime("%Y%m%d-%H%M%S"));
    unused(PathBuf::from(name))
}

/// `path`, with a number behind it if there is such a file: a run that was given no name must not replace
/// another that ended within the same second.
fn unused(path: PathBuf) -> PathBuf {
    let numbered = (2..).map(|number| {
        let mut name = path.clone().into_os_string();
        name.push(format!("-{number}"));
        PathBuf::from(name)
    });
    let mut names = std::iter::once(path.clone()).chain(numbered);
    names.find(|name| name.symlink_metadata().is_err()).unwrap_or(path)
}

/// A time on the command line.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text)
        .or_else(|error| text.parse().map(Duration::from_secs).map_err(|_| error))
        .map_err(|error| format!("{error}; a time is written as 30s, 500ms or 2m"))?;
    if duration.is_zero() { Err("a measurement takes longer than nothing".to_owned()) } else { Ok(duration) }
}

fn probe_name(text: &str) -> Result<String, String> {
    match probes::probe(text) {
        Some(probe) => Ok(probe.name.to_owned()),
        None => {
            let names: Vec<&str> = PROBES.iter().map(|probe| probe.name).collect();
            Err(format!("there is no probe {text}; the probes are {}", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("30"), Ok(Duration::from_secs(30)));
        assert!(duration("0s").is_err());
        assert!(duration("soon").unwrap_err().contains("30s"));
    }

    #[test]
    fn a_failed_command_outdoes_findings() {
        use super::super::present::FOUND;
        assert_eq!(exit_status(None, true, 0), 0);
        assert_eq!(exit_status(Some(0), true, 0), 0);
        assert_eq!(exit_status(None, true, FOUND), 3);
        assert_eq!(exit_status(Some(0), true, FOUND), 3);
        assert_eq!(exit_status(Some(7), true, FOUND), 7);
        assert_eq!(exit_status(Some(137), false, 0), 137);
        assert_eq!(exit_status(Some(0), false, FOUND), 1);
        assert_eq!(exit_status(Some(-1), true, 0), 1);
    }

    #[test]
    fn an_output_of_no_name_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("profiler-1");
        assert_eq!(unused(first.clone()), first);
        std::fs::create_dir(&first).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("profiler-1-2")).unwrap();
        assert_eq!(unused(first), folder.path().join("profiler-1-3"));
    }

    #[test]
    fn unknown_probes_are_named_with_the_known_ones() {
        assert_eq!(probe_name("cpu"), Ok("cpu".to_owned()));
        let error = probe_name("gpu").unwrap_err();
        assert!(error.contains("gpu") && error.contains("page-alloc"));
    }
}
