//! Addresses to names, by blazesym.

mod kernel;
mod processes;
mod recent;
mod user;

pub use kernel::{KernelSymbols, lookup_address};
pub use processes::{Object, Processes};
pub use recent::Reported;
pub use user::{UserSymbols, file_frames};

use blazesym::symbolize::Symbolizer;

/// A symbolizer for names only: no source lines, no inlined functions, which need debug information
/// and cost seconds at the end of a run.
fn names_only() -> Symbolizer {
    Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).enable_auto_reload(false).build()
}
