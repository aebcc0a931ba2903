//! What one instruction does to registers and stack slots.

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

use super::state::State;
use super::{Place, Root, Unknown};
use crate::code::disasm::is_near;

/// What a memory operand addresses.
pub(super) fn address(
    state: &State,
    instruction: &Instruction,
    memory: &UsedMemory,
) -> Result<Place, Unknown> {
    let own = matches!(memory.segment(), Register::GS | Register::FS);
    let mut place = match memory.base() {
        Register::RIP | Register::EIP => Place::fixed(instruction.ip_rel_memory_address() as i64),
        Register::None => Place::fixed(memory.displacement() as i64),
        // The stack, even where it is not known how far down.
        base => {
            let known = state.get(base).filter(|_| base.is_gpr64()).ok_or(Unknown::Register)?;
            known.plus(memory.displacement() as i64)
        }
    };
    match memory.index() {
        Register::None => {}
        index => {
            let number = state.get(index).and_then(Place::number).ok_or(Unknown::Indexed)?;
            place = place.plus(number.wrapping_mul(i64::from(memory.scale())));
        }
    }
    if own {
        place = Place::root(Root::Own).plus(place.number().ok_or(Unknown::Indexed)?);
    }
    Ok(place)
}

/// Executes an instruction.
pub(super) fn step(state: &mut State, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
    match instruction.flow_control() {
        FlowControl::Call if is_near(instruction) => {
            return state.call(Some(instruction.near_branch_target()));
        }
        FlowControl::Call | FlowControl::IndirectCall => return state.call(None),
        _ => {}
    }
    match instruction.mnemonic() {
        Mnemonic::Push => return push(state, instruction, factory),
        Mnemonic::Pop => return pop(state, instruction, factory),
        Mnemonic::Leave => {
            let frame = state.get(Register::RBP).cloned();
            let saved = frame.as_ref().and_then(Place::on_stack).and_then(|offset| state.slot(offset));
            state.set(Register::RSP, frame.map(|frame| frame.plus(8)));
            state.set(Register::RBP, saved);
            return;
        }
        Mnemonic::Xchg if is_register(instruction, 0) && is_register(instruction, 1) => {
            let values = [0, 1].map(|op| state.get(instruction.op_register(op)).cloned());
            let wide = instruction.op_register(0).is_gpr64();
            let [first, second] = if wide { values } else { [None, None] };
            state.set(instruction.op_register(0), second);
            state.set(instruction.op_register(1), first);
            return;
        }
        _ => {}
    }
    let value = computed(state, instruction, factory);
    clobber(state, instruction, factory, value.clone());
    if let Some(value) = value
        && is_register(instruction, 0)
    {
        state.set(instruction.op0_register(), Some(value));
    }
}

