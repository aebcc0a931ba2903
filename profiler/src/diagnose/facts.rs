//! What detectors ask a session for.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::symbols::normalize;
use crate::profile::{Frame, FrameId, Histogram, Kind, Labels, Mark, Probe, Session, Stack, Weights};

/// A session, made ready to be asked.
pub struct Facts<'s> {
    /// The session.
    pub session: &'s Session,
    /// Name of each frame as detectors match it; indexed by [`FrameId`].
    names: Vec<&'s str>,
    totals: HashMap<Kind, u64, FxBuildHasher>,
}

/// A set of functions, by name.
#[derive(Clone, Debug)]
pub struct FrameSet {
    /// Indexed by [`FrameId`].
    members: Vec<bool>,
}

/// A stack with its functions' names at hand.
#[derive(Clone, Copy)]
pub struct StackView<'f, 's> {
    facts: &'f Facts<'s>,
    /// The stack.
    pub stack: &'s Stack,
}

impl<'s> Facts<'s> {
    /// Facts of a session.
    pub fn new(session: &'s Session) -> Self {
        let names = session.profile.frames().iter().map(|frame| normalize(&frame.name)).collect();
        let mut totals: HashMap<Kind, u64, FxBuildHasher> = HashMap::default();
        for stack in session.profile.stacks() {
            let total = totals.entry(stack.kind).or_default();
            *total = total.saturating_add(stack.weight);
        }
        Self { session, names, totals }
    }

    /// The name of a function as detectors match it; see [`normalize`].
    pub fn name(&self, frame: FrameId) -> &'s str {
        self.names[frame.0 as usize]
    }

    /// The functions with one of these names, in the kernel or not.
    pub fn named(&self, names: &[&str]) -> FrameSet {
        self.matching(|name, _| names.contains(&name))
    }

    /// The functions for which `wanted` holds, given their normalised names and themselves.
    pub fn matching(&self, wanted: impl Fn(&str, &Frame) -> bool) -> FrameSet {
        let frames = self.session.profile.frames().iter().zip(&self.names);
        FrameSet { members: frames.map(|(frame, name)| wanted(name, frame)).collect() }
    }

    /// Weight of everything of a kind.
    pub fn total(&self, kind: Kind) -> u64 {
        self.totals.get(&kind).copied().unwrap_or(0)
    }

    /// The stacks of a kind.
    pub fn stacks(&self, kind: Kind) -> impl Iterator<Item = StackView<'_, 's>> {
        self.session.profile.of_kind(kind).map(|stack| StackView { facts: self, stack })
    }

    /// Weight of the stacks of a kind that pass through any of `functions`.
    pub fn through(&self, kind: Kind, functions: &FrameSet) -> u64 {
        let passing = self.stacks(kind).filter(|stack| stack.passes(functions));
        passing.fold(0, |sum, stack| sum.saturating_add(stack.weight()))
    }

    /// Weight of the stacks of a kind that end in any of `functions`.
    pub fn ending_in(&self, kind: Kind, functions: &FrameSet) -> u64 {
        let ending = self.stacks(kind).filter(|stack| stack.ends_in(functions));
        ending.fold(0, |sum, stack| sum.saturating_add(stack.weight()))
    }

    /// `weight` as a share of everything of its kind, 0 to 1.
    pub fn share(&self, kind: Kind, weight: u64) -> f64 {
        share(weight, self.total(kind))
    }

    /// Whether the weights are counts of this kind and not just shares.
    pub fn has_counts(&self) -> bool {
        self.session.weights == Weights::Counts
    }

    /// Length of the run in seconds, if known.
    pub fn seconds(&self) -> Option<f64> {
        (self.session.duration_ns > 0).then(|| self.session.duration_ns as f64 / 1e9)
    }

    /// The probe of this name, if it ran.
    pub fn probe(&self, name: &str) -> Option<&'s Probe> {
        self.session.probe(name).filter(|probe| probe.is_attached())
    }

    /// CPU samples that were possible: of busy and of idle CPUs. Of a CPU share, this tells how much of the
    /// machine it is. 0 where that is not known.
    pub fn possible_samples(&self) -> u64 {
        self.probe("cpu").map_or(0, |probe| probe.due)
    }

    /// The histograms for which `wanted` holds.
    pub fn histograms(&self, wanted: impl Fn(&Histogram) -> bool) -> impl Iterator<Item = &'s Histogram> {
        self.session.histograms.iter().filter(move |histogram| wanted(histogram))
    }

    /// Marks for those of `functions` that are in stacks of this kind, or of any; as the session calls them.
    pub fn marks(&self, kind: Option<Kind>, functions: &FrameSet) -> Vec<Mark> {
        let mut seen = vec![false; self.names.len()];
        for stack in
            self.session.profile.stacks().iter().filter(|stack| kind.is_none_or(|kind| kind == stack.kind))
        {
            for frame in
                (StackView { facts: self, stack }).frames().filter(|frame| functions.contains(*frame))
            {
                seen[frame.0 as usize] = true;
            }
        }
        let frames = self.session.profile.frames().iter().zip(seen).filter(|(_, seen)| *seen);
        frames.map(|(frame, _)| Mark { kind, frame: frame.qualified().into_owned() }).collect()
    }

    /// The thread name with most weight among `stacks`, and its share of theirs.
    pub fn main_process<'f>(&self, stacks: impl Iterator<Item = StackView<'f, 's>>) -> Option<(String, f64)>
    where
        's: 'f,
    {
        let mut by_name: HashMap<&str, u64, FxBuildHasher> = HashMap::default();
        let mut total = 0u64;
        for stack in stacks {
            total = total.saturating_add(stack.weight());
            if let Some(comm) = &stack.labels().comm {
                let weight = by_name.entry(comm).or_default();
                *weight = weight.saturating_add(stack.weight());
            }
        }
        let (name, weight) =
            by_name.into_iter().max_by_key(|(name, weight)| (*weight, std::cmp::Reverse(*name)))?;
        Some((name.to_owned(), share(weight, total)))
    }
}

