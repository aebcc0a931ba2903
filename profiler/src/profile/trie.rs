//! Merges weighted paths into a tree: what call trees and folded stacks are both made of.

use std::collections::HashMap;
use std::ops::Range;

use rustc_hash::FxBuildHasher;

/// Index of a node in its tree. A parent's index is always smaller than its children's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// No node: the parent of a root.
const NONE: u32 = u32::MAX;

/// A node of a finished [`Trie`].
#[derive(Clone, Debug)]
pub(crate) struct TrieNode {
    pub key: u32,
    parent: u32,
    pub weight: u64,
    pub self_weight: u64,
    children: Range<u32>,
}

/// Paths over `u32` keys, merged where they begin alike.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trie {
    nodes: Vec<TrieNode>,
    roots: Vec<NodeId>,
    children: Vec<NodeId>,
}

/// Collects the paths of a [`Trie`].
#[derive(Debug, Default)]
pub(crate) struct TrieBuilder {
    nodes: Vec<TrieNode>,
    /// For each node the child that was met last. Most nodes have one child, so this saves most look-ups.
    last_child: Vec<(u32, u32)>,
    index: HashMap<(u32, u32), u32, FxBuildHasher>,
}

impl TrieBuilder {
    /// Adds a path, outermost key first. A path without keys is dropped.
    pub fn add(&mut self, path: &[u32], weight: u64) {
        let mut at = NONE;
        for &key in path {
            at = self.child(at, key);
        }
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.self_weight = node.self_weight.saturating_add(weight);
        }
    }

    fn child(&mut self, parent: u32, key: u32) -> u32 {
        if let Some(&(last_key, last)) = self.last_child.get(parent as usize)
            && last != NONE
            && last_key == key
        {
            return last;
        }
        let next = self.nodes.len() as u32;
        assert!(next != NONE, "fewer than 2^32 - 1 nodes");
        let id = *self.index.entry((parent, key)).or_insert(next);
        if id == next {
            self.nodes.push(TrieNode { key, parent, weight: 0, self_weight: 0, children: 0..0 });
            self.last_child.push((0, NONE));
        }
        if let Some(last) = self.last_child.get_mut(parent as usize) {
            *last = (key, id);
        }
        id
    }

    /// The tree, siblings in the order of `compare`.
    pub fn finish(self, compare: impl Fn(&TrieNode, &TrieNode) -> std::cmp::Ordering) -> Trie {
        let mut nodes = self.nodes;
        drop((self.index, self.last_child));

        // Parents come before their children, so one pass backwards adds everything up.
        let mut child_counts = vec![0u32; nodes.len()];
        for id in (0..nodes.len()).rev() {
            nodes[id].weight = nodes[id].weight.saturating_add(nodes[id].self_weight);
            let (weight, parent) = (nodes[id].weight, nodes[id].parent);
            if let Some(parent_node) = nodes.get_mut(parent as usize) {
                parent_node.weight = parent_node.weight.saturating_add(weight);
                child_counts[parent as usize] += 1;
            }
        }

        let mut start = 0;
        for (node, count) in nodes.iter_mut().zip(&child_counts) {
            node.children = start..start;
            start += count;
        }
        let mut roots = Vec::new();
        let mut children = vec![NodeId(NONE); start as usize];
        for id in 0..nodes.len() as u32 {
            match nodes[id as usize].parent {
                NONE => roots.push(NodeId(id)),
                parent => {
                    let range = &mut nodes[parent as usize].children;
                    children[range.end as usize] = NodeId(id);
                    range.end += 1;
                }
            }
        }

        let order = |a: &NodeId, b: &NodeId| compare(&nodes[a.0 as usize], &nodes[b.0 as usize]);
        roots.sort_by(order);
        for node in &nodes {
            let siblings = &mut children[node.children.start as usize..node.children.end as usize];
            if siblings.len() > 1 {
                siblings.sort_by(order);
            }
        }
        Trie { nodes, roots, children }
    }
}

impl Trie {
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn roots(&self) -> &[NodeId] {
        &self.roots
    }

    pub fn node(&self, id: NodeId) -> &TrieNode {
        &self.nodes[id.0 as usize]
    }

    pub fn parent(&self, id: NodeId) -> Option<NodeId> {
        let parent = self.node(id).parent;
        (parent != NONE).then_some(NodeId(parent))
    }

    pub fn children(&self, id: NodeId) -> &[NodeId] {
        let range = &self.node(id).children;
        &self.children[range.start as usize..range.end as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_common_beginnings() {
        let mut builder = TrieBuilder::default();
        builder.add(&[1, 2], 5);
        builder.add(&[1, 3], 7);
        builder.add(&[1], 1);
        builder.add(&[1, 2], 5);
        builder.add(&[2, 1], 4);
        builder.add(&[], 100);
        let trie = builder.finish(|a, b| b.weight.cmp(&a.weight));

        let keys = |ids: &[NodeId]| ids.iter().map(|id| trie.node(*id).key).collect::<Vec<_>>();
        assert_eq!(keys(trie.roots()), [1, 2]);
        let root = trie.roots()[0];
        assert_eq!((trie.node(root).weight, trie.node(root).self_weight), (18, 1));
        assert_eq!(keys(trie.children(root)), [2, 3]);
        assert_eq!(trie.parent(trie.children(root)[0]), Some(root));
        assert_eq!(trie.parent(root), None);
        assert_eq!(trie.len(), 5);
    }

    #[test]
    fn huge_weights_saturate() {
        let mut builder = TrieBuilder::default();
        builder.add(&[1, 2], u64::MAX);
        builder.add(&[1, 3], u64::MAX);
        let trie = builder.finish(|a, b| a.key.cmp(&b.key));
        assert_eq!(trie.node(trie.roots()[0]).weight, u64::MAX);
    }
}
