//! The `profiler` program: parses the command line, calls one function, prints errors.

use std::process::ExitCode;

use clap::Parser as _;
use profiler::cli::{Cli, failure, run};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("profiler: {error:#}");
            ExitCode::from(failure(&error))
        }
    }
}
