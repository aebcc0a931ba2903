//! The flat profile: which functions the weight falls on.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::kind::Kind;
use super::stacks::{FrameId, Profile};

/// A line of a flat profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatEntry {
    /// The function; `None` for samples without any frame, and for what the source left out.
    pub frame: Option<FrameId>,
    /// Weight of the stacks that end in it.
    pub weight: u64,
}

/// The weight of each innermost function, heaviest first, ties by name. The weights add up to the
/// kind's total.
pub fn flat(profile: &Profile, kind: Kind) -> Vec<FlatEntry> {
    let mut weights: HashMap<Option<FrameId>, u64, FxBuildHasher> = HashMap::default();
    for stack in profile.of_kind(kind) {
        let frame = stack.frames.last().map(|location| profile.location(*location).frame);
        let frame = frame.filter(|frame| !profile.frame(*frame).is_left_out());
        let weight = weights.entry(frame).or_default();
        *weight = weight.saturating_add(stack.weight);
    }
    let mut entries: Vec<FlatEntry> =
        weights.into_iter().map(|(frame, weight)| FlatEntry { frame, weight }).collect();
    entries.sort_by(|a, b| {
        let frame = |entry: &FlatEntry| entry.frame.map(|id| profile.frame(id));
        b.weight.cmp(&a.weight).then_with(|| frame(a).cmp(&frame(b)))
    });
    entries
}
