//! `profiler diff`: two profiles side by side.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use super::diagnose::import;
use super::present::{Format, has_kernel_code, is_broken_pipe};
use crate::diagnose::{compare, diagnose, normalize};
use crate::import::Options;
use crate::profile::Session;
use crate::profile::diff::{self, Diff, diff};
use crate::report::diff::flamegraph::Widths;
use crate::report::diff::{Comparison, flamegraph, render, write_json};
use crate::report::escape::sanitize;
use crate::report::text::Style;

/// Options of `profiler diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Two profiles, or one that holds two: session folders, perf.data, and whatever `diagnose` reads. Of a file
    /// with several profiles one is chosen by its number or heading: FILE#2, FILE#'Machine A'.
    #[arg(required = true, num_args = 1..=2, value_names = ["A", "B"])]
    profiles: Vec<PathBuf>,
    /// Take the samples of this event, such as cycles; by default the first that measures CPU time.
    #[arg(long, value_name = "EVENT")]
    event: Option<String>,
    /// Name the kernel's functions in perf.data files by this copy of the recorded machine's /proc/kallsyms.
    #[arg(long, value_name = "FILE")]
    kallsyms: Option<PathBuf>,
    /// How to print the comparison.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    format: Format,
    /// Write the comparison and differential flame graphs of both directions into this new folder, too.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Show the nodes of call trees whose share of everything changed by this many points.
    #[arg(long, value_name = "POINTS", default_value_t = diff::Options::default().points, value_parser = points)]
    min_points: f64,
    /// Show this many lines of each tree at most, those that changed most; 0: all.
    #[arg(long, value_name = "N", default_value_t = diff::Options::default().lines)]
    lines: usize,
    /// Show user frames in the trees, too.
    #[arg(long)]
    user: bool,
}

/// A session and what it is called.
struct Named {
    name: String,
    session: Session,
}

