//! From places to members: what a memory operand accesses, by the types of the function's arguments.

use super::flow::{ARGUMENT_REGISTERS, Place, Root};
use crate::profile::MemberRef;
use crate::types::{self, Access, Prototype, RecordKind, Type, TypeId, TypeSource};

/// Bytes of a pointer.
const POINTER: u64 = 8;

/// A member that a memory operand accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The structure's type.
    pub structure: TypeId,
    /// Structure and member.
    pub member: MemberRef,
    /// The pointer as C would write it: `mp`, `tp->t_mountp`.
    pub by: String,
}

/// The types of what a function is given.
pub struct Arguments<'t> {
    types: &'t dyn TypeSource,
    /// Name and type by integer register, then by stack slot; `None` for halves of values.
    integers: Vec<Option<(String, TypeId)>>,
    on_stack: Vec<Option<(String, TypeId)>>,
    /// Why they are not known.
    unknown: Option<String>,
}

impl<'t> Arguments<'t> {
    /// The arguments of a function with this prototype.
    pub fn new(types: &'t dyn TypeSource, symbol: &str, prototype: Option<&Prototype>) -> Self {
        let unknown = match prototype {
            None => Some(format!("the types of the arguments of {symbol} are not known")),
            Some(prototype) if prototype.variant => Some(format!(
                "{symbol} is a variant that the compiler made of {}: which arguments it takes is not known",
                prototype.function
            )),
            Some(_) => None,
        };
        let mut arguments = Self { types, integers: Vec::new(), on_stack: Vec::new(), unknown };
        if let Some(prototype) = prototype.filter(|prototype| !prototype.variant) {
            arguments.assign(prototype);
        }
        arguments
    }

