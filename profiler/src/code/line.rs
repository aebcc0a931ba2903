//! The cache line of a member, as the session keeps it.

use std::ops::Range;

use crate::profile::{LayoutAdvice, LineOfMember, MemberRef, Neighbour, Origin, Writer};
use crate::types::advice::{Language, separate_from};
use crate::types::line::{Part, Start, around, line_size};
use crate::types::{TypeId, TypeSource};

/// The bytes of a structure that share a line with a member, if the structure begins on a line.
pub fn bytes_around(member: &MemberRef) -> Range<u64> {
    let line = line_size();
    let start = member.offset / line * line;
    start..start.saturating_add(line)
}

/// The line that a member of a structure lies in, if its objects begin on a line: which of its neighbours are written
/// often, and how to take it apart from those, or from what is seen to be written.
pub fn of(
    types: &dyn TypeSource,
    structure: TypeId,
    member: &MemberRef,
    origin: Origin,
    writers: &[Writer],
) -> Option<LineOfMember> {
    let layout = types.layout(structure)?;
    let bytes = line_size();
    let start = Start::of(&layout, bytes);
    let near = around(types, &layout, member.offset, member.size, start, bytes);
    let often_written: Vec<Neighbour> = near
        .suspects()
        .into_iter()
        .filter(|neighbour| neighbour.if_at_line && neighbour.part.judgement.is_written())
        .map(|neighbour| Neighbour {
            path: neighbour.part.path.clone(),
            type_name: neighbour.part.type_name.clone(),
            why: neighbour.part.judgement.to_string(),
        })
        .collect();
    let caveat = match start {
        Start::AtLine => None,
        Start::Multiple(align) => Some(format!(
            "objects of this type may begin anywhere in a line (at multiples of {align} bytes): which members share one \
             then differs from object to object"
        )),
    };
    let language = if origin == Origin::Kernel { Language::Kernel } else { Language::C };
    let seen: Vec<&Part> = near
        .neighbours
        .iter()
        .map(|neighbour| &neighbour.part)
        .filter(|part| {
            let bytes = part.bytes();
            writers.iter().any(|writer| bytes.contains(&writer.member.offset))
        })
        .collect();
    let written = if seen.is_empty() { near.written() } else { seen };
    let advice = separate_from(types, &layout, &near, &written, language).map(|apart| LayoutAdvice {
        text: match &apart.quiet {
            Some(quiet) => format!("Take them apart ({} bytes more at most). {quiet}", apart.growth),
            None => format!("Take them apart ({} bytes more at most).", apart.growth),
        },
        paste: Some(format!("{}{}", apart.before, apart.after)),
    });
    let judgement = match often_written.as_slice() {
        [] => "nothing in the line is written often by its nature".to_owned(),
        found => {
            let names: Vec<String> = found.iter().map(|one| format!("{} ({})", one.path, one.why)).collect();
            format!("in the same line: {}", names.join(", "))
        }
    };
    Some(LineOfMember {
        index: member.offset / bytes,
        bytes,
        caveat,
        often_written,
        judgement,
        advice: advice.into_iter().collect(),
    })
}
