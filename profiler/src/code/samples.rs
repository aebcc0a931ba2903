//! Which instruction of a function the samples fall on, and which memory access that means.
//!
//! A sample's address is where the program will go on: with cpu-clock, and with most events of a PMU, the interrupt is
//! taken when the instruction that the CPU waits for is done, so its time shows at the instruction *behind* it. An
//! instruction on which many samples fall therefore says that the one that runs just before it is slow. Where that
//! one is a branch, it is the one before the branch: a comparison with memory and its branch are one to the CPU.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::FlowControl;

use super::disasm::Code;
use super::flow::{Operand, Root};
use crate::profile::{Frame, FrameId, Kind, Session};

/// CPU samples whose innermost frame is `function`, by instruction address. Addresses of 0 stand for samples of which
/// only the function is known.
pub fn samples_by_address(session: &Session, function: &Frame) -> BTreeMap<u64, u64> {
    let profile = &session.profile;
    let mut samples = BTreeMap::new();
    for stack in profile.of_kind(Kind::Cpu) {
        let Some(innermost) = stack.frames.last().map(|location| profile.location(*location)) else {
            continue;
        };
        if profile.frame(innermost.frame) == function {
            let count: &mut u64 = samples.entry(innermost.address).or_default();
            *count = count.saturating_add(stack.weight);
        }
    }
    samples
}

/// The functions with CPU samples of their own, and how many, most first.
pub fn by_function(session: &Session) -> Vec<(FrameId, u64)> {
    let profile = &session.profile;
    let mut own: BTreeMap<FrameId, u64> = BTreeMap::new();
    for stack in profile.of_kind(Kind::Cpu) {
        if let Some(innermost) = stack.frames.last() {
            let count = own.entry(profile.location(*innermost).frame).or_default();
            *count = count.saturating_add(stack.weight);
        }
    }
    let mut functions: Vec<(FrameId, u64)> = own.into_iter().collect();
    functions.sort_by_key(|(frame, own)| (std::cmp::Reverse(*own), *frame));
    functions
}

/// The memory access that most samples wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its index among the operands.
    pub operand: usize,
    /// Index of the instruction that shows most of its samples.
    pub shown_at: usize,
    /// Samples behind the access.
    pub samples: u64,
}

/// Which access most samples wait for, given the samples by instruction. `None` where they show at no instruction that
/// runs just behind a memory access, or behind more than one.
pub fn waiting(code: &Code, operands: &[Operand], samples: &BTreeMap<usize, u64>) -> Option<Waiting> {
    // Per access: samples behind it, and the instructions that show them.
    let mut behind: BTreeMap<usize, (u64, usize, u64)> = BTreeMap::new();
    for (line, count) in samples {
        let causes = causes(code, operands, *line);
        let mut causes = causes.into_iter();
        let (Some(cause), None) = (causes.next(), causes.next()) else { continue };
        let entry = behind.entry(cause).or_insert((0, *line, 0));
        entry.0 = entry.0.saturating_add(*count);
        if *count > entry.2 {
            (entry.1, entry.2) = (*line, *count);
        }
    }
    let (operand, (samples, shown_at, _)) =
        behind.into_iter().max_by_key(|(operand, entry)| (entry.0, std::cmp::Reverse(*operand)))?;
    Some(Waiting { operand, shown_at, samples })
}

/// The memory accesses that can come just before an instruction: more than one where several ways lead to it.
pub fn causes(code: &Code, operands: &[Operand], line: usize) -> BTreeSet<usize> {
    let mut causes = BTreeSet::new();
    for before in code.before(line) {
        if let Some(cause) = load_of(operands, *before) {
            causes.insert(cause);
            continue;
        }
        match code.lines[*before].decoded.flow_control() {
            // Only the comparison right above is one with it.
            FlowControl::ConditionalBranch => {
                let above = before.checked_sub(1).filter(|above| code.falls_through(*above));
                causes.extend(above.and_then(|above| load_of(operands, above)));
            }
            FlowControl::UnconditionalBranch => {
                causes.extend(code.before(*before).iter().filter_map(|above| load_of(operands, *above)));
            }
            _ => {}
        }
    }
    causes
}

/// The operand of an instruction that reads memory which others may write.
fn load_of(operands: &[Operand], line: usize) -> Option<usize> {
    let first = operands.partition_point(|operand| operand.line < line);
    let own = operands[first..].iter().take_while(|operand| operand.line == line);
    own.enumerate().find(|(_, operand)| operand.reads && is_shared(operand)).map(|(index, _)| first + index)
}

/// Whether other CPUs may access this memory: neither the stack's, nor the CPU's or thread's own.
pub fn is_shared(operand: &Operand) -> bool {
    match &operand.place {
        Ok(place) => !matches!((place.root, place.follows.is_empty()), (Root::Stack | Root::Own, true)),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::flow;

    fn waiting_in(bytes: &[u8], samples: &[(u32, u64)]) -> Option<(u32, u32, u64)> {
        let code = Code::new(0x1000, bytes, |_| None);
        let operands = flow::operands(&code);
        let samples = samples.iter().map(|(offset, count)| (code.at(*offset).unwrap(), *count)).collect();
        let found = waiting(&code, &operands, &samples)?;
        let offset = |line: usize| code.lines[line].offset;
        Some((offset(operands[found.operand].line), offset(found.shown_at), found.samples))
    }

    #[test]
    fn time_shows_behind_the_load() {
        // 0: mov (%rdi),%rcx; 3: add %rcx,%rax; 6: ret
        let bytes = [0x48, 0x8b, 0x0f, 0x48, 0x01, 0xc8, 0xc3];
        assert_eq!(waiting_in(&bytes, &[(0, 57), (3, 796), (6, 147)]), Some((0, 3, 796)));
        // Nothing before the `ret` loads.
        assert_eq!(waiting_in(&bytes, &[(6, 900)]), None);
    }

    #[test]
    fn a_comparison_and_its_branch_are_one() {
        // 0: cmp %rax,(%rdi); 3: je +8; 5: mov (%rsi),%rax; 8: ret
        let bytes = [0x48, 0x39, 0x07, 0x74, 0x03, 0x48, 0x8b, 0x06, 0xc3];
        assert_eq!(waiting_in(&bytes, &[(5, 60)]), Some((0, 5, 60)));
        // Behind the second load, or the first, when the branch is taken: not clear.
        assert_eq!(waiting_in(&bytes, &[(8, 60)]), None);
    }

    #[test]
    fn nobody_waits_for_his_own_stack() {
        // 0: mov 8(%rsp),%rax; 5: add %rax,%rax; 8: ret
        let bytes = [0x48, 0x8b, 0x44, 0x24, 0x08, 0x48, 0x01, 0xc0, 0xc3];
        assert_eq!(waiting_in(&bytes, &[(5, 100)]), None);
    }
}
