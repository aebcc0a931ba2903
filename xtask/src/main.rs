//! What has to be done around the build: set-up, running as root, tests, lints.
//!
//! `cargo xtask` compiles this crate before anything else, so it stays small and has few dependencies.

mod apt;
mod attach;
mod bench;
mod document;
mod facts;
mod fuzz;
mod lint;
mod needs;
mod plan;
mod run;
mod scenarios;
mod setup;
mod summary;
mod test;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Set-up, tests and lints of profiler")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what building the eBPF programs needs, where it is missing
    Setup,
    /// Build the profiler and run `profiler attach` as root
    Attach {
        /// Arguments of `profiler attach`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run all tests, as root
    Test {
        /// Do not install the programs that tests drive; tests without theirs are skipped
        #[arg(long)]
        no_install: bool,
        /// Leave out the virtual machines with other kernels
        #[arg(long)]
        no_vm: bool,
        /// Write what the scenarios found into docs/pathologies.md
        #[arg(long)]
        write_docs: bool,
        /// Further arguments of `cargo test`, such as a test's name
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measure what the profiler costs, as root, and write it to docs/benchmarks.md
    Bench(bench::Options),
    /// Reproduce a pathology and show what the profiler says, as root; without an ID, list what there is
    Repro(scenarios::Options),
    /// Put what a fuzzer makes up to the readers of other tools' files
    Fuzz {
        /// Seconds for each target
        #[arg(long, default_value_t = 60)]
        seconds: u32,
        /// This target only
        target: Option<String>,
    },
    /// Run the profiler's guest tests on real kernels, in virtual machines
    Vm(vm::Options),
    /// Check formatting and lints of every crate, with warnings as errors
    Lint,
}

/// Fuzzes, and says how it went.
fn fuzz_all(seconds: u32, target: Option<&str>) -> anyhow::Result<()> {
    setup::setup()?;
    let summary = fuzz::fuzz(seconds, target)?;
    println!("{summary}");
    summary.skipped.iter().for_each(|(name, reason)| eprintln!("skipped: {name}: {reason}"));
    if summary.failed > 0 { anyhow::bail!("{} fuzz targets failed", summary.failed) } else { Ok(()) }
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Setup => setup::setup().map(drop),
        Command::Attach { args } => attach::attach(&args),
        Command::Test { no_install, no_vm, write_docs, args } => {
            test::test(!no_install, !no_vm, write_docs, &args)
        }
        Command::Bench(options) => bench::bench(&options),
        Command::Repro(options) => scenarios::repro(&options),
        Command::Vm(options) => vm::vm(&options),
        Command::Fuzz { seconds, target } => fuzz_all(seconds, target.as_deref()),
        Command::Lint => lint::lint(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            run::say(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