    /// Why no argument has a type: a sentence.
    pub fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }

    /// Gives parameters their registers (System V ABI for x86-64, section 3.2.3).
    fn assign(&mut self, prototype: &Prototype) {
        // A large result is written to where a hidden first argument points.
        if self.types.record(prototype.returns).is_some_and(|record| record.size > 2 * POINTER) {
            self.integers.push(None);
        }
        for (index, parameter) in prototype.parameters.iter().enumerate() {
            let name = parameter.name.clone().unwrap_or_else(|| format!("argument {}", index + 1));
            let Some(class) = self.class(parameter.ty) else { return };
            let value = Some((name, parameter.ty));
            match class {
                Class::Vector => {}
                Class::Integers(1) if self.integers.len() < ARGUMENT_REGISTERS => self.integers.push(value),
                Class::Integers(words) if self.integers.len() + words <= ARGUMENT_REGISTERS => {
                    self.integers.extend((0..words).map(|_| None));
                }
                Class::Integers(1) => self.on_stack.push(value),
                Class::Integers(words) | Class::Memory(words) => {
                    self.on_stack.extend((0..words).map(|_| None));
                }
            }
        }
    }

    /// How a value is passed; `None` if that is not worked out here.
    fn class(&self, ty: TypeId) -> Option<Class> {
        let stripped = self.types.strip(ty)?;
        Some(match self.types.get(stripped)? {
            Type::Base { name, .. } if name.contains("float") || name == "double" => Class::Vector,
            Type::Base { name, .. } if name.contains("double") => return None,
            Type::Base { size, .. } => Class::Integers(size.div_ceil(POINTER).max(1) as usize),
            Type::Enumeration { .. } | Type::Pointer { .. } => Class::Integers(1),
            Type::Record(record) if record.size > 2 * POINTER => {
                Class::Memory(record.size.div_ceil(POINTER).try_into().ok()?)
            }
            // Small structures may have floating-point members, which go elsewhere.
            Type::Record(record) if self.has_only_integers(&record, 0) => {
                Class::Integers(record.size.div_ceil(POINTER) as usize)
            }
            _ => return None,
        })
    }

    fn has_only_integers(&self, record: &types::Record, depth: usize) -> bool {
        depth < 8
            && record.fields.iter().all(|field| {
                let known = self.types.strip(field.ty).and_then(|ty| self.types.get(ty));
                match known {
                    Some(Type::Base { name, .. }) => !name.contains("float") && !name.contains("double"),
                    Some(Type::Record(inner)) => self.has_only_integers(&inner, depth + 1),
                    Some(Type::Pointer { .. } | Type::Enumeration { .. }) => true,
                    _ => false,
                }
            })
    }

    /// The member at a place that `size` bytes are accessed of. `result` tells the type that the function at an address
    /// returns, with its name.
    ///
    /// # Errors
    ///
    /// Why there is none: a few words.
    pub fn resolve(
        &self,
        place: &Place,
        size: u32,
        result: impl Fn(u64) -> Option<(String, TypeId)>,
    ) -> Result<Resolved, String> {
        let (mut by, ty) = match place.root {
            Root::Argument(number) => self.argument(number)?,
            Root::Result(address) => {
                result(address).ok_or("what a function returned whose type is not known")?
            }
            Root::Stack => return Err("on the stack".to_owned()),
            Root::Own => return Err("the CPU's or thread's own memory".to_owned()),
            Root::Fixed => return Err("a variable, not a member of an argument".to_owned()),
        };
        let mut structure = self.pointed(&by, ty)?;
        for (depth, offset) in place.follows.iter().enumerate() {
            let (path, pointer) = self.pointer_at(structure, *offset, &by)?;
            by = if depth == 0 && path.is_empty() { format!("*{by}") } else { format!("{by}->{path}") };
            structure = self.pointed(&by, pointer)?;
        }
        let offset = within(place.offset, &by)?;
        if self.types.record(structure).is_none() {
            return Err(format!("`{by}` points to {}, no structure", self.types.type_name(structure)));
        }
        let member = member_of(self.types, structure, offset, u64::from(size)).ok_or_else(|| {
            format!("byte {offset} behind `{by}` is no member of {}", self.types.type_name(structure))
        })?;
        Ok(Resolved { structure, member, by })
    }

    fn argument(&self, number: u8) -> Result<(String, TypeId), String> {
        if let Some(why) = &self.unknown {
            return Err(why.clone());
        }
        let number = usize::from(number);
        let known = match number.checked_sub(ARGUMENT_REGISTERS) {
            None => self.integers.get(number),
            Some(slot) => self.on_stack.get(slot),
        };
        known
            .cloned()
            .flatten()
            .ok_or_else(|| "in a register that carries no argument of one word".to_owned())
    }

    /// What a pointer points to.
    fn pointed(&self, by: &str, pointer: TypeId) -> Result<TypeId, String> {
        let to = self
            .types
            .pointee(pointer)
            .ok_or_else(|| format!("`{by}` is no pointer, but {}", self.types.type_name(pointer)))?;
        if to == TypeId::VOID { Err(format!("`{by}` is a pointer to void")) } else { Ok(to) }
    }

    /// The pointer at an offset of a structure: its name and type.
    fn pointer_at(&self, structure: TypeId, offset: i64, by: &str) -> Result<(String, TypeId), String> {
        let offset = within(offset, by)?;
        // A pointer to a pointer.
        if self.types.pointee(structure).is_some() && offset == 0 {
            return Ok((String::new(), structure));
        }
        let access = self.types.members_at(structure, offset, POINTER);
        let mut pointers = access
            .places()
            .iter()
            .filter(|place| place.offset() == offset && self.types.pointee(place.ty).is_some());
        match (&access, pointers.next(), pointers.next()) {
            (Access::Spans(_), ..) | (_, _, Some(_)) => {
                Err(format!("byte {offset} behind `{by}` may be one of several pointers"))
            }
            (_, Some(place), None) => Ok((place.path.clone(), place.ty)),
            _ => Err(format!("byte {offset} behind `{by}` is no pointer")),
        }
    }
}

