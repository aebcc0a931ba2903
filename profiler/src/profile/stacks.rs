//! Weighted stacks over interned frames.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::labels::Labels;

/// The name of what a source left out.
const LEFT_OUT: &str = "...";

/// Which side of the system-call boundary a frame is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Kernel code, `[k]` in reports.
    Kernel,
    /// User code, `[.]` in reports.
    User,
}

/// A function: what call trees and flat profiles are made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The symbol's name as its source gave it, or an address in hex. Untrusted: escape before showing.
    pub name: Arc<str>,
    /// Kernel module, or the file name of the user binary; `None` for the kernel itself.
    pub module: Option<Arc<str>>,
    /// Kernel or user.
    pub origin: Origin,
}

impl Frame {
    /// A function of the kernel proper.
    pub fn kernel(name: &str) -> Self {
        Self { name: name.into(), module: None, origin: Origin::Kernel }
    }

    /// A function of a user program.
    pub fn user(name: &str, binary: &str) -> Self {
        Self { name: name.into(), module: Some(binary.into()), origin: Origin::User }
    }

    /// Stands for callees that the source of a profile left out, as `...` in a call tree.
    pub fn left_out() -> Self {
        Self::kernel(LEFT_OUT)
    }

    /// Stands for weight that the source of a profile does not account for: the caller's own, or that of callees that
    /// are not shown.
    pub fn unaccounted() -> Self {
        Self { module: Some("?".into()), ..Self::left_out() }
    }

    /// Whether this is [`left_out`](Self::left_out) or [`unaccounted`](Self::unaccounted): no function.
    pub fn is_left_out(&self) -> bool {
        &*self.name == LEFT_OUT
    }

    /// The name with its module or binary: `xfs_agino_range [xfs]`. Just the name where it has none.
    pub fn qualified(&self) -> Cow<'_, str> {
        match &self.module {
            // Of a frame of which nothing is known, the binary says nothing that the name does not.
            Some(module) if **module != *self.name => format!("{} [{module}]", self.name).into(),
            _ => (&*self.name).into(),
        }
    }

    /// Whether `name` is this function's name, plain or [`qualified`](Self::qualified).
    pub fn is_called(&self, name: &str) -> bool {
        match name.strip_prefix(&*self.name) {
            Some("") => true,
            Some(rest) => {
                let module = rest.strip_prefix(" [").and_then(|rest| rest.strip_suffix(']'));
                module.is_some() && module == self.module.as_deref()
            }
            None => false,
        }
    }
}

/// Index of a [`Frame`] in its [`Profile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// Index of a [`Location`] in its [`Profile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocationId(pub u32);

/// Index of a [`Labels`] in its [`Profile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelsId(pub u32);

/// A place in the code: a function and, where known, the address in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// The function.
    pub frame: FrameId,
    /// Instruction address; 0 where the source had only names.
    pub address: u64,
}

/// A stack with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// What the weight counts.
    pub kind: Kind,
    /// The frames, outermost caller first: user frames, then kernel frames. May be empty.
    pub frames: Box<[LocationId]>,
    /// Whose stack it is.
    pub labels: LabelsId,
    /// Number of events this stands for.
    pub count: u64,
    /// Weight in the unit of `kind`.
    pub weight: u64,
}

/// Weighted stacks of any number of kinds, with their frames, locations and labels interned.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    frames: Interner<Frame>,
    locations: Interner<Location>,
    labels: Interner<Labels>,
    stacks: Vec<Stack>,
}

impl Profile {
    /// A profile without stacks.
    pub fn new() -> Self {
        Self::default()
    }

    /// The id of `frame`, new or known.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        FrameId(self.frames.intern(frame))
    }

    /// The id of the place `address` in `frame`, new or known.
    pub fn intern_location(&mut self, frame: FrameId, address: u64) -> LocationId {
        LocationId(self.locations.intern(Location { frame, address }))
    }

    /// The id of `labels`, new or known.
    pub fn intern_labels(&mut self, labels: Labels) -> LabelsId {
        LabelsId(self.labels.intern(labels))
    }

    /// Adds a stack. Equal stacks are not merged; see [`merge_equal`](Self::merge_equal).
    pub fn push(&mut self, stack: Stack) {
        self.stacks.push(stack);
    }

    /// Merges stacks that differ in nothing but count and weight.
    pub fn merge_equal(&mut self) {
        let mut index: HashMap<(Kind, LabelsId, Box<[LocationId]>), usize, FxBuildHasher> =
            HashMap::with_capacity_and_hasher(self.stacks.len(), FxBuildHasher);
        let mut merged: Vec<Stack> = Vec::with_capacity(self.stacks.len());
        for stack in self.stacks.drain(..) {
            match index.entry((stack.kind, stack.labels, stack.frames.clone())) {
                std::collections::hash_map::Entry::Occupied(entry) => {
                    let known = &mut merged[*entry.get()];
                    known.count = known.count.saturating_add(stack.count);
                    known.weight = known.weight.saturating_add(stack.weight);
                }
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(merged.len());
                    merged.push(stack);
                }
            }
        }
        self.stacks = merged;
    }

    /// The stacks, in the order they were added.
    pub fn stacks(&self) -> &[Stack] {
        &self.stacks
    }

    /// The stacks of one kind.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Stack> {
        self.stacks.iter().filter(move |stack| stack.kind == kind)
    }

    /// The sum of the weights of one kind.
    pub fn total(&self, kind: Kind) -> u64 {
        self.of_kind(kind).fold(0, |sum, stack| sum.saturating_add(stack.weight))
    }

    /// The kinds that have stacks, in report order.
    pub fn kinds(&self) -> Vec<Kind> {
        let mut present = [false; Kind::ALL.len()];
        for stack in &self.stacks {
            present[stack.kind as usize] = true;
        }
        Kind::ALL.into_iter().filter(|kind| present[*kind as usize]).collect()
    }

    /// All frames; [`FrameId`] indexes this.
    pub fn frames(&self) -> &[Frame] {
        &self.frames.items
    }

    /// All locations; [`LocationId`] indexes this.
    pub fn locations(&self) -> &[Location] {
        &self.locations.items
    }

    /// The frame with this id. Ids come from this profile only.
    pub fn frame(&self, id: FrameId) -> &Frame {
        &self.frames.items[id.0 as usize]
    }

    /// The location with this id.
    pub fn location(&self, id: LocationId) -> Location {
        self.locations.items[id.0 as usize]
    }

    /// The function that a location lies in.
    pub fn frame_of(&self, id: LocationId) -> &Frame {
        self.frame(self.location(id).frame)
    }

    /// All labels; [`LabelsId`] indexes this.
    pub fn all_labels(&self) -> &[Labels] {
        &self.labels.items
    }

    /// The labels with this id.
    pub fn labels(&self, id: LabelsId) -> &Labels {
        &self.labels.items[id.0 as usize]
    }
}

/// Gives equal values one small number.
#[derive(Clone, Debug)]
struct Interner<T> {
    items: Vec<T>,
    ids: HashMap<T, u32, FxBuildHasher>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { items: Vec::new(), ids: HashMap::default() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Interner<T> {
    fn intern(&mut self, item: T) -> u32 {
        if let Some(id) = self.ids.get(&item) {
            return *id;
        }
        let id = u32::try_from(self.items.len()).expect("fewer than 2^32 distinct items");
        self.items.push(item.clone());
        self.ids.insert(item, id);
        id
    }
}
