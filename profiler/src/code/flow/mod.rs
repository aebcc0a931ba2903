//! Forward data flow over one function: what each memory operand addresses, in terms of the function's arguments.
//!
//! Registers and stack slots hold a [`Place`] or something unknown. Where ways through the function meet, they must
//! agree; loops are followed until nothing changes. Whatever is not followed (multiplications, 32-bit values, what
//! callees may have changed) is unknown: a place that is named is the one that is accessed, on the way that is taken
//! there. Two things are taken for granted: that compilers do not spill registers to slots whose address they have
//! passed on, and that callees keep to the System V calling convention.

mod state;
mod step;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use iced_x86::{FlowControl, InstructionInfoFactory, OpAccess, Register, UsedMemory};

use super::disasm::Code;
use state::State;

/// Registers that carry integer and pointer arguments, in order (System V ABI for x86-64, section 3.2.3). Further
/// arguments are on the stack.
pub const ARGUMENT_REGISTERS: usize = 6;
/// Functions with more instructions are not followed.
const MAX_INSTRUCTIONS: usize = 20_000;
/// Blocks are looked at this often on average, else the function is given up. Each visit but the first makes a
/// register unknown, so that few are needed.
const MAX_VISITS: usize = 64;

/// Where a place is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// The pointer in an integer argument: 0 to 5 in registers, the others on the stack.
    Argument(u8),
    /// The stack pointer at the function's start.
    Stack,
    /// Memory of this CPU's (`%gs` in the kernel) or thread's own (`%fs` in user space).
    Own,
    /// Nothing: the offset is an address, or a number.
    Fixed,
    /// What the function at this address has returned.
    Result(u64),
}

/// A pointer, in terms of where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Where it starts.
    pub root: Root,
    /// Offsets at which pointers were loaded on the way, in bytes: `[8, 16]` for `root->at8->at16`.
    pub follows: Vec<i64>,
    /// What was added last, in bytes.
    pub offset: i64,
}

impl Place {
    /// The root itself.
    pub fn root(root: Root) -> Self {
        Self { root, follows: Vec::new(), offset: 0 }
    }

    /// A number.
    pub fn fixed(value: i64) -> Self {
        Self { root: Root::Fixed, follows: Vec::new(), offset: value }
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<i64> {
        (self.root == Root::Fixed && self.follows.is_empty()).then_some(self.offset)
    }

    /// The place `by` bytes further on.
    pub fn plus(&self, by: i64) -> Self {
        Self { offset: self.offset.wrapping_add(by), ..self.clone() }
    }

    /// What a pointer that is stored here points to.
    fn followed(&self) -> Option<Self> {
        /// Longer chains of pointers are loops.
        const DEPTH: usize = 5;
        if self.root == Root::Stack || self.follows.len() >= DEPTH {
            return None;
        }
        let follows = self.follows.iter().copied().chain([self.offset]).collect();
        Some(Self { root: self.root, follows, offset: 0 })
    }

    /// The offset from the stack pointer at the start, if it is on the stack.
    fn on_stack(&self) -> Option<i64> {
        (self.root == Root::Stack && self.follows.is_empty()).then_some(self.offset)
    }
}

/// Why the place of a memory operand is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// An element of an array, by an index that is not known.
    Indexed,
    /// The register holds something that was not followed.
    Register,
    /// The instruction is reached by a computed jump only.
    Unreached,
    /// The function is too long or too tangled.
    GivenUp,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unknown::Indexed => "an array element by an index that is not known",
            Unknown::Register => "the pointer comes from where the data flow does not follow",
            Unknown::Unreached => "reached by computed jumps only",
            Unknown::GivenUp => "the function is too long for the data flow",
        })
    }
}

/// A memory operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Index of the instruction in [`Code::lines`].
    pub line: usize,
    /// What it addresses.
    pub place: Result<Place, Unknown>,
    /// Bytes accessed; 0 where that varies, as for `rep movs`.
    pub size: u32,
    /// Whether it is read.
    pub reads: bool,
    /// Whether it is written.
    pub writes: bool,
    /// Whether the access is atomic: `lock`, or `xchg` with memory.
    pub locked: bool,
}

