//! The command line: one file a subcommand.

mod annotate;
mod attach;
mod check;
mod child;
mod diagnose;
mod diff;
mod layout;
mod pathologies;
mod present;
mod report;
mod status;
mod views;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Finds out why Linux I/O or memory is slow: profiles in the kernel with eBPF, names what is wrong and what
/// to do about it, prints call trees as kernel developers post them.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Say more on standard error, the eBPF side's messages among it.
    #[arg(long, short, global = true)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Attach to the running kernel, measure, and report.
    Attach(Box<attach::Args>),
    /// Report and diagnose profiles of other tools: perf, flame graphs' folded stacks, call trees, pprof, ...
    Diagnose(diagnose::Args),
    /// Compare two profiles: what takes more or less, and what else is different.
    Diff(diff::Args),
    /// Print the report of a saved session once more, with other options.
    Report(report::Args),
    /// Show which instructions of a function take the time, which members of structures they access, and who
    /// writes there.
    Annotate(annotate::Args),
    /// Say what can be measured on this machine, and how.
    Check(check::Args),
    /// Show how a structure lies in cache lines, and what is written often beside what is only read.
    Layout(layout::Args),
    /// List what can be found, or explain one of it: how it shows, why it happens, what to do.
    Pathologies(pathologies::Args),
}

/// Does what the command line says; the exit status is the command's own where it started one.
///
/// # Errors
///
/// A sentence for the user; the program then exits with [`failure`].
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    start_logging(cli.verbose);
    match cli.command {
        Command::Attach(args) => attach::run(&args, cli.verbose),
        Command::Diagnose(args) => diagnose::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Annotate(args) => annotate::run(&args, cli.verbose),
        Command::Check(args) => check::run(args, cli.verbose),
        Command::Layout(args) => layout::run(&args),
        Command::Pathologies(args) => pathologies::run(&args),
    }
}

/// The exit status for an error: 1, but for a command that could not be executed that of shells.
pub fn failure(error: &anyhow::Error) -> u8 {
    error.downcast_ref::<child::NotExecuted>().map_or(1, child::NotExecuted::exit_code)
}

/// Log messages go to standard error, so that standard output holds nothing but results.
fn start_logging(verbose: bool) {
    let default = if verbose { "profiler=debug,info" } else { "off" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("PROFILER_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
}
