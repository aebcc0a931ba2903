//! What an access touches: from a pointer's type and a displacement to members.

use super::{Field, MAX_DEPTH, MAX_MEMBERS, Record, Type, TypeId, TypeSource, layout};

/// What an instruction touches that accesses a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Exactly this member, or a part of it.
    Member(Place),
    /// One of these, which lie at one place: members of a union.
    Union(Vec<Place>),
    /// All of these: a wide access to neighbours, or to the word that holds several bitfields.
    Spans(Vec<Place>),
    /// Only bytes that belong to no member.
    Padding,
    /// Bytes behind the end of the type, or a type that has no size.
    Outside,
}

impl Access {
    /// The members, in order of offset; several of a union, or several that the access spans.
    pub fn places(&self) -> &[Place] {
        match self {
            Self::Member(place) => std::slice::from_ref(place),
            Self::Union(places) | Self::Spans(places) => places,
            Self::Padding | Self::Outside => &[],
        }
    }
}

/// An innermost member: no structure, union or array, unless its inside is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// As C would name it, from the structure asked about: `m_sb.sb_inopblog`, `bufs[3].lock`. Nameless structures and unions
    /// leave no trace. Empty if the type asked about is no structure.
    pub path: String,
    /// Bits from the start of the type asked about.
    pub offset_bits: u64,
    /// Bits.
    pub size_bits: u64,
    /// Its type.
    pub ty: TypeId,
    /// The type as C writes it.
    pub type_name: String,
    /// The member of the structure asked about that this lies in: `m_sb`, or `path` itself.
    pub member: String,
    /// Whether it is a bitfield.
    pub bitfield: bool,
}

impl Place {
    /// Bytes from the start of the type asked about to the byte in which it begins.
    pub fn offset(&self) -> u64 {
        self.offset_bits / 8
    }

    /// Bytes that it lies in.
    pub fn size(&self) -> u64 {
        (self.offset_bits + self.size_bits).div_ceil(8).saturating_sub(self.offset())
    }
}

pub(super) fn members_at<S: TypeSource + ?Sized>(source: &S, id: TypeId, offset: u64, size: u64) -> Access {
    let Some(start) = offset.checked_mul(8) else { return Access::Outside };
    let Some(end) = size.max(1).checked_mul(8).and_then(|bits| start.checked_add(bits)) else {
        return Access::Outside;
    };
    let whole = source.size(id);
    let mut search = Search { source, start, end, found: Vec::new(), budget: MAX_MEMBERS, flexible: false };
    search.walk(id, 0, None, &Path::default(), 0);
    let Search { mut found, flexible, .. } = search;
    if !flexible && whole.is_none_or(|whole| offset.saturating_add(size.max(1)) > whole) {
        return Access::Outside;
    }
    found.sort_by_key(|place| place.offset_bits);
    let overlap = found.windows(2).any(|two| two[0].offset_bits + two[0].size_bits > two[1].offset_bits);
    match (found.len(), overlap) {
        (0, _) => Access::Padding,
        (1, _) => Access::Member(found.remove(0)),
        (_, true) => Access::Union(found),
        (_, false) => Access::Spans(found),
    }
}

#[derive(Clone, Default)]
struct Path {
    text: String,
    /// Length of the outermost member's part.
    member: usize,
}

impl Path {
    fn member(&self, name: Option<&str>) -> Self {
        let Some(name) = name else { return self.clone() };
        let separator = if self.text.is_empty() { "" } else { "." };
        let text = format!("{}{separator}{name}", self.text);
        let member = if self.member == 0 { text.len() } else { self.member };
        Self { text, member }
    }

    fn element(&self, index: u64) -> Self {
        Self { text: format!("{}[{index}]", self.text), member: self.member }
    }
}

struct Search<'s, S: ?Sized> {
    source: &'s S,
    /// The bits that are accessed.
    start: u64,
    end: u64,
    found: Vec<Place>,
    budget: usize,
    /// The access reaches into a flexible array, which lies behind the end.
    flexible: bool,
}

