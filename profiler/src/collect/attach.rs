//! Climbing the ladder: loads and attaches the programs of a part, rung by rung.

use std::path::Path;

use aya::programs::{Program, ProgramError};
use aya::{Btf, Ebpf};

use crate::kernel::btf::Btf as Types;
use crate::kernel::ladder::{Attach, Part, Role, Rung};
use crate::kernel::offsets::Offsets;
use crate::kernel::tracefs;

/// How a part fared.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Attached.
    Attached {
        /// Name of the rung.
        rung: &'static str,
        /// What it is attached to.
        to: Vec<String>,
        /// What the rung cannot measure.
        lacks: Option<&'static str>,
        /// Why the rungs before it failed.
        passed: Vec<String>,
    },
    /// Every rung failed: the reasons, one each.
    Failed(Vec<String>),
    /// The kernel has none of the functions.
    Absent,
}

/// What attaching needs to know.
pub struct Climber<'a> {
    ebpf: &'a mut Ebpf,
    /// The kernel's BTF for aya, or why there is none.
    btf: Result<&'a Btf, &'a str>,
    /// The same for looking functions up.
    types: Option<&'a Types>,
    offsets: &'a Offsets,
    /// Rungs, or single targets, that may not be used (for tests, and to get round a kernel bug).
    without: &'a [String],
    /// Why functions cannot be attached through BTF at all, once that is known.
    no_fentry: Option<String>,
    /// Why there are no kprobes.
    no_kprobe: Option<String>,
}

impl<'a> Climber<'a> {
    /// A climber for the programs in `ebpf`.
    pub fn new(
        ebpf: &'a mut Ebpf,
        btf: Result<&'a Btf, &'a str>,
        types: Option<&'a Types>,
        offsets: &'a Offsets,
        without: &'a [String],
    ) -> Self {
        Self { ebpf, btf, types, offsets, without, no_fentry: None, no_kprobe: no_kprobes() }
    }

    /// Attaches a part by the first rung that works.
    pub fn climb(&mut self, part: &Part) -> Outcome {
        let mut passed = Vec::new();
        let mut absent = true;
        for rung in part.rungs {
            match self.try_rung(rung) {
                Ok(to) => return Outcome::Attached { rung: rung.how(), to, lacks: rung.lacks, passed },
                // Of many file systems a kernel lacks some, which says nothing.
                Err(Refusal::Absent(_)) if part.role == Role::OneOf => {}
                Err(Refusal::Absent(reason)) => passed.push(reason),
                Err(Refusal::Other(reason)) => {
                    absent = false;
                    // The same reason for two rungs of a kind is said once.
                    if !passed.contains(&reason) {
                        passed.push(reason);
                    }
                }
            }
        }
        if absent { Outcome::Absent } else { Outcome::Failed(passed) }
    }

    fn try_rung(&mut self, rung: &Rung) -> Result<Vec<String>, Refusal> {
        let how = rung.how();
        self.check(rung)?;
        let mut names = Vec::new();
        for attach in rung.attach {
            names.push(self.name_on_this_kernel(attach)?);
        }
        for (attach, name) in rung.attach.iter().zip(&names) {
            let excluded = self.without.iter().any(|given| given == how || *given == format!("{how}:{name}"));
            if excluded {
                return Err(Refusal::Other(format!("{how} {name}: switched off by --without")));
            }
            // A function that does not exist is worth no word about what its program would need.
            let missing = self.offsets.missing(rung.needs);
            if !missing.is_empty() {
                let missing: Vec<String> = missing.into_iter().map(Offsets::describe).collect();
                return Err(Refusal::Other(format!("{how}: this kernel has no {}", missing.join(", "))));
            }
            // Load all first: attaching is what takes effect, and should be all or nothing.
            self.load(attach, name).map_err(|error| self.give_up(rung, attach, name, error))?;
        }
        for (attach, name) in rung.attach.iter().zip(&names) {
            self.attach(attach, name).map_err(|error| self.give_up(rung, attach, name, error))?;
        }
        Ok(rung.attach.iter().zip(&names).map(|(attach, name)| attach.shown(name)).collect())
    }

    /// What the kernel lacks for a whole kind of rung.
    fn check(&self, rung: &Rung) -> Result<(), Refusal> {
        let how = rung.how();
        let refused = match rung.attach.first() {
            Some(Attach::TpBtf(..)) => self.btf.err().map(str::to_owned),
            Some(Attach::Fentry(..) | Attach::Fexit(..)) => {
                self.btf.err().map(str::to_owned).or_else(|| self.no_fentry.clone())
            }
            Some(Attach::Kprobe(..) | Attach::Kretprobe(..)) => self.no_kprobe.clone(),
            Some(Attach::Tracepoint(..)) if tracefs::mount_point().is_none() => Some(
                "tracefs is not mounted; mount -t tracefs nodev /sys/kernel/tracing makes this rung available"
                    .to_owned(),
            ),
            _ => None,
        };
        refused.map_or(Ok(()), |reason| Err(Refusal::Other(format!("{how}: {reason}"))))
    }

