//! Cache lines: what shares one with a member.

use std::ops::Range;

use super::judge::{Judgement, judge};
use super::layout::members_within;
use super::{Layout, MAX_DEPTH, MAX_MEMBERS, Member, Type, TypeId, TypeSource};

/// Bytes of a line where the machine does not say: those of x86-64 and most others.
pub const USUAL_LINE: u64 = 64;

/// Bytes that this machine's caches hand over at once.
pub fn line_size() -> u64 {
    let path = "/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size";
    let size = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
    size.filter(|size: &u64| size.is_power_of_two() && (16..=4096).contains(size)).unwrap_or(USUAL_LINE)
}

/// Where objects begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At a line, by the alignment of their type or by that of their allocator.
    AtLine,
    /// At a multiple of so many bytes. Other members may then be in the line, one object's or another's.
    Multiple(u64),
}

impl Start {
    /// What the alignment of the type promises.
    pub fn of(layout: &Layout, line: u64) -> Self {
        let align = layout.align.bytes();
        if align >= line { Self::AtLine } else { Self::Multiple(align.max(1)) }
    }

    /// Where in a line objects can begin.
    fn offsets(self, line: u64) -> impl Iterator<Item = u64> {
        let step = match self {
            Self::AtLine => line,
            Self::Multiple(align) => align.clamp(1, line),
        };
        (0..line).step_by(step as usize)
    }
}

/// A member as small as it is worth telling apart: structures are opened, up to those whose type says enough (a lock).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// As C would name it from the outermost structure.
    pub path: String,
    /// Bits from the start of the outermost structure.
    pub offset_bits: u64,
    /// Bits; 0 for a flexible array.
    pub size_bits: u64,
    /// Whether it is a bitfield.
    pub bitfield: bool,
    /// Its type.
    pub ty: TypeId,
    /// The type as C writes it.
    pub type_name: String,
    /// Whether it is written often.
    pub judgement: Judgement,
}

impl Part {
    /// The bytes that it lies in.
    pub fn bytes(&self) -> Range<u64> {
        self.offset_bits / 8..self.offset_bits.saturating_add(self.size_bits).div_ceil(8)
    }
}

/// What shares a line with a place in a structure.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbourhood {
    /// The bytes asked about, from the start of the structure.
    pub bytes: Range<u64>,
    /// Bytes of a line.
    pub line: u64,
    /// Where objects begin.
    pub start: Start,
    /// What lies in the bytes asked about.
    pub own: Vec<Part>,
    /// What else is or may be in their line, in order of offset.
    pub neighbours: Vec<Neighbour>,
}

/// A member that shares the line.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// The member.
    pub part: Part,
    /// Whether it shares the line of an object that begins at a line.
    pub if_at_line: bool,
    /// Share of the places where objects can begin at which it does, above 0 and up to 1.
    pub share: f64,
}

impl Neighbourhood {
    /// Neighbours that are written by nature or by name, the most suspect first: by their judgement, then by how surely they
    /// share the line, then by how near they are.
    pub fn suspects(&self) -> Vec<&Neighbour> {
        let mut suspects: Vec<&Neighbour> =
            self.neighbours.iter().filter(|one| one.part.judgement.rank() >= 2).collect();
        let far = |one: &Neighbour| one.part.bytes().start.abs_diff(self.bytes.start);
        suspects.sort_by(|a, b| {
            let rank = |one: &Neighbour| one.part.judgement.rank();
            rank(b).cmp(&rank(a)).then(b.share.total_cmp(&a.share)).then(far(a).cmp(&far(b)))
        });
        suspects
    }

    /// Those of the [`suspects`](Self::suspects) that are written by nature, as far as they share the line of an object that
    /// begins at one; else those that may share it otherwise.
    pub fn written(&self) -> Vec<&Part> {
        let written: Vec<&Neighbour> =
            self.suspects().into_iter().filter(|one| one.part.judgement.is_written()).collect();
        let sure = written.iter().any(|one| one.if_at_line);
        written.into_iter().filter(|one| one.if_at_line || !sure).map(|one| &one.part).collect()
    }

