//! `cargo xtask attach`: builds the profiler and becomes it.

use std::os::unix::process::CommandExt as _;

use anyhow::Context as _;

use crate::run::{cargo, is_root, run, say, show, target_dir};

/// Variables that the profiler, or what it prints to, makes use of. sudo drops others.
const KEPT: [&str; 6] = ["RUST_LOG", "RUST_BACKTRACE", "NO_COLOR", "CLICOLOR", "COLORTERM", "PAGER"];

/// Replaces this process by `profiler attach`, so that signals and the exit status pass through.
pub fn attach(args: &[String]) -> anyhow::Result<()> {
    crate::setup::setup()?;
    run(cargo().args(["build", "--release", "--package", "profiler"]))?;
    let program = target_dir()?.join("release/profiler");
    let mut command = if is_root() {
        std::process::Command::new(&program)
    } else {
        let sudo = crate::run::find_program("sudo").with_context(|| {
            format!("attaching needs root and there is no sudo: run `{} attach` as root", program.display())
        })?;
        let mut command = std::process::Command::new(sudo);
        let kept: Vec<_> = KEPT.into_iter().filter(|name| std::env::var_os(name).is_some()).collect();
        if !kept.is_empty() {
            command.arg(format!("--preserve-env={}", kept.join(",")));
        }
        command.arg("--").arg(&program);
        command
    };
    command.arg("attach").args(args);
    say(format_args!("$ {}", show(&command)));
    Err(command.exec()).with_context(|| format!("cannot run {}", program.display()))
}
