//! Stacks as a view sees them: paths of functions, groups and pseudo nodes.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::kind::Kind;
use super::stacks::{Frame, FrameId, Origin, Profile, Stack};
use super::view::{GroupBy, View, ViewError, suggest};

/// What a node of a tree stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label<'p> {
    /// A function.
    Frame(&'p Frame),
    /// Stacks that never entered the kernel, in a view that shows the kernel's side only.
    UserSpace,
    /// Samples without any frame.
    NoStack,
    /// Everything with this value of a label.
    Group(GroupBy, &'p str),
}

impl Label<'_> {
    /// The name as trees show it, before it is escaped.
    pub fn name(&self) -> std::borrow::Cow<'_, str> {
        match self {
            Label::Frame(frame) => (&*frame.name).into(),
            Label::UserSpace => "[user space]".into(),
            Label::NoStack => "[no stack]".into(),
            Label::Group(by, value) => format!("{by}={value}").into(),
        }
    }

    /// The module or binary of a function.
    pub fn module(&self) -> Option<&str> {
        match self {
            Label::Frame(frame) => frame.module.as_deref(),
            _ => None,
        }
    }
}

/// Turns the stacks of one kind into paths of keys: a frame's id, or a number above all frame ids for
/// everything else.
pub(crate) struct Paths<'p> {
    profile: &'p Profile,
    kind: Kind,
    user: bool,
    focus: Option<Focus>,
    groups: Groups,
}

/// The function that the view is about.
struct Focus {
    /// Whether each frame is one that was asked for.
    matches: Vec<bool>,
    name: String,
    callers: bool,
}

#[derive(Default)]
struct Groups {
    by: Option<GroupBy>,
    values: Vec<String>,
    /// Indexes into `values` by [`LabelsId`](super::stacks::LabelsId).
    of_labels: Vec<u32>,
}

const USER_SPACE: usize = 0;
const NO_STACK: usize = 1;
const FIRST_GROUP: usize = 2;

impl<'p> Paths<'p> {
    pub fn new(profile: &'p Profile, kind: Kind, view: &View) -> Result<Self, ViewError> {
        let focus = match (&view.root, &view.callers) {
            (Some(_), Some(_)) => return Err(ViewError::RootAndCallers),
            (Some(name), None) => Some((name, false)),
            (None, Some(name)) => Some((name, true)),
            (None, None) => None,
        };
        let focus = focus.map(|(name, callers)| Focus {
            matches: profile.frames().iter().map(|frame| frame.is_called(name)).collect(),
            name: name.clone(),
            callers,
        });
        Ok(Self { profile, kind, user: view.user, focus, groups: Groups::new(profile, view.by) })
    }

    /// Calls `each` with every path and its weight. Stacks that do not pass through the function that
    /// the view is about are left out; when that leaves none at all, it is an error.
    pub fn for_each(&self, mut each: impl FnMut(&[u32], u64)) -> Result<(), ViewError> {
        let mut path = Vec::new();
        let mut any = false;
        for stack in self.profile.of_kind(self.kind) {
            path.clear();
            if let Some(group) = self.groups.of_labels.get(stack.labels.0 as usize) {
                path.push(self.extra(FIRST_GROUP + *group as usize));
            }
            if self.push_frames(stack, &mut path) {
                any = true;
                each(&path, stack.weight);
            }
        }
        match &self.focus {
            Some(focus) if !any => Err(self.no_such_function(&focus.name)),
            _ => Ok(()),
        }
    }

    /// Appends the frames that the view shows. Returns false where it does not show this stack.
    fn push_frames(&self, stack: &Stack, path: &mut Vec<u32>) -> bool {
        let frames = stack.frames.iter().map(|location| self.profile.location(*location).frame);
        let Some(focus) = &self.focus else {
            let before = path.len();
            path.extend(frames.filter(|frame| self.user || self.is_kernel(*frame)).map(|frame| frame.0));
            if path.len() == before {
                let nothing = if stack.frames.is_empty() { NO_STACK } else { USER_SPACE };
                path.push(self.extra(nothing));
            }
            return true;
        };

        let mut frames = frames;
        let is_focus = |frame: FrameId| focus.matches[frame.0 as usize];
        let position = if focus.callers { frames.rposition(is_focus) } else { frames.position(is_focus) };
        let Some(position) = position else { return false };
        let frame_at = |index: usize| self.profile.location(stack.frames[index]).frame;
        // A view of a user function shows user frames, or it would show nothing.
        let user = self.user || !self.is_kernel(frame_at(position));
        let mut push = |index: usize| {
            let frame = frame_at(index);
            if user || self.is_kernel(frame) {
                path.push(frame.0);
            }
        };
        if focus.callers {
            (0..=position).rev().for_each(&mut push);
        } else {
            (position..stack.frames.len()).for_each(&mut push);
        }
        true
    }

    fn is_kernel(&self, frame: FrameId) -> bool {
        self.profile.frame(frame).origin == Origin::Kernel
    }

    fn extra(&self, index: usize) -> u32 {
        (self.profile.frames().len() + index) as u32
    }

    fn no_such_function(&self, name: &str) -> ViewError {
        let mut present = vec![false; self.profile.frames().len()];
        for stack in self.profile.of_kind(self.kind) {
            for location in &stack.frames {
                present[self.profile.location(*location).frame.0 as usize] = true;
            }
        }
        let frames = self.profile.frames().iter().zip(present).filter(|(_, present)| *present);
        let suggestions = suggest(name, frames.map(|(frame, _)| frame));
        ViewError::NoSuchFunction { name: name.to_owned(), suggestions }
    }

    /// What a key stands for.
    pub fn label(&self, key: u32) -> Label<'_> {
        let frames = self.profile.frames();
        match (key as usize).checked_sub(frames.len()) {
            None => Label::Frame(&frames[key as usize]),
            Some(USER_SPACE) => Label::UserSpace,
            Some(NO_STACK) => Label::NoStack,
            Some(extra) => {
                let by = self.groups.by.unwrap_or(GroupBy::Comm);
                Label::Group(by, &self.groups.values[extra - FIRST_GROUP])
            }
        }
    }

    /// Number of keys: they are all below this.
    pub fn key_count(&self) -> usize {
        self.profile.frames().len() + FIRST_GROUP + self.groups.values.len()
    }
}

impl Groups {
    fn new(profile: &Profile, by: Option<GroupBy>) -> Self {
        let Some(by) = by else { return Self::default() };
        let mut groups = Groups { by: Some(by), ..Self::default() };
        let mut known: HashMap<String, u32, FxBuildHasher> = HashMap::default();
        for labels in profile.all_labels() {
            let value = by.value(labels);
            let index = *known.entry(value).or_insert_with_key(|value| {
                groups.values.push(value.clone());
                groups.values.len() as u32 - 1
            });
            groups.of_labels.push(index);
        }
        groups
    }
}