    /// Lines of an object that begins at a line, by number, that the bytes asked about lie in.
    pub fn lines(&self) -> Range<u64> {
        lines(&self.bytes, 0, self.line)
    }

    /// Whether the bytes lie in more than one line, wherever objects begin.
    pub fn straddles(&self) -> bool {
        self.start.offsets(self.line).all(|start| {
            let lines = lines(&self.bytes, start, self.line);
            lines.end - lines.start > 1
        })
    }
}

/// What shares a line with the `size` bytes at `offset` of a structure.
pub fn around<S: TypeSource + ?Sized>(
    source: &S,
    layout: &Layout,
    offset: u64,
    size: u64,
    start: Start,
    line: u64,
) -> Neighbourhood {
    let bytes = offset..offset.saturating_add(size.max(1));
    let line = line.max(1);
    let mut own = Vec::new();
    let mut neighbours = Vec::new();
    for part in parts(source, layout) {
        let its = part.bytes();
        if its.is_empty() {
            continue;
        }
        if its.start < bytes.end && bytes.start < its.end {
            own.push(part);
            continue;
        }
        let meets = |start| {
            let (a, b) = (lines(&bytes, start, line), lines(&its, start, line));
            a.start < b.end && b.start < a.end
        };
        let (all, met) = start
            .offsets(line)
            .fold((0u32, 0u32), |(all, met), start| (all + 1, met + u32::from(meets(start))));
        if met > 0 {
            let share = f64::from(met) / f64::from(all.max(1));
            neighbours.push(Neighbour { part, if_at_line: meets(0), share });
        }
    }
    neighbours.sort_by_key(|one| one.part.offset_bits);
    Neighbourhood { bytes, line, start, own, neighbours }
}

/// Numbers of the lines that bytes lie in, in an object that begins `start` bytes behind the start of a line.
fn lines(bytes: &Range<u64>, start: u64, line: u64) -> Range<u64> {
    let last = bytes.end.max(bytes.start + 1) - 1;
    bytes.start.saturating_add(start) / line..last.saturating_add(start) / line + 1
}

/// All members of a structure, with those of the structures within it, judged.
pub fn parts<S: TypeSource + ?Sized>(source: &S, layout: &Layout) -> Vec<Part> {
    let mut parts = Parts { source, found: Vec::new(), budget: MAX_MEMBERS };
    for member in &layout.members {
        parts.add(member, 0);
    }
    parts.found
}

/// The judgement of a member as a whole: its own, else the worst of what is in it.
pub fn judge_member<S: TypeSource + ?Sized>(source: &S, member: &Member) -> Judgement {
    let name = member.path.rsplit('.').next().unwrap_or_default();
    let own = judge(source, member.ty, name);
    if own != Judgement::Unknown || member.bitfield {
        return own;
    }
    let mut parts = Parts { source, found: Vec::new(), budget: 1024 };
    parts.open(member, 0);
    let worst = parts.found.iter().map(|part| part.judgement).max_by_key(|judgement| judgement.rank());
    // That a structure has a name or a mask in it says nothing about the rest of it.
    worst.filter(|worst| worst.is_written()).unwrap_or(Judgement::Unknown)
}

struct Parts<'s, S: ?Sized> {
    source: &'s S,
    found: Vec<Part>,
    budget: usize,
}

