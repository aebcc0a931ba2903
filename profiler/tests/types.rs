//! Layouts against those of pahole, which reads BTF and DWARF with code of its own.

#[path = "common/skip.rs"]
mod skip;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use profiler::types::btf::BtfTypes;
use profiler::types::dwarf::DwarfTypes;
use profiler::types::{Access, Alignment, TypeSource};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use skip::skip;
use tempfile::TempDir;

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

/// Compiles `workloads/layout.c`.
fn compile(flags: &[&str]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("layout");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads/layout.c");
    // The compiler that rustc links with.
    let output = Command::new("cc").args(flags).arg("-o").arg(&program).arg(source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (folder, program)
}

/// Checks every member against what the program says of itself.
fn check(types: &dyn TypeSource, program: &Path, flags: &[&str]) {
    let said = String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap();
    assert!(said.lines().count() > 20, "{said}");
    let busy = types.named("busy");
    assert_eq!(busy.len(), 1, "{flags:?}");
    let layout = types.layout(busy[0]).unwrap();
    assert_eq!(layout.align, Alignment::Attribute(64), "{flags:?}");
    for line in said.lines() {
        let [path, offset, size] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (offset, size): (u64, u64) = (offset.parse().unwrap(), size.parse().unwrap());
        // The member itself, where it is one of the outermost structure.
        if let Some(member) = layout.member(path) {
            assert_eq!((member.offset(), member.size()), (offset, size), "{flags:?} {path}");
        }
        // And the way back. Of arrays and structures, what begins where they do.
        let access = types.members_at(busy[0], offset, size.min(8));
        let found =
            access.places().iter().any(|place| place.path.starts_with(path) && place.offset() == offset);
        assert!(found, "{flags:?} {path}: {access:?}");
    }
    // Bitfields have no offset in C.
    let bits = |offset, path: &str| match types.members_at(busy[0], offset, 1) {
        Access::Spans(places) | Access::Union(places) => {
            let place = places.iter().find(|place| place.path == path).cloned().unwrap();
            (place.offset_bits, place.size_bits)
        }
        other => panic!("{flags:?} {other:?}"),
    };
    assert_eq!((bits(2, "in.x"), bits(2, "in.y")), ((16, 3), (19, 13)), "{flags:?}");
    assert_eq!(types.structure("packed").unwrap().align, Alignment::Natural(1));
}

#[test]
fn programs_structures_are_as_they_say_themselves() {
    for flags in [
        &["-g"][..],
        &["-g", "-gdwarf-5", "-O2"],
        &["-g", "-gdwarf-4"],
        &["-g", "-gdwarf-2", "-gstrict-dwarf"],
        &["-g", "-gz"],
        &["-g", "-fdebug-types-section"],
    ] {
        let (_folder, program) = compile(flags);
        let types = DwarfTypes::open(&program).unwrap();
        check(&types, &program, flags);
        let prototype = types.prototype("reader").unwrap();
        assert_eq!(prototype.parameters.len(), 2, "{flags:?}");
        assert_eq!(types.type_name(prototype.parameters[0].ty), "const struct busy *", "{flags:?}");
        let busy = types.pointee(prototype.parameters[0].ty).unwrap();
        assert_eq!(types.layout(busy).unwrap().name, "busy");
        assert_eq!(types.type_name(types.variable("object").unwrap().ty), "struct busy");
    }
}

#[test]
fn debug_information_in_a_file_apart() {
    const NAME: &str = "debug_information_in_a_file_apart";
    let (folder, program) = compile(&["-g", "-Wl,--build-id"]);
    let run = |arguments: &[&str]| {
        let output = Command::new("objcopy").args(arguments).current_dir(folder.path()).output();
        output.map(|output| output.status.success()).unwrap_or(false)
    };
    if !run(&["--only-keep-debug", "layout", "layout.debug"]) {
        return skip(NAME, "no objcopy");
    }
    assert!(run(&["--strip-all", "--add-gnu-debuglink=layout.debug", "layout"]));
    check(&DwarfTypes::open(&program).unwrap(), &program, &[]);
    // That of another build does not belong to it.
    let (other, _) = compile(&["-g", "-O2", "-Wl,--build-id"]);
    std::fs::rename(other.path().join("layout"), folder.path().join("layout.debug")).unwrap();
    let error = DwarfTypes::open(&program).err().unwrap().to_string();
    assert!(error.contains("no debug information"), "{error}");
}

#[test]
fn btf_in_a_program_is_as_its_dwarf() {
    const NAME: &str = "btf_in_a_program_is_as_its_dwarf";
    // pahole of these days does not know the tags of version 5 for atomic types.
    let (_folder, program) = compile(&["-g", "-gdwarf-4"]);
    let encoded = Command::new("pahole").arg("-J").arg(&program).output();
    if !encoded.is_ok_and(|output| output.status.success()) {
        return skip(NAME, "no pahole that encodes BTF");
    }
    check(&BtfTypes::from_file(&program).unwrap(), &program, &["btf"]);
}

#[test]
fn what_is_no_program_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    for content in
        [&b""[..], b"\x7fELF", b"\x7fELF\x02\x01\x01 and more", b"\x1f\x8b\x08\x00compressed", &[0; 4096]]
    {
        std::fs::write(&file, content).unwrap();
        assert!(DwarfTypes::open(&file).is_err());
        assert!(BtfTypes::from_file(&file).is_err());
    }
    // A pipe would wait for a writer.
    nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [folder.path().join("pipe"), folder.path().to_owned(), folder.path().join("nothing")] {
        assert!(DwarfTypes::open(&path).is_err());
        assert!(BtfTypes::from_file(&path).is_err());
    }
    let (_folder, stripped) = compile(&["-s"]);
    let error = DwarfTypes::open(&stripped).err().unwrap().to_string();
    assert!(error.contains("no debug information"), "{error}");
}

/// Asks for everything that may be damaged.
fn ask(types: &dyn TypeSource) {
    for name in types.names().iter().take(100) {
        for id in types.named(name) {
            if let Some(layout) = types.layout(id) {
                types.members_at(id, layout.size / 2, 8);
                types.type_name(id);
            }
        }
    }
    types.prototype("reader");
    types.prototype("main");
    types.variable("object");
}

#[test]
fn damaged_programs_do_no_harm() {
    let (folder, program) = compile(&["-g"]);
    let whole = std::fs::read(&program).unwrap();
    let damaged = folder.path().join("damaged");
    // Debug information is in the later half, section headers at the very end, the file's header at the start.
    let places = prop_oneof![
        3 => whole.len() / 2..whole.len(),
        1 => 0..64usize,
        1 => whole.len() - 64 * 40..whole.len(),
    ];
    let damage = proptest::collection::vec((places, any::<u8>()), 1..40);
    let mut runner =
        TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) });
    runner
        .run(&damage, |damage| {
            let mut bytes = whole.clone();
            for (place, byte) in damage {
                bytes[place] = byte;
            }
            std::fs::write(&damaged, bytes).unwrap();
            if let Ok(types) = DwarfTypes::open(&damaged) {
                ask(&types);
            }
            let _ = BtfTypes::from_file(&damaged);
            Ok(())
        })
        .unwrap();
}
