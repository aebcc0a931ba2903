//! Structures as text: where members lie, which share a cache line, and which of them are written often.

use std::io::{self, Write};

use crate::report::escape::{sanitize, shorten, width};
use crate::report::text::Style;
use crate::types::advice::Separation;
use crate::types::judge::Judgement;
use crate::types::line::{Neighbour, Neighbourhood, Part, Start, judge_member, parts};
use crate::types::{Alignment, Layout, Member, TypeSource};

/// Columns of offsets: `1048576:31`.
const OFFSET: usize = 8;
const SIZE: usize = 7;
/// Columns of the judgement: `read-mostly: geometry`.
const JUDGED: usize = 27;
/// Lines of the summary that are listed at most.
const LINES: usize = 12;

/// Prints a structure: each member with offset, size, type and judgement; lines, holes and padding.
///
/// # Errors
///
/// When writing fails.
pub fn structure(
    source: &dyn TypeSource,
    layout: &Layout,
    line: u64,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut printer = Printer::new(style, line, out);
    let named = layout.named_members().len();
    let summary = format!(
        "{}: {}, {} of {line}, {}; {}",
        title(layout),
        count(layout.size, "byte"),
        count(layout.size.div_ceil(line), "line"),
        count(named as u64, "member"),
        alignment(layout, line)
    );
    printer.paragraph(&summary)?;
    writeln!(printer.out)?;
    printer.headings("in its line")?;
    let mut end = Place::default();
    printer.members(source, &layout.members, 0, true, &mut end)?;
    let padding = layout.size.saturating_sub(end.end);
    if padding > 0 && !layout.members.is_empty() {
        printer.hole(end.end, padding, "padding")?;
    }
    writeln!(printer.out)?;
    if end.holes > 0 {
        let text = format!("{}, {} in them", count(end.holes, "hole"), count(end.hole_bytes, "byte"));
        printer.paragraph(&text)?;
    }
    written_lines(source, layout, &mut printer)
}

/// Prints what shares a line with a member.
///
/// # Errors
///
/// When writing fails.
pub fn neighbourhood(
    layout: &Layout,
    near: &Neighbourhood,
    separation: Option<&Separation>,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut printer = Printer::new(style, near.line, out);
    let lines = near.lines();
    let range = format!("bytes {}-{}", lines.start * near.line, lines.end * near.line - 1);
    let which = match lines.end - lines.start {
        1 => format!("line {} ({range})", lines.start),
        _ => format!("lines {}-{} ({range})", lines.start, lines.end - 1),
    };
    let at_line = near.start == Start::AtLine;
    printer.paragraph(&format!(
        "{}, {}{which}. {}",
        title(layout),
        if at_line { "" } else { "in an object that begins at a line: " },
        capital(&alignment(layout, near.line))
    ))?;
    writeln!(printer.out)?;
    printer.headings("written often?")?;
    let mut rows: Vec<(bool, &Part)> = near.own.iter().map(|part| (true, part)).collect();
    rows.extend(near.neighbours.iter().filter(|one| one.if_at_line).map(|one| (false, &one.part)));
    rows.sort_by_key(|(_, part)| part.offset_bits);
    for (own, part) in rows {
        printer.part(part, if own { ">" } else { " " }, &part.judgement.to_string())?;
    }
    if near.straddles() {
        writeln!(printer.out)?;
        printer.paragraph("It lies across the boundary of two lines: each access needs both.")?;
    }
    let others: Vec<&Neighbour> =
        near.neighbours.iter().filter(|one| !one.if_at_line && one.part.judgement.rank() >= 2).collect();
    if let (Start::Multiple(align), false) = (near.start, others.is_empty()) {
        writeln!(printer.out)?;
        printer.paragraph(&format!(
            "Nothing says that objects begin at a line: the type asks for {align}. Where its allocator does not \
             align them either, these may share the line, too:"
        ))?;
        for one in others {
            let share = format!("{} ({:.0}%)", one.part.judgement, one.share * 100.0);
            printer.part(&one.part, " ", &share)?;
        }
        printer
            .paragraph("In parentheses: at how many of the places in a line where an object can begin.")?;
    }
    suspects(near, &mut printer)?;
    match separation {
        Some(separation) => advice(separation, &mut printer),
        None => Ok(()),
    }
}

fn suspects(near: &Neighbourhood, printer: &mut Printer<'_>) -> io::Result<()> {
    writeln!(printer.out)?;
    let suspects = near.suspects();
    let sure: Vec<String> = suspects
        .iter()
        .filter(|one| one.if_at_line && one.part.judgement.is_written())
        .map(|one| format!("{} ({})", sanitize(&one.part.path), one.part.judgement))
        .take(LINES)
        .collect();
    printer.paragraph(&match sure.as_slice() {
        [] => "By their types, nothing else in this line is written often.".to_owned(),
        some => format!(
            "Whoever writes {} takes the line away from every CPU that reads it here.",
            some.join(", ")
        ),
    })
}

