//! `profiler annotate`: which instructions of a function the samples fall on, and what they access.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;

use super::attach;
use super::present::is_broken_pipe;
use crate::profile::{Session, store};
use crate::report::annotate;
use crate::report::escape::sanitize_to;

/// Functions that are named where the one asked for has no code.
const NAMED: usize = 20;

/// Options of `profiler annotate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The function, such as vfs_read, or xfs_agino_range [xfs].
    #[arg(value_name = "SYMBOL")]
    symbol: String,
    /// Folder of a saved session; without it, the running machine is measured.
    #[arg(value_name = "SESSION")]
    session: Option<PathBuf>,
    /// Show all instructions of long functions, too.
    #[arg(long)]
    all: bool,
    /// How long to measure.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = attach::duration, conflicts_with = "session")]
    duration: Duration,
    /// CPU samples a second, on each CPU.
    #[arg(
        long, value_name = "HZ", default_value_t = 999, value_parser = clap::value_parser!(u32).range(1..=10_000),
        conflicts_with = "session"
    )]
    frequency: u32,
    /// Measure this process only (may be repeated, or several with commas).
    #[arg(long, value_name = "PID", value_delimiter = ',', conflicts_with = "session")]
    pid: Vec<u32>,
}

/// Prints the function.
///
/// # Errors
///
/// When the session cannot be loaded or measured, or has no code of this function.
pub fn run(args: &Args, verbose: bool) -> anyhow::Result<ExitCode> {
    let session = match &args.session {
        Some(folder) => {
            let mut session = store::load(folder)?;
            session.text = store::load_text(folder)?;
            session
        }
        None => attach::sample(args.duration, args.frequency, &args.pid, &args.symbol, verbose)?,
    };
    let functions = annotate::functions(&session, &args.symbol);
    if functions.is_empty() {
        bail!("{}", missing(&session, &args.symbol));
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut print = || -> anyhow::Result<()> {
        for function in &functions {
            annotate::write(function, args.all, &mut out)?;
        }
        Ok(out.flush()?)
    };
    match print() {
        Err(error) if !is_broken_pipe(&error) => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Why there is nothing to print, and what there is instead.
fn missing(session: &Session, symbol: &str) -> String {
    let symbol = sanitize_to(symbol, 60);
    if session.text.is_empty() {
        return if session.host.arch.is_empty() || session.host.arch == crate::code::disasm::ARCHITECTURE {
            format!("there is no code of {symbol}: the session has no machine code at all")
        } else {
            format!(
                "there is no code of {symbol}: the session is of {}, and only {} can be disassembled",
                sanitize_to(&session.host.arch, 20),
                crate::code::disasm::ARCHITECTURE
            )
        };
    }
    let known: Vec<String> =
        session.code.iter().take(NAMED).map(|function| sanitize_to(&function.name, 60)).collect();
    format!(
        "there is no code of {symbol}: it has too few samples, or no symbol; there is code of {}",
        known.join(", ")
    )
}
