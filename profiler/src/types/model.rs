//! Types of a compiled program, as BTF and DWARF both describe them: one level of the graph at a time.

use std::sync::Arc;

/// A type of a [`TypeSource`](super::TypeSource), which alone knows what the number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u64);

impl TypeId {
    /// `void`, in every source.
    pub const VOID: Self = Self(0);
}

/// One level of a type: what it is, and of which types it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// No value.
    Void,
    /// A number, a truth value or a character.
    Base {
        /// As C writes it: `unsigned int`.
        name: String,
        /// Bytes.
        size: u64,
    },
    /// An enumeration.
    Enumeration {
        /// Its tag, if it has one.
        name: Option<String>,
        /// Bytes.
        size: u64,
    },
    /// A pointer (or a reference of C++).
    Pointer {
        /// What it points to.
        to: TypeId,
        /// Bytes.
        size: u64,
    },
    /// An array.
    Array {
        /// Of which elements.
        of: TypeId,
        /// Elements by dimension, outermost first; 0 for a flexible array.
        counts: Vec<u64>,
    },
    /// A structure or a union with its members.
    Record(Record),
    /// A structure or union of which only the name is known here.
    Forward {
        /// Which of the two.
        kind: RecordKind,
        /// Its tag.
        name: String,
    },
    /// A typedef.
    Alias {
        /// The new name.
        name: String,
        /// The type that it is a name for.
        of: TypeId,
    },
    /// A type with a qualifier.
    Qualified {
        /// Which qualifier.
        qualifier: Qualifier,
        /// The type without it.
        of: TypeId,
    },
    /// A function, as pointers point to them.
    Function {
        /// What it returns.
        returns: TypeId,
        /// What it takes.
        parameters: Vec<Parameter>,
    },
}

/// A structure or a union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which of the two.
    pub kind: RecordKind,
    /// Its tag, if it has one.
    pub name: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Bytes to which an attribute aligns it; BTF does not record it, and DWARF only from version 5 on.
    pub align: Option<u64>,
    /// Its members as they were declared. Shared, since sources remember structures that were asked for.
    pub fields: Arc<[Field]>,
}

/// Structure or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// Members one after the other.
    Structure,
    /// Members at one place.
    Union,
}

impl RecordKind {
    /// The keyword: `struct` or `union`.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Structure => "struct",
            Self::Union => "union",
        }
    }
}

/// A member as it was declared, within its own structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name; members of a nameless structure or union count as members of what is around it.
    pub name: Option<String>,
    /// Its type.
    pub ty: TypeId,
    /// Bits from the start of its structure.
    pub offset_bits: u64,
    /// Width of a bitfield.
    pub bits: Option<u64>,
}

/// Type qualifiers of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Qualifier {
    /// `const`
    Const,
    /// `volatile`
    Volatile,
    /// `restrict`
    Restrict,
    /// `_Atomic`
    Atomic,
    /// An annotation that changes nothing about the value, such as the kernel's `__rcu` or `__percpu`.
    Tag,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, where one is recorded.
    pub name: Option<String>,
    /// Its type.
    pub ty: TypeId,
}

/// How a function is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// The function's name in the source code.
    pub function: String,
    /// Its parameters in order. A trailing `...` is not among them.
    pub parameters: Vec<Parameter>,
    /// What it returns; [`TypeId::VOID`] for nothing.
    pub returns: TypeId,
    /// The symbol is a variant that the compiler made (`f.constprop.0`, `f.isra.0`, `f.part.0`): parameters of `function`
    /// may be missing there, and registers hold others than the calling convention says.
    pub variant: bool,
}

/// A global variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: TypeId,
    /// Each CPU has its own.
    pub per_cpu: bool,
    /// Bytes from the start of its section (the per-CPU area), or its address in the file, where recorded.
    pub offset: Option<u64>,
    /// Bytes, where recorded.
    pub size: Option<u64>,
}
