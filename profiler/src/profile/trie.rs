//! Merges weighted paths into a tree: what call trees and folded stacks are both made of.

use std::ops::Range;

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

/// In which order siblings come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The heaviest first, then by rank.
    Weight,
    /// By rank.
    Rank,
}

/// Paths over `u32` keys, merged where they begin alike.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trie {
    nodes: Vec<TrieNode>,
    roots: Range<u32>,
    /// Node ids, each node's children in order; `children` and `roots` are ranges of this.
    ordered: Vec<NodeId>,
}

/// Collects the paths of a [`Trie`].
#[derive(Debug, Default)]
pub(crate) struct TrieBuilder {
    /// The keys of all paths, one path behind the other.
    keys: Vec<u32>,
    paths: Vec<Path>,
}

#[derive(Debug)]
struct Path {
    start: usize,
    end: usize,
    weight: u64,
}

/// Paths that have the same keys down to `depth`, where `node` is.
struct Group {
    paths: Range<usize>,
    depth: usize,
    node: u32,
}

impl TrieBuilder {
    /// Adds a path, outermost key first. A path without keys is dropped.
    pub fn add(&mut self, path: &[u32], weight: u64) {
        if !path.is_empty() {
            let start = self.keys.len();
            self.keys.extend_from_slice(path);
            self.paths.push(Path { start, end: self.keys.len(), weight });
        }
    }

    /// The tree. `rank_of` says for each key where it comes among its siblings.
    ///
    /// All paths begin as one group, and each group is split by the next key, depth first. A group soon
    /// fits the processor's caches, which is several times faster than looking each key up in one large
    /// table of nodes.
    pub fn finish(self, rank_of: &[u32], order: Order) -> Trie {
        let Self { keys, paths } = self;
        let mut nodes: Vec<TrieNode> = Vec::new();
        // The rank of the key at the current depth, the key, and the path.
        let mut sorted: Vec<(u32, u32, u32)> = (0..paths.len() as u32).map(|path| (0, 0, path)).collect();
        let mut todo = vec![Group { paths: 0..paths.len(), depth: 0, node: NONE }];
        let mut roots = 0..0;
        while let Some(group) = todo.pop() {
            let members = &mut sorted[group.paths.clone()];
            let mut ended = 0;
            for index in 0..members.len() {
                let path = &paths[members[index].2 as usize];
                match keys[path.start..path.end].get(group.depth) {
                    Some(&key) => {
                        members[index].0 = rank_of[key as usize];
                        members[index].1 = key;
                    }
                    None => {
                        let node = &mut nodes[group.node as usize];
                        node.self_weight = node.self_weight.saturating_add(path.weight);
                        members.swap(ended, index);
                        ended += 1;
                    }
                }
            }

            let first = nodes.len() as u32;
            let members = &mut members[ended..];
            let mut start = group.paths.start + ended;
            if !members.is_sorted_by_key(|member| (member.0, member.1)) {
                members.sort_unstable();
            }
            for siblings in members.chunk_by(|a, b| a.1 == b.1) {
                let node = nodes.len() as u32;
                assert!(node != NONE, "fewer than 2^32 - 1 nodes");
                nodes.push(TrieNode {
                    key: siblings[0].1,
                    parent: group.node,
                    weight: 0,
                    self_weight: 0,
                    children: 0..0,
                });
                todo.push(Group { paths: start..start + siblings.len(), depth: group.depth + 1, node });
                start += siblings.len();
            }
            let children = first..nodes.len() as u32;
            match nodes.get_mut(group.node as usize) {
                Some(node) => node.children = children,
                None => roots = children,
            }
        }

        // Parents come before their children, so one pass backwards adds everything up.
        for id in (0..nodes.len()).rev() {
            nodes[id].weight = nodes[id].weight.saturating_add(nodes[id].self_weight);
            let (weight, parent) = (nodes[id].weight, nodes[id].parent);
            if let Some(parent) = nodes.get_mut(parent as usize) {
                parent.weight = parent.weight.saturating_add(weight);
            }
        }

        let mut ordered: Vec<NodeId> = (0..nodes.len() as u32).map(NodeId).collect();
        if order == Order::Weight {
            // Stable, so that equally heavy ones stay in the order of their ranks.
            let heaviest_first = |id: &NodeId| std::cmp::Reverse(nodes[id.0 as usize].weight);
            let families = nodes.iter().map(|node| &node.children).chain([&roots]);
            for family in families.filter(|family| family.len() > 1) {
                ordered[family.start as usize..family.end as usize].sort_by_key(heaviest_first);
            }
        }
        Trie { nodes, roots, ordered }
    }
}

/// The place of each of `items` when they are sorted by `compare`. Equal ones have the same.
pub(crate) fn ranks<T>(items: &[T], compare: impl Fn(&T, &T) -> std::cmp::Ordering) -> Vec<u32> {
    let mut sorted: Vec<usize> = (0..items.len()).collect();
    sorted.sort_by(|a, b| compare(&items[*a], &items[*b]));
    let mut ranks = vec![0; items.len()];
    let mut rank = 0;
    for (place, item) in sorted.iter().enumerate() {
        if place > 0 && compare(&items[sorted[place - 1]], &items[*item]).is_ne() {
            rank += 1;
        }
        ranks[*item] = rank;
    }
    ranks
}

impl Trie {
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn roots(&self) -> &[NodeId] {
        &self.ordered[self.roots.start as usize..self.roots.end as usize]
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
        &self.ordered[range.start as usize..range.end as usize]
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
        let trie = builder.finish(&[0, 2, 1, 0], Order::Weight);

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
    fn siblings_come_by_weight_or_by_rank() {
        let roots = |order| {
            let mut builder = TrieBuilder::default();
            for (key, weight) in [(0, 1), (1, 1), (2, 9), (3, 1)] {
                builder.add(&[key], weight);
            }
            let trie = builder.finish(&[7, 5, 8, 5], order);
            trie.roots().iter().map(|id| trie.node(*id).key).collect::<Vec<_>>()
        };
        assert_eq!(roots(Order::Weight), [2, 1, 3, 0]);
        assert_eq!(roots(Order::Rank), [1, 3, 0, 2]);
        assert_eq!(ranks(&["b", "a", "c", "a"], |a, b| a.cmp(b)), [1, 0, 2, 0]);
    }

    #[test]
    fn huge_weights_saturate() {
        let mut builder = TrieBuilder::default();
        builder.add(&[1, 2], u64::MAX);
        builder.add(&[1, 3], u64::MAX);
        let trie = builder.finish(&[0; 4], Order::Rank);
        assert_eq!(trie.node(trie.roots()[0]).weight, u64::MAX);
    }
}
