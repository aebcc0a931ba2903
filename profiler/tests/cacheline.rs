//! Cache lines that two CPUs fight for: which field, which neighbour, who writes it; from samples, code and types.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::Command;

use common::{Running, Workload, exclusive, is_root, profiler};
use profiler::code::disasm::Code;
use profiler::profile::{Confidence, Finding, FunctionText, Origin, Session, Subject, store};

/// Machines with one CPU have no contention.
fn can_run(name: &str) -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        common::skip::skip(name, "needs two CPUs");
    }
    is_root(name) && cpus >= 2
}

struct Measured {
    session: Session,
    /// What `profiler annotate` prints of the reader.
    annotated: String,
}

fn measure(mode: &str, reader: &str) -> Measured {
    let program = Workload::build_optimised("cacheline");
    let args = ["--probes", "cpu", "--frequency", "999", "--", &program.arg(), mode, "4"];
    let run = Running::start(&args, false).finish();
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let output = profiler().arg("annotate").arg(reader).arg(&run.output).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let annotated = String::from_utf8(output.stdout).unwrap();
    assert!(annotated.lines().all(|line| line.chars().count() <= 100), "{annotated}");
    Measured { session: run.session(), annotated }
}

fn finding(session: &Session) -> Option<&Finding> {
    session.findings.iter().find(|finding| finding.id == "cacheline-contention")
}

fn code<'s>(session: &'s Session, name: &str) -> &'s profiler::profile::FunctionCode {
    session.code.iter().find(|code| code.name == name).unwrap_or_else(|| panic!("no code of {name}"))
}

#[test]
fn false_sharing_is_found_with_member_neighbour_and_writer() {
    if !can_run("false_sharing_is_found_with_member_neighbour_and_writer") {
        return;
    }
    let _turn = exclusive();
    let Measured { session, annotated } = measure("false", "group_of");
    let wait = code(&session, "group_of").wait.as_ref().unwrap();
    let member = wait.member.as_ref().unwrap_or_else(|| panic!("{wait:?}"));
    assert_eq!((&*member.structure, &*member.path, member.offset), ("struct geometry", "group_log", 4));
    assert_eq!((&*wait.writers[0].name, &*wait.writers[0].member.path), ("count_request", "requests"));
    let finding = finding(&session).unwrap_or_else(|| panic!("nothing found\n{annotated}"));
    assert_eq!(finding.confidence, Confidence::Likely);
    assert_eq!(finding.about[0], Subject::Structure("struct geometry.group_log".into()));
    for name in ["group_of", "group_log", "requests", "count_request", "false sharing"] {
        assert!(finding.title.contains(name), "{}", finding.title);
    }
    for shown in ["==>", "-->", "reads geometry.group_log", "count_request+0x"] {
        assert!(annotated.contains(shown), "{shown}\n{annotated}");
    }
}

#[test]
fn its_padded_twin_is_silent() {
    if !can_run("its_padded_twin_is_silent") {
        return;
    }
    let _turn = exclusive();
    let Measured { session, annotated } = measure("padded", "padded_group_of");
    // The types are known: it is not for lack of these that nothing is found.
    assert!(annotated.contains("reads padded_geometry.group_log"), "{annotated}");
    assert!(code(&session, "padded_count_request").samples > 100);
    assert_eq!(finding(&session), None);
}

#[test]
fn true_sharing_is_called_that() {
    if !can_run("true_sharing_is_called_that") {
        return;
    }
    let _turn = exclusive();
    let Measured { session, annotated } = measure("true", "load_of");
    let finding = finding(&session).unwrap_or_else(|| panic!("nothing found\n{annotated}"));
    assert!(
        finding.title.contains("true sharing") && finding.title.contains("requests"),
        "{}",
        finding.title
    );
}

