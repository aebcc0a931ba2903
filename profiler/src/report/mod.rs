//! Reports: one file an output. They read a session and never change it.

pub mod diff;
pub mod escape;
pub mod flamegraph;
pub mod folded;
pub mod json;
pub mod layout;
mod names;
mod selection;
pub mod text;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::Context as _;

use crate::profile::Session;
use crate::profile::view::View;

/// Writes every rendering of a session into its folder: `report.txt`, and for each kind of stacks a
/// flamegraph (`cpu.svg`) and folded stacks (`cpu.folded`).
///
/// # Errors
///
/// With the file that could not be written.
pub fn write_all(session: &Session, folder: &Path) -> anyhow::Result<()> {
    let in_file = |name: &str, render: &mut dyn FnMut(&mut BufWriter<File>) -> anyhow::Result<()>| {
        let path = folder.join(name);
        let mut write = || {
            let mut out = BufWriter::new(File::create(&path)?);
            render(&mut out)?;
            out.flush()?;
            anyhow::Ok(())
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    };
    in_file("report.txt", &mut |out| text::render(session, &View::default(), &text::Style::default(), out))?;
    for kind in session.profile.kinds() {
        in_file(&format!("{}.svg", kind.name()), &mut |out| flamegraph::write(session, kind, out))?;
        in_file(&format!("{}.folded", kind.name()), &mut |out| {
            folded::write(&session.profile, kind, None, out)
        })?;
    }
    Ok(())
}
