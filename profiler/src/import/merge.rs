//! Collects weighted stacks, equal ones merged as they come, in bounded memory.

use std::hash::{Hash as _, Hasher as _};

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::profile::session::SHARES_TOTAL;
use crate::profile::{Frame, Kind, Labels, LabelsId, LocationId, Profile, Stack};

/// Most frames of all different stacks together. A day of a busy machine has a tenth of it.
const MAX_STACK_FRAMES: u64 = 32 << 20;
/// Most bytes of all different names together.
const MAX_NAMES: u64 = 128 << 20;

/// There is more of something than is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    /// Of what, in the plural.
    pub what: &'static str,
    /// How much is read.
    pub limit: u64,
}

/// A profile in the making.
#[derive(Default)]
pub(crate) struct Merger {
    profile: Profile,
    stacks: Vec<Stack>,
    index: HashTable<u32>,
    stack_frames: u64,
    names: u64,
}

impl Merger {
    /// The id of a function, with no address.
    pub fn frame(&mut self, frame: Frame) -> Result<LocationId, Full> {
        let bytes = frame.name.len() + frame.module.as_ref().map_or(0, |module| module.len());
        let before = self.profile.frames().len();
        let id = self.profile.intern_frame(frame);
        if self.profile.frames().len() > before {
            self.count_name(bytes)?;
        }
        Ok(self.profile.intern_location(id, 0))
    }

    /// The id of labels.
    pub fn labels(&mut self, labels: Labels) -> Result<LabelsId, Full> {
        let bytes = labels.comm.as_ref().map_or(0, |comm| comm.len()) + size_of::<Labels>();
        let before = self.profile.all_labels().len();
        let id = self.profile.intern_labels(labels);
        if self.profile.all_labels().len() > before {
            self.count_name(bytes)?;
        }
        Ok(id)
    }

    fn count_name(&mut self, bytes: usize) -> Result<(), Full> {
        self.names += bytes as u64;
        if self.names > MAX_NAMES {
            return Err(Full { what: "bytes of different names", limit: MAX_NAMES });
        }
        Ok(())
    }

    /// The profile as it is: for names of frames.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Whether there is no stack.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Adds a stack, outermost caller first.
    pub fn add(
        &mut self,
        kind: Kind,
        labels: LabelsId,
        frames: &[LocationId],
        count: u64,
        weight: u64,
    ) -> Result<(), Full> {
        let hash = hash(kind, labels, frames);
        let stacks = &mut self.stacks;
        let same = |index: &u32| {
            let stack = &stacks[*index as usize];
            stack.kind == kind && stack.labels == labels && *stack.frames == *frames
        };
        if let Some(index) = self.index.find(hash, same) {
            let stack = &mut stacks[*index as usize];
            stack.count = stack.count.saturating_add(count);
            stack.weight = stack.weight.saturating_add(weight);
            return Ok(());
        }
        // An empty stack takes room as well.
        self.stack_frames += frames.len() as u64 + 8;
        if self.stack_frames > MAX_STACK_FRAMES {
            return Err(Full { what: "frames in different stacks", limit: MAX_STACK_FRAMES });
        }
        let index = stacks.len() as u32;
        stacks.push(Stack { kind, frames: frames.into(), labels, count, weight });
        self.index.insert_unique(hash, index, |index| {
            let stack = &stacks[*index as usize];
            self::hash(stack.kind, stack.labels, &stack.frames)
        });
        Ok(())
    }

    /// The profile.
    pub fn finish(mut self) -> Profile {
        for stack in self.stacks {
            self.profile.push(stack);
        }
        self.profile
    }

    /// The profile with the number of events as weights.
    pub fn finish_counts(mut self) -> Profile {
        for stack in &mut self.stacks {
            stack.weight = stack.count;
        }
        self.finish()
    }

    /// The profile with its weights turned into counts that sum up to `total`.
    pub fn finish_scaled(mut self, total: u64) -> Profile {
        let whole = self.stacks.iter().fold(0u128, |sum, stack| sum + u128::from(stack.weight)).max(1);
        for stack in &mut self.stacks {
            stack.weight = ((u128::from(stack.weight) * u128::from(total) + whole / 2) / whole) as u64;
            stack.count = stack.weight;
        }
        self.finish()
    }

    /// The profile with all weights as parts of [`SHARES_TOTAL`], which stands for `whole`; a stack without frames
    /// gets what is missing to it.
    pub fn finish_shares(mut self, whole: u64, labels: LabelsId) -> Result<Profile, Full> {
        let given = self.stacks.iter().fold(0u64, |sum, stack| sum.saturating_add(stack.weight));
        let whole = u128::from(whole.max(given)).max(1);
        // Each part is rounded with what the parts before it lost, so that their sum is right.
        let (mut sum, mut before) = (0u128, 0u64);
        for stack in &mut self.stacks {
            sum += u128::from(stack.weight);
            let until = ((sum * u128::from(SHARES_TOTAL) + whole / 2) / whole) as u64;
            stack.weight = until.saturating_sub(before);
            before = before.max(until);
        }
        if before < SHARES_TOTAL {
            self.add(Kind::Cpu, labels, &[], 0, SHARES_TOTAL - before)?;
        }
        Ok(self.finish())
    }
}

fn hash(kind: Kind, labels: LabelsId, frames: &[LocationId]) -> u64 {
    let mut hasher = FxHasher::default();
    (kind as u8, labels.0).hash(&mut hasher);
    for frame in frames {
        hasher.write_u32(frame.0);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_are_one() {
        let mut merger = Merger::default();
        let labels = merger.labels(Labels::default()).unwrap();
        let (a, b) = (merger.frame(Frame::kernel("a")).unwrap(), merger.frame(Frame::kernel("b")).unwrap());
        for weight in 1..4 {
            merger.add(Kind::Cpu, labels, &[a, b], 1, weight).unwrap();
            merger.add(Kind::Cpu, labels, &[b, a], 1, weight).unwrap();
            merger.add(Kind::Bio, labels, &[a, b], 1, weight).unwrap();
        }
        let profile = merger.finish();
        assert_eq!(profile.stacks().len(), 3);
        assert!(profile.stacks().iter().all(|stack| (stack.count, stack.weight) == (3, 6)));
    }

    #[test]
    fn shares_add_up_to_everything() {
        let mut merger = Merger::default();
        let labels = merger.labels(Labels::default()).unwrap();
        for name in ["a", "b", "c"] {
            let frame = merger.frame(Frame::kernel(name)).unwrap();
            merger.add(Kind::Cpu, labels, &[frame], 1, 1).unwrap();
        }
        let profile = merger.finish_shares(3, labels).unwrap();
        assert_eq!(profile.total(Kind::Cpu), SHARES_TOTAL);
        assert!(profile.stacks().iter().all(|stack| stack.weight.abs_diff(SHARES_TOTAL / 3) <= 1));
    }
}
