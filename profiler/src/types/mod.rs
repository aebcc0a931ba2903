//! Types of compiled programs: which member of a structure an instruction touches, and what else lies in its cache line.
//!
//! A [`TypeSource`] answers one level of a type at a time, from [BTF](btf) or [DWARF](dwarf). What is made of it does not
//! depend on which: [layouts](layout) with every member's place, [accesses](access), [cache lines](line) and
//! [advice](advice) about them.
//!
//! All of it may come from a hostile file: every walk is bounded, by [`MAX_DEPTH`] and [`MAX_MEMBERS`].

pub mod access;
pub mod advice;
mod align;
pub mod btf;
pub mod dwarf;
mod error;
mod file;
pub mod judge;
pub mod layout;
pub mod line;
pub mod model;
mod naming;
mod remembered;

pub use access::{Access, Place};
pub use align::Alignment;
pub use error::TypesError;
pub use layout::{Layout, Member};
pub use model::{Field, Parameter, Prototype, Qualifier, Record, RecordKind, Type, TypeId, Variable};

/// Types within types are followed this deep.
pub const MAX_DEPTH: usize = 32;
/// Members of one structure that are looked at; the kernel's largest has some hundreds, with all that is within.
pub const MAX_MEMBERS: usize = 1 << 16;

/// Types that somebody knows: those of a kernel, or those of a program.
pub trait TypeSource {
    /// One level of a type; `None` if the source has no such type, or a damaged one.
    fn get(&self, id: TypeId) -> Option<Type>;

    /// Structures and unions of this name that are defined. More than one where files of a program use a name for
    /// different structures; typedefs count as names, too. Of the kernel's: those of vmlinux before those of modules.
    fn named(&self, name: &str) -> Vec<TypeId>;

    /// The structure or union with this tag. Typedefs do not count, nor does what would have to be read first.
    fn tagged(&self, tag: &str) -> Option<TypeId>;

    /// How a function is called, by its symbol.
    fn prototype(&self, symbol: &str) -> Option<Prototype>;

    /// A global variable.
    fn variable(&self, name: &str) -> Option<Variable>;

    /// Names of structures and unions, in any order, perhaps more than once.
    fn names(&self) -> Vec<String>;

    /// The type behind typedefs and qualifiers; a structure that is only declared where `id` is used is looked up by name.
    fn strip(&self, id: TypeId) -> Option<TypeId> {
        layout::strip(self, id)
    }

    /// What a pointer points to, without typedefs and qualifiers. `None` if `id` is no pointer.
    fn pointee(&self, id: TypeId) -> Option<TypeId> {
        match self.get(self.strip(id)?)? {
            Type::Pointer { to, .. } => self.strip(to),
            _ => None,
        }
    }

    /// The structure or union behind typedefs and qualifiers.
    fn record(&self, id: TypeId) -> Option<Record> {
        match self.get(self.strip(id)?)? {
            Type::Record(record) => Some(record),
            _ => None,
        }
    }

    /// Bytes of a value; `None` for what has no size, such as a function or a structure that is only declared.
    fn size(&self, id: TypeId) -> Option<u64> {
        layout::size(self, id)
    }

    /// The type as C writes it: `const struct list_head *`, `unsigned char[16]`.
    fn type_name(&self, id: TypeId) -> String {
        naming::type_name(self, id)
    }

    /// A declaration of `name` with this type: `unsigned char name[16]`.
    fn declaration(&self, id: TypeId, name: &str) -> String {
        naming::declaration(self, id, name)
    }

    /// Where the members of a structure or union lie.
    fn layout(&self, id: TypeId) -> Option<Layout> {
        layout::layout(self, id)
    }

    /// [`layout`](Self::layout) of the first structure with this name.
    fn structure(&self, name: &str) -> Option<Layout> {
        self.named(name).into_iter().find_map(|id| self.layout(id))
    }

    /// What an access to `size` bytes touches that are `offset` bytes into a value of type `id`. A size of 0 (an address
    /// that is only computed) is taken for 1.
    fn members_at(&self, id: TypeId, offset: u64, size: u64) -> Access {
        access::members_at(self, id, offset, size)
    }
}

/// The function that a symbol is a variant of, which the compiler made: `f.constprop.0`, `f.isra.0.cold`, `f.part.0`,
/// `f.llvm.123`. `None` for names as they are in source code.
pub fn variant_of(symbol: &str) -> Option<&str> {
    symbol.split_once('.').map(|(function, _)| function).filter(|function| !function.is_empty())
}

#[cfg(test)]
pub(crate) mod encoder;
#[cfg(test)]
mod tests;
