//! What a scenario is, and how it is run.

use profiler::profile::{Session, Subject};
use serde::Serialize;

use super::verdict::judge;
use crate::common::{Disk, Running, exclusive, is_root, skip::skip};

/// Makes an ext4 that leaves nothing to be written later, when something else is measured.
pub const EXT4: &str = "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0";

/// How often a scenario may be tried on emulated CPUs. The host stops these whenever it likes, whoever holds a lock or has
/// memory to free: what is lost by that is not the scenario's doing. The table says which attempt it was.
const EMULATED_ATTEMPTS: u32 = 3;

/// Something that a machine does, and what the program has to say of it.
pub struct Scenario {
    /// Id of the pathology that it has, or looks like; empty for ordinary work.
    pub pathology: &'static str,
    /// Whether nothing is wrong: then nothing above an info may be found.
    pub healthy: bool,
    /// What is done, in a line.
    pub what: &'static str,
    /// Does it.
    pub run: Action,
}

/// Prepares, and does the work while the profiler is attached; the error says in a few words what the machine lacks.
pub type Action = fn(&mut Bench) -> Result<Expected, String>;

/// What the finding has to say. Nothing, of healthy ones.
#[derive(Default)]
pub struct Expected {
    /// What it has to be about.
    pub about: Vec<Subject>,
    /// Its numbers, as others have counted them.
    pub figures: Vec<Figure>,
}

/// A number of a finding, as someone else has it.
pub struct Figure {
    /// Name of the evidence.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// Who says so: `/sys/block/loop0/stat`.
    pub source: &'static str,
}

/// Where a scenario is run.
#[derive(Default)]
pub struct Bench {
    /// Kernel names of its disks.
    disks: Vec<String>,
    measured: Option<(Session, String)>,
}

impl Scenario {
    /// Something that is wrong.
    pub fn reproducer(pathology: &'static str, what: &'static str, run: Action) -> Self {
        Self { pathology, healthy: false, what, run }
    }

    /// Something that looks like it, and is not.
    pub fn look_alike(pathology: &'static str, what: &'static str, run: Action) -> Self {
        Self { pathology, healthy: true, what, run }
    }

    /// Ordinary work.
    pub fn ordinary(what: &'static str, run: Action) -> Self {
        Self { pathology: "", healthy: true, what, run }
    }

    /// Runs it as the test `name`.
    #[track_caller]
    pub fn test(&self, name: &str) {
        if !is_root(name) {
            return;
        }
        let _turn = exclusive();
        let attempts = if is_emulated() { EMULATED_ATTEMPTS } else { 1 };
        for attempt in 1..=attempts {
            let mut bench = Bench::default();
            let expected = match (self.run)(&mut bench) {
                Ok(expected) => expected,
                Err(reason) => return skip(name, &reason),
            };
            let (session, report) = bench.measured.take().expect("a scenario measures its work");
            if std::env::var_os("PROFILER_SCENARIOS_SHOW").is_some() {
                println!("\n{name}: {}\n\n{report}", self.what);
            }
            let outcome = judge(name, self, attempt, &expected, &session, &bench.disks);
            outcome.save();
            if outcome.as_expected() {
                return;
            }
            println!("attempt {attempt} of {attempts}: {outcome}\n{report}");
        }
        panic!("{name} is not as expected, see above");
    }
}

impl Bench {
    /// A disk with a mounted file system, made by `mkfs`.
    ///
    /// # Errors
    ///
    /// What the machine lacks.
    pub fn disk(&mut self, mib: u64, mkfs: &str, options: &str) -> Result<Disk, String> {
        let disk = Disk::format(mib, mkfs)?;
        self.owns(&disk);
        disk.mount(options)?;
        Ok(disk)
    }

    /// What is found of other disks than those is not this scenario's doing.
    pub fn owns(&mut self, disk: &Disk) {
        self.disks.push(disk.name().to_owned());
    }

    /// Does the work while the profiler is attached to the whole machine.
    pub fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let running = Running::start::<&str>(&[], false).attached();
        let result = work();
        let run = running.interrupt();
        assert_eq!(run.code(), 0, "{}", run.stderr);
        self.measured = Some((run.session(), run.stdout));
        result
    }
}

impl Expected {
    /// Nothing.
    pub fn silence() -> Result<Self, String> {
        Ok(Self::default())
    }

    /// A finding about this.
    pub fn about(subject: Subject) -> Self {
        Self { about: vec![subject], figures: Vec::new() }
    }

    /// One about this disk.
    pub fn disk(disk: &Disk) -> Self {
        Self::about(Subject::Device(disk.name().to_owned()))
    }

    /// That has this number, says `source`.
    #[must_use]
    pub fn figure(mut self, name: &'static str, value: f64, source: &'static str) -> Self {
        self.figures.push(Figure { name, value, source });
        self
    }
}

/// A line of the list that `cargo xtask repro` chooses from.
#[derive(Serialize)]
pub struct Listed<'a> {
    name: &'a str,
    pathology: &'a str,
    healthy: bool,
    what: &'a str,
    /// Whether it runs in virtual machines only.
    guest: bool,
}

impl<'a> Listed<'a> {
    /// The line of a scenario.
    pub fn new(name: &'a str, scenario: &'a Scenario, guest: bool) -> Self {
        let Scenario { pathology, healthy, what, .. } = scenario;
        Self { name, pathology, healthy: *healthy, what, guest }
    }
}

/// Whether QEMU itself executes the instructions, as it says in the CPU's name.
fn is_emulated() -> bool {
    std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("QEMU TCG CPU"))
}