fn advice(separation: &Separation, printer: &mut Printer<'_>) -> io::Result<()> {
    writeln!(printer.out)?;
    printer.paragraph("To separate them:")?;
    for block in [&separation.before, &separation.after] {
        writeln!(printer.out)?;
        for text in block.lines() {
            writeln!(printer.out, "  {}", shorten(&sanitize(text), printer.style.columns() - 2))?;
        }
    }
    writeln!(printer.out)?;
    if let Some(quiet) = &separation.quiet {
        printer.paragraph(quiet)?;
    }
    printer.paragraph(&format!("An object grows by {} bytes at most.", separation.growth))
}

/// Lines with members that are written by nature.
fn written_lines(source: &dyn TypeSource, layout: &Layout, printer: &mut Printer<'_>) -> io::Result<()> {
    let mut lines: Vec<(u64, Vec<String>)> = Vec::new();
    for part in parts(source, layout).iter().filter(|part| part.judgement.is_written()) {
        let number = part.bytes().start / printer.line;
        let path = sanitize(&part.path).into_owned();
        match lines.iter_mut().find(|(known, _)| *known == number) {
            Some((_, paths)) => paths.push(path),
            None => lines.push((number, vec![path])),
        }
    }
    if lines.is_empty() {
        return printer.paragraph("By their types, none of the members is written often.");
    }
    lines.sort_by_key(|(number, _)| *number);
    printer.paragraph("Lines with members that are written often, by their types:")?;
    for (number, paths) in lines.iter().take(LINES) {
        let more = paths.len().saturating_sub(6);
        let more = if more > 0 { format!(", {more} more") } else { String::new() };
        let shown = paths.iter().take(6).cloned().collect::<Vec<_>>().join(", ");
        let text = format!("  {number}: {shown}{more}");
        writeln!(printer.out, "{}", shorten(&text, printer.style.columns()))?;
    }
    match lines.len().saturating_sub(LINES) {
        0 => Ok(()),
        more => writeln!(printer.out, "  and {more} more lines"),
    }
}

fn title(layout: &Layout) -> String {
    let name = if layout.name.is_empty() { "{...}" } else { &layout.name };
    format!("{} {}", layout.kind.keyword(), sanitize(name))
}

fn alignment(layout: &Layout, line: u64) -> String {
    match layout.align {
        Alignment::Attribute(bytes) if bytes >= line => {
            format!("an attribute aligns it to {bytes}, so objects begin at a line")
        }
        Alignment::Attribute(bytes) => format!("an attribute aligns it to {bytes}"),
        Alignment::Natural(bytes) => format!("its members need an alignment of {bytes}"),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| format!("{}{}.", first.to_ascii_uppercase(), chars.as_str()))
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// How far the rows have come.
#[derive(Default)]
struct Place {
    end: u64,
    line: Option<u64>,
    holes: u64,
    hole_bytes: u64,
}

struct Printer<'o> {
    style: &'o Style,
    line: u64,
    out: &'o mut dyn Write,
    /// Columns of types and of names.
    ty: usize,
    name: usize,
}

impl<'o> Printer<'o> {
    fn new(style: &'o Style, line: u64, out: &'o mut dyn Write) -> Self {
        // The mark, the gaps between five columns, and what does not shrink.
        let rest = style.columns().saturating_sub(2 + OFFSET + SIZE + JUDGED + 4 * 2);
        Self { style, line: line.max(1), out, ty: rest / 2, name: rest - rest / 2 }
    }

