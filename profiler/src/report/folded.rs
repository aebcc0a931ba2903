//! Folded stacks: a line a stack, `comm;user frames;kernel frames_[k] weight`, as stackcollapse-perf
//! writes them and flame graph tools read them.

use std::collections::HashMap;
use std::io::{self, Write};

use anyhow::Context as _;
use rustc_hash::FxBuildHasher;

use super::escape::sanitize_to;
use crate::profile::paths::Paths;
use crate::profile::trie::{NodeId, Order, Trie, TrieBuilder, ranks};
use crate::profile::{GroupBy, Kind, Label, Origin, Profile, View, ViewError};

/// Columns after which a name is cut.
const NAME: usize = 1024;

/// Writes the stacks of one kind, sorted, equal ones merged. Without a view these are whole stacks,
/// with the thread's name before them where it is known.
///
/// # Errors
///
/// When `view` is about a function that no stack passes through (the cause is a [`ViewError`]), or when
/// writing fails.
pub fn write(profile: &Profile, kind: Kind, view: Option<&View>, out: &mut dyn Write) -> anyhow::Result<()> {
    let folded = Folded::new(profile, kind, view, |label| match label {
        Label::Frame(frame) if frame.origin == Origin::Kernel => name(&frame.name) + "_[k]",
        // As stackcollapse-perf does.
        Label::Group(GroupBy::Comm, comm) => name(comm).replace(char::is_whitespace, "_"),
        label => name(&label.name()),
    })?;
    folded
        .for_each(0, usize::MAX, |stack, weight| writeln!(out, "{stack} {weight}"))
        .context("cannot write folded stacks")
}

/// A name in a form that does not disturb the format.
pub(super) fn name(name: &str) -> String {
    // As stackcollapse-perf does; `;` stands in Rust's array types.
    let mut safe = sanitize_to(name, NAME).replace(';', ":");
    // `# ` begins a comment.
    if safe.starts_with('#') {
        safe.replace_range(..1, "\\x23");
    }
    // Readers find the weight behind the last space, and take a number before it for a second weight.
    if let Some((_, last)) = safe.rsplit_once(' ')
        && last.chars().all(|c| c.is_ascii_digit() || c == '.')
    {
        safe = safe.replace(' ', "_");
    }
    if safe.is_empty() { "[unknown]".to_owned() } else { safe }
}

/// Stacks of one kind, merged by what their frames are called in the output.
pub(super) struct Folded {
    texts: Vec<String>,
    trie: Trie,
}

