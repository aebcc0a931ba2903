//! `cargo xtask bench`: what the profiler costs on this machine, written to docs/benchmarks.md.
//!
//! One file a benchmark: a name, and a function that measures and returns its section of the document as
//! Markdown. Nothing here fails because a number is bad.

mod document;
mod fixed;
mod import;
mod load;
mod machine;
mod process;
mod recording;
mod stats;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::run::{cargo, is_root, run, say, target_dir, workspace};

/// Options of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Benchmarks to run: all of them by default; the sections of others stay as they are
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// How often each measurement is repeated
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Length of the longer measurements, in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Size of the recordings that imports are measured with, in MiB: 1024 takes a quarter of an hour
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=8192))]
    mebibytes: u32,
}

/// What benchmarks are given.
struct Context {
    /// The release build of the profiler.
    profiler: PathBuf,
    /// An empty folder on a disk, removed at the end.
    folder: PathBuf,
    repeat: u32,
    seconds: u32,
    mebibytes: u32,
}

/// A benchmark.
struct Benchmark {
    /// Names it on the command line, and marks its section.
    name: &'static str,
    /// Measures; returns the section, which begins with a heading of the second level.
    run: fn(&Context) -> anyhow::Result<String>,
}

/// All of them, in the order in which the document has them.
const BENCHMARKS: [Benchmark; 2] =
    [Benchmark { name: "fixed", run: fixed::run }, Benchmark { name: "import", run: import::run }];

/// Runs the benchmarks and writes the document.
pub fn bench(options: &Options) -> anyhow::Result<()> {
    if let Some(unknown) =
        options.names.iter().find(|name| BENCHMARKS.iter().all(|known| known.name != **name))
    {
        bail!("there is no benchmark {unknown}; there are {}", BENCHMARKS.map(|known| known.name).join(", "));
    }
    crate::setup::setup()?;
    run(cargo().args(["build", "--release", "--package", "profiler"]))?;
    if !is_root() {
        bail!("the profiler is measured as root: run `sudo {} bench`", std::env::current_exe()?.display());
    }
    let context = Context {
        profiler: target_dir()?.join("release/profiler"),
        folder: target_dir()?.join("bench"),
        repeat: options.repeat,
        seconds: options.seconds,
        mebibytes: options.mebibytes,
    };
    let result = measure(&context, &options.names);
    let _ = std::fs::remove_dir_all(&context.folder);
    result
}

fn measure(context: &Context, names: &[String]) -> anyhow::Result<()> {
    let path = workspace().join("docs/benchmarks.md");
    for benchmark in
        BENCHMARKS.iter().filter(|known| names.is_empty() || names.iter().any(|name| name == known.name))
    {
        empty(&context.folder)?;
        let section = (benchmark.run)(context).with_context(|| format!("benchmark {}", benchmark.name))?;
        let section = format!("{}\n\n{}", section.trim_end(), machine::facts(&context.profiler));
        // After each, so that a later one that fails takes nothing away.
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let order = BENCHMARKS.map(|known| known.name);
        std::fs::write(&path, document::with_section(&before, benchmark.name, &section, &order))
            .with_context(|| format!("cannot write {}", path.display()))?;
        say(format_args!("wrote {} to {}", benchmark.name, path.display()));
    }
    Ok(())
}

fn empty(folder: &Path) -> anyhow::Result<()> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}
