//! What a session cannot show: silence about it means nothing.

use serde::Serialize;

use super::{ALL, About};
use crate::profile::{Confidence, Session};

/// Pathologies that a session cannot confirm, all for want of the same probes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// The probes that did not run; empty where the session has no probes at all, as imported ones.
    pub probes: Vec<&'static str>,
    /// Ids of the pathologies.
    pub ids: Vec<&'static str>,
    /// Whether the shape of a profile can still make them suspected.
    pub suspected: bool,
}

/// What `session` cannot confirm, in the order of [`ALL`]. Pathologies that were confirmed all the same are
/// not in it.
pub fn unseen(session: &Session) -> Vec<Unseen> {
    unseen_of(session, ALL.iter().map(|pathology| pathology.about()))
}

fn unseen_of(session: &Session, abouts: impl Iterator<Item = &'static About>) -> Vec<Unseen> {
    let mut groups: Vec<Unseen> = Vec::new();
    for about in abouts {
        let runs = |name: &str| session.probe(name).is_some_and(|probe| probe.is_attached());
        let missing: Vec<&'static str> = about.probes().filter(|name| !runs(name)).collect();
        let confirmed = session
            .findings
            .iter()
            .any(|finding| finding.id == about.id && finding.confidence == Confidence::Confirmed);
        if missing.is_empty() || confirmed {
            continue;
        }
        let probes = if session.probes.is_empty() { Vec::new() } else { missing };
        let suspected = !about.suspected_by.is_empty();
        match groups.iter_mut().find(|group| group.probes == probes && group.suspected == suspected) {
            Some(group) => group.ids.push(about.id),
            None => groups.push(Unseen { probes, ids: vec![about.id], suspected }),
        }
    }
    groups
}

impl About {
    /// The probes that it needs to be confirmed: what stands in backticks in [`About::confirmed_by`].
    pub fn probes(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.confirmed_by.split('`').skip(1).step_by(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Severity, Source};
    use crate::testing::{about, finding, session};

    const READAHEAD: About = About { id: "a", confirmed_by: "`readahead` and `block`", ..about("") };
    const ALSO: About = About { id: "b", confirmed_by: "`readahead`", ..about("") };
    const SILENT: About = About { id: "c", confirmed_by: "`bio`", suspected_by: "", ..about("") };
    const SEEN: About = About { id: "d", confirmed_by: "`block` (and no other)", ..about("") };

    fn all(session: &Session) -> Vec<Unseen> {
        unseen_of(session, [&READAHEAD, &ALSO, &SILENT, &SEEN].into_iter())
    }

    #[test]
    fn probes_that_did_not_run_hide_what_they_would_confirm() {
        let mut session = session();
        let hidden = Unseen { probes: vec!["readahead"], ids: vec!["a", "b"], suspected: true };
        let silent = Unseen { probes: vec!["bio"], ids: vec!["c"], suspected: false };
        assert_eq!(all(&session), [hidden, silent.clone()]);

        session.findings = ["a", "b"]
            .map(|id| {
                let mut finding = finding(id, Severity::Warning, &[]);
                finding.confidence = Confidence::Confirmed;
                finding
            })
            .to_vec();
        assert_eq!(all(&session), [silent]);
    }

    #[test]
    fn a_session_without_probes_can_confirm_nothing() {
        let session = Session::new(Source::Imported { format: "test".to_owned() });
        let suspected = Unseen { probes: Vec::new(), ids: vec!["a", "b", "d"], suspected: true };
        let silent = Unseen { probes: Vec::new(), ids: vec!["c"], suspected: false };
        assert_eq!(all(&session), [suspected, silent]);
    }

    #[test]
    fn pathologies_name_probes_that_exist() {
        for pathology in ALL {
            let about = pathology.about();
            let known = |name: &str| crate::kernel::probes::probe(name).is_some();
            assert!(about.probes().all(known), "{}: {}", about.id, about.confirmed_by);
            let needs_probes = about.confirmed_by.starts_with("probe");
            assert_eq!(
                about.probes().next().is_some(),
                needs_probes,
                "{}: `confirmed_by` begins with `probe` and has the names of probes in backticks, or neither",
                about.id
            );
        }
    }
}
