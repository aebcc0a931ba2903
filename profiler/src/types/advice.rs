//! How to lay a structure out so that what is read does not share a line with what is written.

use super::judge::Judgement;
use super::line::{Neighbourhood, Part, Start, parts};
use super::{Layout, MAX_DEPTH, Member, TypeSource};

/// For whom the declaration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// The kernel's C, which has `____cacheline_aligned_in_smp`.
    Kernel,
    /// C of programs.
    C,
}

/// A layout before and after, as C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Separation {
    /// The structure to change: the one asked about, or one within it that holds both members.
    pub structure: String,
    /// The members that meet in one line now.
    pub before: String,
    /// Where to put them.
    pub after: String,
    /// Bytes by which an object grows, at most.
    pub growth: u64,
    /// Where else the member that is read would be well off: among members that are only read. Text for a person.
    pub quiet: Option<String>,
}

/// Members that are moved at most: with more that is written, it is the member that is read that has to go.
const MOVED: usize = 4;

/// A way to separate what is read from what others write in its line, by [`Neighbourhood::written`]. `None` where nothing is.
///
/// # Examples
///
/// ```text
/// struct mount {    /* 320 bytes, before */
///         unsigned int m_agino_log;        /* 72: read */
///         atomic64_t m_active_trans;       /* 80: written: atomic counter */
/// ```
pub fn separate<S: TypeSource + ?Sized>(
    source: &S,
    layout: &Layout,
    near: &Neighbourhood,
    language: Language,
) -> Option<Separation> {
    separate_from(source, layout, near, &near.written(), language)
}

/// [`separate`] from members that are known to be `written`, from measurements.
pub fn separate_from<S: TypeSource + ?Sized>(
    source: &S,
    layout: &Layout,
    near: &Neighbourhood,
    written: &[&Part],
    language: Language,
) -> Option<Separation> {
    Separator { source, near, written, language }.within(layout, 0, 0)
}

struct Separator<'s, S: ?Sized> {
    source: &'s S,
    near: &'s Neighbourhood,
    written: &'s [&'s Part],
    language: Language,
}

impl<S: TypeSource + ?Sized> Separator<'_, S> {
    /// `layout` is that of a structure `base` bytes into the one asked about.
    fn within(&self, layout: &Layout, base: u64, depth: usize) -> Option<Separation> {
        let holder = |offset: u64| outer(layout, offset.checked_sub(base)?);
        let read = holder(self.near.bytes.start)?;
        let held = self.written.iter().filter_map(|part| Some((holder(part.bytes().start)?, *part)));
        let held: Vec<(&Member, &Part)> = held.take(MOVED).collect();
        let (first, _) = held.first()?;
        // Both in one structure within this one: that one has to be changed.
        if first.offset() == read.offset() {
            let inner = self.source.layout(read.ty).filter(|_| depth < MAX_DEPTH)?;
            return self.within(&inner, base + read.offset(), depth + 1);
        }
        let apart: Vec<(&Member, &Part)> =
            held.into_iter().filter(|(member, _)| member.offset() != read.offset()).collect();
        Some(self.separation(layout, read, &apart, base == 0))
    }

    fn separation(
        &self,
        layout: &Layout,
        read: &Member,
        apart: &[(&Member, &Part)],
        outermost: bool,
    ) -> Separation {
        let tag = if layout.name.is_empty() { "{...}" } else { &layout.name };
        let name = format!("{} {tag}", layout.kind.keyword());
        let mut rows = vec![(read.offset(), self.row(read, &format!("{}: read", read.offset())))];
        for (member, part) in apart {
            let note = match part.judgement {
                Judgement::Written { .. } => part.judgement.to_string(),
                _ => "written".to_owned(),
            };
            rows.push((member.offset(), self.row(member, &format!("{}: {note}", member.offset()))));
        }
        rows.sort_by_key(|(offset, _)| *offset);
        rows.dedup_by_key(|(offset, _)| *offset);
        let mut before = format!("{name} {{    /* {} bytes, before */\n", layout.size);
        before.extend(rows.into_iter().map(|(_, row)| row));
        before.push_str("        ...\n};\n");

        let mut moved: Vec<&Member> = apart.iter().map(|(member, _)| *member).collect();
        moved.sort_by_key(|member| member.offset());
        moved.dedup_by_key(|member| member.offset());
        let line = self.near.line;
        let bytes: u64 = moved.iter().map(|member| member.size()).sum();
        let size = layout.size.next_multiple_of(line).saturating_add(bytes.next_multiple_of(line));
        let mut after = format!("{name} {{    /* at most {size} bytes, after */\n");
        after.push_str(&self.row(read, "read: with others that are only read"));
        after.push_str("        ...\n        /* written: last, in lines of their own */\n");
        for (index, member) in moved.into_iter().enumerate() {
            let attribute = match (index, self.language) {
                (0, Language::Kernel) => " ____cacheline_aligned_in_smp".to_owned(),
                (0, Language::C) => format!(" __attribute__((aligned({line})))"),
                _ => String::new(),
            };
            after.push_str(&format!("        {}{attribute};\n", self.declaration(member)));
        }
        after.push_str("};\n");
        let quiet = if outermost { quiet(self.source, layout, self.near) } else { None };
        let growth = size.saturating_sub(layout.size);
        Separation { structure: layout.name.clone(), before, after, growth, quiet }
    }

    fn row(&self, member: &Member, note: &str) -> String {
        format!("        {:<40} /* {note} */\n", self.declaration(member) + ";")
    }

    fn declaration(&self, member: &Member) -> String {
        self.source.declaration(member.ty, member.path.rsplit('.').next().unwrap_or_default())
    }
}