/// `part` of `whole`, 0 to 1; 0 of nothing.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl FrameSet {
    /// Whether it has this function.
    pub fn contains(&self, frame: FrameId) -> bool {
        self.members.get(frame.0 as usize).copied().unwrap_or(false)
    }

    /// Whether none of the functions occurs in the session.
    pub fn is_empty(&self) -> bool {
        !self.members.contains(&true)
    }
}

impl<'f, 's> StackView<'f, 's> {
    /// Its functions, outermost first.
    pub fn frames(self) -> impl DoubleEndedIterator<Item = FrameId> + use<'f, 's> {
        let profile = &self.facts.session.profile;
        self.stack.frames.iter().map(move |location| profile.location(*location).frame)
    }

    /// The normalised names of its functions, outermost first.
    pub fn names(self) -> impl DoubleEndedIterator<Item = &'s str> + use<'f, 's> {
        let facts = self.facts;
        self.frames().map(move |frame| facts.name(frame))
    }

    /// Whether it passes through any of `functions`.
    pub fn passes(self, functions: &FrameSet) -> bool {
        self.frames().any(|frame| functions.contains(frame))
    }

    /// Whether it ends in one of `functions`.
    pub fn ends_in(self, functions: &FrameSet) -> bool {
        self.leaf().is_some_and(|leaf| functions.contains(leaf))
    }

    /// The innermost function; `None` where there is none, and where the source left out callees.
    pub fn leaf(self) -> Option<FrameId> {
        self.frames().next_back().filter(|leaf| !self.facts.session.profile.frame(*leaf).is_left_out())
    }

    /// The function that called the outermost of `functions` on this stack.
    pub fn caller_of(self, functions: &FrameSet) -> Option<FrameId> {
        let mut before = None;
        for frame in self.frames() {
            if functions.contains(frame) {
                return before;
            }
            before = Some(frame);
        }
        None
    }

    /// Its weight, in the unit of its kind.
    pub fn weight(self) -> u64 {
        self.stack.weight
    }

    /// Whose it is.
    pub fn labels(self) -> &'s Labels {
        self.facts.session.profile.labels(self.stack.labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Labels, Source};
    use crate::testing::{kernel, push};

    fn session() -> Session {
        let mut session = Session::new(Source::Live);
        let labels = |comm: &str| Labels { comm: Some(comm.into()), ..Labels::default() };
        let fio = session.profile.intern_labels(labels("fio"));
        let dd = session.profile.intern_labels(labels("dd"));
        let mut stack = |labels, names: &[&str], weight| {
            let frames: Vec<_> = names.iter().map(|name| kernel(name)).collect();
            push(&mut session.profile, Kind::Cpu, labels, &frames, weight);
        };
        stack(fio, &["vfs_read", "filemap_read", "__alloc_frozen_pages_noprof"], 60);
        stack(fio, &["vfs_read", "filemap_read"], 20);
        stack(dd, &["vfs_write", "filemap_read.part.0 [ext4]"], 20);
        session
    }

    #[test]
    fn shares_count_each_stack_once() {
        let session = session();
        let facts = Facts::new(&session);
        let read = facts.named(&["filemap_read"]);
        assert_eq!(facts.through(Kind::Cpu, &read), 100);
        assert_eq!(facts.ending_in(Kind::Cpu, &read), 40);
        let alloc = facts.named(&["__alloc_pages"]);
        assert_eq!(facts.share(Kind::Cpu, facts.through(Kind::Cpu, &alloc)), 0.6);
        assert!(facts.named(&["no_such_function"]).is_empty());
        assert_eq!(facts.share(Kind::Bio, 7), 0.0);
    }

    #[test]
    fn callers_and_processes() {
        let session = session();
        let facts = Facts::new(&session);
        let read = facts.named(&["filemap_read", "__alloc_pages"]);
        let callers: Vec<_> = facts
            .stacks(Kind::Cpu)
            .filter_map(|stack| stack.caller_of(&read).map(|caller| facts.name(caller)))
            .collect();
        assert_eq!(callers, ["vfs_read", "vfs_read", "vfs_write"]);
        assert_eq!(facts.main_process(facts.stacks(Kind::Cpu)), Some(("fio".to_owned(), 0.8)));
    }
}
