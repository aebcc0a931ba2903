//! `profiler report`: a saved session once more, perhaps seen otherwise.

use std::path::PathBuf;
use std::process::ExitCode;

use super::present::{Heading, PresentArgs, present_below};
use super::views::ViewArgs;
use crate::profile::store;

/// Options of `profiler report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of the session.
    #[arg(value_name = "DIR")]
    session: PathBuf,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    present: PresentArgs,
}

/// Prints the report of a saved session.
///
/// # Errors
///
/// When the folder cannot be loaded, the view is about a function that is in no stack, or printing fails.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let session = store::load(&args.session)?;
    let heading = session.heading.clone().unwrap_or_default();
    let heading = Heading { text: &heading, further: false };
    present_below(&heading, &session, &args.view.view(), &args.present).map(ExitCode::from)
}
