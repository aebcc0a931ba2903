//! What the tests of all formats use.

use crate::import::{ImportError, Imported, Options};
use crate::profile::{Session, View};

/// A file in `tests/data`.
pub(in crate::import) fn text_of(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Imports a text that must be in a known format.
pub(in crate::import) fn import(text: &[u8]) -> Imported {
    try_import(text).unwrap()
}

pub(in crate::import) fn try_import(mut text: &[u8]) -> Result<Imported, ImportError> {
    crate::import::read(&mut text, "text", &Options::default(), &|_, _| {})
}

/// The text report of a session, without limits.
pub(in crate::import) fn report(session: &Session) -> String {
    let view = View { min_percent: 0.0, lines: 0, ..View::default() };
    let mut out = Vec::new();
    crate::report::text::render(session, &view, &crate::report::text::Style::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The stacks of a session as `comm;caller;callee_[k] weight`, in their order.
pub(in crate::import) fn stacks_of(session: &Session) -> Vec<String> {
    let profile = &session.profile;
    let stack = |stack: &crate::profile::Stack| {
        let comm = profile.labels(stack.labels).comm.iter().map(|comm| comm.to_string());
        let frames = stack.frames.iter().map(|frame| {
            let frame = profile.frame_of(*frame);
            let mark = if frame.origin == crate::profile::Origin::Kernel { "_[k]" } else { "" };
            format!("{}{mark}", frame.name)
        });
        format!("{} {}", comm.chain(frames).collect::<Vec<_>>().join(";"), stack.weight)
    };
    profile.stacks().iter().map(stack).collect()
}
