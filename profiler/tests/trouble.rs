//! What goes wrong outside: the profiler says so, leaves nothing behind, and loses no report.

mod common;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::run::PROFILER;
use common::{Run, Running, Workload, attach, command, exclusive, is_root, skip::skip};
use nix::sys::signal::Signal;
use profiler::profile::ProbeState;

/// Fails unless the run has ended with 1 and this in its message, and has neither reported nor saved.
#[track_caller]
fn assert_refused(run: &Run, messages: &[&str]) {
    assert_eq!(run.code(), 1, "{}", run.stderr);
    for message in messages {
        assert!(run.stderr.contains(message), "no `{message}` in\n{}", run.stderr);
    }
    assert!(run.stderr.starts_with("profiler: "), "{}", run.stderr);
    assert_eq!(run.stdout, "");
    assert!(!run.output.exists());
}

#[test]
fn targets_that_are_not_there() {
    if !is_root("trouble::targets_that_are_not_there") {
        return;
    }
    // Larger than any id (PID_MAX_LIMIT is 2^22).
    assert_refused(&attach(&["--pid", "4194305"]), &["there is no process 4194305"]);
    assert_refused(&attach(&["--cgroup", "/nonexistent"]), &["no control group `/nonexistent`", "looked at"]);
    assert_refused(&attach(&["--cgroup", "/etc"]), &["/etc"]);
}

/// The output is looked at before anything is attached or started.
#[test]
fn outputs_that_cannot_be_written() {
    if !is_root("trouble::outputs_that_cannot_be_written") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("started");
    let in_the_way = folder.path().join("file");
    std::fs::write(&in_the_way, "mine").unwrap();
    for output in ["/proc/self/session", "/nonexistent/session", in_the_way.join("session").to_str().unwrap()]
    {
        let run = command(&format!("exec $PROFILER attach --output {output} -- touch {}", marker.display()))
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{output}: {stderr}");
        let parent = Path::new(output).parent().unwrap().to_str().unwrap();
        assert!(stderr.starts_with("profiler: ") && stderr.contains(parent), "{output}: {stderr}");
        assert!(!marker.exists(), "the command ran in spite of {output}");
        assert!(run.stdout.is_empty());
    }
    assert_eq!(std::fs::read_to_string(in_the_way).unwrap(), "mine");
}

#[test]
fn without_rights_it_names_what_is_missing() {
    let name = "trouble::without_rights_it_names_what_is_missing";
    if !is_root(name) {
        return;
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        return skip(name, "setpriv is not installed");
    }
    // Where nobody can get at it and could write as well.
    let folder =
        tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o777)).tempdir().unwrap();
    let program = folder.path().join("profiler");
    std::fs::copy(PROFILER, &program).unwrap();
    let run = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&program)
        .arg("attach")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{stderr}");
    for part in ["CAP_BPF", "CAP_PERFMON", "sudo", "setcap", program.to_str().unwrap()] {
        assert!(stderr.contains(part), "no `{part}` in\n{stderr}");
    }
    let files: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["profiler"], "something was written");
    assert!(run.stdout.is_empty());
}

/// Ids of the eBPF programs that a process has loaded: the kernel shows them with its descriptors.
fn programs_of(pid: u32) -> BTreeSet<u32> {
    let mut ids = BTreeSet::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        ids.extend(text.lines().filter_map(|line| line.strip_prefix("prog_id:")?.trim().parse::<u32>().ok()));
    }
    ids
}

/// Those of `ids` that are loaded.
fn still_loaded(ids: &BTreeSet<u32>) -> Vec<u32> {
    let loaded = aya::programs::loaded_programs().filter_map(Result::ok).map(|program| program.id());
    loaded.filter(|id| ids.contains(id)).collect()
}

fn assert_unloaded(ids: &BTreeSet<u32>) {
    // The kernel frees programs a grace period after their last user.
    let start = Instant::now();
    while !still_loaded(ids).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "still loaded: {:?}", still_loaded(ids));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn signals_end_it_with_a_report() {
    if !is_root("trouble::signals_end_it_with_a_report") {
        return;
    }
    let _turn = exclusive();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let running = Running::start::<&str>(&[], false).attached();
        let programs = programs_of(running.pid());
        assert!(programs.len() >= 5, "{programs:?}");
        std::thread::sleep(Duration::from_millis(300));
        running.signal(signal);
        let run = running.finish();
        assert_eq!(run.code(), 0, "{signal}: {}", run.stderr);
        assert!(run.stdout.contains("Rates"), "{signal}: {}", run.stdout);
        // Nothing else may have run in this time, but the clock has.
        assert!(run.session().probe("cpu").unwrap().events > 0, "{signal}");
        assert_unloaded(&programs);
    }
}

#[test]
fn a_kill_leaves_no_program_behind() {
    if !is_root("trouble::a_kill_leaves_no_program_behind") {
        return;
    }
    let _turn = exclusive();
    let running = Running::start::<&str>(&[], false).attached();
    let programs = programs_of(running.pid());
    assert_eq!(still_loaded(&programs).len(), programs.len());
    running.signal(Signal::SIGKILL);
    let run = running.finish();
    assert_eq!(run.status.code(), None);
    assert_unloaded(&programs);
}