/// The memory operands of all instructions, in order. Pushes, pops, calls and returns are left out, and so is
/// what is only computed (`lea`), skipped (`nop`) or prefetched.
pub fn operands(code: &Code) -> Vec<Operand> {
    let mut factory = InstructionInfoFactory::new();
    let blocks = Blocks::new(code);
    let states = (code.lines.len() <= MAX_INSTRUCTIONS).then(|| blocks.solve(code, &mut factory)).flatten();
    let mut operands = Vec::new();
    for (block, start) in blocks.starts.iter().enumerate() {
        let mut state = states.as_ref().and_then(|states| states[block].clone());
        let why = if states.is_some() { Unknown::Unreached } else { Unknown::GivenUp };
        for line in *start..blocks.end(block, code) {
            collect(code, line, state.as_ref().ok_or(why), &mut factory, &mut operands);
            if let Some(state) = &mut state {
                step::step(state, &code.lines[line].decoded, &mut factory);
            }
        }
    }
    operands
}

fn collect(
    code: &Code,
    line: usize,
    state: Result<&State, Unknown>,
    factory: &mut InstructionInfoFactory,
    operands: &mut Vec<Operand>,
) {
    let decoded = &code.lines[line].decoded;
    if decoded.is_stack_instruction() {
        return;
    }
    let locked = decoded.has_lock_prefix() || decoded.mnemonic() == iced_x86::Mnemonic::Xchg;
    for memory in factory.info(decoded).used_memory() {
        let (reads, writes) = match memory.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite => (false, true),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            OpAccess::None | OpAccess::NoMemAccess => continue,
        };
        let place = state.and_then(|state| step::address(state, decoded, memory));
        let size = if code.lines[line].is_repeated() { 0 } else { size_of(memory) };
        operands.push(Operand { line, place, size, reads, writes, locked });
    }
}

fn size_of(memory: &UsedMemory) -> u32 {
    memory.memory_size().size() as u32
}

/// Pieces of the function that are entered at their start only.
struct Blocks {
    /// First instruction of each, sorted.
    starts: Vec<usize>,
}

impl Blocks {
    fn new(code: &Code) -> Self {
        let mut starts: BTreeSet<usize> = BTreeSet::new();
        if !code.lines.is_empty() {
            starts.insert(0);
        }
        for (index, line) in code.lines.iter().enumerate() {
            starts.extend(code.target(index));
            let ends = !matches!(
                line.decoded.flow_control(),
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall | FlowControl::Interrupt
            );
            if ends && index + 1 < code.lines.len() {
                starts.insert(index + 1);
            }
        }
        Self { starts: starts.into_iter().collect() }
    }

    fn end(&self, block: usize, code: &Code) -> usize {
        self.starts.get(block + 1).copied().unwrap_or(code.lines.len())
    }

    fn of(&self, line: usize) -> usize {
        self.starts.partition_point(|start| *start <= line).saturating_sub(1)
    }

    /// The state at the start of each block; `None` for those that are not reached. `None` if it does not settle.
    fn solve(&self, code: &Code, factory: &mut InstructionInfoFactory) -> Option<Vec<Option<State>>> {
        let mut states: Vec<Option<State>> = vec![None; self.starts.len()];
        let mut waiting = VecDeque::new();
        if let Some(first) = states.first_mut() {
            *first = Some(State::at_entry());
            waiting.push_back(0);
        }
        let mut visits = MAX_VISITS * self.starts.len();
        while let Some(block) = waiting.pop_front() {
            visits = visits.checked_sub(1)?;
            let Some(mut state) = states[block].clone() else { continue };
            let end = self.end(block, code);
            for line in self.starts[block]..end {
                step::step(&mut state, &code.lines[line].decoded, factory);
            }
            for next in self.after(code, end - 1) {
                let changed = match &mut states[next] {
                    Some(known) => known.join(&state),
                    empty => {
                        *empty = Some(state.clone());
                        true
                    }
                };
                if changed && !waiting.contains(&next) {
                    waiting.push_back(next);
                }
            }
        }
        Some(states)
    }

    /// The blocks that can follow the instruction `last` of a block.
    fn after(&self, code: &Code, last: usize) -> Vec<usize> {
        let decoded = &code.lines[last].decoded;
        if decoded.flow_control() == FlowControl::IndirectBranch {
            // A table of jumps, or the end: any block may be next.
            return (1..self.starts.len()).collect();
        }
        let below = code.falls_through(last).then_some(last + 1);
        below.into_iter().chain(code.target(last)).map(|line| self.of(line)).collect()
    }
}

/// Index of a 64-bit general register.
fn register_index(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}
