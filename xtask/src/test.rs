//! `cargo xtask test`: everything that `cargo test` runs, as root, with one line at the end.

use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::run::{as_root, cargo, find_program, is_root, output, run, say, show, target_dir};
use crate::scenarios;
use crate::summary::Summary;

/// How many tests may be skipped because the machine lacks something. More of them means that hardly anything was
/// tested, which must not look like success. `PROFILER_MAX_SKIPPED` overrides it.
const MAX_SKIPPED: usize = 10;

/// Where profiler/tests/common/skip.rs notes tests that cannot run.
const SKIPPED_LOG: &str = "PROFILER_SKIPPED_LOG";

/// Runs the tests on this kernel, and, unless `args` (which go to `cargo test`) choose some of them, on
/// others in virtual machines. What the scenarios found goes into docs/pathologies.md if `write_docs`.
pub fn test(
    may_install: bool,
    virtual_machines: bool,
    write_docs: bool,
    args: &[String],
) -> anyhow::Result<()> {
    let max_skipped = match std::env::var("PROFILER_MAX_SKIPPED") {
        Ok(number) => {
            number.parse().with_context(|| format!("PROFILER_MAX_SKIPPED is `{number}`, no number"))?
        }
        Err(_) => MAX_SKIPPED,
    };
    crate::setup::setup()?;
    crate::needs::provide(may_install);
    mount_tracefs();
    if args.is_empty() {
        scenarios::forget()?;
    }

    let log = target_dir()?.join("skipped-tests.log");
    std::fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;

    let mut summary = Summary::default();
    let succeeded =
        stream(&mut cargo_test(&log, args)?, &mut std::io::stdout(), |line| summary.add_line(line))?;
    let skipped = std::fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
    summary.add_skipped(&String::from_utf8_lossy(&skipped));

    for (name, reason) in &summary.skipped {
        eprintln!("skipped: {name}: {reason}");
    }
    let mut problems = Vec::new();
    if args.is_empty() {
        match crate::fuzz::fuzz(crate::fuzz::SHORT, None) {
            Ok(fuzzed) => {
                fuzzed.skipped.iter().for_each(|(name, reason)| eprintln!("skipped: {name}: {reason}"));
                summary.add(fuzzed, "fuzzing");
            }
            Err(error) => problems.push(format!("the fuzzer could not run: {error:#}")),
        }
    }
    if virtual_machines && args.is_empty() {
        match crate::vm::default_kernels() {
            Ok((guests, more)) => {
                summary.add(guests, "vm");
                problems.extend(more);
            }
            Err(error) => problems.push(format!("other kernels could not be tested: {error:#}")),
        }
    }
    if write_docs {
        scenarios::write_docs()?;
    }
    println!("{summary}");
    problems.extend(summary.verdict(succeeded, max_skipped));
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("; ")) }
}

/// `cargo test`, which builds as the user and runs as root.
fn cargo_test(log: &Path, args: &[String]) -> anyhow::Result<Command> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--exclude", "profiler-ebpf", "--no-fail-fast"]).args(args);
    command.env(SKIPPED_LOG, log);
    scenarios::collect(&mut command)?;
    if std::env::var_os("INSTA_UPDATE").is_none() {
        // A failing snapshot test would otherwise leave files of root's in the tree.
        command.env("INSTA_UPDATE", "no");
    }
    run_as_root(&mut command)?;
    Ok(command)
}

/// Has a `cargo test` run as root what it builds as the user.
pub fn run_as_root(command: &mut Command) -> anyhow::Result<()> {
    if !is_root() {
        if find_program("sudo").is_some() {
            let triple = host_triple()?.to_uppercase().replace('-', "_");
            command.env(format!("CARGO_TARGET_{triple}_RUNNER"), "sudo -E");
        } else {
            say("neither root nor sudo: tests that load eBPF programs will be skipped");
        }
    }
    Ok(())
}

fn host_triple() -> anyhow::Result<String> {
    let verbose = output(Command::new("rustc").arg("-vV")).context("`rustc -vV` failed")?;
    let host = verbose.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

/// Runs a command, passes its standard output on as it comes and hands each line of it to `each`.
/// Returns whether the command succeeded.
fn stream(command: &mut Command, to: &mut dyn Write, mut each: impl FnMut(&str)) -> anyhow::Result<bool> {
    say(format_args!("$ {}", show(command)));
    let what = show(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{what}`"))?;
    let mut from = BufReader::new(child.stdout.take().context("the child has a standard output")?);
    let mut line = Vec::new();
    loop {
        let chunk = from.fill_buf().with_context(|| format!("cannot read what `{what}` prints"))?;
        if chunk.is_empty() {
            break;
        }
        // Unfinished lines, too: libtest prints a test's name before it runs.
        to.write_all(chunk).and_then(|()| to.flush()).context("cannot write to standard output")?;
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                each(&String::from_utf8_lossy(&line));
                line.clear();
            }
        }
        let length = chunk.len();
        from.consume(length);
    }
    each(&String::from_utf8_lossy(&line));
    let status = child.wait().with_context(|| format!("cannot wait for `{what}`"))?;
    Ok(status.success())
}

/// Mounts tracefs, which the tracepoint rungs of the probes need. Without it they fall back or are skipped.
fn mount_tracefs() {
    const TRACEFS: &str = "/sys/kernel/tracing";
    let mounted = output(
        as_root("test").unwrap_or_else(|| Command::new("test")).args(["-e", "/sys/kernel/tracing/events"]),
    );
    if mounted.is_some() {
        return;
    }
    say(format_args!("tracefs is not mounted at {TRACEFS}; tests of tracepoints need it"));
    let mounted = match as_root("mount") {
        Some(mut mount) => run(mount.args(["-t", "tracefs", "tracefs", TRACEFS])),
        None => Err(anyhow::anyhow!("mounting it needs root")),
    };
    if let Err(error) = mounted {
        say(format_args!("{error:#}: going on without it"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_seen_whole_and_the_exit_status_is_kept() {
        let (mut copy, mut lines) = (Vec::new(), Vec::new());
        let mut script = Command::new("sh");
        script.args(["-c", "printf 'one\\ntwo'; printf ' more\\nthree'; exit 1"]);
        let succeeded = stream(&mut script, &mut copy, |line| lines.push(line.to_owned())).unwrap();
        assert!(!succeeded);
        assert_eq!(copy, b"one\ntwo more\nthree");
        assert_eq!(lines, ["one\n", "two more\n", "three"]);
    }
}