impl<S: TypeSource + ?Sized> Search<'_, S> {
    /// Adds what is accessed of a value of type `id` that begins at the bit `base`.
    fn walk(&mut self, id: TypeId, base: u64, bits: Option<u64>, path: &Path, depth: usize) {
        self.budget = self.budget.saturating_sub(1);
        if self.budget == 0 || depth > MAX_DEPTH {
            return;
        }
        let ty = layout::strip(self.source, id).and_then(|id| self.source.get(id));
        match ty {
            Some(Type::Record(record)) if bits.is_none() && !record.fields.is_empty() => {
                self.walk_record(&record, base, path, depth);
            }
            Some(Type::Array { of, counts }) if bits.is_none() => {
                self.walk_array(id, of, &counts, base, path, depth);
            }
            _ => self.add(id, base, bits, path),
        }
    }

    fn walk_record(&mut self, record: &Record, base: u64, path: &Path, depth: usize) {
        for (index, Field { name, ty, offset_bits, bits }) in record.fields.iter().enumerate() {
            self.budget = self.budget.saturating_sub(1);
            let begin = base.saturating_add(*offset_bits);
            if self.budget == 0 || begin >= self.end {
                continue;
            }
            let size = bits.or_else(|| self.source.size(*ty)?.checked_mul(8)).unwrap_or(0);
            let last = index + 1 == record.fields.len();
            if size == 0 && last && self.is_flexible(*ty) {
                self.flexible = true;
            } else if begin.saturating_add(size) <= self.start {
                continue;
            }
            self.walk(*ty, begin, *bits, &path.member(name.as_deref()), depth + 1);
        }
    }

    fn is_flexible(&self, ty: TypeId) -> bool {
        let ty = layout::strip(self.source, ty).and_then(|ty| self.source.get(ty));
        matches!(ty, Some(Type::Array { counts, .. }) if counts.first() == Some(&0))
    }

    fn walk_array(&mut self, id: TypeId, of: TypeId, counts: &[u64], base: u64, path: &Path, depth: usize) {
        let Some((count, inner)) = counts.split_first() else {
            return self.walk(of, base, None, path, depth + 1);
        };
        let element = self.source.size(of).unwrap_or(0).saturating_mul(8);
        let stride = inner.iter().fold(element, |size, count| size.saturating_mul(*count));
        if stride == 0 {
            return self.add(id, base, None, path);
        }
        let first = self.start.saturating_sub(base) / stride;
        let mut past = self.end.saturating_sub(base).div_ceil(stride);
        if *count > 0 {
            past = past.min(*count);
        }
        for index in first..past {
            self.budget = self.budget.saturating_sub(1);
            if self.budget == 0 {
                return;
            }
            let begin = base.saturating_add(index.saturating_mul(stride));
            self.walk_array_inner(of, inner, begin, &path.element(index), depth + 1);
        }
    }

    fn walk_array_inner(&mut self, of: TypeId, counts: &[u64], base: u64, path: &Path, depth: usize) {
        if counts.is_empty() {
            self.walk(of, base, None, path, depth);
        } else if depth <= MAX_DEPTH {
            self.walk_array(of, of, counts, base, path, depth);
        }
    }

    fn add(&mut self, id: TypeId, base: u64, bits: Option<u64>, path: &Path) {
        let size = bits.or_else(|| self.source.size(id)?.checked_mul(8)).unwrap_or(0);
        if base >= self.end || base.saturating_add(size) <= self.start {
            return;
        }
        self.budget = self.budget.saturating_sub(1);
        self.found.push(Place {
            path: path.text.clone(),
            offset_bits: base,
            size_bits: size,
            ty: id,
            type_name: self.source.type_name(id),
            member: path.text[..path.member].to_owned(),
            bitfield: bits.is_some(),
        });
    }
}