/// Compares and prints.
///
/// # Errors
///
/// When a profile cannot be read, when it is not clear which two to compare, or when the result cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(output) = &args.output
        && output.exists()
    {
        bail!("{} exists already: choose another folder for --output", shown(output));
    }
    let [mut a, mut b] = two(args)?;
    // What only the comparison shows is a finding of the one that is worse.
    let (in_a, in_b) = (compare(&a.session, &b.session), compare(&b.session, &a.session));
    a.session.findings.extend(in_a);
    b.session.findings.extend(in_b);
    let (a, b) = (a, b);
    let sessions = [&a.session, &b.session];
    let has_kernel = sessions.iter().any(|session| has_kernel_code(session));
    let options =
        diff::Options { points: args.min_points, lines: args.lines, user: args.user || !has_kernel };
    let diff = diff(sessions, &|name| normalize(name), &options);
    if diff.kinds.is_empty() {
        bail!("the two profiles have no kind of stacks in common");
    }
    let comparison = Comparison { sessions, names: [&a.name, &b.name], diff: &diff };
    if let Some(output) = &args.output {
        write_folder(&comparison, &diff, output)?;
    }
    let stdout = io::stdout();
    let style = Style { color: stdout.is_terminal(), ..Style::default() };
    let mut out = BufWriter::new(stdout.lock());
    let result = match args.format {
        Format::Text => render(&comparison, &style, &mut out),
        Format::Json => write_json(&comparison, &mut out),
    };
    match result.and_then(|()| out.flush().context("cannot print the comparison")) {
        Err(error) if !is_broken_pipe(&error) => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The two sessions that are meant, diagnosed.
fn two(args: &Args) -> anyhow::Result<[Named; 2]> {
    let options = Options { event: args.event.clone(), kallsyms: args.kallsyms.clone() };
    let mut found = Vec::new();
    for profile in &args.profiles {
        found.push(load(profile, &options)?);
    }
    let pair = match &mut found[..] {
        [all] if all.len() == 2 => [all.remove(0), all.remove(0)],
        [a, b] if a.len() == 1 && b.len() == 1 => [a.remove(0), b.remove(0)],
        _ => {
            let unclear =
                found.iter().zip(&args.profiles).find(|(all, _)| all.len() != 1 || found.len() == 1);
            let Some((all, profile)) = unclear else { bail!("give two profiles") };
            if all.len() == 1 {
                bail!("{} holds one profile only: give another one to compare it with", shown(profile));
            }
            bail!("{} holds {} profiles: choose from\n{}", shown(profile), all.len(), choices(profile, all));
        }
    };
    Ok(pair.map(|mut named| {
        named.session.findings = diagnose(&named.session);
        named
    }))
}

/// A line a profile.
fn choices(profile: &Path, all: &[Named]) -> String {
    let line = |(index, named): (usize, &Named)| {
        let heading = named.session.heading.as_deref().unwrap_or_default();
        format!("  {}#{}  {}", shown(profile), index + 1, sanitize(heading))
    };
    all.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// The profiles in a file, or the one that is chosen after `#`.
fn load(profile: &Path, options: &Options) -> anyhow::Result<Vec<Named>> {
    let text = profile.to_string_lossy();
    let (path, chosen) = match text.rsplit_once('#') {
        // A file may be called so.
        Some((path, chosen)) if !profile.exists() => (PathBuf::from(path), Some(chosen.trim().to_owned())),
        _ => (profile.to_owned(), None),
    };
    let sessions = import(&path, options)?.sessions;
    let several = sessions.len() > 1;
    let mut all: Vec<Named> = sessions
        .into_iter()
        .enumerate()
        .map(|(index, session)| {
            let mut name = path.to_string_lossy().into_owned();
            if several {
                name.push_str(&format!("#{}", index + 1));
            }
            if let Some(heading) = &session.heading {
                name.push_str(&format!(" ({heading})"));
            }
            Named { name, session }
        })
        .collect();
    let Some(chosen) = chosen else { return Ok(all) };
    let by_number = chosen.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let by_heading = || {
        let heading = |named: &Named| named.session.heading.as_deref().map(str::to_lowercase);
        let wanted = chosen.to_lowercase();
        let exact = all.iter().position(|named| heading(named).is_some_and(|heading| heading == wanted));
        exact.or_else(|| {
            all.iter().position(|named| heading(named).is_some_and(|heading| heading.contains(&wanted)))
        })
    };
    match by_number.filter(|index| *index < all.len()).or_else(by_heading) {
        Some(index) => Ok(vec![all.swap_remove(index)]),
        None => {
            bail!("{} has no profile `{}`; it has\n{}", shown(&path), sanitize(&chosen), choices(&path, &all))
        }
    }
}

/// Writes the comparison as text and JSON, and two flame graphs a kind.
fn write_folder(comparison: &Comparison<'_>, diff: &Diff, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir(folder).with_context(|| format!("cannot create {}", shown(folder)))?;
    let write = |name: &str, render: &mut dyn FnMut(&mut BufWriter<File>) -> anyhow::Result<()>| {
        let path = folder.join(name);
        let mut write = || {
            let mut out = BufWriter::new(File::create_new(&path)?);
            render(&mut out)?;
            out.flush()?;
            anyhow::Ok(())
        };
        write().with_context(|| format!("cannot write {}", shown(&path)))
    };
    write("diff.txt", &mut |out| render(comparison, &Style::default(), out))?;
    write("diff.json", &mut |out| write_json(comparison, out))?;
    for kind in &diff.kinds {
        // The usual kind has the plain names.
        let infix =
            if kind.kind == diff.kinds[0].kind { String::new() } else { format!("-{}", kind.kind.name()) };
        for (name, widths) in [("A-B", Widths::OfB), ("B-A", Widths::OfA)] {
            write(&format!("diff-{name}{infix}.svg"), &mut |out| {
                flamegraph::write(comparison.sessions, kind.kind, widths, &|name| normalize(name), out)
            })?;
        }
    }
    eprintln!("comparison saved in {}", shown(folder));
    Ok(())
}

fn shown(path: &Path) -> String {
    sanitize(&path.to_string_lossy()).into_owned()
}

fn points(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err("points are a number from 0 to 100".to_owned()),
    }
}
