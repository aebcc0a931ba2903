//! Folded stacks: a line a stack, `comm;caller;callee weight`, as flame graph tools read them.
//!
//! Marks behind the names say what they are: `_[k]` kernel, `_[m]` kernel module, `_[i]` inlined, `_[j]` compiled
//! at run time, `_[xfs]` or ` [xfs]` the module itself. Where there are no such marks, what is below an entry into the
//! kernel is kernel code. Whether stacks begin with a thread's name is not said anywhere: it is taken for one unless
//! it looks like a function.

use memchr::{memchr, memchr_iter, memrchr};

use super::cache::FrameCache;
use super::lines::Head;
use super::{ImportError, Reader};
use crate::import::merge::{Full, Merger};
use crate::import::names;
use crate::profile::{Frame, Kind, Labels, LabelsId, LocationId, Origin, Session};

pub(super) fn recognises(head: &Head<'_>) -> bool {
    let lines: Vec<_> = head.lines.iter().filter(|line| !line.starts_with(b"#")).take(200).collect();
    let folded = lines.iter().filter(|line| split(line).is_some()).count();
    let stacks = lines.iter().filter(|line| memchr(b';', line).is_some()).count();
    !lines.is_empty() && folded * 10 >= lines.len() * 9 && stacks > 0
}

/// Reads all stacks.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<Session>, ImportError> {
    let style = Style::of(reader.head);
    let mut stacks = Stacks::new(style);
    while let Some(line) = reader.lines.next()? {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"# ") {
            continue;
        }
        match split(line) {
            Some((stack, weight)) => stacks.add(stack, weight).map_err(|full| reader.full(full))?,
            None => reader.warn(|| "no `stack weight`; the line is skipped".to_owned()),
        }
    }
    let mut session = reader.session();
    session.profile = stacks.merger.finish();
    let notes = &mut session.blind_spots;
    notes.push("Folded stacks do not say what their weights are; they are taken for CPU samples.".to_owned());
    if !style.marks {
        notes.push(
            "The stacks do not say what is kernel code; it is taken to begin at the kernel's entry points."
                .to_owned(),
        );
    }
    Ok(vec![session])
}

/// Splits `stack weight`. Some tools write fractions.
pub(super) fn split(line: &[u8]) -> Option<(&[u8], u64)> {
    let line = line.trim_ascii_end();
    let at = memrchr(b' ', line)?;
    let digits = str::from_utf8(&line[at + 1..]).ok()?;
    let stack = line[..at].trim_ascii();
    let weight = match digits.parse::<u64>() {
        Ok(weight) => weight,
        Err(_) if digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            digits.parse::<f64>().ok()?.round() as u64
        }
        Err(_) => return None,
    };
    (!stack.is_empty()).then_some((stack, weight))
}

/// How the stacks of a text are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Style {
    /// Names of the kernel are marked.
    pub marks: bool,
    /// Stacks begin with the name of a thread.
    pub comms: bool,
}

impl Style {
    /// As far as the first lines tell.
    pub fn of(head: &[u8]) -> Self {
        let head = Head::new(head);
        let stacks: Vec<&[u8]> =
            head.lines.iter().filter_map(|line| split(line).map(|(stack, _)| stack)).collect();
        let marks = stacks.iter().any(|stack| memchr::memmem::find(stack, b"_[k]").is_some());
        // This program writes so for threads that were sampled without a stack.
        let surely = stacks.iter().any(|stack| stack.ends_with(b";[no stack]"));
        let functions = stacks
            .iter()
            .filter(|stack| is_function(stack.split(|byte| *byte == b';').next().unwrap_or(stack)));
        Self { marks, comms: surely || functions.count() * 2 < stacks.len() }
    }
}

/// Whether the first name of a stack is surely no thread's.
fn is_function(name: &[u8]) -> bool {
    const ROOTS: [&str; 12] = [
        "main",
        "_start",
        "all",
        "root",
        "start_thread",
        "__clone",
        "clone3",
        "__GI___clone3",
        "__libc_start_main",
        "[unknown]",
        "[no stack]",
        "[user space]",
    ];
    let name = String::from_utf8_lossy(name);
    // A thread's name has 15 bytes; those of processes that perf prefixes with an id are longer.
    name.ends_with("_[k]")
        || name.contains("::")
        || name.contains('(')
        || name.len() > 64
        || ROOTS.contains(&&*name)
        || names::is_kernel_entry(&name)
}

struct Stacks {
    style: Style,
    merger: Merger,
    cache: FrameCache,
    comms: FrameCache,
    /// Labels of the comms in `comms`, whose ids are indexes of this.
    labels: Vec<LabelsId>,
    none: Option<LabelsId>,
    frames: Vec<LocationId>,
}

impl Stacks {
    fn new(style: Style) -> Self {
        Self {
            style,
            merger: Merger::default(),
            cache: FrameCache::default(),
            comms: FrameCache::default(),
            labels: Vec::new(),
            none: None,
            frames: Vec::new(),
        }
    }