/// The member of this structure itself that holds a byte; the smallest, where a union has several.
fn outer(layout: &Layout, offset: u64) -> Option<&Member> {
    layout
        .named_members()
        .into_iter()
        .filter(|member| member.offset() <= offset && offset < member.end())
        .min_by_key(|member| member.size())
}

/// A line in which nothing is written, and something is only read.
fn quiet<S: TypeSource + ?Sized>(source: &S, layout: &Layout, near: &Neighbourhood) -> Option<String> {
    if near.start != Start::AtLine {
        return None;
    }
    let parts = parts(source, layout);
    let size = near.bytes.end - near.bytes.start;
    (0..layout.size.div_ceil(near.line).min(1024)).find_map(|line| {
        let range = line * near.line..(line + 1) * near.line;
        let inside: Vec<&Part> = parts
            .iter()
            .filter(|part| part.bytes().start < range.end && range.start < part.bytes().end)
            .collect();
        let read = inside.iter().find(|part| part.judgement.rank() == 0)?;
        if inside.iter().any(|part| part.judgement.rank() >= 2) || near.lines().contains(&line) {
            return None;
        }
        let mut end = range.start;
        let mut hole = 0;
        for part in &inside {
            hole = hole.max(part.bytes().start.saturating_sub(end));
            end = end.max(part.bytes().end);
        }
        hole = hole.max(range.end.min(layout.size).saturating_sub(end));
        let room = if hole >= size {
            format!("has a hole of {hole} bytes")
        } else {
            "has no room left: something else has to leave it".to_owned()
        };
        Some(format!(
            "Line {line} (bytes {}-{}) holds {} and nothing that is known to be written; it {room}.",
            range.start,
            range.end - 1,
            read.path
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::encoder::{Encoder, mount};
    use crate::types::line::around;

    #[test]
    fn the_founding_case() {
        let types = mount().types();
        let layout = types.structure("mount").unwrap();
        let near = around(&types, &layout, 72, 4, Start::AtLine, 64);
        let text = |separation: Separation| {
            format!(
                "{}\n{}\n+{}\n{:?}",
                separation.before, separation.after, separation.growth, separation.quiet
            )
        };
        insta::assert_snapshot!(text(separate(&types, &layout, &near, Language::Kernel).unwrap()));
        // Nothing in this line is written.
        let near = around(&types, &layout, 200, 8, Start::AtLine, 64);
        assert_eq!(separate(&types, &layout, &near, Language::Kernel), None);
    }

    #[test]
    fn both_in_a_structure_within() {
        let mut btf = Encoder::new();
        let int = btf.int("int", 4);
        let atomic = btf.structure("", 4, &[("counter", int, 0, 0)]);
        let atomic = btf.typedef("atomic_t", atomic);
        let inner = btf.structure("inner", 8, &[("shift", int, 0, 0), ("busy", atomic, 32, 0)]);
        btf.structure("outer", 16, &[("a", int, 0, 0), ("in", inner, 64, 0)]);
        let types = btf.types();
        let layout = types.structure("outer").unwrap();
        let near = around(&types, &layout, 8, 4, Start::AtLine, 64);
        let separation = separate(&types, &layout, &near, Language::C).unwrap();
        assert_eq!(separation.structure, "inner");
        assert!(
            separation.after.contains("atomic_t busy __attribute__((aligned(64)));"),
            "{}",
            separation.after
        );
    }
}
