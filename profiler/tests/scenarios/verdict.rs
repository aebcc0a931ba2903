//! What came out: whether the findings are those that were expected.

use std::path::Path;

use profiler::profile::{Confidence, Finding, Session, Severity, Subject};
use serde::Serialize;

use super::scenario::{Expected, Scenario};

/// How far a number may be off that of others, as a share of theirs.
const TOLERANCE: f64 = 0.1;

/// A scenario's result, a row of the table in docs/pathologies.md.
#[derive(Serialize)]
pub struct Outcome {
    name: String,
    what: &'static str,
    pathology: &'static str,
    healthy: bool,
    kernel: String,
    cpus: u32,
    /// Which attempt it was.
    attempt: u32,
    /// Id, confidence and severity of what was found, above infos.
    found: Vec<String>,
    /// What the finding is about.
    about: Vec<String>,
    figures: Vec<Compared>,
    /// What is not as expected, a sentence each.
    wrong: Vec<String>,
}

/// Our number and that of others.
#[derive(Serialize)]
struct Compared {
    name: &'static str,
    ours: Option<f64>,
    theirs: f64,
    source: &'static str,
}

/// Holds the findings of a session against what is expected of it.
pub fn judge(
    name: &str,
    scenario: &Scenario,
    attempt: u32,
    expected: &Expected,
    session: &Session,
    disks: &[String],
) -> Outcome {
    let findings: Vec<&Finding> = session
        .findings
        .iter()
        .filter(|finding| finding.severity > Severity::Info && !is_foreign(finding, disks))
        .collect();
    let mut outcome = Outcome {
        name: name.to_owned(),
        what: scenario.what,
        pathology: scenario.pathology,
        healthy: scenario.healthy,
        kernel: session.host.kernel.clone(),
        cpus: session.host.cpus,
        attempt,
        found: findings.iter().map(|finding| headline(finding)).collect(),
        about: Vec::new(),
        figures: Vec::new(),
        wrong: Vec::new(),
    };
    if scenario.healthy {
        outcome.wrong.extend(findings.iter().map(|finding| format!("false alarm: {}", details(finding))));
        return outcome;
    }
    let of_this: Vec<&&Finding> =
        findings.iter().filter(|finding| finding.id == scenario.pathology).collect();
    let matching =
        of_this.iter().find(|finding| expected.about.iter().all(|subject| is_about(finding, subject)));
    match (matching, of_this.first()) {
        (Some(finding), _) => outcome.compare(finding, expected),
        (None, Some(finding)) => {
            outcome.wrong.push(format!("not about {:?}: {}", expected.about, details(finding)));
        }
        (None, None) => outcome.wrong.push(format!("{} was not found", scenario.pathology)),
    }
    outcome
}

impl Outcome {
    fn compare(&mut self, finding: &Finding, expected: &Expected) {
        self.about = finding.about.iter().map(subject_text).collect();
        if finding.confidence < Confidence::Likely {
            self.wrong.push(format!("only {}, though probes ran", finding.confidence.name()));
        }
        for figure in &expected.figures {
            let ours = finding.value(figure.name);
            match ours {
                Some(ours) if (ours - figure.value).abs() <= TOLERANCE * figure.value.abs() => {}
                Some(ours) => self
                    .wrong
                    .push(format!("{} is {ours}, but {} by {}", figure.name, figure.value, figure.source)),
                None => self.wrong.push(format!("no {} in the evidence", figure.name)),
            }
            self.figures.push(Compared {
                name: figure.name,
                ours,
                theirs: figure.value,
                source: figure.source,
            });
        }
    }

    /// Whether nothing was missed and nothing made up.
    pub fn as_expected(&self) -> bool {
        self.wrong.is_empty()
    }

    /// Leaves it in the folder that `PROFILER_SCENARIOS_DIR` names, if any.
    pub fn save(&self) {
        let Some(folder) = std::env::var_os("PROFILER_SCENARIOS_DIR") else { return };
        let file = Path::new(&folder).join(format!("{}@{}.json", self.name.replace("::", "."), self.kernel));
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&file, serde_json::to_string(self).unwrap() + "\n"))
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} ({}): {}", self.name, self.what, self.wrong.join("; "))?;
        write!(f, "found: {}", self.found.join(", "))
    }
}

/// Whether a finding is about a loop device that is not the scenario's: other tests of this machine have theirs.
fn is_foreign(finding: &Finding, disks: &[String]) -> bool {
    let mut devices = finding.about.iter().filter_map(|subject| match subject {
        Subject::Device(name) => Some(name),
        _ => None,
    });
    devices.any(|name| name.starts_with("loop") && !disks.contains(name))
}

/// Locks have names that say more than what is expected, such as where their structure was allocated.
fn is_about(finding: &Finding, expected: &Subject) -> bool {
    finding.about.iter().any(|subject| match (subject, expected) {
        (Subject::Lock(found), Subject::Lock(expected)) => found.contains(expected.as_str()),
        _ => subject == expected,
    })
}

fn headline(finding: &Finding) -> String {
    format!("{} ({}, {})", finding.id, finding.confidence.name(), finding.severity.name())
}

fn details(finding: &Finding) -> String {
    let evidence: Vec<&str> = finding.evidence.iter().map(|evidence| evidence.text.as_str()).collect();
    let about: Vec<String> = finding.about.iter().map(subject_text).collect();
    format!("{}: {} [{}] {}", headline(finding), finding.title, about.join(", "), evidence.join("; "))
}

fn subject_text(subject: &Subject) -> String {
    let (what, name) = subject.parts();
    format!("{what} {name}")
}