impl<S: TypeSource + ?Sized> Parts<'_, S> {
    fn add(&mut self, member: &Member, depth: usize) {
        if self.budget == 0 || depth > MAX_DEPTH {
            return;
        }
        self.budget -= 1;
        if member.nameless.is_some() {
            return member.inner.iter().for_each(|inner| self.add(inner, depth + 1));
        }
        let name = member.path.rsplit('.').next().unwrap_or_default();
        let judgement = judge(self.source, member.ty, name);
        let is_array = matches!(self.stripped(member.ty), Some(Type::Array { .. }));
        if judgement == Judgement::Unknown && !member.bitfield && !is_array && self.open(member, depth) {
            return;
        }
        let judgement = if is_array { judge_member(self.source, member) } else { judgement };
        self.found.push(Part {
            path: member.path.clone(),
            offset_bits: member.offset_bits,
            size_bits: member.size_bits,
            bitfield: member.bitfield,
            ty: member.ty,
            type_name: member.type_name.clone(),
            judgement,
        });
    }

    /// Adds what is in a structure, or in the first element of an array of structures. `false` if it is neither.
    fn open(&mut self, member: &Member, depth: usize) -> bool {
        let mut id = member.ty;
        for _ in 0..MAX_DEPTH {
            match self.stripped(id) {
                Some(Type::Array { of, .. }) => id = of,
                Some(Type::Record(record)) if !record.fields.is_empty() => {
                    let inner = members_within(
                        self.source,
                        &record,
                        member.offset_bits,
                        &member.path,
                        depth,
                        &mut self.budget,
                    );
                    inner.iter().for_each(|inner| self.add(inner, depth + 1));
                    return true;
                }
                _ => return false,
            }
        }
        false
    }

    fn stripped(&self, id: TypeId) -> Option<Type> {
        self.source.get(self.source.strip(id)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::encoder::mount;

    fn around_agino(start: Start) -> Neighbourhood {
        let types = mount().types();
        let layout = types.structure("mount").unwrap();
        around(&types, &layout, 72, 4, start, 64)
    }

    fn names<'n>(neighbours: impl IntoIterator<Item = &'n Neighbour>) -> Vec<&'n str> {
        neighbours.into_iter().map(|one| one.part.path.as_str()).collect()
    }

    #[test]
    fn the_founding_case() {
        let near = around_agino(Start::AtLine);
        assert_eq!(near.own[0].path, "m_agino_log");
        assert_eq!(near.own[0].judgement, Judgement::ReadMostly("geometry"));
        assert_eq!(near.lines(), 1..2);
        let all = [
            "m_sb.sb_blocklog",
            "m_sb.sb_inopblog",
            "m_sb.sb_a",
            "m_sb.sb_b",
            "m_maxicount",
            "m_active_trans",
        ];
        assert_eq!(names(&near.neighbours), all);
        assert_eq!(names(near.suspects()), ["m_active_trans"]);
        assert!(near.neighbours.iter().all(|one| one.share == 1.0));
    }

    #[test]
    fn objects_that_begin_anywhere_have_more_neighbours() {
        let near = around_agino(Start::Multiple(8));
        let share =
            |path: &str| near.neighbours.iter().find(|one| one.part.path == path).map(|one| one.share);
        // 8 bytes away: at 7 of the 8 places where an object can begin.
        assert_eq!(share("m_active_trans"), Some(7.0 / 8.0));
        assert_eq!(share("m_maxicount"), Some(1.0));
        // In another line if the object begins at one.
        let list = near.neighbours.iter().find(|one| one.part.path == "m_list").unwrap();
        assert!(!list.if_at_line && list.share > 0.0);
        assert_eq!(share("m_ops"), None);
        assert_eq!(names(near.suspects())[0], "m_active_trans");
    }

    #[test]
    fn arrays_of_structures_are_judged_by_what_is_in_them() {
        let types = mount().types();
        let layout = types.structure("mount").unwrap();
        let parts = parts(&types, &layout);
        let pools: Vec<_> = parts.iter().filter(|part| part.path.starts_with("m_pools")).collect();
        assert_eq!(pools.len(), 1);
        assert_eq!((pools[0].bytes(), pools[0].judgement.rank()), (128..176, 4));
        assert_eq!(judge_member(&types, layout.member("m_sb").unwrap()), Judgement::Unknown);
    }

    #[test]
    fn straddling() {
        let types = mount().types();
        let layout = types.structure("mount").unwrap();
        let near = |offset, size, start| around(&types, &layout, offset, size, start, 64);
        assert!(near(60, 8, Start::AtLine).straddles());
        assert!(!near(56, 8, Start::AtLine).straddles());
        assert!(!near(60, 8, Start::Multiple(8)).straddles());
    }

    #[test]
    fn the_machine_has_lines() {
        assert!(line_size().is_power_of_two());
    }
}
