//! Which nodes of a call tree are shown, and which of them stand out: the same in every output.

use std::collections::{HashMap, HashSet};

use super::text::percent;
use crate::profile::{CallTree, Finding, Frame, Kind, NodeId, Session, View, ViewError};

/// A node must have this part of the smallest share of its parent, as share of the whole tree: with the
/// default of 1 %, 0.1 %. Without it, small shares of small shares would go on for thousands of lines.
const FLOOR: f64 = 0.1;

/// The tree of each kind, or why it has none.
pub(super) type Trees<'s> = Vec<(Kind, Result<CallTree<'s>, ViewError>)>;

/// Builds the trees of all kinds.
///
/// # Errors
///
/// When `view` is about a function that is in no stack of any kind.
pub(super) fn trees<'s>(session: &'s Session, view: &View) -> Result<Trees<'s>, ViewError> {
    let kinds = session.profile.kinds();
    let mut trees: Trees<'_> =
        kinds.into_iter().map(|kind| (kind, CallTree::build(&session.profile, kind, view))).collect();
    // A function may well be missing from some kinds, but if it is in none, its name is wrong.
    if trees.iter().all(|(_, tree)| tree.is_err())
        && let Some((_, Err(error))) = trees.drain(..).next()
    {
        return Err(error);
    }
    Ok(trees)
}

/// The nodes to point at, with the ids of the findings that do.
pub(super) type Marked<'f> = HashMap<NodeId, Vec<&'f str>>;

/// For each mark of `findings` the heaviest node of its function.
pub(super) fn marked<'f>(tree: &CallTree<'_>, findings: &'f [Finding]) -> Marked<'f> {
    let mut marked: Marked<'f> = HashMap::new();
    let marks = findings.iter().flat_map(|finding| finding.marks.iter().map(move |mark| (finding, mark)));
    for (finding, mark) in marks.filter(|(_, mark)| mark.kind.is_none_or(|kind| kind == tree.kind())) {
        let called = |id: &NodeId| tree.frame(*id).is_some_and(|frame| frame.is_called(&mark.frame));
        // Of equally heavy ones the outermost.
        let heaviest = tree.ids().filter(called).max_by_key(|id| (tree.weight(*id), std::cmp::Reverse(*id)));
        if let Some(id) = heaviest {
            let ids = marked.entry(id).or_default();
            // Several findings of one pathology may point at one function.
            if !ids.contains(&&*finding.id) {
                ids.push(&finding.id);
            }
        }
    }
    marked
}

/// The nodes that pass both thresholds. Where these are more than the view has lines, only the heaviest:
/// the rest is mostly single samples, and a report of thousands of lines is not read.
pub(super) struct Selection {
    /// These nodes.
    pub nodes: HashSet<NodeId>,
    /// How many nodes pass the thresholds.
    pub passing: usize,
}

impl Selection {
    /// What `view` wants of `tree`. A node that is marked is in it however light it is, and so are those above.
    pub fn new(tree: &CallTree<'_>, view: &View, marked: &Marked<'_>) -> Self {
        let mut forced: HashSet<NodeId> = HashSet::new();
        for id in marked.keys() {
            let mut next = Some(*id);
            while let Some(id) = next.filter(|id| forced.insert(*id)) {
                next = tree.parent(id);
            }
        }
        let whole = tree.shown_total();
        let least = view.min_percent.max(0.0);
        let passes = |id: NodeId| {
            let weight = tree.weight(id);
            !is_left_out(tree, id)
                && (percent(weight, tree.parent_weight(id)) >= least
                    && percent(weight, whole) >= least * FLOOR
                    || forced.contains(&id))
        };
        let mut passing: Vec<NodeId> = Vec::new();
        let mut todo: Vec<NodeId> = tree.roots().iter().rev().copied().collect();
        while let Some(id) = todo.pop() {
            if passes(id) {
                passing.push(id);
                todo.extend(tree.children(id).iter().rev());
            }
        }
        let count = passing.len();
        if view.lines > 0 && count > view.lines {
            // Parents stay before their children: they are no lighter, and the sort is stable.
            passing.sort_by_key(|id| (!forced.contains(id), std::cmp::Reverse(tree.weight(*id))));
            let forced = passing.iter().take_while(|id| forced.contains(id)).count();
            passing.truncate(view.lines.max(forced));
        }
        Self { nodes: passing.into_iter().collect(), passing: count }
    }
}

/// Whether a node stands for what the source of the profile left out.
fn is_left_out(tree: &CallTree<'_>, id: NodeId) -> bool {
    tree.frame(id).is_some_and(Frame::is_left_out)
}

/// Whether some of these siblings are not shown. What the source did not account for is no sibling.
pub(super) fn is_cut(tree: &CallTree<'_>, siblings: &[NodeId], shown: usize) -> bool {
    let unaccounted = Frame::unaccounted();
    let no_sibling = siblings.iter().filter(|id| tree.frame(**id) == Some(&unaccounted)).count();
    shown + no_sibling < siblings.len()
}
