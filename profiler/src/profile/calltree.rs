//! The call tree of one kind of stacks.

use super::kind::Kind;
use super::paths::{Label, Paths};
use super::stacks::{Frame, Profile};
pub use super::trie::NodeId;
use super::trie::{Order, Trie, TrieBuilder, ranks};
use super::view::{View, ViewError};

/// A call tree, merged by function. Siblings are sorted by weight, the heaviest first, then by name.
///
/// A node weighs what all stacks through it weigh; the part of it that no child has is its own.
/// Recursion makes separate nodes.
pub struct CallTree<'p> {
    paths: Paths<'p>,
    kind: Kind,
    total: u64,
    trie: Trie,
}

impl<'p> CallTree<'p> {
    /// The tree of the stacks of `kind`, as `view` wants them.
    ///
    /// # Errors
    ///
    /// When the view is about a function that no stack passes through.
    pub fn build(profile: &'p Profile, kind: Kind, view: &View) -> Result<Self, ViewError> {
        let paths = Paths::new(profile, kind, view)?;
        let mut builder = TrieBuilder::default();
        paths.for_each(|path, weight| builder.add(path, weight))?;
        let labels: Vec<Label<'_>> = (0..paths.key_count() as u32).map(|key| paths.label(key)).collect();
        let ranks = ranks(&labels, |a, b| a.name().cmp(&b.name()).then_with(|| a.module().cmp(&b.module())));
        drop(labels);
        let trie = builder.finish(&ranks, Order::Weight);
        Ok(Self { kind, total: profile.total(kind), paths, trie })
    }

    /// What the weights count.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The weight of all stacks of the kind, also of those that the view leaves out.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The weight of the stacks in the tree. Less than [`total`](Self::total) only where the view is
    /// about one function.
    pub fn shown_total(&self) -> u64 {
        self.roots().iter().fold(0, |sum, id| sum.saturating_add(self.weight(*id)))
    }

    /// The outermost nodes.
    pub fn roots(&self) -> &[NodeId] {
        self.trie.roots()
    }

    /// The nodes below a node.
    pub fn children(&self, id: NodeId) -> &[NodeId] {
        self.trie.children(id)
    }

    /// The node above, `None` for a root.
    pub fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.trie.parent(id)
    }

    /// Weight of the stacks through this node, in the unit of the kind.
    pub fn weight(&self, id: NodeId) -> u64 {
        self.trie.node(id).weight
    }

    /// Weight of the stacks that end at this node.
    pub fn self_weight(&self, id: NodeId) -> u64 {
        self.trie.node(id).self_weight
    }

    /// Weight of the node above; the total for a root.
    pub fn parent_weight(&self, id: NodeId) -> u64 {
        self.parent(id).map_or(self.total, |parent| self.weight(parent))
    }

    /// What the node stands for.
    pub fn label(&self, id: NodeId) -> Label<'_> {
        self.paths.label(self.trie.node(id).key)
    }

    /// The node's function, `None` for groups and pseudo nodes.
    pub fn frame(&self, id: NodeId) -> Option<&Frame> {
        match self.label(id) {
            Label::Frame(frame) => Some(frame),
            _ => None,
        }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.trie.len()
    }

    /// Whether there is no node at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All nodes, every parent before its children.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.trie.len() as u32).map(NodeId)
    }
}

#[cfg(test)]
#[path = "calltree_tests.rs"]
mod tests;
