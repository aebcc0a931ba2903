//! From the code of the hottest functions to plain data in the session.

use std::collections::BTreeMap;
use std::ops::Range;

use super::disasm::Code;
use super::flow::{self, Operand};
use super::line;
use super::members::{Arguments, Resolved};
use super::samples::{is_shared, waiting};
use super::text::Found;
use crate::profile::{FunctionCode, InstructionSamples, MemberAccess, MemberRef, Session, Wait, Writer};
use crate::types::{Prototype, TypeId, TypeSource};

/// Accesses of one function that are kept.
const MAX_ACCESSES: usize = 1000;
/// Writers of a cache line that are kept.
const MAX_WRITERS: usize = 8;

/// Who knows the types of functions.
pub trait Types {
    /// The types of the program that a function belongs to.
    fn of(&self, found: &Found) -> Option<&dyn TypeSource>;

    /// How a function is called: `symbol` is the function itself, or one that it calls.
    fn prototype(&self, found: &Found, symbol: &str) -> Option<Prototype>;
}

/// A function with what is known while all are looked at.
struct Function<'t> {
    found: Found,
    code: FunctionCode,
    waits_for: Option<Resolved>,
    types: Option<&'t dyn TypeSource>,
}

/// Looks into the code of functions and puts what it finds into the session, with the code itself.
pub fn analyse(session: &mut Session, found: Vec<Found>, types: &dyn Types) {
    let mut functions: Vec<Function<'_>> = found.into_iter().map(|found| look_into(found, types)).collect();
    functions.sort_by(|a, b| b.code.samples.cmp(&a.code.samples).then_with(|| a.code.name.cmp(&b.code.name)));
    for index in 0..functions.len() {
        let Function { types: Some(types), waits_for: Some(waits_for), .. } = &functions[index] else {
            continue;
        };
        let function = &functions[index];
        let writers =
            writers(&functions, function, &waits_for.member, &line::bytes_around(&waits_for.member));
        let origin = function.found.text.origin;
        let line = line::of(*types, waits_for.structure, &waits_for.member, origin, &writers);
        if let Some(wait) = &mut functions[index].code.wait {
            wait.writers = writers;
            wait.line = line;
        }
    }
    session.code = functions.iter().map(|function| function.code.clone()).collect();
    session.text = functions.into_iter().map(|function| function.found.text).collect();
}

fn look_into(found: Found, types: &dyn Types) -> Function<'_> {
    let code = Code::new(found.text.start, &found.text.bytes, |_| None);
    let operands = flow::operands(&code);
    let source = types.of(&found);
    let prototype = types.prototype(&found, &found.symbol);
    let arguments = source.map(|source| Arguments::new(source, &found.text.name, prototype.as_ref()));
    let result = |address: u64| -> Option<(String, TypeId)> {
        let index = found.text.targets.binary_search_by_key(&address, |target| target.0).ok()?;
        let name = &found.text.targets[index].1;
        let returns = types.prototype(&found, name)?.returns;
        Some((format!("{name}()"), returns))
    };
    let resolve = |operand: &Operand| -> Result<Resolved, String> {
        let place = operand.place.as_ref().map_err(ToString::to_string)?;
        let arguments = arguments.as_ref().ok_or("the types of this program are not known")?;
        arguments.resolve(place, operand.size.max(1), result)
    };

    let shared: Vec<&Operand> = operands.iter().filter(|operand| is_shared(operand)).collect();
    let mut accesses = Vec::new();
    for operand in shared.iter().take(MAX_ACCESSES) {
        if let Ok(resolved) = resolve(operand) {
            accesses.push(MemberAccess {
                at: code.lines[operand.line].offset,
                member: resolved.member,
                by: resolved.by,
                reads: operand.reads,
                writes: operand.writes,
                locked: operand.locked,
            });
        }
    }

    // By instruction: interrupts never come inside of one, but what an import says may be anything.
    let mut samples: BTreeMap<usize, u64> = BTreeMap::new();
    for (offset, count) in &found.samples {
        if let Some(line) = code.at(*offset) {
            *samples.entry(line).or_default() += count;
        }
    }
    let waiting = waiting(&code, &operands, &samples).filter(|waiting| {
        operands[waiting.operand].size > 0 && !code.lines[operands[waiting.operand].line].is_repeated()
    });
    let mut waits_for = None;
    let wait = waiting.map(|waiting| {
        let operand = &operands[waiting.operand];
        let line = &code.lines[operand.line];
        let unknown = match resolve(operand) {
            Ok(resolved) => {
                waits_for = Some(resolved);
                None
            }
            Err(why) => Some(why),
        };
        let shown = &code.lines[waiting.shown_at];
        Wait {
            offset: line.offset,
            text: line.text.clone(),
            shown_at: shown.offset,
            samples: waiting.samples,
            writes: operand.writes,
            locked: operand.locked,
            on_return: shown.is_return(),
            member: waits_for.as_ref().map(|resolved| resolved.member.clone()),
            unknown,
            line: None,
            writers: Vec::new(),
        }
    });
    let nameless = match (&arguments, accesses.is_empty()) {
        (Some(arguments), true) => arguments.unknown().map(str::to_owned),
        (None, _) => Some("the types of this program are not known: it has no debug information".to_owned()),
        _ => None,
    };
    let function = FunctionCode {
        name: found.text.name.clone(),
        module: found.text.module.clone(),
        origin: found.text.origin,
        size: code.size(),
        samples: found.samples.values().sum(),
        instructions: samples
            .iter()
            .map(|(line, samples)| InstructionSamples { offset: code.lines[*line].offset, samples: *samples })
            .collect(),
        wait,
        accesses,
        spins: code.lines.iter().any(super::disasm::Line::is_pause),
        operands: u32::try_from(shared.len()).unwrap_or(u32::MAX),
        nameless,
    };
    Function { found, code: function, waits_for, types: source }
}

/// Functions of the same program whose code writes to a line of a structure, by the type they know it by.
fn writers(
    functions: &[Function<'_>],
    of: &Function<'_>,
    member: &MemberRef,
    line: &Range<u64>,
) -> Vec<Writer> {
    // Nameless structures are all called alike.
    if member.structure.contains('{') || member.structure.contains('(') {
        return Vec::new();
    }
    let same_program = |function: &Function<'_>| {
        function.found.text.origin == of.found.text.origin && function.found.binary == of.found.binary
    };
    let mut writers = Vec::new();
    for function in functions.iter().filter(|function| same_program(function)) {
        let waited = function.code.wait.as_ref().map(|wait| wait.offset);
        let mut writes: Vec<&MemberAccess> = function
            .code
            .accesses
            .iter()
            .filter(|access| access.writes && access.member.structure == member.structure)
            .filter(|access| {
                access.member.offset < line.end && access.member.offset + access.member.size > line.start
            })
            .collect();
        // Atomic ones first: they need the line every time. Then the one that this function itself waits for.
        writes.sort_by_key(|access| (!access.locked, Some(access.at) != waited, access.at));
        let Some(write) = writes.first() else { continue };
        let overlaps = |access: &&&MemberAccess| {
            access.member.offset < member.offset + member.size
                && access.member.offset + access.member.size > member.offset
        };
        let same = writes.iter().find(overlaps);
        let write = same.unwrap_or(write);
        writers.push(Writer {
            name: function.code.name.clone(),
            samples: function.code.samples,
            at: write.at,
            member: write.member.clone(),
            locked: write.locked,
            same: same.is_some(),
        });
    }
    writers.truncate(MAX_WRITERS);
    writers
}
