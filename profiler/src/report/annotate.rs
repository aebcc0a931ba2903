//! A function's instructions with the samples that fell on them, and the members that they access.

use std::io::{self, Write};

use super::escape::{sanitize, sanitize_to, shorten, width};
use crate::code::disasm::{ARCHITECTURE, Code, Line};
use crate::profile::{Frame, FunctionCode, FunctionText, Kind, MemberAccess, Session, Wait};

/// Columns of a line.
const WIDTH: usize = 100;
/// Columns before the instruction: arrow, share, offset.
const BEFORE: usize = 20;
/// Columns of the instruction, where it is that short.
const INSTRUCTION: usize = 36;
/// Functions of more instructions are shown where the samples are.
const SHORT: usize = 80;
/// Instructions shown before and behind those with samples.
const AROUND: usize = 4;
/// At the instruction that shows most samples.
const HOT: &str = "-->";
/// At the memory access that they wait for.
const LOAD: &str = "==>";

/// What is known of one function.
pub struct Annotated<'s> {
    /// The session.
    pub session: &'s Session,
    /// Its code.
    pub text: &'s FunctionText,
    /// What was found in it.
    pub code: &'s FunctionCode,
}

/// The functions of a session that go by a name, plain or with their module, those with most samples first.
pub fn functions<'s>(session: &'s Session, name: &str) -> Vec<Annotated<'s>> {
    let text_of = |code: &FunctionCode| session.text.iter().find(|text| text.is_of(&frame_of(code)));
    let named = session.code.iter().filter(|code| frame_of(code).is_called(name));
    named.filter_map(|code| Some(Annotated { session, text: text_of(code)?, code })).collect()
}

fn frame_of(code: &FunctionCode) -> Frame {
    Frame { name: (*code.name).into(), module: code.module.as_deref().map(Into::into), origin: code.origin }
}

/// Prints the function: all of its instructions if `all`, else those around the samples where it is long.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn write(function: &Annotated<'_>, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let Annotated { session, text, code } = function;
    let name = frame_of(code).qualified().into_owned();
    let total = session.profile.total(Kind::Cpu);
    let head = format!(
        "{}: {} bytes, {} samples, {} of the CPU time",
        sanitize(&name),
        code.size,
        code.samples,
        percent(code.samples, total)
    );
    writeln!(out, "{}\n", shorten(&head, WIDTH))?;
    let symbols = |address| {
        let index = text.targets.binary_search_by_key(&address, |target| target.0).ok()?;
        Some(sanitize_to(&text.targets[index].1, 60))
    };
    let lines = Code::new(text.start, &text.bytes, symbols).lines;
    let shown = shown(&lines, code, all);
    let mut skipping = false;
    for (line, shown) in lines.iter().zip(shown) {
        if shown {
            writeln!(out, "{}", instruction(line, code).trim_end())?;
        } else if !skipping {
            writeln!(out, "{:BEFORE$}...", "")?;
        }
        skipping = !shown;
    }
    writeln!(out)?;
    for paragraph in summary(code, total, &session.host.arch) {
        writeln!(out, "{paragraph}\n")?;
    }
    Ok(())
}

fn shown(lines: &[Line], code: &FunctionCode, all: bool) -> Vec<bool> {
    if all || lines.len() <= SHORT {
        return vec![true; lines.len()];
    }
    let mut shown = vec![false; lines.len()];
    let wait = code.wait.iter().flat_map(|wait| [wait.offset, wait.shown_at]);
    for offset in code.instructions.iter().map(|instruction| instruction.offset).chain(wait) {
        let index = lines.partition_point(|line| line.offset < offset);
        let end = (index + AROUND + 1).min(lines.len());
        shown[index.saturating_sub(AROUND).min(end)..end].fill(true);
    }
    shown
}

fn instruction(line: &Line, code: &FunctionCode) -> String {
    let samples = code.instructions.iter().find(|found| found.offset == line.offset);
    let share = samples.map_or_else(String::new, |found| percent(found.samples, code.samples));
    let (hot, load) = marked(code);
    let arrow = match line.offset {
        offset if Some(offset) == load => LOAD,
        offset if Some(offset) == hot => HOT,
        _ => "",
    };
    let offset = format!("+{:#x}", line.offset);
    let accesses: Vec<String> =
        code.accesses.iter().filter(|access| access.at == line.offset).map(comment).collect();
    let text = shorten(&line.text, WIDTH - BEFORE);
    let mut shown = format!("{arrow:<3} {share:>6} {offset:>7}  {text}");
    if !accesses.is_empty() {
        let used = width(&shown).max(BEFORE + INSTRUCTION);
        let room = WIDTH.saturating_sub(used + 3);
        // Where the instruction leaves no room, the member is what matters.
        if room >= 20 {
            let padding = used - width(&shown);
            shown.push_str(&format!("{:padding$} # {}", "", shorten(&sanitize(&accesses.join("; ")), room)));
        }
    }
    shown
}

/// Offsets of the instruction that shows most samples, and of the access that they wait for.
fn marked(code: &FunctionCode) -> (Option<u32>, Option<u32>) {
    match &code.wait {
        Some(wait) => (Some(wait.shown_at), Some(wait.offset)),
        None => (code.instructions.iter().max_by_key(|found| found.samples).map(|found| found.offset), None),
    }
}

/// `atomically updates mount.m_active_trans`.
fn comment(access: &MemberAccess) -> String {
    let does = match (access.reads, access.writes, access.locked) {
        (_, _, true) => "atomic",
        (true, true, _) => "updates",
        (false, true, _) => "writes",
        _ => "reads",
    };
    let structure = access.member.structure.strip_prefix("struct ").unwrap_or(&access.member.structure);
    format!("{does} {structure}.{}", access.member.path)
}

