//! Findings that appear, vanish or change.

use serde::Serialize;

use crate::profile::finding::{Confidence, Finding, Severity, Subject};
use crate::profile::kind::Unit;
use crate::profile::session::Session;

/// What became of a finding from A to B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Only B has it.
    Appears,
    /// Only A has it.
    Vanishes,
    /// Both have it, with other numbers.
    Changes,
    /// Both have it, with the same numbers.
    Stays,
}

/// A finding on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FindingChange {
    /// Id of the pathology.
    pub id: String,
    /// What it is about, as A has it, or else B. Untrusted.
    pub about: Vec<Subject>,
    /// What became of it.
    pub change: Change,
    /// Title. Untrusted.
    pub titles: [Option<String>; 2],
    /// Severity and confidence.
    pub grades: [Option<(Severity, Confidence)>; 2],
    /// The numbers.
    pub evidence: Vec<EvidenceChange>,
}

/// A number that speaks for a finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvidenceChange {
    /// Its name.
    pub name: String,
    /// Its unit; `None` for ratios and shares.
    pub unit: Option<Unit>,
    /// The number; `None` where it is not given.
    pub values: [Option<f64>; 2],
    /// The sentence with the number. Untrusted.
    pub texts: [Option<String>; 2],
}

/// All findings of both, those that came or went first, then as they were ranked.
pub fn changes(sessions: [&Session; 2]) -> Vec<FindingChange> {
    let [a, b] = sessions.map(|session| &session.findings);
    let mut partner: Vec<Option<usize>> = vec![None; a.len()];
    let mut taken = vec![false; b.len()];
    // The same subjects first; then at least the main one, as processes come and go.
    let exactly = |a: &Finding, b: &Finding| a.about == b.about;
    let mainly = |a: &Finding, b: &Finding| a.about.first() == b.about.first();
    for same in [exactly as fn(&Finding, &Finding) -> bool, mainly] {
        for (index, finding) in
            a.iter().enumerate().filter(|(index, _)| partner[*index].is_none()).collect::<Vec<_>>()
        {
            let found = (0..b.len())
                .find(|other| !taken[*other] && b[*other].id == finding.id && same(finding, &b[*other]));
            if let Some(found) = found {
                partner[index] = Some(found);
                taken[found] = true;
            }
        }
    }
    let of_a =
        a.iter().zip(&partner).map(|(finding, partner)| [Some(finding), partner.map(|index| &b[index])]);
    let of_b = b.iter().zip(taken).filter(|(_, taken)| !taken).map(|(finding, _)| [None, Some(finding)]);
    let mut changes: Vec<FindingChange> = of_a.chain(of_b).filter_map(change).collect();
    changes.sort_by_key(|change| match change.change {
        Change::Appears | Change::Vanishes => 0,
        Change::Changes => 1,
        Change::Stays => 2,
    });
    changes
}

fn change(pair: [Option<&Finding>; 2]) -> Option<FindingChange> {
    let shown = pair[0].or(pair[1])?;
    let evidence = evidence(pair);
    let grades = pair.map(|finding| finding.map(|finding| (finding.severity, finding.confidence)));
    let same =
        grades[0] == grades[1] && evidence.iter().all(|evidence| evidence.values[0] == evidence.values[1]);
    let change = match pair {
        [None, _] => Change::Appears,
        [_, None] => Change::Vanishes,
        _ if same => Change::Stays,
        _ => Change::Changes,
    };
    Some(FindingChange {
        id: shown.id.clone(),
        about: shown.about.clone(),
        change,
        titles: pair.map(|finding| finding.map(|finding| finding.title.clone())),
        grades,
        evidence,
    })
}

/// The numbers of both by their name, those of the first first.
fn evidence(pair: [Option<&Finding>; 2]) -> Vec<EvidenceChange> {
    let mut found: Vec<EvidenceChange> = Vec::new();
    for (side, finding) in pair.into_iter().enumerate() {
        for evidence in finding.map_or(&[][..], |finding| &finding.evidence) {
            let known =
                found.iter().position(|known| known.name == evidence.name && known.unit == evidence.unit);
            let index = known.unwrap_or_else(|| {
                found.push(EvidenceChange {
                    name: evidence.name.clone(),
                    unit: evidence.unit,
                    values: [None; 2],
                    texts: [None, None],
                });
                found.len() - 1
            });
            found[index].values[side] = Some(evidence.value);
            found[index].texts[side] = Some(evidence.text.clone());
        }
    }
    found
}
