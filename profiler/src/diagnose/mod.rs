//! Diagnosis: names what is wrong, from a session alone.
//!
//! A pathology is one file here that implements [`Pathology`], and one line in [`ALL`]. It asks
//! [`Facts`] for what it needs. Where probes measured it, it *confirms*; where only a telling shape of
//! the profile is there, it *suspects*; otherwise it is silent. Where a session came from makes no
//! difference: only which facts it has.

mod cacheline_code;
mod cacheline_contention;
mod devices;
mod document;
mod facts;
mod lock_cures;
mod lock_holder_preemption;
mod lock_table;
#[cfg(test)]
mod lock_tests;
mod lock_waits;
mod mutex_spinning;
mod number;
mod page_alloc_pressure;
mod read_amplification;
mod readahead_disabled;
mod readahead_waste;
mod sleeping_lock_contention;
mod small_io;
mod spinlock_contention;
mod symbols;
mod unseen;

use std::cmp::Reverse;

use crate::profile::{Finding, Session, Subject};

pub use document::{EXPLAINED, NEVER_SUSPECTED, document};
pub use facts::{Facts, FrameSet, StackView};
pub use lock_table::{LockClass, lock_of};
pub use symbols::normalize;
pub use unseen::{Unseen, unseen};

/// All pathologies, in the order in which `profiler pathologies` lists them.
pub const ALL: &[&dyn Pathology] = &[
    &read_amplification::ReadAmplification,
    &readahead_disabled::ReadaheadDisabled,
    &readahead_waste::ReadaheadWaste,
    &spinlock_contention::SpinlockContention,
    &sleeping_lock_contention::SleepingLockContention,
    &mutex_spinning::MutexSpinning,
    &lock_holder_preemption::LockHolderPreemption,
    &page_alloc_pressure::PageAllocPressure,
    &small_io::SmallIo,
    &cacheline_contention::CachelineContention,
];

/// Something that can be wrong with a machine.
pub trait Pathology: Sync {
    /// What it is, for people.
    fn about(&self) -> &'static About;

    /// Looks for it; one finding for each device, lock or function that has it.
    fn find(&self, facts: &Facts<'_>) -> Vec<Finding>;

    /// Looks for what only a comparison shows: what is wrong with `facts` by the standard of `baseline`,
    /// which has done the same work.
    fn compare(&self, facts: &Facts<'_>, baseline: &Facts<'_>) -> Vec<Finding> {
        let _ = (facts, baseline);
        Vec::new()
    }
}

/// What a pathology is: the text of `profiler pathologies` and of docs/pathologies.md.
#[derive(Debug)]
pub struct About {
    /// Its id: `readahead-disabled`.
    pub id: &'static str,
    /// What is wrong, a line.
    pub title: &'static str,
    /// How one notices it, a paragraph.
    pub symptom: &'static str,
    /// Why it happens, a paragraph; the `why` of a finding begins with it.
    pub why: &'static str,
    /// What can be done, the best first.
    pub cures: &'static [&'static str],
    /// What it needs to be confirmed. Probes that it cannot do without stand in backticks: `` `readahead` ``.
    pub confirmed_by: &'static str,
    /// The shape of a profile that makes it suspected; empty if none does.
    pub suspected_by: &'static str,
    /// What it takes to be found.
    pub thresholds: &'static [Threshold],
    /// Pathologies that explain this one away where they are found on the same device, lock or function.
    pub explained_by: &'static [&'static str],
}

/// A number that decides, with the reason for its value.
#[derive(Debug)]
pub struct Threshold {
    /// What is compared with it, with the unit.
    pub what: &'static str,
    /// Its value.
    pub value: f64,
    /// Why this value: which runs lie on either side.
    pub reason: &'static str,
}

/// The pathology with this id.
pub fn pathology(id: &str) -> Option<&'static dyn Pathology> {
    ALL.iter().copied().find(|pathology| pathology.about().id == id)
}

/// What is wrong, the worst first: by severity, confidence, then impact.
pub fn diagnose(session: &Session) -> Vec<Finding> {
    let facts = Facts::new(session);
    let found = ALL.iter().flat_map(|pathology| pathology.find(&facts)).collect();
    ranked(explained(found, |id| pathology(id).map_or(&[], |known| known.about().explained_by)))
}

/// What is wrong with `session` by the standard of `baseline`, which has done the same work; the worst first. What
/// is wrong with it by itself is not in it.
pub fn compare(session: &Session, baseline: &Session) -> Vec<Finding> {
    let (facts, baseline) = (Facts::new(session), Facts::new(baseline));
    ranked(ALL.iter().flat_map(|pathology| pathology.compare(&facts, &baseline)).collect())
}

fn ranked(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|a, b| {
        let rank = |finding: &Finding| Reverse((finding.severity, finding.confidence));
        rank(a)
            .cmp(&rank(b))
            .then_with(|| b.impact.share.total_cmp(&a.impact.share))
            .then_with(|| (&a.id, &a.about).cmp(&(&b.id, &b.about)))
    });
    findings
}

/// `findings` without those that another one explains: a symptom is no second disease.
fn explained(findings: Vec<Finding>, explained_by: impl Fn(&str) -> &'static [&'static str]) -> Vec<Finding> {
    let explains = |cause: &Finding, finding: &Finding| {
        explained_by(&finding.id).contains(&cause.id.as_str())
            && cause.about.iter().any(|subject| names_a_cause(subject) && finding.about.contains(subject))
    };
    let keep: Vec<bool> =
        findings.iter().map(|finding| !findings.iter().any(|cause| explains(cause, finding))).collect();
    findings.into_iter().zip(keep).filter_map(|(finding, keep)| keep.then_some(finding)).collect()
}

/// Whether two findings about this are about one thing. That the same process is in both says little.
fn names_a_cause(subject: &Subject) -> bool {
    !matches!(subject, Subject::Process(_) | Subject::FileSystem(_) | Subject::Cgroup(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Severity;
    use crate::testing::finding;

    #[test]
    fn ids_are_unique() {
        for (index, pathology) in ALL.iter().enumerate() {
            let about = pathology.about();
            assert!(ALL[..index].iter().all(|other| other.about().id != about.id), "{}", about.id);
            for cause in about.explained_by {
                assert!(super::pathology(cause).is_some(), "{}: no pathology {cause}", about.id);
            }
        }
    }

    #[test]
    fn nothing_is_wrong_with_an_empty_session() {
        assert_eq!(diagnose(&Session::default()), []);
    }

    #[test]
    fn a_cause_explains_its_symptom_on_the_same_device_only() {
        let on = |id: &str, device: &str| {
            let mut finding = finding(id, Severity::Warning, &[]);
            finding.about = vec![Subject::Device(device.to_owned()), Subject::Process("fio".to_owned())];
            finding
        };
        let findings = vec![on("symptom", "sda"), on("cause", "sda"), on("symptom", "sdb")];
        let left = explained(findings, |id| if id == "symptom" { &["cause"] } else { &[] });
        let left: Vec<_> = left.iter().map(|finding| (finding.id.as_str(), &finding.about[0])).collect();
        let device = |name: &str| Subject::Device(name.to_owned());
        assert_eq!(left, [("cause", &device("sda")), ("symptom", &device("sdb"))]);
    }
}