/// What the first operand is after the instruction, if that is followed.
fn computed(state: &State, instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Option<Place> {
    let to = instruction.op0_register();
    let same = is_register(instruction, 0)
        && is_register(instruction, 1)
        && instruction.op1_register() == to
        && instruction.op_count() == 2;
    let is_wide = to.is_gpr64() || (!is_register(instruction, 0) && size_of(instruction) == 8);
    match instruction.mnemonic() {
        Mnemonic::Xor | Mnemonic::Sub if same && (to.is_gpr64() || to.is_gpr32()) => Some(Place::fixed(0)),
        Mnemonic::Mov if is_wide => operand(state, instruction, 1, factory),
        // The upper half becomes 0: right for small numbers, and for those only.
        Mnemonic::Mov if to.is_gpr32() => {
            let value = operand(state, instruction, 1, factory)?;
            let number = value.number()? & 0xffff_ffff;
            Some(Place::fixed(number))
        }
        Mnemonic::Lea if to.is_gpr64() => {
            let memory = factory.info(instruction).used_memory().first().copied();
            address(state, instruction, &memory.unwrap_or_else(|| lea_memory(instruction))).ok()
        }
        Mnemonic::Add | Mnemonic::Sub if to.is_gpr64() => {
            let (a, b) = (state.get(to)?.clone(), operand(state, instruction, 1, factory)?);
            match (a.number(), b.number(), instruction.mnemonic()) {
                (_, Some(number), Mnemonic::Add) => Some(a.plus(number)),
                (_, Some(number), _) => Some(a.plus(number.wrapping_neg())),
                (Some(number), None, Mnemonic::Add) => Some(b.plus(number)),
                _ => None,
            }
        }
        Mnemonic::Inc if to.is_gpr64() => Some(state.get(to)?.plus(1)),
        Mnemonic::Dec if to.is_gpr64() => Some(state.get(to)?.plus(-1)),
        mnemonic if to.is_gpr64() && format!("{mnemonic:?}").starts_with("Cmov") => {
            let (a, b) = (state.get(to)?.clone(), operand(state, instruction, 1, factory)?);
            (a == b).then_some(a)
        }
        _ => None,
    }
}

/// The value of a register, a number, or 8 bytes of memory.
fn operand(
    state: &State,
    instruction: &Instruction,
    index: u32,
    factory: &mut InstructionInfoFactory,
) -> Option<Place> {
    match instruction.op_kind(index) {
        OpKind::Register => {
            let register = instruction.op_register(index);
            if register.is_gpr64() || register.is_gpr32() { state.get(register).cloned() } else { None }
        }
        OpKind::Memory => {
            let memory = *factory.info(instruction).used_memory().first()?;
            if memory.memory_size().size() != 8 {
                return None;
            }
            let place = address(state, instruction, &memory).ok()?;
            match place.on_stack() {
                Some(offset) => state.slot(offset),
                None => place.followed(),
            }
        }
        OpKind::Immediate8
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate64
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64 => Some(Place::fixed(instruction.immediate(index) as i64)),
        _ => None,
    }
}

/// Forgets what the instruction overwrites; 8 bytes that it stores on the stack become `value`.
fn clobber(
    state: &mut State,
    instruction: &Instruction,
    factory: &mut InstructionInfoFactory,
    value: Option<Place>,
) {
    let info = factory.info(instruction);
    let stores_value = instruction.mnemonic() == Mnemonic::Mov;
    for memory in info.used_memory().iter().filter(|memory| is_written(memory.access())) {
        match address(state, instruction, memory) {
            Ok(place) => {
                let size = memory.memory_size().size() as u32;
                match place.on_stack() {
                    // How much a string instruction writes is not known.
                    Some(_) if instruction.is_string_instruction() => state.store_somewhere(),
                    Some(offset) => {
                        state.store(offset, size.max(1), value.clone().filter(|_| stores_value));
                    }
                    None => {}
                }
            }
            Err(_) => state.store_somewhere(),
        }
    }
    let moved = instruction.stack_pointer_increment();
    let stack = state.get(Register::RSP).map(|stack| stack.plus(i64::from(moved)));
    for used in info.used_registers().iter().filter(|used| is_written(used.access())) {
        state.set(used.register(), None);
    }
    if instruction.is_stack_instruction() {
        state.set(Register::RSP, stack);
    }
}

fn push(state: &mut State, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
    let value = operand(state, instruction, 0, factory);
    let Some(stack) = state.get(Register::RSP).map(|stack| stack.plus(-8)) else { return };
    if let Some(offset) = stack.on_stack() {
        state.store(offset, 8, value);
    }
    state.set(Register::RSP, Some(stack));
}

fn pop(state: &mut State, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
    let stack = state.get(Register::RSP).cloned();
    let value = stack.as_ref().and_then(Place::on_stack).and_then(|offset| state.slot(offset));
    clobber(state, instruction, factory, None);
    state.set(Register::RSP, stack.map(|stack| stack.plus(8)));
    if is_register(instruction, 0) {
        state.set(instruction.op0_register(), value.filter(|_| instruction.op0_register().is_gpr64()));
    }
}

/// The address that `lea` computes, which it does not access.
fn lea_memory(instruction: &Instruction) -> UsedMemory {
    let base = instruction.memory_base();
    let displacement = instruction.memory_displacement64();
    UsedMemory::new(
        Register::None,
        base,
        instruction.memory_index(),
        instruction.memory_index_scale(),
        displacement,
        iced_x86::MemorySize::Unknown,
        OpAccess::NoMemAccess,
    )
}

fn is_register(instruction: &Instruction, operand: u32) -> bool {
    operand < instruction.op_count() && instruction.op_kind(operand) == OpKind::Register
}

fn size_of(instruction: &Instruction) -> usize {
    instruction.memory_size().size()
}

fn is_written(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}
