//! `cargo xtask fuzz`: puts what a fuzzer makes up to each reader of foreign files, for a bounded time.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::run::{find_program, output, run, say, target_dir, workspace};
use crate::summary::Summary;

/// The version of cargo-fuzz that is installed where there is none.
const CARGO_FUZZ: &str = "0.13.2";
/// The fuzzer and its coverage need a nightly compiler.
const TOOLCHAIN: &str = "nightly";
/// Seconds a target as a part of `cargo xtask test`.
pub const SHORT: u32 = 5;
/// Most bytes of an input: longer ones find nothing that shorter ones do not, and slow everything down.
const MAX_LENGTH: u32 = 1 << 16;
/// Memory that a target may take, in MiB: readers are bounded, and this says so.
const MEMORY: u32 = 2048;
/// Seconds that one input may take.
const PATIENCE: u32 = 20;

/// Fuzzes each target, or `only` one, for some seconds. A target counts as a test.
///
/// # Errors
///
/// If the targets do not compile, or there is no target of that name. Machines that lack what it takes skip them.
pub fn fuzz(seconds: u32, only: Option<&str>) -> anyhow::Result<Summary> {
    let mut summary = Summary::default();
    let targets = targets(&workspace().join("fuzz/fuzz_targets"))?;
    if let Some(name) = only
        && !targets.iter().any(|target| target == name)
    {
        bail!("there is no fuzz target {name}; there are {}", targets.join(", "));
    }
    if let Some(reason) = missing() {
        summary.skipped.insert("fuzz".to_owned(), reason.to_owned());
        return Ok(summary);
    }
    let targets = targets.into_iter().filter(|target| only.is_none_or(|only| only == target));
    provide().context("cargo-fuzz cannot be installed")?;
    run(cargo_fuzz()?.args(["build", "--dev", "--sanitizer", "none"]))
        .context("the fuzz targets do not compile")?;
    for target in targets {
        say(format_args!("fuzzing {target} for {seconds} s"));
        // The fuzzer prints pages of what it found interesting: of interest only if it found a fault.
        let ended = command(&target, seconds)?.stdin(Stdio::null()).output();
        let ended = ended.context("cannot run cargo fuzz")?;
        if ended.status.success() {
            summary.passed += 1;
        } else {
            eprint!("{}", String::from_utf8_lossy(&ended.stderr));
            say(format_args!("fuzz::{target} FAILED; fuzz/artifacts/{target} has the input"));
            summary.failed += 1;
        }
    }
    Ok(summary)
}

/// The names of all targets.
fn targets(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if let Some(stem) = path.file_stem().filter(|_| path.extension().is_some_and(|end| end == "rs")) {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Why this machine cannot fuzz, if so.
fn missing() -> Option<&'static str> {
    if output(Command::new("rustup").args(["run", TOOLCHAIN, "rustc", "--version"])).is_none() {
        return Some("no nightly toolchain in rustup");
    }
    (find_program("c++").is_none()).then_some("no C++ compiler for the fuzzer's runtime")
}

fn provide() -> anyhow::Result<()> {
    if find_program("cargo-fuzz").is_some() {
        return Ok(());
    }
    say("cargo-fuzz is missing: building it");
    run(&mut rustup_cargo(&["install", "cargo-fuzz", "--locked", "--version", CARGO_FUZZ]))
}

/// cargo of the nightly toolchain, without what the cargo that runs this has set.
fn rustup_cargo(args: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", TOOLCHAIN, "cargo"]).args(args);
    for name in
        ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR"]
    {
        command.env_remove(name);
    }
    command
}

fn cargo_fuzz() -> anyhow::Result<Command> {
    let mut command = rustup_cargo(&["fuzz"]);
    command.current_dir(workspace());
    // Not below the workspace's own target folder for tests: other flags would have cargo build everything anew.
    command.env("CARGO_TARGET_DIR", target_dir()?.join("fuzz"));
    Ok(command)
}

/// Runs one target: from what was found before, and the fixtures of the tests.
fn command(target: &str, seconds: u32) -> anyhow::Result<Command> {
    let corpus = workspace().join("fuzz/corpus").join(target);
    std::fs::create_dir_all(&corpus).with_context(|| format!("cannot create {}", corpus.display()))?;
    let data = workspace().join("profiler/tests/data");
    // What the fuzzer finds in a short run is not worth keeping: the first folder is where it writes.
    let found = target_dir()?.join("fuzz/found").join(target);
    std::fs::create_dir_all(&found).with_context(|| format!("cannot create {}", found.display()))?;
    let mut command = cargo_fuzz()?;
    command.args(["run", "--dev", "--sanitizer", "none", target]).args([&found, &corpus, &data]);
    command.args(folders(&data));
    command.arg("--").args([
        format!("-max_total_time={seconds}"),
        format!("-max_len={MAX_LENGTH}"),
        format!("-rss_limit_mb={MEMORY}"),
        format!("-timeout={PATIENCE}"),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
    ]);
    Ok(command)
}

/// The folders in `data`: the fuzzer does not look into them by itself.
fn folders(data: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(data).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_a_program_of_the_fuzz_crate() {
        let manifest = std::fs::read_to_string(workspace().join("fuzz/Cargo.toml")).unwrap();
        let targets = targets(&workspace().join("fuzz/fuzz_targets")).unwrap();
        assert!(targets.len() >= 8, "{targets:?}");
        for target in targets {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
        }
    }
}
