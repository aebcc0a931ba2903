//! `cargo xtask vm`: the profiler on real distribution kernels, in virtual machines.
//!
//! Every kernel runs the same root file system, so that only the kernel differs.

mod guest;
mod image;
mod matrix;
mod packages;
mod qemu;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;

use crate::needs::{self, Need};
use crate::run::{say, target_dir, workspace};
use crate::scenarios;
use crate::summary::Summary;

use matrix::Column;
use packages::UNSTABLE;
use qemu::Machine;

/// Kernels that run if none are named.
const DEFAULT: [&str; 3] = ["6.1", "6.12", UNSTABLE];

/// Kernels that run with `--all`: in addition, the oldest with BTF that a distribution still carries, and one that is
/// between two long-term ones.
const ALL: [&str; 5] = ["5.10", "6.1", "6.12", "6.17", UNSTABLE];

/// Kernels that must have run, unless fewer were asked for: one alone says little about kernels.
const ENOUGH: usize = 2;

/// Seconds that a guest may take, several times what it does take.
const DEFAULT_TIMEOUT: u64 = 800;

/// What it takes, beyond the tools that are copied into the guests where the host has them.
const NEEDS: [Need; 7] = [
    Need { program: "qemu-system-x86_64", package: "qemu-system-x86", reason: "runs the kernels" },
    Need { program: "busybox", package: "busybox-static", reason: "is most of what guests have" },
    Need { program: "depmod", package: "kmod", reason: "loads modules" },
    Need { program: "cpio", package: "cpio", reason: "packs what boots first" },
    Need { program: "zstd", package: "zstd", reason: "unpacks modules" },
    Need { program: "mkfs.ext4", package: "e2fsprogs", reason: "makes the guests' disks" },
    Need { program: "mkfs.xfs", package: "xfsprogs", reason: "tests with XFS, a module" },
];

/// Arguments of `cargo xtask vm`.
#[derive(Args, Default)]
pub struct Options {
    /// Kernels, by series: 6.1, 6.12, or 7 for Debian unstable's [default: 6.1 6.12 7]
    kernels: Vec<String>,
    /// Also run 5.10 and 6.17
    #[arg(long, conflicts_with = "kernels")]
    all: bool,
    /// Fetch each series' current kernel, even if there is one in the cache
    #[arg(long)]
    update: bool,
    /// Put every kernel at a random address; otherwise only unstable's is
    #[arg(long)]
    kaslr: bool,
    /// Write docs/kernels.md from what the probes attach to on all kernels
    #[arg(long, conflicts_with_all = ["kernels", "command"])]
    write_docs: bool,
    /// Seconds that a guest may take
    #[arg(long, default_value_t = DEFAULT_TIMEOUT)]
    timeout: u64,
    /// Run this in the guests instead of the tests; what it leaves in /out ends up in target/vm/KERNEL
    #[arg(last = true)]
    command: Vec<String>,
}

/// What came out for one kernel.
enum Outcome {
    /// It ran the tests.
    Tested(Summary, Option<Column>),
    /// It ran another command, with this exit status.
    Ran(i32),
}

/// Runs the kernels.
pub fn vm(options: &Options) -> anyhow::Result<()> {
    let (total, problems) = kernels(options)?;
    if options.command.is_empty() {
        println!("\n{total}");
    }
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("; ")) }
}

/// The default kernels' tests, for `cargo xtask test`: their results, and what else went wrong.
pub fn default_kernels() -> anyhow::Result<(Summary, Vec<String>)> {
    kernels(&Options { timeout: DEFAULT_TIMEOUT, ..Options::default() })
}

/// Runs the guest tests of these names on one kernel, with these variables, and has them print what they like.
pub fn run_tests(kernel: &str, variables: &[String], names: &[String]) -> anyhow::Result<()> {
    let kernels = vec![kernel.to_owned()];
    let command = guest::chosen_tests(variables, names);
    vm(&Options { kernels, command, timeout: DEFAULT_TIMEOUT, ..Options::default() })
}

