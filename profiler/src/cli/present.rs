//! How results are presented, and whether they are good enough: the same for every subcommand that has findings.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use clap::ValueEnum;

use crate::profile::{Finding, Origin, Session, Severity, View};
use crate::report::escape::{sanitize_to, width};
use crate::report::{json, text};

/// Exit status if there is a finding that `--fail-on` is about.
pub const FOUND: u8 = 3;

/// How results are presented.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Results")]
pub struct PresentArgs {
    /// Print the report as text for people, or as JSON for programs.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    pub format: Format,
    /// Exit with status 3 if something is found that is at least this bad, suspected or confirmed.
    #[arg(long, value_enum, value_name = "SEVERITY")]
    pub fail_on: Option<FailOn>,
}

/// The form of the report on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// How bad a finding must be for the run to count as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Warnings, and what is worse.
    Warning,
    /// Only what is critical.
    Critical,
}

/// Prints the report of a session on standard output. Returns the exit status that its findings ask for: 0, or
/// [`FOUND`].
///
/// # Errors
///
/// When the function of `view` is in no stack, or when standard output cannot be written. A reader that has
/// seen enough (`| head`) is no error.
pub fn present(session: &Session, view: &View, args: &PresentArgs) -> anyhow::Result<u8> {
    present_below(&Heading::default(), session, view, args)
}

/// What stands above a text report where there are several; JSON reports follow each other, a line each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heading<'h> {
    /// What the profile is called; untrusted, and empty where it needs no name.
    pub text: &'h str,
    /// Whether there is a report before it.
    pub further: bool,
}

impl Heading<'_> {
    /// Columns that it may take.
    const COLUMNS: usize = 100;

    fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.further {
            writeln!(out)?;
        }
        if !self.text.is_empty() {
            let text = sanitize_to(self.text, Self::COLUMNS);
            writeln!(out, "{text}\n{}", "=".repeat(width(&text)))?;
        }
        Ok(())
    }
}

/// [`present`] below a heading.
///
/// # Errors
///
/// As those of [`present`].
pub fn present_below(
    heading: &Heading<'_>,
    session: &Session,
    view: &View,
    args: &PresentArgs,
) -> anyhow::Result<u8> {
    let stdout = io::stdout();
    let style = text::Style {
        color: stdout.is_terminal(),
        width: terminal_size::terminal_size_of(&stdout)
            .map_or(text::Style::MAX_WIDTH, |(columns, _)| columns.0.into()),
    };
    let mut out = io::BufWriter::new(stdout.lock());
    // Of a profile without the kernel's side, the tree would be empty.
    let view = &View { user: view.user || !has_kernel_code(session), ..view.clone() };
    let rendered = match args.format {
        Format::Text => heading
            .write(&mut out)
            .context("cannot print the report")
            .and_then(|()| text::render(session, view, &style, &mut out)),
        Format::Json => json::render(session, view, &mut out),
    };
    match rendered.and_then(|()| out.flush().context("cannot print the report")) {
        Err(error) if !is_broken_pipe(&error) => Err(error),
        _ => Ok(verdict(&session.findings, args.fail_on)),
    }
}

/// The exit status that findings ask for. How sure they are does not matter: a run in which a probe failed must
/// not pass for it.
fn verdict(findings: &[Finding], fail_on: Option<FailOn>) -> u8 {
    let least = match fail_on {
        None => return 0,
        Some(FailOn::Warning) => Severity::Warning,
        Some(FailOn::Critical) => Severity::Critical,
    };
    if findings.iter().any(|finding| finding.severity >= least) { FOUND } else { 0 }
}

pub(super) fn has_kernel_code(session: &Session) -> bool {
    session.profile.frames().iter().any(|frame| frame.origin == Origin::Kernel && !frame.is_left_out())
}

/// Whether printing ended because the reader has seen enough.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Confidence;
    use crate::testing::finding;

    #[test]
    fn severity_decides_and_confidence_does_not() {
        let of = |severity, confidence| Finding { confidence, ..finding("small-io", severity, &[]) };
        let info = of(Severity::Info, Confidence::Confirmed);
        let warning = [info.clone(), of(Severity::Warning, Confidence::Suspected)];
        let critical = [info, of(Severity::Critical, Confidence::Suspected)];
        for (findings, on_warning, on_critical) in
            [(&[][..], 0, 0), (&warning[..1], 0, 0), (&warning, FOUND, 0), (&critical, FOUND, FOUND)]
        {
            assert_eq!(verdict(findings, None), 0);
            assert_eq!(verdict(findings, Some(FailOn::Warning)), on_warning, "{findings:?}");
            assert_eq!(verdict(findings, Some(FailOn::Critical)), on_critical, "{findings:?}");
        }
    }
}
