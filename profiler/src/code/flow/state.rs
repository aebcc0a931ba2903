//! What registers and stack slots hold at a point of the function.

use std::collections::BTreeMap;

use iced_x86::Register;

use super::{ARGUMENT_REGISTERS, Place, Root, register_index};

/// Stack slots that are followed; beyond, a function has arrays there.
const MAX_SLOTS: usize = 256;
/// Arguments on the stack that are followed.
const STACK_ARGUMENTS: u8 = 6;

/// Registers that callees keep (System V ABI, figure 3.4), besides the stack pointer.
const PRESERVED: [Register; 5] = [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14];

/// Values of the registers and stack slots; what is `None` or missing is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    registers: [Option<Place>; 16],
    /// By offset from the stack pointer at the start.
    slots: BTreeMap<i64, Place>,
    /// Slots from this offset on may be changed by callees and through pointers.
    escaped: i64,
}

impl State {
    pub fn at_entry() -> Self {
        let mut state = Self { registers: Default::default(), slots: BTreeMap::new(), escaped: i64::MAX };
        let arguments =
            [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];
        for (index, register) in arguments.into_iter().enumerate() {
            state.set(register, Some(Place::root(Root::Argument(index as u8))));
        }
        // The return address is at 0.
        for index in 0..STACK_ARGUMENTS {
            let argument = Root::Argument(ARGUMENT_REGISTERS as u8 + index);
            state.slots.insert(8 + 8 * i64::from(index), Place::root(argument));
        }
        state.set(Register::RSP, Some(Place::root(Root::Stack)));
        state
    }

    /// The value of a 64-bit register.
    pub fn get(&self, register: Register) -> Option<&Place> {
        self.registers.get(register_index(register)?)?.as_ref()
    }

    /// Sets a register, with all of its 64 bits.
    pub fn set(&mut self, register: Register, value: Option<Place>) {
        let Some(index) = register_index(register) else { return };
        let is_frame = matches!(register.full_register(), Register::RSP | Register::RBP);
        if let Some(offset) = value.as_ref().and_then(Place::on_stack)
            && !is_frame
        {
            self.escaped = self.escaped.min(offset);
        }
        self.registers[index] = value;
    }

    /// The value of the 8 bytes at an offset on the stack.
    pub fn slot(&self, offset: i64) -> Option<Place> {
        self.slots.get(&offset).cloned()
    }

    /// Stores `size` bytes at an offset on the stack.
    pub fn store(&mut self, offset: i64, size: u32, value: Option<Place>) {
        let end = offset.saturating_add(i64::from(size));
        let begin = offset.saturating_sub(7);
        let overlapping: Vec<i64> = self.slots.range(begin..end.max(begin)).map(|slot| *slot.0).collect();
        for slot in overlapping {
            self.slots.remove(&slot);
        }
        if let Some(value) = value.filter(|_| size == 8 && self.slots.len() < MAX_SLOTS) {
            // Whoever finds a pointer to the stack in memory may change what it points to.
            if let Some(offset) = value.on_stack()
                && value != Place::root(Root::Stack)
            {
                self.escaped = self.escaped.min(offset);
            }
            self.slots.insert(offset, value);
        }
    }

    /// Something is stored that may be on the stack, if its address has been passed on.
    pub fn store_somewhere(&mut self) {
        let _ = self.slots.split_off(&self.escaped);
    }

    /// A function is called, at this address if that is known.
    pub fn call(&mut self, target: Option<u64>) {
        for index in 0..self.registers.len() {
            let is_kept = PRESERVED.into_iter().chain([Register::R15, Register::RSP]);
            if !is_kept.into_iter().any(|register| register.number() == index) {
                self.registers[index] = None;
            }
        }
        self.store_somewhere();
        self.set(Register::RAX, target.map(|target| Place::root(Root::Result(target))));
    }

    /// Keeps what both know; whether that is less than before.
    pub fn join(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (mine, other) in self.registers.iter_mut().zip(&other.registers) {
            if mine.is_some() && mine != other {
                *mine = None;
                changed = true;
            }
        }
        let before = self.slots.len();
        self.slots.retain(|offset, value| other.slots.get(offset) == Some(value));
        let escaped = self.escaped.min(other.escaped);
        changed |= self.slots.len() != before || self.escaped != escaped;
        self.escaped = escaped;
        changed
    }
}
