//! `profiler check`: what could be measured on this machine, and how; attaches every probe for a
//! moment and measures nothing.

use std::io::{self, Write as _};
use std::process::ExitCode;

use serde::Serialize;

use crate::collect::{Collector, Options, Scope};
use crate::kernel::facts::{Fact, facts};
use crate::kernel::probes::{self, PROBES};
use crate::kernel::{privilege, sources::Sources};
use crate::profile::{Probe, ProbeState};
use crate::report::escape::sanitize;

/// Options of `profiler check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Do as if this way to attach did not exist: tp_btf, tracepoint, fentry, kprobe, or tp_btf:NAME.
    #[arg(long, value_name = "RUNG", value_delimiter = ',')]
    without: Vec<String>,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Check {
    /// Whether `profiler attach` would work.
    ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// `uname -r`.
    kernel: String,
    /// The probes, as in session.json.
    probes: Vec<Probe>,
    /// What a run would not see.
    blind_spots: Vec<String>,
    /// Facts about the kernel.
    facts: Vec<Fact>,
}

/// Checks and prints; exit status 0 if `attach` would work, else 1.
///
/// # Errors
///
/// If the result cannot be printed.
pub fn run(args: Args, verbose: bool) -> anyhow::Result<ExitCode> {
    // The eBPF side's messages are read in the background.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let check = {
        let _entered = runtime.enter();
        check(&args, verbose)
    };
    let mut out = io::stdout().lock();
    let printed = if args.json {
        serde_json::to_writer_pretty(&mut out, &check).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        print(&check, &mut out)
    };
    match printed {
        // `| head` has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    Ok(if check.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(args: &Args, verbose: bool) -> Check {
    let sources = Sources::default();
    let mut check = Check {
        ok: false,
        reason: None,
        kernel: nix::sys::utsname::uname()
            .map(|uname| uname.release().to_string_lossy().into_owned())
            .unwrap_or_default(),
        probes: Vec::new(),
        blind_spots: Vec::new(),
        facts: facts(&sources),
    };
    let options = Options {
        probes: PROBES.iter().map(|probe| probe.name.to_owned()).collect(),
        scope: Scope::System,
        frequency: 99,
        stack_rate: 1000,
        user_stacks: true,
        include_self: false,
        code_of: None,
        verbose,
        without: args.without.clone(),
    };
    let attached = privilege::check().map_err(Into::into).and_then(|()| Collector::attach(options));
    match attached {
        Ok(collector) => {
            check.probes = collector.probes().to_vec();
            check.blind_spots = collector.blind_spots().to_vec();
            check.ok = check.probes.iter().any(Probe::is_attached);
            if !check.ok {
                check.reason = Some("no probe can be attached".to_owned());
            }
        }
        Err(error) => check.reason = Some(format!("{error:#}")),
    }
    check
}

/// Columns of text behind the names.
const WIDTH: usize = 100;

fn print(check: &Check, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "kernel {}", sanitize(&check.kernel))?;
    writeln!(out)?;
    for probe in &check.probes {
        let (state, details) = describe(probe);
        writeln!(out, "  {:<11} {state}", probe.name)?;
        let summary = probes::probe(&probe.name).map_or("", |spec| spec.summary);
        paragraph(out, 14, summary)?;
        for detail in details {
            paragraph(out, 14, &detail)?;
        }
    }
    for blind_spot in &check.blind_spots {
        paragraph(out, 2, &format!("not visible: {blind_spot}"))?;
    }
    writeln!(out)?;
    for fact in &check.facts {
        writeln!(out, "  {:<28} {}", fact.name, sanitize(&fact.value))?;
        if let Some(advice) = &fact.advice {
            paragraph(out, 31, &format!("better: {advice}"))?;
        }
    }
    writeln!(out)?;
    match (&check.reason, check.ok) {
        (Some(reason), _) => writeln!(out, "profiler attach would not work: {}", sanitize(reason)),
        (None, _) => writeln!(out, "profiler attach works here"),
    }
}

/// A probe's rung, and what is to be said about it.
fn describe(probe: &Probe) -> (String, Vec<String>) {
    match &probe.state {
        ProbeState::Attached { rung, to, notes } => {
            let to = format!("at {}", to.join(", "));
            (rung.clone(), std::iter::once(to).chain(notes.iter().cloned()).collect())
        }
        ProbeState::Failed { reason } => ("FAILED".to_owned(), vec![reason.clone()]),
        ProbeState::Off => ("off".to_owned(), Vec::new()),
    }
}

fn paragraph(out: &mut dyn io::Write, indent: usize, text: &str) -> io::Result<()> {
    for line in textwrap::wrap(&sanitize(text), WIDTH - indent) {
        writeln!(out, "{:indent$}{line}", "")?;
    }
    Ok(())
}
