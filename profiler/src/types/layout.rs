//! Where the members of a structure lie.

use super::align::{Alignment, alignment};
use super::{Field, MAX_DEPTH, MAX_MEMBERS, Record, RecordKind, Type, TypeId, TypeSource};

/// A structure or union with the place of every member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Which of the two.
    pub kind: RecordKind,
    /// Its tag, or the typedef it was asked for by; empty for neither.
    pub name: String,
    /// The type itself, without typedefs.
    pub ty: TypeId,
    /// Bytes.
    pub size: u64,
    /// Bytes to which objects are aligned at least.
    pub align: Alignment,
    /// The members in the order of their declaration; those of nameless structures and unions are in
    /// [`Member::inner`] of these.
    pub members: Vec<Member>,
}

/// A member of a structure, at its place in the outermost one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name as C would write it from the outermost structure: `m_sb.sb_inopblog`. Nameless structures and unions
    /// leave no trace in it. Empty for a nameless one itself.
    pub path: String,
    /// Bits from the start of the outermost structure.
    pub offset_bits: u64,
    /// Bits; 0 for a flexible array.
    pub size_bits: u64,
    /// Whether it is a bitfield.
    pub bitfield: bool,
    /// Its type.
    pub ty: TypeId,
    /// The type as C writes it: `atomic64_t`, `struct list_head`, `unsigned char[16]`.
    pub type_name: String,
    /// Members of a nameless structure or union.
    pub inner: Vec<Member>,
    /// For a nameless one: which of the two.
    pub nameless: Option<RecordKind>,
}

impl Member {
    /// Bytes from the start of the outermost structure to the byte in which it begins.
    pub fn offset(&self) -> u64 {
        self.offset_bits / 8
    }

    /// The byte behind its last.
    pub fn end(&self) -> u64 {
        self.offset_bits.saturating_add(self.size_bits).div_ceil(8)
    }

    /// Bytes that it lies in.
    pub fn size(&self) -> u64 {
        self.end().saturating_sub(self.offset())
    }
}

impl Layout {
    /// All members with a name, through nameless structures and unions, in the order of their declaration.
    pub fn named_members(&self) -> Vec<&Member> {
        fn add<'m>(members: &'m [Member], all: &mut Vec<&'m Member>) {
            for member in members {
                match member.nameless {
                    Some(_) => add(&member.inner, all),
                    None => all.push(member),
                }
            }
        }
        let mut all = Vec::new();
        add(&self.members, &mut all);
        all
    }

    /// The member with this path.
    pub fn member(&self, path: &str) -> Option<&Member> {
        self.named_members().into_iter().find(|member| member.path == path)
    }
}

pub(super) fn layout<S: TypeSource + ?Sized>(source: &S, id: TypeId) -> Option<Layout> {
    let stripped = strip(source, id)?;
    let Type::Record(record) = source.get(stripped)? else { return None };
    let mut budget = MAX_MEMBERS;
    let members = members_within(source, &record, 0, "", 0, &mut budget);
    let align = alignment(source, &record);
    let name = record.name.clone().or_else(|| match source.get(id) {
        Some(Type::Alias { name, .. }) => Some(name),
        _ => None,
    });
    Some(Layout {
        kind: record.kind,
        name: name.unwrap_or_default(),
        ty: stripped,
        size: record.size,
        align,
        members,
    })
}

/// The members of a structure that lies at the bit `base` and is reached by `prefix`, through nameless ones.
pub(super) fn members_within<S: TypeSource + ?Sized>(
    source: &S,
    record: &Record,
    base: u64,
    prefix: &str,
    depth: usize,
    budget: &mut usize,
) -> Vec<Member> {
    let mut members = Vec::new();
    for Field { name, ty, offset_bits, bits } in record.fields.iter() {
        if *budget == 0 || depth > MAX_DEPTH {
            break;
        }
        *budget -= 1;
        let offset_bits = base.saturating_add(*offset_bits);
        let inside = if name.is_none() { source.record(*ty) } else { None };
        let path = match (name, prefix) {
            (None, _) => String::new(),
            (Some(name), "") => name.clone(),
            (Some(name), prefix) => format!("{prefix}.{name}"),
        };
        members.push(Member {
            path,
            offset_bits,
            size_bits: bits.or_else(|| source.size(*ty)?.checked_mul(8)).unwrap_or(0),
            bitfield: bits.is_some(),
            ty: *ty,
            type_name: source.type_name(*ty),
            nameless: inside.as_ref().map(|inside| inside.kind),
            inner: inside.map_or(Vec::new(), |inside| {
                members_within(source, &inside, offset_bits, prefix, depth + 1, budget)
            }),
        });
    }
    members
}

pub(super) fn strip<S: TypeSource + ?Sized>(source: &S, mut id: TypeId) -> Option<TypeId> {
    for _ in 0..MAX_DEPTH {
        match source.get(id)? {
            Type::Alias { of, .. } | Type::Qualified { of, .. } => id = of,
            Type::Forward { name, .. } => return Some(source.tagged(&name).unwrap_or(id)),
            _ => return Some(id),
        }
    }
    None
}

pub(super) fn size<S: TypeSource + ?Sized>(source: &S, id: TypeId) -> Option<u64> {
    let mut id = id;
    let mut factor = 1u64;
    for _ in 0..MAX_DEPTH {
        match source.get(strip(source, id)?)? {
            Type::Array { of, counts } => {
                factor = counts.iter().try_fold(factor, |factor, count| factor.checked_mul(*count))?;
                id = of;
            }
            Type::Base { size, .. } | Type::Enumeration { size, .. } | Type::Pointer { size, .. } => {
                return size.checked_mul(factor);
            }
            Type::Record(record) => return record.size.checked_mul(factor),
            _ => return None,
        }
    }
    None
}
