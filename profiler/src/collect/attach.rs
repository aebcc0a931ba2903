//! Climbing the ladder: loads and attaches the programs of a part, rung by rung.

use aya::programs::{Program, ProgramError};
use aya::{Btf, Ebpf};

use crate::kernel::ladder::{How, Part, Rung};
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
        /// What the rung lacks, and why the rungs before it failed.
        notes: Vec<String>,
    },
    /// Every rung failed: the reasons, one each.
    Failed(Vec<String>),
}

/// What attaching needs to know.
pub struct Climber<'a> {
    /// The programs.
    pub ebpf: &'a mut Ebpf,
    /// The kernel's BTF, or why there is none.
    pub btf: Result<&'a Btf, &'a str>,
    /// What is known of the kernel's layout.
    pub offsets: &'a Offsets,
    /// Rungs, or single tracepoints, that may not be used (for tests, and to get round a kernel bug).
    pub without: &'a [String],
}

impl Climber<'_> {
    /// Attaches a part by the first rung that works.
    pub fn climb(&mut self, part: &Part) -> Outcome {
        let mut reasons = Vec::new();
        for rung in part.rungs {
            match self.try_rung(rung) {
                Ok(()) => {
                    let to = rung.attach.iter().map(|(_, target)| name_of(rung.how, target)).collect();
                    let notes = rung.lacks.map(|lacks| format!("cannot measure {lacks}")).into_iter();
                    return Outcome::Attached {
                        rung: rung.how.name(),
                        to,
                        notes: notes.chain(reasons).collect(),
                    };
                }
                Err(reason) => reasons.push(reason),
            }
        }
        Outcome::Failed(reasons)
    }

    fn try_rung(&mut self, rung: &Rung) -> Result<(), String> {
        let how = rung.how.name();
        for (_, target) in rung.attach {
            let excluded = self.without.iter().any(|name| name == how || *name == format!("{how}:{target}"));
            if excluded {
                return Err(format!("{how} {target}: switched off by --without"));
            }
        }
        if rung.how == How::TpBtf
            && let Err(reason) = self.btf
        {
            return Err(format!("{how}: {reason}"));
        }
        if matches!(rung.how, How::Tracepoint { .. }) && tracefs::mount_point().is_none() {
            return Err(format!(
                "{how}: tracefs is not mounted; mount -t tracefs nodev /sys/kernel/tracing makes this rung available"
            ));
        }
        let missing = self.offsets.missing(rung.needs);
        if !missing.is_empty() {
            let names: Vec<String> = missing.into_iter().map(Offsets::describe).collect();
            return Err(format!("{how}: this kernel has no {}", names.join(", ")));
        }
        // Load all first: attaching is what takes effect, and should be all or nothing.
        for (program, target) in rung.attach {
            self.load(rung.how, program, target).map_err(|error| {
                self.unload(rung);
                format!("{how} {target}: {error}")
            })?;
        }
        for (program, target) in rung.attach {
            self.attach(rung.how, program, target).map_err(|error| {
                self.unload(rung);
                format!("{how} {target}: {error}")
            })?;
        }
        Ok(())
    }

    fn load(&mut self, how: How, program: &str, target: &str) -> Result<(), String> {
        let program = self.ebpf.program_mut(program).ok_or("the program is missing from the eBPF object")?;
        let result = match (how, program) {
            (How::TpBtf, Program::BtfTracePoint(program)) => {
                let btf = self.btf.map_err(str::to_owned)?;
                program.load(target, btf)
            }
            (How::Tracepoint { .. }, Program::TracePoint(program)) => program.load(),
            _ => return Err("the program is of another kind".to_owned()),
        };
        result.map_err(|error| describe(&error))
    }

    fn attach(&mut self, how: How, program: &str, target: &str) -> Result<(), String> {
        let program = self.ebpf.program_mut(program).ok_or("the program is missing from the eBPF object")?;
        let result = match (how, program) {
            (How::TpBtf, Program::BtfTracePoint(program)) => program.attach().map(drop),
            (How::Tracepoint { category }, Program::TracePoint(program)) => {
                program.attach(category, target).map(drop)
            }
            _ => return Err("the program is of another kind".to_owned()),
        };
        result.map_err(|error| describe(&error))
    }

    /// Gives up what a failed rung has loaded and attached so far.
    fn unload(&mut self, rung: &Rung) {
        for (name, _) in rung.attach {
            let result = match self.ebpf.program_mut(name) {
                Some(Program::BtfTracePoint(program)) => program.unload(),
                Some(Program::TracePoint(program)) => program.unload(),
                _ => continue,
            };
            if let Err(error) = result {
                tracing::debug!("{name}: {error}");
            }
        }
    }
}

/// What a rung is attached to, as users know it.
fn name_of(how: How, target: &str) -> String {
    match how {
        How::TpBtf => target.to_owned(),
        How::Tracepoint { category } => format!("{category}:{target}"),
    }
}

/// An error of aya's in one line: its cause, without the verifier's log, which goes to the log.
pub fn describe(error: &ProgramError) -> String {
    if let ProgramError::LoadError { io_error, verifier_log } = error {
        tracing::debug!("{verifier_log}");
        return format!("the kernel refuses the program ({io_error})");
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