#[test]
fn functions_of_the_running_kernel_have_members() {
    if !can_run("functions_of_the_running_kernel_have_members") {
        return;
    }
    let _turn = exclusive();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let file = file.display();
    let (mut named, mut functions) = (0, BTreeSet::new());
    // Each of them has some 20 functions of its own.
    for work in [
        "find /proc/self /proc/sys /sys/kernel /sys/devices /usr/lib > /dev/null 2>&1",
        "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done",
        &format!(
            "dd if=/dev/zero of={file} bs=16k count=2000 2>/dev/null; dd if={file} of=/dev/null bs=4k 2>/dev/null"
        ),
        "dd if=/dev/zero bs=512 count=50000 2>/dev/null | cat | cat > /dev/null",
    ] {
        let script = format!("end=$(($(date +%s) + 4)); while [ $(date +%s) -lt $end ]; do {work}; done");
        let args = ["--probes", "cpu", "--frequency", "999", "--", "sh", "-c", &script];
        let run = Running::start(&args, false).finish();
        assert_eq!(run.code(), 0, "{}", run.stderr);
        let session = run.session();
        for code in session.code.iter().filter(|code| code.origin == Origin::Kernel) {
            if !code.accesses.is_empty() && functions.insert(code.name.clone()) {
                named += code.accesses.len();
            }
        }
        check_instructions(&store::load_text(&run.output).unwrap());
        check_members(&session);
    }
    eprintln!("{named} accesses with a member in {} functions", functions.len());
    assert!(named >= 200 && functions.len() >= 20, "{named} in {functions:?}");
}

/// Every instruction begins where binutils sees one begin.
fn check_instructions(text: &[FunctionText]) {
    let mut compared = 0;
    for function in text.iter().filter(|text| text.origin == Origin::Kernel) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&function.bytes).unwrap();
        let objdump = Command::new("objdump")
            .args(["-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn", "-w"])
            .arg(format!("--adjust-vma={:#x}", function.start))
            .arg(file.path())
            .output();
        let Ok(objdump) = objdump else {
            common::skip::skip("instructions against objdump", "needs objdump");
            return;
        };
        let listing = String::from_utf8_lossy(&objdump.stdout);
        let theirs: BTreeSet<u32> = listing
            .lines()
            .filter_map(|line| u64::from_str_radix(line.split_once(":\t")?.0.trim(), 16).ok())
            .map(|address| (address - function.start) as u32)
            .collect();
        let code = Code::new(function.start, &function.bytes, |_| None);
        let ours: BTreeSet<u32> = code.lines.iter().map(|line| line.offset).collect();
        assert_eq!(ours, theirs, "{}", function.name);
        compared += ours.len();
    }
    assert!(compared > 500, "{compared}");
}

/// Every member lies where pahole sees it.
fn check_members(session: &Session) {
    let accesses = session.code.iter().filter(|code| code.origin == Origin::Kernel && code.module.is_none());
    let mut by_structure: BTreeMap<&str, BTreeSet<(&str, u64)>> = BTreeMap::new();
    for access in accesses.flat_map(|code| &code.accesses) {
        if let Some(name) = access.member.structure.strip_prefix("struct ") {
            by_structure.entry(name).or_default().insert((&access.member.path, access.member.offset));
        }
    }
    let mut compared = 0;
    for (structure, members) in by_structure {
        let pahole = Command::new("pahole").args(["-C", structure, "/sys/kernel/btf/vmlinux"]).output();
        let Ok(pahole) = pahole else {
            common::skip::skip("members against pahole", "needs pahole");
            return;
        };
        let listing = String::from_utf8_lossy(&pahole.stdout);
        // Members of the structure itself, with nameless ones; of what is in them pahole says nothing here.
        let offsets: BTreeMap<&str, u64> = listing.lines().filter_map(member).collect();
        for (path, offset) in members {
            let outer = path.split(['.', '[']).next().unwrap();
            if let Some(theirs) = offsets.get(outer) {
                let exact = path == outer;
                assert!(
                    if exact { offset == *theirs } else { offset >= *theirs },
                    "struct {structure}: {path} at {offset}, {outer} at {theirs} by pahole"
                );
                compared += usize::from(exact);
            }
        }
    }
    eprintln!("{compared} members compared with pahole");
    assert!(compared >= 20, "{compared}");
}

/// Name and offset of a line of pahole: type and name, then offset and size in a comment, between tabs.
fn member(line: &str) -> Option<(&str, u64)> {
    let (declaration, comment) = line.split_once(";")?;
    let offset = comment.trim().strip_prefix("/*")?.split_whitespace().next()?.parse().ok()?;
    let declaration = declaration.split(" __attribute__").next()?;
    let name = match declaration.split_once("(*") {
        Some((_, name)) => name.split(')').next()?,
        None => declaration.split(['[', ':']).next()?.split_whitespace().last()?.trim_start_matches('*'),
    };
    Some((name, offset))
}
