//! Layouts against those of pahole, which reads BTF and DWARF with code of its own.

#[path = "common/skip.rs"]
mod skip;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use profiler::types::btf::BtfTypes;
use profiler::types::dwarf::DwarfTypes;
use profiler::types::line::parts;
use profiler::types::{Access, Alignment, TypeSource};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use skip::skip;
use tempfile::TempDir;

const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// A structure as pahole prints it.
struct Printed {
    /// The lines between the braces.
    body: String,
    /// Bytes to which an attribute aligns it, where it found out.
    align: Option<u64>,
}

/// What pahole prints for all structures of a file, by name.
fn pahole(arguments: &[&str]) -> Result<HashMap<String, Printed>, String> {
    let output = Command::new("pahole").args(arguments).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut structures = HashMap::new();
    let mut current: Option<(String, String)> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("struct ").and_then(|rest| rest.strip_suffix(" {")) {
            current = Some((name.to_owned(), String::new()));
        } else if line.starts_with('}') {
            if let Some((name, body)) = current.take() {
                let align =
                    line.split("__aligned__(").nth(1).and_then(|rest| rest.split(')').next()?.parse().ok());
                structures.insert(name, Printed { body, align });
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

/// Members as pahole prints them: name, offset and size in bits. A bitfield is `int x:3; /* 8:5 4 */`: 3 bits, from the fifth
/// of byte 8 on.
fn members(body: &str) -> Vec<(String, u64, u64)> {
    body.lines()
        .filter_map(|line| {
            let (declaration, comment) = line.trim().split_once("/*")?;
            let declaration = declaration.trim().trim_end_matches(';');
            // What ends a nameless structure has the offset of all of it.
            if declaration.is_empty() || declaration == "}" || declaration.starts_with("XXX") {
                return None;
            }
            let comment = comment.trim().trim_end_matches("*/").trim();
            let (place, bytes) = comment.rsplit_once(' ')?;
            let name = name(declaration)?;
            Some(match place.split_once(':') {
                Some((byte, bit)) => {
                    let width = declaration.rsplit_once(':')?.1.trim().parse().ok()?;
                    (name, number(byte)? * 8 + number(bit)?, width)
                }
                None => (name, number(place)? * 8, number(bytes)? * 8),
            })
        })
        .collect()
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
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

/// Compares every member of as many structures as there are. Returns how many structures, members, and bitfields among
/// these were compared.
fn compare(types: &dyn TypeSource, theirs: &HashMap<String, Printed>) -> (usize, usize, usize) {
    let (mut structures, mut compared, mut bitfields) = (0, 0, 0);
    let mut wrong = Vec::new();
    for (name, Printed { body, .. }) in theirs {
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
            if (ours.offset_bits, ours.size_bits) != (offset, size) {
                wrong.push(format!(
                    "{name}.{member}: {offset} {size}, not {} {}",
                    ours.offset_bits, ours.size_bits
                ));
            }
            bitfields += usize::from(ours.bitfield);
            compared += 1;
        }
        structures += 1;
    }
    assert!(wrong.is_empty(), "{} of {compared} members differ:\n{}", wrong.len(), wrong.join("\n"));
    (structures, compared, bitfields)
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
    let (structures, members, bitfields) = compare(&types, &theirs);
    eprintln!("{members} members of {structures} structures are the same, {bitfields} of them bitfields");
    assert!(structures >= 200 && members >= 2000 && bitfields >= 20, "{structures}, {members}, {bitfields}");

    // BTF has no alignments: they are guessed from holes, by them and by us.
    let aligned =
        theirs.iter().filter_map(|(name, printed)| Some((name, printed.align.filter(|align| *align >= 64)?)));
    let (same, other): (Vec<_>, Vec<_>) = aligned
        .filter(|(name, _)| types.named(name).len() == 1)
        .map(|(name, align)| (name, align, types.structure(name).unwrap().align))
        .partition(|(_, theirs, ours)| *ours == Alignment::Attribute(*theirs));
    eprintln!("{} alignments are the same, others: {other:?}", same.len());
    assert!(same.len() > 9 * other.len(), "{} are the same, others: {other:?}", same.len());
}

/// From each member to its offset, and back.
#[test]
fn offsets_lead_back_to_the_kernels_members() {
    const NAME: &str = "offsets_lead_back_to_the_kernels_members";
    if !Path::new(VMLINUX).exists() {
        return skip(NAME, "the kernel has no BTF");
    }
    let types = BtfTypes::running().unwrap();
    let mut names = types.names();
    names.sort_unstable();
    names.dedup();
    let mut checked = 0;
    for name in names.iter().step_by(7) {
        for id in types.named(name) {
            let layout = types.layout(id).unwrap();
            for part in parts(&types, &layout) {
                let bytes = part.bytes();
                assert!(bytes.end <= layout.size, "{name}.{}", part.path);
                if bytes.is_empty() {
                    continue;
                }
                let access = types.members_at(id, bytes.start, 1);
                let found = access.places().iter().any(|place| place.path.starts_with(&part.path));
                // Structures that begin with a hole or hold nothing have no innermost member there.
                assert!(found || access == Access::Padding, "{name}.{}: {access:?}", part.path);
                checked += usize::from(found);
            }
        }
    }
    assert!(checked > 5000, "{checked}");
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

/// Types of modules continue those of the kernel.
#[test]
fn btf_on_top_of_the_kernels() {
    const NAME: &str = "btf_on_top_of_the_kernels";
    if !Path::new(VMLINUX).exists() {
        return skip(NAME, "the kernel has no BTF");
    }
    let (_folder, program) = compile(&["-g", "-gdwarf-4"]);
    let (_folder_of_object, object) = compile(&["-g", "-gdwarf-4", "-c"]);
    let encoded = Command::new("pahole").arg("-J").arg(format!("--btf_base={VMLINUX}")).arg(&object).output();
    if !encoded.is_ok_and(|output| output.status.success()) {
        return skip(NAME, "no pahole that encodes BTF");
    }
    let types = BtfTypes::from_file(&object).unwrap();
    check(&types, &program, &["split btf"]);
    let prototype = types.prototype_in(Some("layout"), "reader").unwrap();
    assert_eq!(types.type_name(prototype.parameters[0].ty), "const struct busy *");
    // And the kernel's own are there, too.
    assert_eq!(types.structure("list_head").unwrap().size, 16);
    assert!(types.prototype_in(Some("layout"), "vfs_read").is_some());
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

#[test]
fn the_command_line() {
    let (_folder, program) = compile(&["-g"]);
    let profiler = |arguments: &[&str]| {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_profiler"));
        command.arg("layout").arg("--binary").arg(&program).args(arguments);
        command.assert()
    };
    profiler(&["busy"]).success().stdout(contains("struct busy: 256 bytes, 4 lines of 64"));
    profiler(&["struct busy", "--line", "128"]).success().stdout(contains("256 bytes, 2 lines of 128"));
    profiler(&["object", "shift"]).success().stdout(
        contains("object is a variable").and(contains("Whoever writes counter (written: atomic counter)")),
    );
    profiler(&["bussy"]).code(1).stderr(contains("no structure bussy; did you mean busy?"));
    profiler(&["busy", "in.c"]).code(1).stderr(contains("no member of inner c"));
    profiler(&["busy", "--line", "63"]).code(2);
    profiler(&["busy", "--btf", "x"]).code(2);
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
