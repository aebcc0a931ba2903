//! Machine code in a session: bytes of the functions that most samples fall on, and what was found in them.

use serde::{Deserialize, Serialize};

use super::stacks::{Frame, Origin};

/// Code of a function, as it was when the session was recorded. It is kept in a file of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionText {
    /// The function's symbol. Untrusted.
    pub name: String,
    /// Kernel module, or the file name of the user binary.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub module: Option<String>,
    /// Kernel or user.
    pub origin: Origin,
    /// Address of its first byte: as it ran in the kernel, as the file has it for user programs.
    pub start: u64,
    /// Its instructions.
    #[serde(with = "hex")]
    pub bytes: Vec<u8>,
    /// Functions that it calls or jumps to: address and symbol, sorted. Untrusted.
    #[serde(default)]
    pub targets: Vec<(u64, String)>,
}

/// What was found in the code of a function: which of its instructions the samples fall on, which load they wait for,
/// who writes to its cache line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCode {
    /// The function's symbol. Untrusted.
    pub name: String,
    /// Kernel module, or the file name of the user binary.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub module: Option<String>,
    /// Kernel or user.
    pub origin: Origin,
    /// Size in bytes.
    pub size: u32,
    /// CPU samples in the function itself.
    pub samples: u64,
    /// Those by instruction.
    #[serde(default)]
    pub instructions: Vec<InstructionSamples>,
    /// What most samples wait for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait: Option<Wait>,
    /// What its memory operands access, as far as that is known, in order.
    #[serde(default)]
    pub accesses: Vec<MemberAccess>,
    /// It has a `pause`: it waits for something on purpose.
    #[serde(default)]
    pub spins: bool,
    /// Memory operands that are neither on the stack nor the CPU's or thread's own.
    #[serde(default)]
    pub operands: u32,
    /// Why its operands have no names, where none of them has: a sentence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nameless: Option<String>,
}

/// Samples that fell on one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionSamples {
    /// Where it begins, in bytes from the start of the function.
    pub offset: u32,
    /// How many.
    pub samples: u64,
}

/// The memory access that most of a function's samples wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The instruction that accesses memory.
    pub offset: u32,
    /// It, in AT&T syntax.
    pub text: String,
    /// The instruction that shows the samples: the one behind it.
    pub shown_at: u32,
    /// Samples behind the access.
    pub samples: u64,
    /// Whether the access writes as well.
    pub writes: bool,
    /// Whether it is atomic.
    pub locked: bool,
    /// Whether the samples lie on a `ret`, which can be slow itself.
    pub on_return: bool,
    /// What it accesses.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub member: Option<MemberRef>,
    /// Why that is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unknown: Option<String>,
    /// The cache line of the member.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<LineOfMember>,
    /// Functions with samples whose code writes to this line of this structure, those with most samples first.
    #[serde(default)]
    pub writers: Vec<Writer>,
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MemberRef {
    /// The structure as C writes it: `struct xfs_mount`. Untrusted, as all names here.
    pub structure: String,
    /// The member within it: `m_sb.sb_agblocks`.
    pub path: String,
    /// Bytes from the start of the structure.
    pub offset: u64,
    /// Bytes of the member.
    pub size: u64,
}

/// A memory operand whose member is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberAccess {
    /// The instruction, in bytes from the start of the function.
    pub at: u32,
    /// What it accesses.
    #[serde(flatten)]
    pub member: MemberRef,
    /// How the pointer came: `mp->m_perag`. Empty where the structure is the argument itself.
    #[serde(default)]
    pub by: String,
    /// It is read.
    pub reads: bool,
    /// It is written.
    pub writes: bool,
    /// The access is atomic.
    #[serde(default)]
    pub locked: bool,
}

/// The cache line that a member lies in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineOfMember {
    /// Number of the line in the structure: its first byte is this many times `bytes` in.
    pub index: u64,
    /// Bytes of a line.
    pub bytes: u64,
    /// What is known of the place of such structures in memory, where it is not sure that they begin on a line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub caveat: Option<String>,
    /// The members in it, as far as they matter: the one that is read, and those that are written often by their nature.
    #[serde(default)]
    pub often_written: Vec<Neighbour>,
    /// The judgement, a sentence.
    #[serde(default)]
    pub judgement: String,
    /// What to change about the layout, with before and after.
    #[serde(default)]
    pub advice: Vec<LayoutAdvice>,
}

/// A member that is written often by its nature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The member.
    pub path: String,
    /// Its type, as C writes it.
    pub type_name: String,
    /// Why it is written often: `a spinlock`.
    pub why: String,
}

/// A change of a structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutAdvice {
    /// What to do.
    pub text: String,
    /// The layout before and after, or a line of code.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub paste: Option<String>,
}

/// A function that writes to a cache line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// Its symbol.
    pub name: String,
    /// CPU samples in it.
    pub samples: u64,
    /// The instruction that writes.
    pub at: u32,
    /// What it writes.
    pub member: MemberRef,
    /// Whether the write is atomic.
    pub locked: bool,
    /// Whether it writes the very bytes that are waited for.
    pub same: bool,
}

impl FunctionText {
    /// Whether this is the code of `frame`.
    pub fn is_of(&self, frame: &Frame) -> bool {
        *self.name == *frame.name
            && self.module.as_deref() == frame.module.as_deref()
            && self.origin == frame.origin
    }
}

impl FunctionCode {
    /// Whether this is about `frame`.
    pub fn is_of(&self, frame: &Frame) -> bool {
        *self.name == *frame.name
            && self.module.as_deref() == frame.module.as_deref()
            && self.origin == frame.origin
    }
}

impl MemberRef {
    /// Structure and member: `struct xfs_mount.m_agno_log`.
    pub fn full(&self) -> String {
        format!("{}.{}", self.structure, self.path)
    }
}

impl LineOfMember {
    /// The first byte of the line in the structure, and the one after its last.
    pub fn range(&self) -> (u64, u64) {
        let start = self.index.saturating_mul(self.bytes);
        (start, start.saturating_add(self.bytes))
    }
}

/// Bytes as a string of hex digits.
mod hex {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits: Option<Vec<u8>> =
            text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
        let digits = digits.filter(|digits| digits.len().is_multiple_of(2));
        let digits = digits.ok_or_else(|| D::Error::custom("code is not an even number of hex digits"))?;
        Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
    }
}
