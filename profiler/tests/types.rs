//! Layouts against those of pahole, which reads BTF and DWARF with code of its own.

#[path = "common/skip.rs"]
mod skip;

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use profiler::types::btf::BtfTypes;
use profiler::types::dwarf::DwarfTypes;
use profiler::types::{Access, TypeSource};
use skip::skip;

const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// What pahole prints for all structures of a file, by name. Only of those that it knows one of.
fn pahole(arguments: &[&str]) -> Result<HashMap<String, String>, String> {
    let output = Command::new("pahole").args(arguments).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut structures: HashMap<String, String> = HashMap::new();
    let mut current: Option<(String, String)> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("struct ").and_then(|rest| rest.strip_suffix(" {")) {
            current = Some((name.to_owned(), String::new()));
        } else if line.starts_with('}') {
            if let Some((name, body)) = current.take() {
                structures.insert(name, body);
            }
        } else if let Some((_, body)) = &mut current {
            body.push_str(line);
            body.push('\n');
        }
    }
    if structures.is_empty() {
        return Err(format!("pahole prints nothing: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(structures)
}

/// Members as pahole prints them: name, offset in bytes, size in bytes or in bits for bitfields. `int x:3; /* 8:5 4 */`
fn members(body: &str) -> Vec<(String, u64, u64)> {
    body.lines()
        .filter_map(|line| {
            let (declaration, comment) = line.trim().split_once("/*")?;
            let declaration = declaration.trim().trim_end_matches(';');
            // What ends a nameless structure, or one that is declared in place: no name, or the offset of all of it.
            if declaration.is_empty() || declaration == "}" || declaration.starts_with("XXX") {
                return None;
            }
            let mut numbers = comment.trim().trim_end_matches("*/").split_whitespace();
            let offset: u64 = numbers.next()?.trim_end_matches(':').split(':').next()?.parse().ok()?;
            let size: u64 = numbers.last()?.parse().ok()?;
            Some((name(declaration)?, offset, size))
        })
        .collect()
}

/// The name that is declared: `struct list_head list`, `void (*f)(int)`, `char x[3]`, `int bits:3`.
fn name(declaration: &str) -> Option<String> {
    let declaration = declaration.split(" __attribute__").next()?.trim();
    if let Some((_, rest)) = declaration.split_once("(*") {
        let name = rest.split([')', '[']).next()?.trim_start_matches("const ");
        return Some(name.trim_start_matches('*').to_owned()).filter(|name| !name.is_empty());
    }
    let declaration = declaration.split(['[', ':']).next()?.trim_end();
    let name = declaration.rsplit([' ', '*']).next()?;
    Some(name.to_owned()).filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
}

/// Compares every member of as many structures as there are. Returns how many structures and members were compared.
fn compare(types: &dyn TypeSource, theirs: &HashMap<String, String>) -> (usize, usize) {
    let (mut structures, mut compared) = (0, 0);
    let mut wrong = Vec::new();
    for (name, body) in theirs {
        let found = types.named(name);
        // Which of several they mean cannot be told. Of structures that are declared in place and have a name
        // (`struct { int x; } name;`), the members are no members of this one.
        let is_named = |line: &str| line.trim().strip_prefix('}').is_some_and(|rest| !rest.starts_with(';'));
        if found.len() != 1 || body.lines().any(is_named) {
            continue;
        }
        let layout = types.layout(found[0]).unwrap();
        for (member, offset, size) in members(body) {
            let Some(ours) = layout.member(&member) else {
                wrong.push(format!("{name}.{member} is missing"));
                continue;
            };
            if (ours.offset(), ours.size()) != (offset, size) && !ours.bitfield {
                wrong.push(format!(
                    "{name}.{member}: {offset} {size}, not {} {}",
                    ours.offset(),
                    ours.size()
                ));
            }
            compared += 1;
        }
        structures += 1;
    }
    assert!(wrong.is_empty(), "{} of {compared} members differ:\n{}", wrong.len(), wrong.join("\n"));
    (structures, compared)
}

#[test]
fn the_kernels_structures_are_as_pahole_says() {
    const NAME: &str = "the_kernels_structures_are_as_pahole_says";
    if !Path::new(VMLINUX).exists() {
        return skip(NAME, "the kernel has no BTF");
    }
    let theirs = match pahole(&["--flat_arrays", VMLINUX]) {
        Ok(theirs) => theirs,
        Err(error) => return skip(NAME, &format!("pahole: {error}")),
    };
    let types = BtfTypes::running().unwrap();
    let (structures, members) = compare(&types, &theirs);
    assert!(structures >= 200 && members >= 2000, "{structures} structures, {members} members");
}
