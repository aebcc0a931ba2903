//! How objects of a type are aligned. BTF does not say, and DWARF only from version 5 on: it shows in holes.

use rustc_hash::FxHashMap;

use super::line::USUAL_LINE;
use super::{MAX_DEPTH, MAX_MEMBERS, Record, RecordKind, Type, TypeId, TypeSource};

/// To how many bytes objects of a type are aligned at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// By what the members need, and no more than that is known. An attribute may ask for more.
    Natural(u64),
    /// By an attribute: stated (DWARF 5), or the only explanation for a hole or padding that members do not need.
    Attribute(u64),
}

impl Alignment {
    /// Bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Natural(bytes) | Self::Attribute(bytes) => bytes,
        }
    }
}

/// Nothing is aligned to more than this by itself: `__int128`, `long double`.
const MAX_NATURAL: u64 = 16;
/// A hole of more than a page is none of an attribute's.
const MAX_ATTRIBUTE: u64 = 4096;

/// The alignment of a structure.
pub(super) fn alignment<S: TypeSource + ?Sized>(source: &S, record: &Record) -> Alignment {
    Aligner { source, known: FxHashMap::default(), budget: MAX_MEMBERS }.record(record, 0)
}

struct Aligner<'s, S: ?Sized> {
    source: &'s S,
    /// Structures are embedded in many places. 1 for those that are being worked on: hostile ones contain themselves.
    known: FxHashMap<TypeId, u64>,
    budget: usize,
}

impl<S: TypeSource + ?Sized> Aligner<'_, S> {
    fn of(&mut self, id: TypeId, depth: usize) -> u64 {
        let Some(id) = self.source.strip(id).filter(|_| depth <= MAX_DEPTH) else { return 1 };
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        self.known.insert(id, 1);
        let bytes =
            match self.source.get(id) {
                Some(
                    Type::Base { size, .. } | Type::Enumeration { size, .. } | Type::Pointer { size, .. },
                ) if size.is_power_of_two() => size.min(MAX_NATURAL),
                Some(Type::Array { of, .. }) => self.of(of, depth + 1),
                Some(Type::Record(record)) => self.record(&record, depth + 1).bytes(),
                _ => 1,
            };
        self.known.insert(id, bytes);
        bytes
    }

    fn record(&mut self, record: &Record, depth: usize) -> Alignment {
        let mut natural = 1;
        let mut attribute = record.align.unwrap_or(1);
        let mut packed = false;
        let mut end = 0;
        for field in record.fields.iter() {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            let own = self.of(field.ty, depth);
            let bits = field.bits.or_else(|| self.source.size(field.ty)?.checked_mul(8)).unwrap_or(0);
            let begin = field.offset_bits / 8;
            if field.bits.is_none() {
                packed |= !begin.is_multiple_of(own);
                if record.kind == RecordKind::Structure {
                    attribute = attribute.max(explained_by(end, begin, own));
                }
            }
            natural = natural.max(own);
            end = end.max(field.offset_bits.saturating_add(bits).div_ceil(8));
        }
        // Bytes behind the last member that its structure does not need.
        packed |= !record.size.is_multiple_of(natural);
        if packed {
            natural = 1;
        } else if !record.fields.is_empty() {
            attribute = attribute.max(explained_by(end, record.size, natural));
        }
        // What no number needs is an attribute of a structure within.
        match natural.max(attribute) {
            bytes if attribute > natural || bytes > MAX_NATURAL => Alignment::Attribute(bytes),
            bytes => Alignment::Natural(bytes),
        }
    }
}

/// An alignment that explains why what has the alignment `own` begins at `begin`, when what is before it ends at `end`; 1 if
/// `own` is explanation enough, or none is. Several may explain it: that to a line is by far the most usual, else it is
/// the least.
fn explained_by(end: u64, begin: u64, own: u64) -> u64 {
    if begin < end || begin - end < own {
        return 1;
    }
    let powers = (0..=MAX_ATTRIBUTE.ilog2()).map(|power| 1 << power);
    [USUAL_LINE]
        .into_iter()
        .chain(powers)
        .find(|candidate| *candidate > own && end.checked_next_multiple_of(*candidate) == Some(begin))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_tell_of_attributes() {
        assert_eq!(explained_by(72, 128, 8), 64);
        assert_eq!(explained_by(72, 80, 4), 16);
        // 16 would do as well, but nobody writes that.
        assert_eq!(explained_by(56, 64, 8), 64);
        // No hole, or one that the member's own type needs.
        assert_eq!(explained_by(64, 64, 8), 1);
        assert_eq!(explained_by(65, 72, 8), 1);
        // Nothing explains these.
        assert_eq!(explained_by(0, 136, 8), 1);
        assert_eq!(explained_by(100, 50, 8), 1);
    }
}
