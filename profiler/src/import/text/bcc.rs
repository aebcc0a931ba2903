//! bcc's `profile`, and tools with the same output: frames, innermost first, then who, then how often.
//!
//! ```text
//!     filename_lookup
//!     vfs_statx
//!     --
//!     __xstat64
//!     -                ls (5255)
//!         1
//! ```
//!
//! `--` between kernel and user frames is there with `-d` only. (Its folded form is in `folded`.)

use super::lines::Head;
use super::{ImportError, Reader};
use crate::import::merge::Merger;
use crate::import::names;
use crate::profile::{Kind, Labels, LocationId, Session};

/// Most frames of a stack: the kernel walks 127 of either side.
const MAX_DEPTH: usize = 1024;

pub(super) fn recognises(head: &Head<'_>) -> bool {
    let lines = head.lines.windows(2);
    lines.into_iter().any(|pair| {
        process(&String::from_utf8_lossy(pair[0])).is_some()
            && count(&String::from_utf8_lossy(pair[1])).is_some()
    })
}

/// Reads all stacks.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<Session>, ImportError> {
    let mut merger = Merger::default();
    let mut session = reader.session();
    // Innermost first; `None` is the border between kernel and user.
    let mut names: Vec<Option<String>> = Vec::new();
    let mut labels: Option<Labels> = None;
    let mut guessed = false;
    while let Some(line) = reader.lines.next()? {
        let line = String::from_utf8_lossy(line);
        let text = line.trim();
        if let Some(labels) = labels.take() {
            if let Some(count) = count(&line) {
                guessed |= !names.contains(&None);
                add(&mut merger, &names, labels, count).map_err(|full| reader.full(full))?;
            } else {
                reader.warn(|| "a number of samples should be here; the stack is skipped".to_owned());
            }
            names.clear();
        } else if let Some(found) = process(&line) {
            labels = Some(found);
        } else if text == "--" {
            names.push(None);
        } else if line.starts_with([' ', '\t']) && !text.is_empty() {
            if names.len() < MAX_DEPTH {
                names.push(Some(text.to_owned()));
            }
        } else {
            names.clear();
        }
    }
    session.profile = merger.finish();
    if guessed {
        session.blind_spots.push(
            "The stacks do not say what is kernel code; it is taken to begin at the kernel's entry points (`profile -d` \
             marks the border)."
                .to_owned(),
        );
    }
    Ok(vec![session])
}

/// `    -                ls (5255)`.
fn process(line: &str) -> Option<Labels> {
    let text = line.strip_prefix([' ', '\t'])?.trim().strip_prefix("- ")?;
    let (comm, pid) = text.strip_suffix(')')?.rsplit_once(" (")?;
    let comm = comm.trim().trim_start_matches("b'").trim_end_matches('\'');
    Some(Labels { comm: Some(comm.into()), pid: Some(pid.parse().ok()?), ..Labels::default() })
}

fn count(line: &str) -> Option<u64> {
    line.strip_prefix([' ', '\t'])?.trim().parse().ok()
}

fn add(
    merger: &mut Merger,
    names: &[Option<String>],
    labels: Labels,
    count: u64,
) -> Result<(), crate::import::merge::Full> {
    let labels = merger.labels(labels)?;
    // Down to which frame, counted from the innermost, the kernel goes.
    let border = match names.iter().position(Option::is_none) {
        Some(border) => border,
        None => {
            let entry = |name: &Option<String>| {
                name.as_deref().is_some_and(|name| names::is_kernel_entry(symbol(name)))
            };
            names.iter().rposition(entry).map_or(0, |entry| entry + 1)
        }
    };
    let mut frames: Vec<LocationId> = Vec::new();
    for (index, name) in names.iter().enumerate().rev() {
        if let Some(name) = name {
            let marked = super::folded::frame(symbol(name), index < border);
            frames.push(merger.frame(marked)?);
        }
    }
    merger.add(Kind::Cpu, labels, &frames, count, count)
}

/// A frame without its address (`-v`) and offset.
fn symbol(text: &str) -> &str {
    let text = match text.split_once(' ') {
        Some((address, rest))
            if address.len() >= 8 && address.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            rest.trim_start()
        }
        _ => text,
    };
    match text.rsplit_once("+0x") {
        Some((name, offset)) if !name.is_empty() && offset.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            name
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use crate::import::text::testing::{import, stacks_of};

    #[test]
    fn stacks_with_and_without_a_border() {
        let text = b"Sampling at 49 Hertz of all threads by user + kernel stack... Hit Ctrl-C to end.\n^C\n\
            \x20   filename_lookup\n    vfs_statx\n    do_syscall_64\n    entry_SYSCALL_64_after_hwframe\n    __xstat64\n\
            \x20   -                ls -l (5255)\n        3\n\n\
            \x20   copy_page\n    --\n    main\n    -                dd (1)\n        2\n\n\
            \x20   func_ab\n    main\n    -                func_ab (13549)\n        5\n";
        let imported = import(text);
        assert_eq!(
            stacks_of(&imported.sessions[0]),
            [
                "ls -l;__xstat64;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];vfs_statx_[k];filename_lookup_[k] 3",
                "dd;main;copy_page_[k] 2",
                "func_ab;main;func_ab 5",
            ]
        );
        assert_eq!(imported.warnings, []);
    }
}