/// The disk fills up while the session is saved: the report is on standard output all the same.
#[test]
fn a_full_disk_costs_no_report() {
    let name = "trouble::a_full_disk_costs_no_report";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    let folder = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"])
        .arg(folder.path())
        .status()
        .is_ok_and(|status| status.success());
    if !mounted {
        return skip(name, "cannot mount a tmpfs");
    }
    let output = folder.path().join("session");
    let run =
        command(&format!("exec $PROFILER attach --duration 500ms --output {}", output.display())).output();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let unmounted = Command::new("umount").arg(folder.path()).status().unwrap();
    assert!(unmounted.success());

    let run = run.unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert_eq!(run.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("could not be saved") && stderr.contains("No space left"), "{stderr}");
    assert!(stdout.contains("Rates"), "{stdout}");
    assert!(left.is_empty(), "{left:?}");
}

/// Fails if there is anything in `text` that a terminal obeys, or, in a drawing, that a browser runs.
#[track_caller]
fn assert_harmless(what: &str, text: &[u8]) {
    let text = String::from_utf8(text.to_vec()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let control = text.chars().find(|c| c.is_control() && *c != '\n' && *c != '\t');
    assert!(control.is_none(), "{what} has the control character {control:?}");
    if what.ends_with(".svg") {
        // The drawing has a script of its own, whose tag has a type.
        assert!(!text.contains("<script>"), "{what} has a tag");
        assert!(text.contains("&lt;script&gt;"), "{what} has no name to be afraid of");
    }
}

/// A program, its name and its threads' name are all hostile.
#[test]
fn hostile_names_are_harmless() {
    if !is_root("trouble::hostile_names_are_harmless") {
        return;
    }
    let _turn = exclusive();
    let burn = Workload::build_as("burn", "<script>\u{1b}[31m\"'&\n;b");
    // 15 bytes are a thread's name.
    let comm = "<script>\u{1b}[2J\"\n";
    for by in ["comm", "pid"] {
        let run = attach(&[
            "--probes",
            "cpu,page-alloc",
            "--frequency",
            "999",
            "--user",
            "--by",
            by,
            "--",
            &burn.arg(),
            "2",
            "1",
            "1",
            comm,
        ]);
        assert_eq!(run.code(), 0, "{}", run.stderr);
        let session = run.session();
        let named = session.profile.all_labels().iter().any(|labels| labels.comm.as_deref() == Some(comm));
        assert!(named, "the name is not in the session");

        // The command itself prints two ids there.
        assert_harmless("standard output", run.stdout.as_bytes());
        assert_harmless("standard error", run.stderr.as_bytes());
        let mut reports = 0;
        for entry in std::fs::read_dir(&run.output).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension != "gz") {
                assert_harmless(&path.display().to_string(), &std::fs::read(&path).unwrap());
                reports += 1;
            }
        }
        // session.json, report.txt, and folded and svg for two kinds.
        assert!(reports >= 6, "{reports} reports");
    }
}

/// Neither BTF tracepoints nor tracefs: what is left works, and the rest says what to do.
#[test]
fn without_tracefs_the_probes_say_so() {
    let name = "trouble::without_tracefs_the_probes_say_so";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    let run = |before: &str, arguments: &str| {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("session");
        // In a mount namespace of its own: others keep their tracefs. debugfs holds one as well. Without its mount
        // point it cannot be mounted either.
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "sh", "-c"]).arg(format!(
            "umount -l /sys/kernel/tracing /sys/kernel/debug 2> /dev/null
             {before}
             exec {PROFILER} attach --without tp_btf --duration 300ms --output {} {arguments}",
            output.display()
        ));
        Running::spawn(unshare, folder, output).finish()
    };
    let mounted = run("", "").session();
    for probe in ["lock", "block", "page-alloc"] {
        let state = &mounted.probe(probe).unwrap().state;
        assert!(matches!(state, ProbeState::Attached { rung, .. } if rung == "tracepoint"), "{state:?}");
    }

    let hidden = "mount -t tmpfs tmpfs /sys/kernel";
    let some = run(hidden, "");
    if some.stderr.contains("unshare failed") {
        return skip(name, "cannot make a mount namespace");
    }
    assert_eq!(some.code(), 0, "{}", some.stderr);
    let session = some.session();
    assert!(session.probe("cpu").unwrap().is_attached());
    for probe in ["lock", "block", "readahead", "page-alloc"] {
        let ProbeState::Failed { reason } = &session.probe(probe).unwrap().state else {
            panic!("{probe} is attached, to what?");
        };
        assert!(reason.contains("tracefs is not mounted") && reason.contains("mount -t tracefs"), "{reason}");
    }
    let said = some.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("tracefs is not mounted"), "{}", some.stdout);

    // Nothing is left at all.
    assert_refused(
        &run(hidden, "--probes lock,block"),
        &["no probe could be attached", "tracefs is not mounted"],
    );
}