/// Runs the kernels: results of the tests, and what else went wrong.
fn kernels(options: &Options) -> anyhow::Result<(Summary, Vec<String>)> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("`cargo xtask vm` builds guests for x86_64 on x86_64 only");
    }
    crate::setup::setup()?;
    needs::provide_all(true, &NEEDS);
    let folder = target_dir()?.join("vm");
    let programs = guest::build()?;
    let script = match options.command.as_slice() {
        // Kernels that are asked for by name run everything.
        [] => guest::tests(options.all || options.write_docs || !options.kernels.is_empty()),
        words => guest::script(words),
    };
    let in_guest = [(programs.profiler.as_path(), "profiler"), (programs.tests.as_path(), "guest-tests")];
    let root = image::root(&folder, &in_guest, &script)?;

    let kernels: Vec<&str> = match options.kernels.as_slice() {
        [] if options.all || options.write_docs => ALL.to_vec(),
        [] => DEFAULT.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    let (mut total, mut ran, mut problems, mut columns) = (Summary::default(), 0, Vec::new(), Vec::new());
    for series in &kernels {
        let kernel = match packages::kernel(series, options.update) {
            Ok(kernel) => kernel,
            Err(error) => {
                eprintln!("skipped: vm {series}: {error:#}");
                continue;
            }
        };
        let begin = Instant::now();
        println!("\nkernel {series}: {}", kernel.release);
        match one(&kernel, &root, &folder, options) {
            Ok(Outcome::Tested(summary, column)) => {
                ran += 1;
                for (name, reason) in &summary.skipped {
                    eprintln!("skipped: vm {series}: {name}: {reason}");
                }
                println!("kernel {series}: {summary} in {} s", begin.elapsed().as_secs());
                column.iter().for_each(|column| print!("{column}"));
                columns.extend(column);
                total.add(summary, series);
            }
            Ok(Outcome::Ran(status)) => {
                ran += 1;
                if status != 0 {
                    problems.push(format!("{series}: the command failed with status {status}"));
                }
            }
            Err(error) => {
                say(format_args!("vm {series}: {error:#}"));
                total.failed += 1;
                problems.push(format!("{series}: no result"));
            }
        }
    }
    if total.failed > 0 {
        problems.push(format!("{} tests failed", total.failed));
    }
    if ran < ENOUGH.min(kernels.len()) {
        problems.push(format!("{ran} of {} kernels ran, which is too few to say anything", kernels.len()));
    }
    if options.write_docs && !columns.is_empty() {
        write_docs(&columns)?;
    }
    Ok((total, problems))
}

/// Runs one kernel.
fn one(kernel: &packages::Kernel, root: &Path, folder: &Path, options: &Options) -> anyhow::Result<Outcome> {
    let (scratch, results) = (folder.join("scratch.img"), folder.join("results.img"));
    image::empty_disk(&scratch, 512)?;
    image::empty_disk(&results, 128)?;
    let machine = Machine {
        vmlinuz: kernel.vmlinuz.clone(),
        initramfs: image::initramfs(folder, kernel)?,
        disks: vec![
            (root.to_owned(), false),
            (image::modules(kernel)?, false),
            (scratch, true),
            (results.clone(), true),
        ],
        kaslr: options.kaslr || kernel.series == UNSTABLE,
        console: folder.join(format!("console-{}.log", kernel.series)),
        timeout: Duration::from_secs(options.timeout),
    };
    let outcome = machine.run()?;
    let left = folder.join(&kernel.series);
    qemu::unpack_results(&results, &left)?;
    scenarios::take_over(&left.join("scenarios"))?;
    if !options.command.is_empty() {
        return Ok(Outcome::Ran(outcome.status));
    }
    let mut summary = Summary::default();
    outcome.output.lines().for_each(|line| summary.add_line(line));
    if let Ok(log) = fs::read_to_string(left.join("skipped")) {
        summary.add_skipped(&log);
    }
    if summary.passed + summary.failed == 0 {
        bail!("the tests ended with status {} and no result", outcome.status);
    }
    Ok(Outcome::Tested(summary, column(&left)?))
}

/// What the guest's session says of the probes; `None` if it left none, of which a failed test has told.
fn column(left: &Path) -> anyhow::Result<Option<Column>> {
    let session = left.join("all-probes/session.json");
    let Ok(text) = fs::read_to_string(&session) else { return Ok(None) };
    Column::read(&text).map(Some).with_context(|| format!("cannot read {}", session.display()))
}

fn write_docs(columns: &[Column]) -> anyhow::Result<()> {
    let file: PathBuf = workspace().join("docs/kernels.md");
    say(format_args!("writing {}", file.display()));
    fs::write(&file, matrix::markdown(columns)).with_context(|| format!("cannot write {}", file.display()))
}
