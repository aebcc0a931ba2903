//! The probe ladder: for each probe, the ways to attach it, best first.
//!
//! [`probes`](super::probes) lists them all. A probe consists of parts (bios and requests, say); each
//! part has rungs, and the first rung that the running kernel takes wins. What the kernel has and
//! what it refuses is found out by asking it, never by its version.

use crate::profile::Kind;

/// A probe that `--probes` can name.
#[derive(Debug)]
pub struct ProbeSpec {
    /// Its name.
    pub name: &'static str,
    /// Kind of the stacks it feeds; `None` if it only counts.
    pub kind: Option<Kind>,
    /// What it is for, for `--help` and `check`.
    pub summary: &'static str,
    /// Its parts. Empty for `cpu`, which is attached to perf events.
    pub parts: &'static [Part],
}

/// A part of a probe.
#[derive(Debug)]
pub struct Part {
    /// What is lost without it.
    pub gives: &'static str,
    /// What its failure means.
    pub role: Role,
    /// Ways to attach it, best first.
    pub rungs: &'static [Rung],
}

/// What a part is to its probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The probe is useless without it.
    Essential,
    /// The probe is poorer without it, and says so.
    Useful,
    /// One of several alike, such as the file systems; those that the kernel does not have are not
    /// worth a word. The probe needs one of them.
    OneOf,
    /// Attached only if none of the `OneOf` parts was.
    StandIn,
}

/// A way to attach a part: all of its programs, or none.
#[derive(Debug)]
pub struct Rung {
    /// The programs and what they are attached to. All of one kind, but for functions' entries
    /// and returns.
    pub attach: &'static [Attach],
    /// Globals of the programs that must be known.
    pub needs: &'static [&'static str],
    /// What this rung cannot measure, to be read after "not measured:".
    pub lacks: Option<&'static str>,
}

/// A program and what it is attached to. Of several names, the first that the kernel has is taken:
/// functions are renamed between releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// A tracepoint, through BTF: its arguments as the kernel passes them.
    TpBtf(&'static str, &'static str),
    /// A plain tracepoint, through tracefs: its record, as perf sees it. Program, subsystem, name.
    Tracepoint(&'static str, &'static str, &'static str),
    /// The entry of a function, through BTF.
    Fentry(&'static str, &'static [&'static str]),
    /// The return of a function, through BTF.
    Fexit(&'static str, &'static [&'static str]),
    /// The entry of a function, through a breakpoint or ftrace.
    Kprobe(&'static str, &'static [&'static str]),
    /// The return of a function, likewise.
    Kretprobe(&'static str, &'static [&'static str]),
}

impl Attach {
    /// Name of the rung in reports and for `--without`.
    pub fn how(&self) -> &'static str {
        match self {
            Attach::TpBtf(..) => "tp_btf",
            Attach::Tracepoint(..) => "tracepoint",
            Attach::Fentry(..) | Attach::Fexit(..) => "fentry",
            Attach::Kprobe(..) | Attach::Kretprobe(..) => "kprobe",
        }
    }

    /// The eBPF program.
    pub fn program(&self) -> &'static str {
        match self {
            Attach::TpBtf(program, _)
            | Attach::Tracepoint(program, ..)
            | Attach::Fentry(program, _)
            | Attach::Fexit(program, _)
            | Attach::Kprobe(program, _)
            | Attach::Kretprobe(program, _) => program,
        }
    }

    /// The tracepoint, or the function under all its names.
    pub fn names(&self) -> &[&'static str] {
        match self {
            Attach::TpBtf(_, name) | Attach::Tracepoint(_, _, name) => std::slice::from_ref(name),
            Attach::Fentry(_, names)
            | Attach::Fexit(_, names)
            | Attach::Kprobe(_, names)
            | Attach::Kretprobe(_, names) => names,
        }
    }

    /// What it is attached to as users know it, when `name` is the one that was taken.
    pub fn shown(&self, name: &str) -> String {
        match self {
            Attach::Tracepoint(_, category, name) => format!("{category}:{name}"),
            Attach::Fexit(..) | Attach::Kretprobe(..) => format!("{name} (return)"),
            _ => name.to_owned(),
        }
    }
}

impl Rung {
    /// Name of the rung in reports and for `--without`.
    pub fn how(&self) -> &'static str {
        self.attach.first().map_or("", Attach::how)
    }
}
