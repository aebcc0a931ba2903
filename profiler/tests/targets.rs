//! Who is measured: processes, control groups, a command; and nobody else.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::run::value;
use common::{Workload, attach, exclusive, is_root, pids, skip::skip, weight_of};
use profiler::profile::{Kind, Session, Target};

/// A process with threads and children that burns CPU time. All of it is killed when dropped.
struct Load {
    child: Child,
    output: tempfile::NamedTempFile,
}

impl Load {
    /// `burn THREADS CHILDREN`, after `before` in a shell whose place it takes.
    fn start(program: &Workload, before: &str, threads: u32, children: u32) -> Self {
        let output = tempfile::NamedTempFile::new().unwrap();
        let script = format!("{before}\nexec {} {threads} {children} 60", program.arg());
        let child = Command::new("sh")
            .args(["-c", &script])
            .stdout(Stdio::from(output.reopen().unwrap()))
            .spawn()
            .unwrap();
        let load = Self { child, output };
        // All children have been named when all lines are there.
        while load.text().lines().count() < 1 + children as usize {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        load
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.output.path()).unwrap()
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn children(&self) -> BTreeSet<u32> {
        self.text().lines().filter_map(|line| line.strip_prefix("child ")?.parse().ok()).collect()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in self.children() {
            // Its parent still lives, so the id is still its own.
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(child as i32), nix::sys::signal::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes with stacks of both kinds that the load has.
fn seen(session: &Session) -> BTreeSet<u32> {
    let (cpu, pages) = (pids(session, Kind::Cpu), pids(session, Kind::PageAlloc));
    assert_eq!(cpu, pages, "the probes disagree about who is measured");
    cpu
}

#[test]
fn a_process_with_its_threads_and_nobody_else() {
    if !is_root("targets::a_process_with_its_threads_and_nobody_else") {
        return;
    }
    let _turn = exclusive();
    let burn = Workload::build("burn");
    let load = Load::start(&burn, "", 2, 1);
    let other = Load::start(&burn, "", 1, 0);
    let pid = load.pid().to_string();
    let run =
        attach(&["--pid", &pid, "--probes", "cpu,page-alloc", "--duration", "1s", "--frequency", "999"]);
    let session = run.session();
    assert_eq!(seen(&session), BTreeSet::from([load.pid()]));
    assert_eq!(session.target, Target::Processes { pids: vec![load.pid()] });
    // Its two threads: one comes from main(), the other does not.
    let (all, main) = (weight_of(&session, Kind::Cpu, "work"), weight_of(&session, Kind::Cpu, "main"));
    assert!(main > all / 5 && main < all * 4 / 5, "{main} of {all} samples in main's thread");

    // Two at once.
    let both = format!("{},{}", load.pid(), other.pid());
    let run =
        attach(&["--pid", &both, "--probes", "cpu,page-alloc", "--duration", "1s", "--frequency", "999"]);
    assert_eq!(seen(&run.session()), BTreeSet::from([load.pid(), other.pid()]));
}

#[test]
fn the_measurement_ends_with_its_processes() {
    if !is_root("targets::the_measurement_ends_with_its_processes") {
        return;
    }
    let _turn = exclusive();
    let burn = Workload::build("burn");
    let load = Load::start(&burn, "", 1, 0);
    let pid = load.pid().to_string();
    let running = common::Running::start(&["--pid", &pid, "--probes", "cpu"], false).attached();
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(load);
    let run = running.finish();
    assert_eq!(run.code(), 0, "{}", run.stderr);
    assert!(run.session().profile.total(Kind::Cpu) > 0);
}

/// A new control group, removed when dropped (then all its processes must be gone).
struct Group(PathBuf);

impl Group {
    /// In the hierarchy that is mounted with this file system type and, for v1, option.
    fn create(fs_type: &str, option: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let point = mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let matches =
                fields[2] == fs_type && (option.is_empty() || fields[3].split(',').any(|o| o == option));
            matches.then(|| PathBuf::from(fields[1]))
        })?;
        let path = point.join(format!("profiler-test-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    fn join(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.0.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that was killed leaves it a little later.
        for _ in 0..200 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

fn measure_group(group: &Group, argument: &Path) {
    let burn = Workload::build("burn");
    let load = Load::start(&burn, &group.join(), 1, 1);
    let _other = Load::start(&burn, "", 1, 0);
    let path = argument.to_str().unwrap();
    let run =
        attach(&["--cgroup", path, "--probes", "cpu,page-alloc", "--duration", "1s", "--frequency", "999"]);
    let session = run.session();
    let mut expected = load.children();
    expected.insert(load.pid());
    assert_eq!(seen(&session), expected, "{path}");
    assert_eq!(session.target, Target::Cgroup { path: path.to_owned() });
    let name = group.0.file_name().unwrap().to_str().unwrap();
    for stack in session.profile.stacks() {
        let cgroup = session.profile.labels(stack.labels).cgroup.clone();
        assert!(cgroup.as_ref().is_some_and(|path| path.contains(name)), "{cgroup:?}");
    }
}

#[test]
fn a_control_group_of_version_2() {
    let name = "targets::a_control_group_of_version_2";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    let Some(group) = Group::create("cgroup2", "") else {
        return skip(name, "no control groups of version 2");
    };
    measure_group(&group, &group.0);
    // By its name alone, too.
    measure_group(&group, Path::new(group.0.file_name().unwrap()));
}

#[test]
fn a_control_group_of_version_1() {
    let name = "targets::a_control_group_of_version_1";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    let Some(group) =
        ["pids", "cpu", "freezer"].iter().find_map(|controller| Group::create("cgroup", controller))
    else {
        return skip(name, "no control groups of version 1");
    };
    measure_group(&group, &group.0);
}

#[test]
fn a_group_inside_the_group_is_measured_too() {
    let name = "targets::a_group_inside_the_group_is_measured_too";
    if !is_root(name) {
        return;
    }
    let _turn = exclusive();
    let Some(group) = Group::create("cgroup2", "") else {
        return skip(name, "no control groups of version 2");
    };
    let inner = Group(group.0.join("inner"));
    std::fs::create_dir(&inner.0).unwrap();
    let burn = Workload::build("burn");
    let load = Load::start(&burn, &inner.join(), 1, 0);
    let path = group.0.to_str().unwrap();
    let run =
        attach(&["--cgroup", path, "--probes", "cpu,page-alloc", "--duration", "1s", "--frequency", "999"]);
    assert_eq!(seen(&run.session()), BTreeSet::from([load.pid()]));
    // Groups are removed from the inside out, when the load is gone.
    drop(load);
    drop(inner);
}

#[test]
fn a_command_with_its_children() {
    if !is_root("targets::a_command_with_its_children") {
        return;
    }
    let _turn = exclusive();
    let burn = Workload::build("burn");
    let _other = Load::start(&burn, "", 1, 0);
    for rung in [false, true] {
        // A shell between: the children of children are followed.
        let script = format!("{} 1 1 1", burn.arg());
        let args = ["--probes", "cpu,page-alloc", "--frequency", "999", "--", "sh", "-c", &script];
        let run = common::Running::start(&args, rung).finish();
        assert_eq!(run.code(), 0, "{}", run.stderr);
        let session = run.session();
        let (pid, child) = (value(&run.stdout, "pid ") as u32, value(&run.stdout, "child ") as u32);
        let seen = pids(&session, Kind::Cpu);
        assert!(seen.contains(&pid) && seen.contains(&child), "{pid} and {child} are not in {seen:?}");
        // The shell itself, which may run the program in its own place, and nobody else.
        assert!(seen.len() <= 3, "{seen:?}");
        assert!(pids(&session, Kind::PageAlloc).is_superset(&BTreeSet::from([pid, child])));
    }
}

#[test]
fn the_commands_exit_status_is_passed_on() {
    if !is_root("targets::the_commands_exit_status_is_passed_on") {
        return;
    }
    let _turn = exclusive();
    for (script, status) in
        [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 128 + 15), ("kill -KILL $$", 128 + 9)]
    {
        let run = attach(&["--probes", "page-alloc", "--", "sh", "-c", script]);
        assert_eq!(run.code(), status, "{script}\n{}", run.stderr);
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        assert_eq!(run.session().target, Target::Command { argv, status: Some(status) });
    }
}

#[test]
fn a_command_that_is_not_there() {
    if !is_root("targets::a_command_that_is_not_there") {
        return;
    }
    let no_program = tempfile::NamedTempFile::new().unwrap();
    // As shells have it: 127 for what is not there, 126 for what is no program.
    for (program, status, reason) in [
        ("/nonexistent/program", 127, "No such file or directory"),
        (no_program.path().to_str().unwrap(), 126, "Permission denied"),
    ] {
        let run = attach(&["--", program]);
        assert_eq!(run.code(), status, "{}", run.stderr);
        let sentence = format!("cannot execute `{program}`: {reason}");
        assert!(run.stderr.contains(&sentence), "{}", run.stderr);
        assert!(!run.output.exists());
        assert_eq!(run.stdout, "");
    }
}
