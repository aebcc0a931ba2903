//! From entries of DWARF to types.

use gimli::{AttributeValue, Operation};

use super::{At, DwarfTypes, Entry, Unit};
use crate::types::{
    Field, MAX_DEPTH, MAX_MEMBERS, Parameter, Prototype, Qualifier, Record, RecordKind, Type, TypeId,
    TypeSource as _,
};

impl DwarfTypes {
    /// One level of a type.
    pub(super) fn decode(&self, at: At) -> Option<Type> {
        if let Some(known) = self.records.borrow().get(at.id()) {
            return Some(Type::Record(known));
        }
        let (unit, entry) = self.entry(at)?;
        let name = || self.text(at, &unit, &entry, gimli::DW_AT_name);
        let number = |attribute| entry.attr(attribute).and_then(|value| value.udata_value());
        // Nothing is said where it is `void`.
        let of = || self.reference(at, &unit, &entry, gimli::DW_AT_type).map_or(TypeId::VOID, At::id);
        let size = || number(gimli::DW_AT_byte_size);
        let qualified = |qualifier| Type::Qualified { qualifier, of: of() };
        Some(match entry.tag() {
            gimli::DW_TAG_base_type => Type::Base { name: name()?, size: size()? },
            gimli::DW_TAG_unspecified_type => Type::Void,
            gimli::DW_TAG_enumeration_type => {
                Type::Enumeration { name: name(), size: size().or_else(|| self.size(of()))? }
            }
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => {
                Type::Pointer { to: of(), size: size().unwrap_or(u64::from(unit.header.address_size())) }
            }
            gimli::DW_TAG_array_type => Type::Array { of: of(), counts: self.counts(&unit, &entry) },
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let kind = match entry.tag() {
                    gimli::DW_TAG_union_type => RecordKind::Union,
                    _ => RecordKind::Structure,
                };
                // A type with a unit of its own; here is nothing but what says so.
                let elsewhere = self.reference(at, &unit, &entry, gimli::DW_AT_signature);
                if let Some(defined) = elsewhere.filter(|defined| *defined != at) {
                    return Some(Type::Qualified { qualifier: Qualifier::Tag, of: defined.id() });
                }
                if entry.attr_value(gimli::DW_AT_declaration).is_some() {
                    return Some(Type::Forward { kind, name: name()? });
                }
                let record = Record {
                    kind,
                    name: name(),
                    size: size().unwrap_or(0),
                    align: number(gimli::DW_AT_alignment).filter(|align| align.is_power_of_two()),
                    fields: self.fields(at, &unit, &entry).into(),
                };
                self.records.borrow_mut().insert(at.id(), &record);
                Type::Record(record)
            }
            gimli::DW_TAG_typedef => Type::Alias { name: name()?, of: of() },
            gimli::DW_TAG_const_type => qualified(Qualifier::Const),
            gimli::DW_TAG_volatile_type => qualified(Qualifier::Volatile),
            gimli::DW_TAG_restrict_type => qualified(Qualifier::Restrict),
            gimli::DW_TAG_atomic_type => qualified(Qualifier::Atomic),
            gimli::DW_TAG_packed_type | gimli::DW_TAG_immutable_type | gimli::DW_TAG_shared_type => {
                qualified(Qualifier::Tag)
            }
            gimli::DW_TAG_subroutine_type => {
                Type::Function { returns: of(), parameters: self.parameters(at, &unit, &entry) }
            }
            _ => return None,
        })
    }

    /// Whether the entry, or what it completes, has this name.
    pub(super) fn is_named(&self, at: At, name: &str) -> bool {
        let Some((unit, entry)) = self.entry(at) else { return false };
        [gimli::DW_AT_linkage_name, gimli::DW_AT_name]
            .into_iter()
            .any(|attribute| self.text(at, &unit, &entry, attribute).as_deref() == Some(name))
    }

    pub(super) fn prototype_of(&self, at: At, variant: bool) -> Option<Prototype> {
        let (unit, entry) = self.entry(at)?;
        let ty = self.inherited(at, |at, unit, entry| self.reference(at, unit, entry, gimli::DW_AT_type));
        Some(Prototype {
            function: self.inherited(at, |at, unit, entry| self.text(at, unit, entry, gimli::DW_AT_name))?,
            parameters: self.parameters(at, &unit, &entry),
            returns: ty.map_or(TypeId::VOID, At::id),
            variant,
        })
    }

    /// What an entry says, or the one that it is an instance of (a function that was inlined elsewhere, too), or that it
    /// completes.
    fn inherited<T>(&self, at: At, get: impl Fn(At, &Unit, &Entry) -> Option<T>) -> Option<T> {
        let mut at = at;
        for _ in 0..4 {
            let (unit, entry) = self.entry(at)?;
            if let Some(found) = get(at, &unit, &entry) {
                return Some(found);
            }
            at = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification]
                .into_iter()
                .find_map(|attribute| self.reference(at, &unit, &entry, attribute))?;
        }
        None
    }

    fn parameters(&self, at: At, unit: &Unit, entry: &Entry) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        self.children(unit, entry, |child| {
            let Some(place) = self.files[at.file].at(at.file, unit, child.offset()) else { return };
            if child.tag() != gimli::DW_TAG_formal_parameter || parameters.len() >= MAX_MEMBERS {
                return;
            }
            let ty =
                self.inherited(place, |at, unit, entry| self.reference(at, unit, entry, gimli::DW_AT_type));
            parameters.push(Parameter {
                name: self.inherited(place, |at, unit, entry| self.text(at, unit, entry, gimli::DW_AT_name)),
                ty: ty.map_or(TypeId::VOID, At::id),
            });
        });
        parameters
    }

    /// Calls `with` for each child of an entry, in order.
    fn children(&self, unit: &Unit, entry: &Entry, mut with: impl FnMut(&Entry)) {
        let Ok(mut entries) = unit.entries_at_offset(entry.offset()) else { return };
        if !entry.has_children() || !matches!(entries.next_entry(), Ok(true)) {
            return;
        }
        if !matches!(entries.next_entry(), Ok(true)) {
            return;
        }
        while let Some(child) = entries.current() {
            with(child);
            if entries.next_sibling().is_err() {
                return;
            }
        }
    }

    /// Elements by dimension.
    fn counts(&self, unit: &Unit, entry: &Entry) -> Vec<u64> {
        let mut counts = Vec::new();
        self.children(unit, entry, |child| {
            if child.tag() != gimli::DW_TAG_subrange_type || counts.len() >= MAX_DEPTH {
                return;
            }
            let number = |attribute| child.attr(attribute).and_then(|value| value.udata_value());
            // An upper bound of -1 is an array of none.
            let bounded = || number(gimli::DW_AT_upper_bound)?.checked_add(1);
            counts.push(number(gimli::DW_AT_count).or_else(bounded).unwrap_or(0));
        });
        if counts.is_empty() { vec![0] } else { counts }
    }

    fn fields(&self, at: At, unit: &Unit, entry: &Entry) -> Vec<Field> {
        let mut fields = Vec::new();
        self.add_fields(at, unit, entry, &mut fields, 0);
        fields
    }

    fn add_fields(&self, at: At, unit: &Unit, entry: &Entry, fields: &mut Vec<Field>, depth: usize) {
        self.children(unit, entry, |child| match child.tag() {
            gimli::DW_TAG_member | gimli::DW_TAG_inheritance if fields.len() < MAX_MEMBERS => {
                fields.extend(self.field(at, unit, child));
            }
            // An enumeration of Rust's: the variants' members lie at one place.
            gimli::DW_TAG_variant_part | gimli::DW_TAG_variant if depth < 4 => {
                self.add_fields(at, unit, child, fields, depth + 1);
            }
            _ => {}
        });
    }

    fn field(&self, at: At, unit: &Unit, entry: &Entry) -> Option<Field> {
        let number = |attribute| entry.attr(attribute).and_then(|value| value.udata_value());
        // Members of the class itself, not of its objects.
        if entry.attr_value(gimli::DW_AT_external).is_some() {
            return None;
        }
        let ty = self.reference(at, unit, entry, gimli::DW_AT_type)?.id();
        let bytes = match entry.attr_value(gimli::DW_AT_data_member_location) {
            // Members of unions have no location.
            None => 0,
            Some(AttributeValue::Exprloc(expression)) => {
                match expression.operations(unit.encoding()).next() {
                    Ok(Some(Operation::PlusConstant { value })) => value,
                    // Where the virtual base of an object lies is found out at run time.
                    _ => return None,
                }
            }
            Some(_) => number(gimli::DW_AT_data_member_location)?,
        };
        let bits = number(gimli::DW_AT_bit_size);
        let offset_bits = match (number(gimli::DW_AT_data_bit_offset), number(gimli::DW_AT_bit_offset), bits)
        {
            (Some(offset), ..) => offset,
            // Up to DWARF 3: counted from the most significant bit of the storage.
            (None, Some(from_top), Some(bits)) => {
                let storage = number(gimli::DW_AT_byte_size).or_else(|| self.size(ty))?;
                let inside = storage.checked_mul(8)?.checked_sub(from_top.checked_add(bits)?)?;
                bytes.checked_mul(8)?.checked_add(inside)?
            }
            _ => bytes.checked_mul(8)?,
        };
        let name = self.text(at, unit, entry, gimli::DW_AT_name);
        Some(Field { name, ty, offset_bits, bits })
    }
}
