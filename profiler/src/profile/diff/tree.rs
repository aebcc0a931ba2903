//! The call trees side by side.

use std::collections::HashMap;

use serde::Serialize;

use super::{Key, Options, Side, key};
use crate::profile::calltree::{CallTree, NodeId};
use crate::profile::kind::Kind;
use crate::profile::paths::Label;
use crate::profile::view::View;

/// A node of both trees.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeChange {
    /// The function, as A calls it, or B where A has none. Untrusted.
    pub name: String,
    /// Levels below the outermost.
    pub depth: usize,
    /// Share of all weight of the kind that passes through it, 0 to 1; `None` where the source lists only some
    /// functions, and not this one.
    pub shares: [Option<f64>; 2],
}

/// A node while the trees are walked.
struct Node {
    name: String,
    parent: Option<usize>,
    shares: [Option<f64>; 2],
    children: Vec<usize>,
    shown: bool,
}

impl Node {
    /// The change in points, or the least that it may be taken for.
    fn points(&self) -> f64 {
        100.0
            * match self.shares {
                [Some(a), Some(b)] => (b - a).abs(),
                [a, b] => a.or(b).unwrap_or(0.0),
            }
    }
}

/// The nodes that changed by enough, with those above them, and how many changed by enough at all.
pub fn tree(
    sides: &[Side<'_>; 2],
    kind: Kind,
    normalize: &dyn Fn(&str) -> &str,
    options: &Options,
) -> (Vec<NodeChange>, usize) {
    let view = View { user: options.user, ..View::default() };
    let built = sides.each_ref().map(|side| CallTree::build(side.profile, kind, &view));
    let [Ok(a), Ok(b)] = built else { return (Vec::new(), 0) };
    let trees = [a, b];
    // Without callers the tree would be the flat profile once more.
    if trees.iter().all(|tree| tree.ids().all(|id| tree.children(id).is_empty())) {
        return (Vec::new(), 0);
    }
    let (mut nodes, roots) = merged(&trees, sides, normalize);
    let changed = select(&mut nodes, options);
    let mut shown = Vec::new();
    let mut todo: Vec<(usize, usize)> = Vec::new();
    let push = |todo: &mut Vec<(usize, usize)>, of: &[usize], depth: usize| {
        let mut of: Vec<usize> = of.iter().copied().filter(|index| nodes[*index].shown).collect();
        of.sort_by(|a, b| {
            let (a, b) = (&nodes[*a], &nodes[*b]);
            b.points().total_cmp(&a.points()).then_with(|| a.name.cmp(&b.name))
        });
        todo.extend(of.into_iter().rev().map(|index| (index, depth)));
    };
    push(&mut todo, &roots, 0);
    while let Some((index, depth)) = todo.pop() {
        let node = &nodes[index];
        shown.push(NodeChange { name: node.name.clone(), depth, shares: node.shares });
        push(&mut todo, &node.children, depth + 1);
    }
    (shown, changed)
}

/// Marks the nodes to show; returns how many changed by enough.
fn select(nodes: &mut [Node], options: &Options) -> usize {
    let mut changed: Vec<usize> = (0..nodes.len())
        .filter(|index| nodes[*index].points() >= options.points.max(f64::MIN_POSITIVE))
        .collect();
    let count = changed.len();
    changed.sort_by(|a, b| nodes[*b].points().total_cmp(&nodes[*a].points()));
    let mut shown = 0;
    for index in changed {
        let mut next = Some(index);
        while let Some(index) = next.filter(|index| !nodes[*index].shown) {
            nodes[index].shown = true;
            shown += 1;
            next = nodes[index].parent;
        }
        if options.lines > 0 && shown >= options.lines {
            break;
        }
    }
    count
}

/// Both trees as one, and its outermost nodes.
fn merged(
    trees: &[CallTree<'_>; 2],
    sides: &[Side<'_>; 2],
    normalize: &dyn Fn(&str) -> &str,
) -> (Vec<Node>, Vec<usize>) {
    let mut nodes: Vec<Node> = Vec::new();
    let mut roots = Vec::new();
    // Nodes of either tree that are one, and whose children are to be merged.
    let outermost = [trees[0].roots().to_vec(), trees[1].roots().to_vec()];
    let mut todo: Vec<(Option<usize>, [Vec<NodeId>; 2])> = vec![(None, outermost)];
    while let Some((parent, level)) = todo.pop() {
        for (name, ids) in siblings(trees, &level, normalize) {
            let weight = |side: usize| {
                let weights = ids[side].iter().map(|id| trees[side].weight(*id));
                weights.reduce(u64::saturating_add)
            };
            let index = nodes.len();
            let shares = [0, 1].map(|side| sides[side].share_of(weight(side)));
            nodes.push(Node { name, parent, shares, children: Vec::new(), shown: false });
            match parent {
                Some(parent) => nodes[parent].children.push(index),
                None => roots.push(index),
            }
            let below = [0, 1].map(|side| {
                ids[side].iter().flat_map(|id| trees[side].children(*id)).copied().collect::<Vec<_>>()
            });
            if below.iter().any(|below| !below.is_empty()) {
                todo.push((Some(index), below));
            }
        }
    }
    (nodes, roots)
}

/// What makes nodes the same.
#[derive(PartialEq, Eq, Hash)]
enum Same<'t> {
    Function(Key<'t>),
    Other(String),
}

/// The nodes of one level, those of the same function together, in the order in which they come.
fn siblings<'t>(
    trees: &'t [CallTree<'_>; 2],
    level: &[Vec<NodeId>; 2],
    normalize: &dyn Fn(&str) -> &str,
) -> Vec<(String, [Vec<NodeId>; 2])> {
    let mut found: Vec<(String, [Vec<NodeId>; 2])> = Vec::new();
    let mut known: HashMap<Same<'t>, usize> = HashMap::new();
    for (side, ids) in level.iter().enumerate() {
        for id in ids {
            let label = trees[side].label(*id);
            let same = match label {
                Label::Frame(frame) if frame.is_left_out() => continue,
                Label::Frame(frame) => Same::Function(key(frame, normalize)),
                other => Same::Other(other.name().into_owned()),
            };
            let index = *known.entry(same).or_insert_with(|| {
                found.push((label.name().into_owned(), [Vec::new(), Vec::new()]));
                found.len() - 1
            });
            found[index].1[side].push(*id);
        }
    }
    found
}