    /// The first of the names that this kernel has.
    fn name_on_this_kernel(&self, attach: &Attach) -> Result<&'static str, Refusal> {
        let exists = |name: &str| match (attach, self.types) {
            (Attach::TpBtf(..), Some(types)) => types.tracepoint_args(name).is_some(),
            (Attach::Fentry(..) | Attach::Fexit(..), Some(types)) => types.has_function(name),
            // kprobes find functions of modules, too: ask kallsyms by trying.
            (Attach::Kprobe(..) | Attach::Kretprobe(..), _) => crate::kernel::kallsyms::has_function(name),
            (Attach::Tracepoint(_, category, _), _) => tracefs::has_tracepoint(category, name),
            (_, None) => true,
        };
        let names = attach.names();
        names.iter().copied().find(|name| exists(name)).ok_or_else(|| {
            let what = match attach {
                Attach::TpBtf(..) | Attach::Tracepoint(..) => "tracepoint",
                _ => "function",
            };
            Refusal::Absent(format!("{}: this kernel has no {what} {}", attach.how(), names.join(" or ")))
        })
    }

    fn load(&mut self, attach: &Attach, name: &str) -> Result<(), ProgramError> {
        let btf = self.btf;
        let Some(program) = self.ebpf.program_mut(attach.program()) else { return Err(wrong_program()) };
        // One kprobe program serves many functions.
        if program.fd().is_ok() {
            return Ok(());
        }
        let btf = btf.map_err(|_| ProgramError::NotLoaded);
        match program {
            Program::BtfTracePoint(program) => program.load(name, btf?),
            Program::FEntry(program) => program.load(name, btf?),
            Program::FExit(program) => program.load(name, btf?),
            Program::TracePoint(program) => program.load(),
            Program::KProbe(program) => program.load(),
            _ => Err(wrong_program()),
        }
    }

    fn attach(&mut self, attach: &Attach, name: &str) -> Result<(), ProgramError> {
        let Some(program) = self.ebpf.program_mut(attach.program()) else { return Err(wrong_program()) };
        match (attach, program) {
            (Attach::TpBtf(..), Program::BtfTracePoint(program)) => program.attach().map(drop),
            (Attach::Fentry(..), Program::FEntry(program)) => program.attach().map(drop),
            (Attach::Fexit(..), Program::FExit(program)) => program.attach().map(drop),
            (Attach::Tracepoint(_, category, _), Program::TracePoint(program)) => {
                program.attach(category, name).map(drop)
            }
            (Attach::Kprobe(..) | Attach::Kretprobe(..), Program::KProbe(program)) => {
                program.attach(name, 0).map(drop)
            }
            _ => Err(wrong_program()),
        }
    }

    /// Undoes what a failed rung has loaded and attached so far, and says why it failed.
    fn give_up(&mut self, rung: &Rung, attach: &Attach, name: &str, error: ProgramError) -> Refusal {
        for attach in rung.attach {
            // A program that serves other functions, too, stays.
            if matches!(attach, Attach::Kprobe(..)) {
                continue;
            }
            if let Some(program) = self.ebpf.program_mut(attach.program()) {
                unload(attach.program(), program);
            }
        }
        let how = attach.how();
        let reason = describe(&error);
        if matches!(attach, Attach::Fentry(..) | Attach::Fexit(..)) && is_refused(&error) {
            // Not this function, but all of them.
            let reason = reason.replace("the program", "programs on functions");
            self.no_fentry = Some(reason.clone());
            return Refusal::Other(format!("{how}: {reason}"));
        }
        Refusal::Other(format!("{how} {name}: {reason}"))
    }
}

/// Why a rung was passed.
enum Refusal {
    /// There is nothing of that name to attach to.
    Absent(String),
    /// Anything else.
    Other(String),
}

/// Detaches and unloads a program.
fn unload(name: &str, program: &mut Program) {
    let result = match program {
        Program::BtfTracePoint(program) => program.unload(),
        Program::TracePoint(program) => program.unload(),
        Program::FEntry(program) => program.unload(),
        Program::FExit(program) => program.unload(),
        Program::KProbe(program) => program.unload(),
        _ => return,
    };
    if let Err(error) = result
        && !matches!(error, ProgramError::NotLoaded)
    {
        tracing::debug!("{name}: {error}");
    }
}

/// Why this kernel has no kprobes, if it has none.
fn no_kprobes() -> Option<String> {
    let pmu = Path::new("/sys/bus/event_source/devices/kprobe").exists();
    let file = tracefs::mount_point().is_some_and(|root| root.join("kprobe_events").exists());
    (!pmu && !file).then(|| "this kernel has no kprobes (CONFIG_KPROBES)".to_owned())
}

fn is_refused(error: &ProgramError) -> bool {
    let io_error = match error {
        ProgramError::LoadError { io_error, .. } => io_error,
        ProgramError::SyscallError(error) => &error.io_error,
        _ => return false,
    };
    // EPERM (the verifier's own verdict is EACCES), and ENOTSUPP (524), which is the kernel's own and
    // has no name in user space.
    matches!(io_error.raw_os_error(), Some(libc::EPERM | 524))
}

fn wrong_program() -> ProgramError {
    ProgramError::UnexpectedProgramType
}

/// An error of aya's in one line: its cause, without the verifier's log, which goes to the log.
pub fn describe(error: &ProgramError) -> String {
    if let ProgramError::LoadError { io_error, verifier_log } = error {
        tracing::debug!("{verifier_log}");
        return format!("the kernel refuses the program: {io_error}");
    }
    let mut text = error.to_string();
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        let next_text = next.to_string();
        if !text.contains(&next_text) {
            text = format!("{text}: {next_text}");
        }
        cause = next;
    }
    text.lines().next().unwrap_or_default().to_owned()
}
