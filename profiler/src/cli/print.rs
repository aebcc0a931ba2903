//! Prints the text report of a session on standard output.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;

use crate::profile::{Origin, Session, View, ViewError};
use crate::report::{self, escape::sanitize_to};

/// Columns of a heading.
const HEADING: usize = 100;

/// How far printing came.
pub enum Printed {
    /// To the end.
    All,
    /// The reader has seen enough, as `| head` has.
    Enough,
    /// The view is about a function that is in no stack.
    NoSuchFunction(ViewError),
}

/// Prints the report, below `heading` if that is not empty. `further`: there is a report before it.
///
/// # Errors
///
/// When standard output cannot be written to.
pub fn print(session: &Session, heading: &str, further: bool, view: &View) -> anyhow::Result<Printed> {
    let stdout = io::stdout();
    let style = report::text::Style { color: stdout.is_terminal(), ..Default::default() };
    let mut out = io::BufWriter::new(stdout.lock());
    // A profile without the kernel's side would be an empty tree.
    let user = view.user || !has_kernel_code(session);
    let view = View { user, ..view.clone() };
    let result = write_heading(heading, further, &mut out)
        .map_err(anyhow::Error::from)
        .and_then(|()| report::text::render(session, &view, &style, &mut out))
        .and_then(|()| out.flush().context("cannot print the report"));
    match result {
        Ok(()) => Ok(Printed::All),
        Err(error) if is_broken_pipe(&error) => Ok(Printed::Enough),
        Err(error) => match error.downcast::<ViewError>() {
            Ok(error) => Ok(Printed::NoSuchFunction(error)),
            Err(error) => Err(error),
        },
    }
}

fn write_heading(heading: &str, further: bool, out: &mut dyn io::Write) -> io::Result<()> {
    if further {
        writeln!(out)?;
    }
    if !heading.is_empty() {
        let heading = sanitize_to(heading, HEADING);
        writeln!(out, "{heading}\n{}", "=".repeat(report::escape::width(&heading)))?;
    }
    Ok(())
}

fn has_kernel_code(session: &Session) -> bool {
    session.profile.frames().iter().any(|frame| frame.origin == Origin::Kernel && !frame.is_left_out())
}

pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
