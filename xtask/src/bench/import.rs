//! Importing large recordings: against `perf script | inferno-collapse-perf`, which ends in folded stacks.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};

use super::Context;
use super::load::Load;
use super::process::{Used, spawn, wait};
use super::recording::{repeat_data, repeat_text};
use super::stats::Series;
use crate::run::{cargo, find_program, run as run_command, say, target_dir};

/// Seconds that are recorded, at the highest rate that the kernel allows by default.
const SECONDS: &str = "10";
/// A version of inferno, so that numbers of different days compare.
const INFERNO: &str = "0.12.8";

/// Runs it.
pub fn run(context: &Context) -> anyhow::Result<String> {
    let heading = "## Importing recordings\n\n";
    if find_program("perf").is_none() {
        say("import: skipped, since perf is not installed");
        return Ok(format!("{heading}Not measured: perf is not installed.\n"));
    }
    let collapse = inferno()?;
    let size = u64::from(context.mebibytes) << 20;
    let (recorded, data, text) = (
        context.folder.join("recorded"),
        context.folder.join("perf.data"),
        context.folder.join("script.txt"),
    );
    record(context, &recorded)?;
    let copies = repeat_data(&recorded, &data, size)?;
    repeat_text(perf_script(&recorded).stdout(Stdio::piped()), &text, size)?;

    let mut rows = Rows::default();
    for number in 1..=context.repeat {
        say(format_args!("import: run {number} of {}", context.repeat));
        rows.add("perf.data", "this program", own(context, &data)?);
        rows.add(
            "perf.data",
            "`perf script \\| inferno-collapse-perf`",
            piped(&mut perf_script(&data), &collapse)?,
        );
        rows.add("text of perf script", "this program", own(context, &text)?);
        rows.add("text of perf script", "`inferno-collapse-perf`", collapsed(&collapse, &text)?);
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    Ok(format!(
        "{heading}A perf.data file of {} MiB (`perf record -a -g`, {SECONDS} s of a loaded machine at 9999 Hz, its records\n\
         {copies} times over) and as much text of `perf script`. `profiler diagnose FILE` reads, diagnoses and reports;\n\
         inferno {INFERNO} writes folded stacks. {} runs of each, in turns; memory of a pipe is that of both\n\
         programs. The load average was {} at the end, so CPU time says more than wall time.\n\n\
         | input | by | wall time | CPU time | peak resident memory |\n| --- | --- | ---: | ---: | ---: |\n{}\n",
        context.mebibytes,
        context.repeat,
        load.split_whitespace().next().unwrap_or("?"),
        rows.table()
    ))
}

/// Medians by input and program, in the order in which they were first added.
#[derive(Default)]
struct Rows(Vec<(&'static str, &'static str, [Series; 3])>);

impl Rows {
    fn add(&mut self, input: &'static str, by: &'static str, used: Used) {
        let known = self.0.iter().position(|row| (row.0, row.1) == (input, by));
        let index = known.unwrap_or_else(|| {
            self.0.push((input, by, Default::default()));
            self.0.len() - 1
        });
        let [wall, cpu, peak] = &mut self.0[index].2;
        wall.push(used.wall.as_secs_f64());
        cpu.push(used.cpu.as_secs_f64());
        peak.push(used.peak as f64 / f64::from(1 << 20));
    }

    fn table(&self) -> String {
        let row = |(input, by, [wall, cpu, peak]): &(_, _, [Series; 3])| {
            let (wall, cpu, peak) = (wall.median(), cpu.median(), peak.median());
            format!("| {input} | {by} | {wall:.1} s | {cpu:.1} s | {peak:.0} MiB |")
        };
        self.0.iter().map(row).collect::<Vec<_>>().join("\n")
    }
}

/// inferno's program, built once.
fn inferno() -> anyhow::Result<PathBuf> {
    let root = target_dir()?.join("inferno");
    let program = root.join("bin/inferno-collapse-perf");
    if !program.is_file() {
        let mut install = cargo();
        install.args([
            "install",
            "inferno",
            "--locked",
            "--version",
            INFERNO,
            "--bin",
            "inferno-collapse-perf",
        ]);
        run_command(install.arg("--root").arg(&root))?;
    }
    Ok(program)
}

fn record(context: &Context, path: &Path) -> anyhow::Result<()> {
    let _load = Load::start(&context.folder)?;
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-a", "-g", "-F", "9999", "-o"]).arg(path).args(["--", "sleep", SECONDS]);
    run_command(&mut perf)
}

fn perf_script(data: &Path) -> Command {
    let mut command = Command::new("perf");
    command.args(["script", "-i"]).arg(data).stderr(Stdio::null());
    command
}

fn own(context: &Context, file: &Path) -> anyhow::Result<Used> {
    let mut command = Command::new(&context.profiler);
    command.arg("diagnose").arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begin = Instant::now();
    let child = spawn(&mut command).context("cannot run the profiler")?;
    ended(wait(child, begin)?, "profiler diagnose")
}

fn collapsed(collapse: &Path, text: &Path) -> anyhow::Result<Used> {
    let mut command = Command::new(collapse);
    command.arg(text).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begin = Instant::now();
    let child = spawn(&mut command).context("cannot run inferno-collapse-perf")?;
    ended(wait(child, begin)?, "inferno-collapse-perf")
}

fn piped(script: &mut Command, collapse: &Path) -> anyhow::Result<Used> {
    let begin = Instant::now();
    let mut perf =
        spawn(script.stdin(Stdio::null()).stdout(Stdio::piped())).context("cannot run perf script")?;
    let text = perf.stdout.take().context("perf script has no output")?;
    let mut command = Command::new(collapse);
    command.stdin(text).stdout(Stdio::null()).stderr(Stdio::null());
    let inferno = spawn(&mut command).context("cannot run inferno-collapse-perf")?;
    // The descriptor of the pipe is the child's alone from here on.
    drop(command);
    let inferno = ended(wait(inferno, begin)?, "inferno-collapse-perf")?;
    let perf = ended(wait(perf, begin)?, "perf script")?;
    Ok(Used {
        wall: inferno.wall.max(perf.wall),
        cpu: inferno.cpu + perf.cpu,
        peak: inferno.peak + perf.peak,
        status: 0,
    })
}

fn ended(used: Used, what: &str) -> anyhow::Result<Used> {
    if used.status != 0 {
        bail!("{what} failed (wait status {})", used.status);
    }
    Ok(used)
}
