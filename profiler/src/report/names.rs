//! Function names as reports show them, back to functions.

use super::escape::{CUT, sanitize};
use crate::profile::{Frame, Profile, View};

/// `view`, its functions named as the profile names them. Who copies a name from a report copies it
/// escaped, and with its middle cut out where it was long.
pub(crate) fn resolve(profile: &Profile, view: &View) -> View {
    let resolve = |name: &Option<String>| name.as_deref().map(|name| function(profile, name));
    View { root: resolve(&view.root), callers: resolve(&view.callers), ..view.clone() }
}

/// The name of the one function that a report would show as `shown`; `shown` itself where there is none,
/// or more than one.
fn function(profile: &Profile, shown: &str) -> String {
    let shown = shown.trim();
    if profile.frames().iter().any(|frame| frame.is_called(shown)) {
        return shown.to_owned();
    }
    let cut = shown.split_once(CUT);
    let is_shown = |name: &str| {
        let name = sanitize(name);
        name == shown
            || cut.is_some_and(|(head, tail)| {
                name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
            })
    };
    let mut found = profile
        .frames()
        .iter()
        .filter(|frame: &&Frame| is_shown(&frame.name) || is_shown(&frame.qualified()));
    match (found.next(), found.next()) {
        (Some(frame), None) => frame.qualified().into_owned(),
        _ => shown.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Kind, Labels};
    use crate::report::escape::sanitize_to;
    use crate::testing::push;

    fn profile(frames: &[Frame]) -> Profile {
        let mut profile = Profile::new();
        let labels = profile.intern_labels(Labels::default());
        push(&mut profile, Kind::Cpu, labels, frames, 1);
        profile
    }

    #[test]
    fn names_copied_from_a_report_are_found() {
        let long = format!("begin{}end", "x".repeat(200));
        let frames = [
            Frame::kernel("vfs_read"),
            Frame::user("evil\n\u{202e}", "a b"),
            Frame::user(&long, "libx.so"),
            Frame::user("free", "[vdso]"),
        ];
        let profile = profile(&frames);
        for frame in &frames {
            for copied in [&*frame.name, &*frame.qualified()] {
                for copied in [copied.to_owned(), sanitize(copied).into_owned(), sanitize_to(copied, 60)] {
                    let name = function(&profile, &copied);
                    assert!(frame.is_called(&name), "{copied} became {name}");
                }
            }
        }
    }

    #[test]
    fn what_could_be_several_functions_stays() {
        let profile = profile(&[Frame::kernel("alloc_one_page"), Frame::kernel("alloc_two_page")]);
        assert_eq!(function(&profile, "alloc_...page"), "alloc_...page");
        assert_eq!(function(&profile, "alloc_...e_page"), "alloc_one_page");
        assert_eq!(function(&profile, "free_page"), "free_page");
    }
}