impl Folded {
    /// Folds the stacks, naming each frame and group with `name`.
    pub fn new(
        profile: &Profile,
        kind: Kind,
        view: Option<&View>,
        name: impl Fn(Label<'_>) -> String,
    ) -> Result<Self, ViewError> {
        let whole =
            || View { user: true, by: has_comms(profile, kind).then_some(GroupBy::Comm), ..View::default() };
        let paths = Paths::new(profile, kind, view.unwrap_or(&whole()))?;
        let mut texts = Texts::default();
        let mut text_of_key: Vec<Option<u32>> = vec![None; paths.key_count()];
        let mut builder = TrieBuilder::default();
        let mut path = Vec::new();
        paths.for_each(|keys, weight| {
            path.clear();
            path.extend(keys.iter().map(|key| {
                *text_of_key[*key as usize].get_or_insert_with(|| texts.intern(name(paths.label(*key))))
            }));
            builder.add(&path, weight);
        })?;
        let texts = texts.items;
        // Compared with the separator, so that lines come out in the order of their bytes.
        let ranks = ranks(&texts, |a, b| a.bytes().chain([b';']).cmp(b.bytes().chain([b';'])));
        let trie = builder.finish(&ranks, Order::Rank);
        Ok(Self { texts, trie })
    }

    /// The sum of all weights.
    pub fn total(&self) -> u128 {
        self.trie.roots().iter().map(|id| u128::from(self.trie.node(*id).weight)).sum()
    }

    /// Calls `each` with every stack and its weight. What weighs less than `least`, or lies deeper than
    /// `levels`, is counted for its caller, or under `...` where it has none.
    pub fn for_each(
        &self,
        least: u64,
        levels: usize,
        mut each: impl FnMut(&str, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut stack = String::new();
        let light = self.split(self.trie.roots(), least);
        // A node and the length of the text and the level at which it goes on.
        let mut todo: Vec<(NodeId, usize, usize)> = light.heavy.iter().rev().map(|id| (*id, 0, 1)).collect();
        while let Some((id, length, level)) = todo.pop() {
            stack.truncate(length);
            if level > 1 {
                stack.push(';');
            }
            let node = self.trie.node(id);
            stack.push_str(&self.texts[node.key as usize]);
            let least = if level < levels { least } else { u64::MAX };
            let children = self.split(self.trie.children(id), least);
            let own = node.self_weight.saturating_add(children.light);
            if own > 0 {
                each(&stack, own)?;
            }
            let next = stack.len();
            todo.extend(children.heavy.iter().rev().map(|id| (*id, next, level + 1)));
        }
        if light.light > 0 { each("...", light.light) } else { Ok(()) }
    }

    fn split(&self, ids: &[NodeId], least: u64) -> Split {
        let weight = |id: &NodeId| self.trie.node(*id).weight;
        let (heavy, light): (Vec<_>, Vec<_>) = ids.iter().copied().partition(|id| weight(id) >= least);
        Split { heavy, light: light.iter().fold(0, |sum, id| sum.saturating_add(weight(id))) }
    }
}

/// Siblings that are heavy enough, and the weight of the others.
struct Split {
    heavy: Vec<NodeId>,
    light: u64,
}

fn has_comms(profile: &Profile, kind: Kind) -> bool {
    profile.of_kind(kind).any(|stack| profile.labels(stack.labels).comm.is_some())
}

#[derive(Default)]
struct Texts {
    items: Vec<String>,
    ids: HashMap<String, u32, FxBuildHasher>,
}

impl Texts {
    fn intern(&mut self, text: String) -> u32 {
        *self.ids.entry(text).or_insert_with_key(|text| {
            self.items.push(text.clone());
            self.items.len() as u32 - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Frame, Labels};
    use crate::testing::{HOSTILE_COMMS, kernel, push, session};

    fn folded(profile: &Profile, view: Option<&View>) -> Vec<String> {
        let mut out = Vec::new();
        write(profile, Kind::Cpu, view, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn merged_and_sorted() {
        let mut profile = Profile::new();
        let fio = profile.intern_labels(Labels { comm: Some("fio 1".into()), ..Labels::default() });
        let other =
            profile.intern_labels(Labels { comm: Some("dd".into()), pid: Some(1), ..Labels::default() });
        let stack = [Frame::user("main", "fio"), kernel("read [xfs]")];
        push(&mut profile, Kind::Cpu, fio, &stack, 5);
        push(&mut profile, Kind::Cpu, other, &stack[1..], 1);
        push(&mut profile, Kind::Cpu, fio, &[stack[0].clone(), kernel("read")], 2);
        push(&mut profile, Kind::Cpu, fio, &stack[..1], 3);
        push(&mut profile, Kind::Cpu, fio, &[], 4);
        assert_eq!(
            folded(&profile, None),
            ["dd;read_[k] 1", "fio_1;[no stack] 4", "fio_1;main 3", "fio_1;main;read_[k] 7"]
        );
        let view = View { root: Some("read".to_owned()), ..View::default() };
        assert_eq!(folded(&profile, Some(&view)), ["read_[k] 8"]);
        let view = View { root: Some("raed".to_owned()), ..View::default() };
        assert!(write(&profile, Kind::Cpu, Some(&view), &mut Vec::new()).is_err());
    }

    #[test]
    fn names_do_not_disturb_the_format() {
        assert_eq!(name("<[u8; 8]>::f"), "<[u8: 8]>::f");
        assert_eq!(name("operator new(unsigned long)"), "operator new(unsigned long)");
        assert_eq!(name("worker 12"), "worker_12");
        assert_eq!(name("worker "), "worker_");
        assert_eq!(name("# note"), "\\x23 note");
        assert_eq!(name("a\nb 5"), "a\\nb_5");
        assert_eq!(name(""), "[unknown]");
    }

    #[test]
    fn hostile_names_stay_in_their_line() {
        let session = session();
        let lines = folded(&session.profile, None);
        let mut total = 0;
        for line in &lines {
            assert!(!line.starts_with('#') && !line.contains(char::is_control), "{line:?}");
            total += line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
        }
        assert_eq!(total, session.profile.total(Kind::Cpu));
        let comms: std::collections::HashSet<_> = lines.iter().map(|line| line.split(';').next()).collect();
        assert_eq!(comms.len(), HOSTILE_COMMS.len() + 1);
    }

    #[test]
    fn light_frames_count_for_their_callers() {
        let mut profile = Profile::new();
        let labels = profile.intern_labels(Labels::default());
        for (names, weight) in [("a b c", 50), ("a b d", 2), ("a", 7), ("e", 1), ("f g", 1)] {
            let frames: Vec<_> = names.split(' ').map(kernel).collect();
            push(&mut profile, Kind::Cpu, labels, &frames, weight);
        }
        let lines = |least, levels| {
            let folded = Folded::new(&profile, Kind::Cpu, None, |label| name(&label.name())).unwrap();
            let mut lines = Vec::new();
            folded
                .for_each(least, levels, |stack, weight| {
                    lines.push(format!("{stack} {weight}"));
                    Ok(())
                })
                .unwrap();
            lines
        };
        assert_eq!(lines(3, 9), ["a 7", "a;b 2", "a;b;c 50", "... 2"]);
        assert_eq!(lines(0, 2), ["a 7", "a;b 52", "e 1", "f;g 1"]);
    }
}
