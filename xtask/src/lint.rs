//! `cargo xtask lint`: formatting and lints of every crate, with warnings as errors.
//!
//! The eBPF crate is linted twice where its own toolchain has no clippy, as Debian's has not: rustc checks it for the
//! bpf target, and the clippy at hand checks it for the host, for which it compiles but does not link.

use std::process::Command;

use anyhow::Context as _;

use crate::facts::rustup_run;
use crate::plan::NIGHTLY;
use crate::run::{cargo, output, run, say, target_dir};

const EBPF: &str = "profiler-ebpf";
const EBPF_TARGET: &str = "bpfel-unknown-none";

/// Runs all checks; the first that fails ends it.
pub fn lint() -> anyhow::Result<()> {
    install_tools()?;
    run(cargo().args(["fmt", "--all", "--check"]))?;

    let toolchain = crate::setup::setup()?;
    run(cargo()
        .args(["clippy", "--workspace", "--exclude", EBPF, "--all-targets"])
        .args(["--", "--deny", "warnings"]))?;

    if has_clippy(&toolchain) {
        run(&mut on_ebpf_target(&toolchain, "clippy")?)
    } else {
        run(&mut on_ebpf_target(&toolchain, "check")?)?;
        run(&mut clippy_on_host()?)
    }?;
    say("no lint found anything");
    Ok(())
}

/// A check of the eBPF crate by its own compiler, for its own target.
fn on_ebpf_target(toolchain: &str, check: &str) -> anyhow::Result<Command> {
    let mut command = rustup_run(toolchain, &["cargo", check, "--package", EBPF, "--target", EBPF_TARGET]);
    if toolchain == NIGHTLY || toolchain.starts_with("nightly-") {
        command.arg("-Zbuild-std=core");
    }
    // Apart from the main build, which uses another compiler and other flags.
    command.arg("--target-dir").arg(target_dir()?.join("xtask/lint-ebpf"));
    // As profiler/build.rs has it: aya-ebpf uses unstable features.
    command.env("RUSTC_BOOTSTRAP", "aya_ebpf,profiler");
    let arch = std::env::consts::ARCH;
    command.env("RUSTFLAGS", format!("--cfg=bpf_target_arch=\"{arch}\" -Dwarnings"));
    // These would take the place of the toolchain's compiler and of the flags.
    for name in ["CARGO_ENCODED_RUSTFLAGS", "RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        command.env_remove(name);
    }
    Ok(command)
}

/// Clippy on the eBPF crate for the host.
fn clippy_on_host() -> anyhow::Result<Command> {
    let mut command = cargo();
    command.args(["clippy", "--package", EBPF]);
    command.arg("--target-dir").arg(target_dir()?.join("xtask/lint-ebpf"));
    command.env("RUSTC_BOOTSTRAP", "aya_ebpf,profiler");
    // The crate has a panic handler, but nothing to unwind with.
    command.env("CARGO_PROFILE_DEV_PANIC", "abort");
    command.args(["--", "--deny", "warnings"]);
    Ok(command)
}

fn has_clippy(toolchain: &str) -> bool {
    output(&mut rustup_run(toolchain, &["cargo-clippy", "--version"])).is_some()
}

/// rustup's minimal profile has neither rustfmt nor clippy.
fn install_tools() -> anyhow::Result<()> {
    let has = |tool: &str| output(cargo().args([tool, "--version"])).is_some();
    let missing: Vec<_> =
        [("fmt", "rustfmt"), ("clippy", "clippy")].into_iter().filter(|(tool, _)| !has(tool)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["component", "add"]).args(missing.iter().map(|(_, component)| component));
    run(&mut rustup).context("linting needs rustfmt and clippy: install them")
}