/// What it means, in paragraphs.
fn summary(code: &FunctionCode, total: u64, architecture: &str) -> Vec<String> {
    let mut summary = Vec::new();
    let mut say = |text: String| summary.push(wrapped(&text, ""));
    if code.instructions.is_empty() {
        say("No sample of this session fell on a known instruction of the function.".to_owned());
    }
    match &code.wait {
        None => {
            let why = if code.spins {
                "The function has a `pause`: it waits for something on purpose."
            } else {
                "The samples do not lie behind a memory access that others could write to."
            };
            say(why.to_owned());
        }
        Some(wait) => say(waits(code, wait)),
    }
    if let Some(wait) = &code.wait {
        if let Some(line) = &wait.line {
            let (start, end) = line.range();
            say(format!(
                "Its cache line: bytes {start} to {} of the structure. {}",
                end - 1,
                sentence(&line.judgement)
            ));
            if let Some(caveat) = &line.caveat {
                say(sentence(caveat));
            }
        }
        if !wait.writers.is_empty() {
            let mut text = "Who writes to this line, among the functions with samples:".to_owned();
            for writer in &wait.writers {
                let how = match (writer.locked, writer.same) {
                    (true, true) => "atomically, the very member",
                    (true, false) => "atomically",
                    (false, true) => "the very member",
                    (false, false) => "with a plain store",
                };
                let line = format!(
                    "  {:>6} {}+{:#x}: {} ({how})",
                    percent(writer.samples, total),
                    writer.name,
                    writer.at,
                    writer.member.path
                );
                text.push('\n');
                text.push_str(&shorten(&sanitize(&line), WIDTH));
            }
            summary.push(text);
        } else if wait.line.is_some() {
            summary.push(wrapped("No function with samples is known to write to this line.", ""));
        }
        for advice in wait.line.iter().flat_map(|line| &line.advice) {
            let mut text = wrapped(&advice.text, "");
            if let Some(paste) = &advice.paste {
                for line in paste.lines().take(60) {
                    text.push_str(&format!("\n    {}", shorten(&sanitize(line), WIDTH - 4)));
                }
            }
            summary.push(text);
        }
    }
    let named = code.accesses.len();
    let mut text = format!("Memory operands with a name: {named} of {}", code.operands);
    if let Some(why) = &code.nameless {
        text.push_str(&format!(" ({why})"));
    }
    summary.push(wrapped(&format!("{text}."), ""));
    if architecture != ARCHITECTURE && !architecture.is_empty() {
        summary.push(format!("This is {}: only {ARCHITECTURE} can be disassembled.", sanitize(architecture)));
    }
    summary
}

fn waits(code: &FunctionCode, wait: &Wait) -> String {
    let kind = if wait.locked { "atomic access" } else { "memory access" };
    let mut text = format!(
        "{} of the function's samples lie behind the {kind} at +{:#x} ({LOAD}), most of them at +{:#x} ({HOT}): an \
         interrupt is taken when the instruction that the CPU waits for is done, so the time of a load shows at the \
         instruction behind it.",
        percent(wait.samples, code.samples),
        wait.offset,
        wait.shown_at
    );
    match (&wait.member, &wait.unknown) {
        (Some(member), _) => text.push_str(&format!(
            " It accesses {} ({} bytes, {} bytes into the structure).",
            member.full(),
            member.size,
            member.offset
        )),
        (None, Some(why)) => text.push_str(&format!(" Which member that is, is not known: {why}.")),
        _ => {}
    }
    text
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let mut text: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
    if !text.ends_with('.') {
        text.push('.');
    }
    text
}

fn wrapped(text: &str, indent: &str) -> String {
    textwrap::fill(&sanitize_to(text, 2000), textwrap::Options::new(WIDTH).subsequent_indent(indent))
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}%", part as f64 * 100.0 / (whole as f64).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{InstructionSamples, MemberRef, Origin, Source};

    #[test]
    fn fits_and_is_safe_to_print() {
        let member = MemberRef {
            structure: "struct mount".to_owned(),
            path: "m_agino\u{1b}[31m_log".to_owned(),
            offset: 72,
            size: 4,
        };
        let mut session = Session::new(Source::Live);
        session.text.push(FunctionText {
            name: "f\n".to_owned(),
            module: None,
            origin: Origin::Kernel,
            start: 0x1000,
            bytes: vec![0x8b, 0x4f, 0x48, 0xe9, 0xf8, 0x0f, 0, 0],
            targets: vec![(0x2000, "a\u{202e}very_".to_owned() + &"long".repeat(40))],
        });
        session.code.push(FunctionCode {
            name: "f\n".to_owned(),
            module: None,
            origin: Origin::Kernel,
            size: 8,
            samples: 4,
            instructions: vec![InstructionSamples { offset: 3, samples: 3 }],
            wait: Some(Wait {
                offset: 0,
                text: "mov 0x48(%rdi),%ecx".to_owned(),
                shown_at: 3,
                samples: 3,
                writes: false,
                locked: false,
                on_return: false,
                member: Some(member.clone()),
                unknown: None,
                line: None,
                writers: Vec::new(),
            }),
            accesses: vec![MemberAccess {
                at: 0,
                member,
                by: "mp".to_owned(),
                reads: true,
                writes: false,
                locked: false,
            }],
            spins: false,
            operands: 1,
            nameless: None,
        });
        let mut out = Vec::new();
        let functions = functions(&session, "f\n");
        write(&functions[0], false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']) && text.contains("f\\n: 8 bytes"), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].starts_with("==>") && lines[2].contains("mov 0x48(%rdi),%ecx"), "{text}");
        assert!(lines[3].starts_with("-->  75.0%    +0x3  jmp "), "{text}");
    }
}
