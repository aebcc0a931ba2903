//! Two sessions side by side: what takes a larger or smaller share, and what else is different.
//!
//! Sessions of any length, rate and machine can be compared, since only shares are: of the weight of one kind
//! of stacks, and, of what probes counted, rates per second.

mod facts;
mod findings;
mod functions;
mod rates;
mod statistics;
#[cfg(test)]
mod tests;
mod tree;

use serde::Serialize;

pub use facts::Fact;
pub use findings::{Change, EvidenceChange, FindingChange};
pub use functions::{FunctionChange, Significance};
pub use rates::Rate;
pub use statistics::FALSE_DISCOVERIES;
pub use tree::NodeChange;

use super::kind::Kind;
use super::session::{Session, Weights};
use super::stacks::{Frame, Origin, Profile};

/// What is compared, and how closely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Nodes of call trees are shown whose share of everything changed by this many points (percent of the
    /// whole), and the nodes above them.
    pub points: f64,
    /// Nodes shown of a tree at most, those that changed most; 0: all.
    pub lines: usize,
    /// Whether trees have user frames, too.
    pub user: bool,
}

impl Default for Options {
    /// Half a point is what two runs of the same load on one machine differ by.
    fn default() -> Self {
        Self { points: 0.5, lines: 60, user: false }
    }
}

/// All that differs between two sessions, A and B. Pairs are always in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// Each kind of stacks that both have.
    pub kinds: Vec<KindDiff>,
    /// The names of kinds that only one has, by side.
    pub only: [Vec<Kind>; 2],
    /// What probes counted, a second.
    pub rates: Vec<Rate>,
    /// Facts about machine and measurement that differ.
    pub environment: Vec<Fact>,
    /// What is wrong in one and not, or not as much, in the other.
    pub findings: Vec<FindingChange>,
}

/// The stacks of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindDiff {
    /// Which.
    pub kind: Kind,
    /// Sum of the weights of each side.
    pub totals: [u64; 2],
    /// Samples or other events that the weights stand for.
    pub events: [u64; 2],
    /// What is said about significance.
    pub test: Test,
    /// Innermost functions, the largest change first.
    pub functions: Vec<FunctionChange>,
    /// The call tree, every node before those below it, siblings with the largest change first. Empty where
    /// there are no callers.
    pub tree: Vec<NodeChange>,
    /// Nodes of the tree that changed by enough, shown or not.
    pub changed_nodes: usize,
}

/// Whether changes were tested for significance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Numbers of samples were compared.
    Samples,
    /// At least one side has only shares: how many samples are behind them is not known.
    OnlyShares,
    /// Weights are no numbers of independent samples: bytes, pages and waits come in bursts.
    NotSamples,
}

/// Compares two sessions. `normalize` makes function names comparable.
pub fn diff(sessions: [&Session; 2], normalize: &dyn Fn(&str) -> &str, options: &Options) -> Diff {
    let [a, b] = sessions.map(|session| session.profile.kinds());
    let only = [without(&a, &b), without(&b, &a)];
    let kinds = a.into_iter().filter(|kind| b.contains(kind));
    Diff {
        kinds: kinds.map(|kind| kind_diff(sessions, kind, normalize, options)).collect(),
        only,
        rates: rates::rates(sessions),
        environment: facts::facts(sessions),
        findings: findings::changes(sessions),
    }
}

fn without(kinds: &[Kind], others: &[Kind]) -> Vec<Kind> {
    kinds.iter().copied().filter(|kind| !others.contains(kind)).collect()
}

fn kind_diff(
    sessions: [&Session; 2],
    kind: Kind,
    normalize: &dyn Fn(&str) -> &str,
    options: &Options,
) -> KindDiff {
    let sides = sessions.map(|session| Side::new(session, kind));
    let test = match kind {
        Kind::Cpu if sessions.iter().any(|session| session.weights == Weights::Shares) => Test::OnlyShares,
        Kind::Cpu => Test::Samples,
        _ => Test::NotSamples,
    };
    let (tree, changed_nodes) = tree::tree(&sides, kind, normalize, options);
    KindDiff {
        kind,
        totals: sides.each_ref().map(|side| side.total),
        events: sides.each_ref().map(|side| side.events),
        test,
        functions: functions::functions(&sides, kind, normalize, test),
        tree,
        changed_nodes,
    }
}

/// The stacks of one kind in one session.
struct Side<'s> {
    profile: &'s Profile,
    total: u64,
    events: u64,
    /// Number of samples of equal weight that would say as much as these do: Kish's effective sample size,
    /// (sum of w)^2 / (sum of w^2) (L. Kish, Survey Sampling, 1965, section 11.7). Within a stack, weights
    /// are taken for equal.
    effective: f64,
    /// Whether its source left functions out, so that one that is missing may be there all the same.
    partial: bool,
}

impl<'s> Side<'s> {
    fn new(session: &'s Session, kind: Kind) -> Self {
        let profile = &session.profile;
        let stacks = || profile.of_kind(kind);
        let total = profile.total(kind);
        let squares: f64 =
            stacks().map(|stack| (stack.weight as f64).powi(2) / stack.count.max(1) as f64).sum();
        let effective = match session.weights {
            Weights::Counts => total as f64,
            Weights::Periods | Weights::Shares if squares > 0.0 => (total as f64).powi(2) / squares,
            Weights::Periods | Weights::Shares => 0.0,
        };
        Self {
            profile,
            total,
            events: match session.weights {
                Weights::Counts if kind == Kind::Cpu => total,
                _ => stacks().fold(0, |sum, stack| sum.saturating_add(stack.count)),
            },
            effective,
            partial: session.weights == Weights::Shares || profile.frames().iter().any(Frame::is_left_out),
        }
    }

    fn share(&self, weight: u64) -> f64 {
        if self.total == 0 { 0.0 } else { weight as f64 / self.total as f64 }
    }

    /// The share of what was found there; what was not has none, or an unknown one.
    fn share_of(&self, weight: Option<u64>) -> Option<f64> {
        match weight {
            Some(weight) => Some(self.share(weight)),
            None => (!self.partial).then_some(0.0),
        }
    }
}

/// What makes a function the same on both sides. Of user functions the file belongs to it: every program has
/// a `main`.
type Key<'s> = (Origin, &'s str, Option<&'s str>);

fn key<'s>(frame: &'s Frame, normalize: &dyn Fn(&str) -> &str) -> Key<'s> {
    let name: &'s str = normalize(&frame.name);
    match frame.origin {
        Origin::Kernel => (frame.origin, name, None),
        Origin::User => (frame.origin, name, frame.module.as_deref()),
    }
}
