//! Findings: what is wrong, the numbers that prove it, and what to do about it.

use serde::{Deserialize, Serialize};

use super::kind::{Kind, Unit};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing; nothing has to be done.
    Info,
    /// It costs, and there is a cure.
    Warning,
    /// Most of what the machine does is lost to it.
    Critical,
}

/// How sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Only the shape of a profile speaks for it.
    Suspected,
    /// Independent signs agree, but nothing measured it directly.
    Likely,
    /// Probes measured it.
    Confirmed,
}

/// What a finding takes a share of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// Time of the busy CPUs.
    CpuTime,
    /// What the device transfers.
    DeviceBandwidth,
    /// Time that passes: of the run, for the tasks that wait.
    WallTime,
}

/// What the pathology costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Impact {
    /// Share of `of` that is lost, 0 to 1.
    pub share: f64,
    /// What it is a share of.
    pub of: Resource,
}

/// What a finding is about. All names are untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what", content = "name")]
pub enum Subject {
    /// A block device, by its kernel name.
    Device(String),
    /// A mount point.
    Mount(String),
    /// A type of file system.
    FileSystem(String),
    /// A process, by the name of its threads.
    Process(String),
    /// A lock, by its name, else its address.
    Lock(String),
    /// A structure, or a member of one.
    Structure(String),
    /// The function whose callers and callees are meant.
    Function(String),
    /// A control group.
    Cgroup(String),
}

/// A number that speaks for a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it says, with number and unit: `device reads per byte asked: 16.0 (781 MiB for 48.8 MiB)`.
    pub text: String,
    /// A name for machines, stable from release to release: `amplification`.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Its unit; `None` for ratios and shares (0 to 1).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unit: Option<Unit>,
}

/// Something to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// What, and what it costs.
    pub text: String,
    /// What to paste, where it is something to paste: a command, a mount option, a line of code.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub paste: Option<String>,
}

/// Points at a function in a tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mark {
    /// The kind of tree; all kinds where it is `None`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kind: Option<Kind>,
    /// Name of the function, plain or with its module: `xfs_agino_range [xfs]`. A tree is marked at the
    /// heaviest node of this function.
    pub frame: String,
}

/// A pathology that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Id of the pathology, as `profiler pathologies` lists it.
    pub id: String,
    /// What is wrong, in a line, with what it is about.
    pub title: String,
    /// How bad.
    pub severity: Severity,
    /// How sure.
    pub confidence: Confidence,
    /// What it costs.
    pub impact: Impact,
    /// What it is about, the most important first.
    pub about: Vec<Subject>,
    /// The numbers, the most telling first.
    pub evidence: Vec<Evidence>,
    /// Why it happens, a paragraph.
    pub why: String,
    /// What to do, the best first.
    pub advice: Vec<Advice>,
    /// Where to point in the trees.
    pub marks: Vec<Mark>,
}

impl Evidence {
    /// A number of a unit, or a ratio or share, with the sentence that has it.
    pub fn new(name: &str, value: f64, unit: impl Into<Option<Unit>>, text: impl Into<String>) -> Self {
        Self { text: text.into(), name: name.to_owned(), value, unit: unit.into() }
    }
}

impl Advice {
    /// Advice with nothing to paste.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), paste: None }
    }

    /// Advice with something to paste.
    pub fn paste(text: impl Into<String>, paste: impl Into<String>) -> Self {
        Self { text: text.into(), paste: Some(paste.into()) }
    }
}

impl Finding {
    /// The evidence of this name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.evidence.iter().find(|evidence| evidence.name == name).map(|evidence| evidence.value)
    }
}

impl Severity {
    /// All, the mildest first.
    pub const ALL: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Critical];

    /// The name in reports and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

impl Confidence {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Suspected => "suspected",
            Confidence::Likely => "likely",
            Confidence::Confirmed => "confirmed",
        }
    }
}

impl Resource {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Resource::CpuTime => "CPU time",
            Resource::DeviceBandwidth => "device bandwidth",
            Resource::WallTime => "wall time",
        }
    }
}

impl Subject {
    /// The kind of subject, and its name.
    pub fn parts(&self) -> (&'static str, &str) {
        match self {
            Subject::Device(name) => ("device", name),
            Subject::Mount(name) => ("mount", name),
            Subject::FileSystem(name) => ("file system", name),
            Subject::Process(name) => ("process", name),
            Subject::Lock(name) => ("lock", name),
            Subject::Structure(name) => ("structure", name),
            Subject::Function(name) => ("function", name),
            Subject::Cgroup(name) => ("cgroup", name),
        }
    }
}