    fn add(&mut self, stack: &[u8], weight: u64) -> Result<(), Full> {
        self.frames.clear();
        let mut labels = None;
        let mut kernel = false;
        let mut start = 0;
        for end in memchr_iter(b';', stack).chain([stack.len()]) {
            let name = &stack[start..end];
            start = end + 1;
            if labels.is_none() && self.style.comms && name != b"..." {
                labels = Some(self.comm(name)?);
            } else if !matches!(name, b"" | b"-" | b"--" | b"[no stack]") {
                let id = self.frame(name, kernel)?;
                kernel |= !self.style.marks && self.merger.profile().frame_of(id).origin == Origin::Kernel;
                self.frames.push(id);
            }
        }
        let labels = match (labels, self.none) {
            (Some(labels), _) | (None, Some(labels)) => labels,
            (None, None) => {
                let none = self.merger.labels(Labels::default())?;
                *self.none.insert(none)
            }
        };
        self.merger.add(Kind::Cpu, labels, &self.frames, weight, weight)
    }

    fn comm(&mut self, name: &[u8]) -> Result<LabelsId, Full> {
        if let Some(index) = self.comms.get(name, false) {
            return Ok(self.labels[index.0 as usize]);
        }
        let comm = String::from_utf8_lossy(name);
        let labels = self.merger.labels(Labels { comm: Some(comm.into()), ..Labels::default() })?;
        self.comms.insert(name, false, LocationId(self.labels.len() as u32));
        self.labels.push(labels);
        Ok(labels)
    }

    fn frame(&mut self, text: &[u8], below_kernel: bool) -> Result<LocationId, Full> {
        if let Some(id) = self.cache.get(text, below_kernel) {
            return Ok(id);
        }
        let id = self.merger.frame(frame(&String::from_utf8_lossy(text), below_kernel))?;
        self.cache.insert(text, below_kernel, id);
        Ok(id)
    }
}

/// The function of a name with its marks.
pub(super) fn frame(text: &str, below_kernel: bool) -> Frame {
    if text == "..." {
        return Frame::left_out();
    }
    let (name, mark) = names::split_module(text);
    let marked = text.len() > name.len() && text.as_bytes()[name.len()] == b'_';
    match mark {
        Some("k") if marked => Frame::kernel(name),
        Some("m") if marked => Frame { module: Some("module".into()), ..Frame::kernel(name) },
        Some("i" | "j" | "w") if marked => side(name, below_kernel),
        Some(module) if names::is_kernel(&format!("[{module}]")) && !module.contains('.') => {
            Frame { module: Some(module.into()), ..Frame::kernel(name) }
        }
        Some(module) => Frame { module: Some(module.into()), ..side(name, below_kernel) },
        None => side(name, below_kernel),
    }
}

fn side(name: &str, below_kernel: bool) -> Frame {
    let kernel = below_kernel || names::is_kernel_entry(name);
    Frame { name: name.into(), module: None, origin: if kernel { Origin::Kernel } else { Origin::User } }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::import::text::testing::{import, stacks_of};
    use crate::testing::{push, session};

    fn written(session: &Session) -> String {
        let mut out = Vec::new();
        crate::report::folded::write(&session.profile, Kind::Cpu, None, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn marks_and_threads() {
        let text = b"# a comment\nfio;main;[unknown];do_syscall_64_[k];xfs_read_[xfs];f [nvme];g_[j] 3\n\
                     java;Foo::bar_[j];-;vfs_read_[k] 2.6\nkworker/0:1 7\n";
        let imported = import(text);
        assert_eq!(
            stacks_of(&imported.sessions[0]),
            [
                "fio;main;[unknown];do_syscall_64_[k];xfs_read_[k];f_[k];g 3",
                "java;Foo::bar;vfs_read_[k] 3",
                "kworker/0:1 7"
            ]
        );
        let text = b"main;read;entry_SYSCALL_64_after_hwframe;vfs_read 3\nbroken line\nmain;compute 4\n\
                     a;b 1\na;b 1\na;b 1\na;b 1\na;b 1\na;b 1\na;b 1\n";
        let imported = import(text);
        assert_eq!(
            stacks_of(&imported.sessions[0]),
            ["main;read;entry_SYSCALL_64_after_hwframe_[k];vfs_read_[k] 3", "main;compute 4", "a;b 7"]
        );
        assert_eq!(imported.warnings[0].place, crate::import::Place::Line(2));
    }

    #[test]
    fn our_own_come_out_as_they_went_in() {
        let text = written(&session());
        assert_eq!(written(&import(text.as_bytes()).sessions[0]), text);
    }

    proptest! {
        #[test]
        fn any_stacks_come_out_as_they_went_in(
            stacks in proptest::collection::vec(
                // Not `>`: a text whose lines begin with it is taken for one quoted in a mail.
                ("[ -=?-~][ -~]{0,14}", proptest::collection::vec(("[!-~ ]{3,12}", any::<bool>()), 1..8), 1u64..1_000_000),
                1..20,
            ),
        ) {
            let mut session = Session::default();
            for (comm, frames, weight) in &stacks {
                let labels = session.profile.intern_labels(Labels { comm: Some(comm.as_str().into()), ..Labels::default() });
                let frames: Vec<_> = frames
                    .iter()
                    .map(|(name, kernel)| if *kernel { Frame::kernel(name) } else { Frame::user(name, "a") })
                    .collect();
                push(&mut session.profile, Kind::Cpu, labels, &frames, *weight);
            }
            let text = written(&session);
            let imported = import(text.as_bytes());
            prop_assert_eq!(&imported.warnings, &[]);
            prop_assert_eq!(written(&imported.sessions[0]), text);
        }
    }
}