/// How a value is passed.
enum Class {
    /// In this many integer registers, or stack slots where these are used up.
    Integers(usize),
    /// In a vector register.
    Vector,
    /// In this many stack slots.
    Memory(usize),
}

fn within(offset: i64, by: &str) -> Result<u64, String> {
    u64::try_from(offset).map_err(|_| format!("in what is around the structure that `{by}` points to"))
}

/// The member that `size` bytes are accessed of.
pub(super) fn member_of(
    types: &dyn TypeSource,
    structure: TypeId,
    offset: u64,
    size: u64,
) -> Option<MemberRef> {
    let access = types.members_at(structure, offset, size);
    let (first, last) = (access.places().first()?, access.places().last()?);
    let path = match &access {
        Access::Spans(_) => format!("{}..{}", first.path, last.path),
        _ => first.path.clone(),
    };
    let end = access.places().iter().map(|place| place.offset() + place.size()).max()?;
    let record = types.record(structure)?;
    let name = types.type_name(structure);
    // Nameless structures are told apart by where they are, which is not in the name.
    debug_assert!(matches!(record.kind, RecordKind::Structure | RecordKind::Union));
    Some(MemberRef {
        structure: name,
        path,
        offset: first.offset(),
        size: end.saturating_sub(first.offset()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::encoder;

    #[test]
    fn places_get_their_members() {
        let mut btf = encoder::mount();
        let types = btf.types();
        let mount = types.named("mount")[0];
        drop(types);
        let pointer = btf.pointer((mount.0 & 0xffff_ffff) as u32);
        let int = btf.int("int", 4);
        btf.function("f", &[("count", int), ("mp", pointer)]);
        let types = btf.types();
        let prototype = types.prototype("f");
        let arguments = Arguments::new(&types, "f", prototype.as_ref());
        let at = |follows: &[i64], offset, size| {
            let place = Place { root: Root::Argument(1), follows: follows.to_vec(), offset };
            let resolved = arguments.resolve(&place, size, |_| None);
            resolved.map(|found| format!("{}: {}", found.by, found.member.full()))
        };
        assert_eq!(at(&[], 72, 4), Ok("mp: struct mount.m_agino_log".to_owned()));
        assert_eq!(at(&[], 80, 8), Ok("mp: struct mount.m_active_trans.counter".to_owned()));
        assert_eq!(at(&[16], 8, 8), Ok("mp->m_list.next: struct list_head.prev".to_owned()));
        assert_eq!(at(&[128 + 16], 8, 8), Ok("mp->m_pools[0].next: struct list_head.prev".to_owned()));
        assert_eq!(at(&[], 72, 8), Ok("mp: struct mount.m_agino_log..m_maxicount".to_owned()));
        assert!(at(&[80], 0, 8).unwrap_err().contains("no pointer"));
        assert!(at(&[72], 0, 8).unwrap_err().contains("several"));
        assert!(at(&[], -8, 8).unwrap_err().contains("around"));
        assert!(at(&[], 10_000, 8).is_err() || at(&[], 10_000, 8).is_ok_and(|name| name.contains("m_table")));
        let number = Place { root: Root::Argument(0), follows: Vec::new(), offset: 8 };
        assert!(arguments.resolve(&number, 8, |_| None).unwrap_err().contains("`count` is no pointer"));
    }

    #[test]
    fn what_the_compiler_changed_is_not_guessed() {
        let mut btf = encoder::mount();
        let int = btf.int("int", 4);
        btf.function("g", &[("count", int)]);
        let types = btf.types();
        let prototype = types.prototype("g.isra.0").unwrap();
        let arguments = Arguments::new(&types, "g.isra.0", Some(&prototype));
        let place = Place::root(Root::Argument(0));
        assert!(arguments.resolve(&place, 8, |_| None).unwrap_err().contains("variant"));
    }
}