    fn paragraph(&mut self, text: &str) -> io::Result<()> {
        for line in self.style.wrap(text, 0) {
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    fn headings(&mut self, judged: &str) -> io::Result<()> {
        let text = self.text(" ", ["offset", "size", "type", "member", judged]);
        writeln!(self.out, "{}", self.style.heading(text))
    }

    fn text(&self, mark: &str, [offset, size, ty, name, judged]: [&str; 5]) -> String {
        let pad = |text: &str, columns: usize| {
            let text = shorten(&sanitize(text), columns);
            let blank = " ".repeat(columns.saturating_sub(width(&text)));
            format!("{text}{blank}")
        };
        let (ty, name) = (pad(ty, self.ty), pad(name, self.name));
        let judged = shorten(judged, JUDGED);
        let line = format!("{mark} {offset:>OFFSET$}  {size:>SIZE$}  {ty}  {name}  {judged}");
        line.trim_end().to_owned()
    }

    fn members(
        &mut self,
        source: &dyn TypeSource,
        members: &[Member],
        depth: usize,
        ordered: bool,
        place: &mut Place,
    ) -> io::Result<()> {
        for member in members {
            // In a union, everything begins where the union does.
            if ordered {
                self.before(member, depth, place)?;
            }
            let indent = "  ".repeat(depth.min(8));
            if let Some(kind) = member.nameless {
                let (offset, size) = numbers(member.offset_bits, member.size_bits, false);
                let ty = format!("{indent}{} {{", kind.keyword());
                writeln!(self.out, "{}", self.text(" ", [&offset, &size, &ty, "", ""]))?;
                let inside_ordered = ordered && kind == crate::types::RecordKind::Structure;
                let mut inside = Place { end: member.offset(), line: place.line, ..Place::default() };
                self.members(source, &member.inner, depth + 1, inside_ordered, &mut inside)?;
                place.line = inside.line;
                place.holes += inside.holes;
                place.hole_bytes += inside.hole_bytes;
                writeln!(self.out, "{}", self.text(" ", ["", "", &format!("{indent}}}"), "", ""]))?;
            } else {
                let judged = judge_member(source, member);
                let (offset, size) = numbers(member.offset_bits, member.size_bits, member.bitfield);
                let ty = format!("{indent}{}", member.type_name);
                let text = self.text(" ", [&offset, &size, &ty, &member.path, &judged.to_string()]);
                let text = if judged.rank() == 4 { self.style.alarm(text) } else { text };
                writeln!(self.out, "{text}")?;
            }
            place.end = place.end.max(member.end());
        }
        Ok(())
    }

    /// The hole before a member, and the line that it begins.
    fn before(&mut self, member: &Member, depth: usize, place: &mut Place) -> io::Result<()> {
        let hole = member.offset().saturating_sub(place.end);
        if hole > 0 {
            self.hole(place.end, hole, "hole")?;
            place.holes += 1;
            place.hole_bytes += hole;
        }
        let line = member.offset() / self.line;
        if place.line != Some(line) && (depth == 0 || place.line.is_some()) {
            place.line = Some(line);
            let text = format!("-- line {line}: bytes {}-{} ", line * self.line, (line + 1) * self.line - 1);
            let dashes = "-".repeat(self.style.columns().saturating_sub(text.len()));
            writeln!(self.out, "{text}{dashes}")?;
        }
        Ok(())
    }

    fn hole(&mut self, offset: u64, bytes: u64, what: &str) -> io::Result<()> {
        let text = self.text(" ", [&offset.to_string(), &bytes.to_string(), &format!("({what})"), "", ""]);
        writeln!(self.out, "{text}")
    }

    fn part(&mut self, part: &Part, mark: &str, judged: &str) -> io::Result<()> {
        let (offset, size) = numbers(part.offset_bits, part.size_bits, part.bitfield);
        let text = self.text(mark, [&offset, &size, &part.type_name, &part.path, judged]);
        let alarming = matches!(part.judgement, Judgement::Written { each_use: true, .. });
        let text = if alarming { self.style.alarm(text) } else { text };
        writeln!(self.out, "{text}")
    }
}

/// Offset and size for people: bytes, or bits for bitfields (`68:3` begins at the fourth bit of byte 68; `5b` has five).
fn numbers(offset_bits: u64, size_bits: u64, bitfield: bool) -> (String, String) {
    if bitfield {
        (format!("{}:{}", offset_bits / 8, offset_bits % 8), format!("{size_bits}b"))
    } else {
        ((offset_bits / 8).to_string(), size_bits.div_ceil(8).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::advice::{Language, separate};
    use crate::types::encoder::{Encoder, mount};
    use crate::types::line::around;

    fn printed(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| width(line) <= 100), "{text}");
        text
    }

    #[test]
    fn a_structure() {
        let types = mount().types();
        let layout = types.structure("mount").unwrap();
        insta::assert_snapshot!(printed(|out| structure(&types, &layout, 64, &Style::default(), out)));
    }

    #[test]
    fn the_line_of_a_member() {
        let types = mount().types();
        let layout = types.structure("mount").unwrap();
        let text = |start| {
            let near = around(&types, &layout, 72, 4, start, 64);
            let separation = separate(&types, &layout, &near, Language::Kernel);
            printed(|out| neighbourhood(&layout, &near, separation.as_ref(), &Style::default(), out))
        };
        insta::assert_snapshot!(text(Start::AtLine));
        insta::assert_snapshot!(text(Start::Multiple(8)));
    }

    #[test]
    fn hostile_names_are_harmless() {
        let mut btf = Encoder::new();
        let int = btf.int("in\x1b[2Jt", 4);
        btf.structure("evil", 4, &[(&"\u{202e}x\n".repeat(300), int, 0, 0)]);
        let types = btf.types();
        let layout = types.structure("evil").unwrap();
        let text = printed(|out| structure(&types, &layout, 64, &Style::default(), out));
        assert!(!text.contains('\x1b') && !text.contains('\u{202e}'), "{text}");
    }
}
