//! `profiler diagnose`: the report of other tools' profiles, with what is wrong in them.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};

use super::present::{Heading, PresentArgs, present_below};
use super::views::ViewArgs;
use crate::diagnose::diagnose;
use crate::import::{self, Imported, Options};
use crate::profile::{Session, ViewError, store};
use crate::report::{self, escape::sanitize};

/// Options of `profiler diagnose`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Profiles: perf.data, perf script, perf report, folded stacks, call trees, pprof, bpftrace, bcc, session folders;
    /// `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Take the samples of this event, such as cycles; by default the first that measures CPU time.
    #[arg(long, value_name = "EVENT")]
    event: Option<String>,
    /// Save each profile as a session folder: DIR, or DIR-1, DIR-2, ... where there are several.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    present: PresentArgs,
}

/// Imports, diagnoses and reports. A file that cannot be read does not keep the others from being reported.
///
/// # Errors
///
/// When the report cannot be printed.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(output) = &args.output {
        store::check_destination(output)?;
    }
    let options = Options { event: args.event.clone() };
    let mut failed = false;
    let mut sessions: Vec<(String, Session)> = Vec::new();
    for file in &args.files {
        match import(file, &options) {
            Ok(imported) => sessions.extend(
                imported
                    .sessions
                    .into_iter()
                    .map(|session| (heading(file, &session, args.files.len() > 1), session)),
            ),
            Err(error) => {
                eprintln!("profiler: {}", sanitize(&error.to_string()));
                failed = true;
            }
        }
    }
    let several = sessions.len() > 1;
    let mut verdict = 0;
    for (index, (heading, mut session)) in sessions.into_iter().enumerate() {
        session.findings = diagnose(&session);
        let heading = Heading { text: &heading, further: index > 0 };
        match present_below(&heading, &session, &args.view.view(), &args.present) {
            Ok(status) => verdict = verdict.max(status),
            // The function may well be in the next profile.
            Err(error) if error.is::<ViewError>() => {
                eprintln!("profiler: {}", sanitize(&error.to_string()));
                failed = true;
            }
            Err(error) => return Err(error),
        }
        if let Some(output) = &args.output {
            let output = if several { numbered(output, index + 1) } else { output.clone() };
            store::save(&session, &output, |folder| report::write_all(&session, folder))?;
            eprintln!("session saved in {}", sanitize(&output.to_string_lossy()));
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::from(verdict) })
}

/// What stands above a report: what the text calls the profile and, of several files, which one.
fn heading(file: &Path, session: &Session, several_files: bool) -> String {
    let file = several_files.then(|| file.to_string_lossy().into_owned());
    file.into_iter().chain(session.heading.clone()).collect::<Vec<_>>().join(": ")
}

fn numbered(output: &Path, number: usize) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(format!("-{number}"));
    name.into()
}

/// Reads a file, and says what is odd about it.
fn import(file: &Path, options: &Options) -> Result<Imported, import::ImportError> {
    let bar = Bar::default();
    let progress = |done, of| bar.update(done, of);
    let imported = if file == Path::new("-") {
        import::read(&mut io::stdin().lock(), "standard input", options, &progress)
    } else {
        import::open_with(file, options, &progress)
    };
    bar.finish();
    let imported = imported?;
    for warning in &imported.warnings {
        let name = file.to_string_lossy();
        eprintln!("warning: {}: {}{}", sanitize(&name), warning.place, sanitize(&warning.text));
    }
    Ok(imported)
}

/// How much of a long input has been read.
#[derive(Default)]
struct Bar(RefCell<Option<ProgressBar>>);

impl Bar {
    /// Shorter inputs are read in a moment.
    const LONG: u64 = 32 << 20;

    fn update(&self, done: u64, of: Option<u64>) {
        if done < Self::LONG || !io::stderr().is_terminal() {
            return;
        }
        let mut bar = self.0.borrow_mut();
        let bar = bar.get_or_insert_with(|| {
            let template = match of {
                Some(_) => "reading {wide_bar} {bytes} of {total_bytes}, {eta} left",
                None => "{spinner} reading {bytes}, {bytes_per_sec}",
            };
            let style = ProgressStyle::with_template(template);
            let bar = of.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        bar.set_position(done);
    }

    fn finish(&self) {
        if let Some(bar) = self.0.borrow_mut().take() {
            bar.finish_and_clear();
        }
    }
}
