//! A tree of lines, and the stacks that it stands for.

use super::line::TreeLine;
use crate::import::merge::{Full, Merger};
use crate::import::names;
use crate::profile::{Frame, Kind, Labels, LocationId, Origin};

/// A tree in the making.
pub(super) struct Tree {
    kind: Kind,
    /// Whether children are callers, not callees.
    callers: bool,
    /// Column of the roots.
    column: usize,
    /// The weight that the shares of the roots are of.
    total: u64,
    nodes: Vec<Node>,
    /// From a root to the line before, with their columns.
    path: Vec<(usize, usize)>,
    /// Whether there are roots that are not shown.
    cut: bool,
    /// The weight of the roots.
    roots: u64,
}

struct Node {
    parent: Option<usize>,
    name: String,
    count: u64,
    parent_count: u64,
    /// The weight of its children.
    children: u64,
    has_children: bool,
    /// Whether it has children that are not shown.
    cut: bool,
    section: Option<u32>,
}

impl Tree {
    /// An empty tree that `line` will be the first root of.
    pub fn new(kind: Kind, callers: bool, line: &TreeLine<'_>) -> Self {
        Self {
            kind,
            callers,
            column: line.column,
            total: line.parent,
            nodes: Vec::new(),
            path: Vec::new(),
            cut: false,
            roots: 0,
        }
    }

    /// The weight that the shares of the roots are of.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether a line is below one of this tree's.
    pub fn is_below(&self, line: &TreeLine<'_>) -> bool {
        self.path.first().is_some_and(|(column, _)| *column < line.column)
    }

    /// Adds a root.
    pub fn add_root(&mut self, line: &TreeLine<'_>) -> Vec<String> {
        self.path.clear();
        self.add(line)
    }

    /// Adds a line below the one before it that is less indented. Returns what does not add up.
    pub fn add(&mut self, line: &TreeLine<'_>) -> Vec<String> {
        while self.path.last().is_some_and(|(column, _)| *column >= line.column) {
            self.path.pop();
        }
        let mut odd = Vec::new();
        if !line.adds_up() {
            odd.push(format!(
                "`{}` says {:.3}% and {}/{}, which is not the same; the counts are used",
                line.name, line.percent, line.count, line.parent
            ));
        }
        let parent = self.path.last().map(|(_, node)| *node);
        let (weight, sum) = match parent {
            Some(parent) => {
                let node = &mut self.nodes[parent];
                node.has_children = true;
                node.children = node.children.saturating_add(line.count);
                (node.count, node.children)
            }
            None => {
                self.roots = self.roots.saturating_add(line.count);
                (self.total, self.roots)
            }
        };
        if parent.is_some() && line.parent != weight {
            odd.push(format!("`{}` says that its parent has {}, which has {weight}", line.name, line.parent));
        }
        if sum > weight && sum - line.count <= weight {
            odd.push(format!(
                "`{}` and the nodes beside it have {sum}, more than their parent's {weight}",
                line.name
            ));
        }
        self.path.push((line.column, self.nodes.len()));
        self.nodes.push(Node {
            parent,
            name: line.name.to_owned(),
            count: line.count,
            parent_count: line.parent,
            children: 0,
            has_children: false,
            cut: false,
            section: line.section,
        });
        odd
    }

    /// Takes a root for the continuation of a node that is in the tree already, without callees so far.
    pub fn continues(&mut self, line: &TreeLine<'_>, section: Option<u32>) -> bool {
        let same = |node: &Node| {
            !node.has_children
                && node.name == line.name
                && node.count == line.count
                && node.parent_count == line.parent
                && (section.is_none() || node.section == section)
        };
        // A root of the same weights as a root is a second one.
        let found =
            self.nodes.iter().position(|node| same(node) && (section.is_some() || node.parent.is_some()));
        if let Some(node) = found {
            self.nodes[node].section = line.section;
            self.path = vec![(line.column, node)];
        }
        found.is_some()
    }

    /// Notes `...` at this column.
    pub fn left_out(&mut self, column: usize) {
        while self.path.last().is_some_and(|(last, _)| *last >= column) && self.path.len() > 1 {
            self.path.pop();
        }
        match self.path.last() {
            Some((last, node)) if *last < column => self.nodes[*node].cut = true,
            _ => self.cut |= column <= self.column,
        }
    }

    /// Notes `...` beside the last line.
    pub fn left_out_beside(&mut self) {
        match self.path.iter().rev().nth(1) {
            Some((_, parent)) => self.nodes[*parent].cut = true,
            None => self.cut = true,
        }
    }

    /// Whether it says that something was left out.
    pub fn hides(&self) -> bool {
        self.cut || self.nodes.iter().any(|node| node.cut)
    }

    /// Adds its stacks. `exact`: what the callees of a node lack to its weight is its own, unless it says otherwise.
    pub fn emit(&self, exact: bool, merger: &mut Merger) -> Result<(), Full> {
        let no_labels = merger.labels(Labels::default())?;
        let left_out = merger.frame(Frame::left_out())?;
        let unaccounted = merger.frame(Frame::unaccounted())?;
        let origins = self.origins();
        let mut paths: Vec<LocationId> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let rest = node.count.saturating_sub(node.children);
            if rest == 0 {
                continue;
            }
            paths.clear();
            let mut labels = no_labels;
            let mut empty = false;
            let mut next = Some(index);
            while let Some(at) = next {
                let node = &self.nodes[at];
                next = node.parent;
                match group(&node.name).filter(|_| exact && node.parent.is_none()) {
                    Some(group) => labels = merger.labels(group)?,
                    None if node.name == "[no stack]" => empty = true,
                    None => paths.push(self.frame(at, &origins, merger)?),
                }
            }
            if empty {
                paths.clear();
            }
            if !self.callers {
                paths.reverse();
                if node.cut {
                    paths.push(left_out);
                } else if node.has_children && !exact {
                    paths.push(unaccounted);
                }
            }
            merger.add(self.kind, labels, &paths, rest, rest)?;
        }
        let rest = self.total.saturating_sub(self.roots);
        if rest > 0 {
            let frames: &[LocationId] = if self.cut { &[left_out] } else { &[] };
            merger.add(self.kind, no_labels, frames, rest, rest)?;
        }
        Ok(())
    }

    fn frame(&self, index: usize, origins: &[Origin], merger: &mut Merger) -> Result<LocationId, Full> {
        let name = &self.nodes[index].name;
        let (symbol, module) = names::split_module(name);
        let origin = if name == "[user space]" { Origin::User } else { origins[index] };
        merger.frame(Frame { name: symbol.into(), module: module.map(Into::into), origin })
    }

    /// On which side each node is. Trees of the kernel's side are the rule; where one has a system call's entry below
    /// something else, that is user code.
    fn origins(&self) -> Vec<Origin> {
        let is_entry = |name: &str| name.starts_with("entry_SYSCALL") || name == "el0t_64_sync";
        let has_user_code = self.nodes.iter().any(|node| {
            let below = node.parent.is_some_and(|parent| {
                let name = &self.nodes[parent].name;
                !names::is_kernel_entry(name) && group(name).is_none()
            });
            below && is_entry(&node.name)
        });
        let mut origins: Vec<Origin> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let above = node.parent.map(|parent| origins[parent]);
            let kernel = !has_user_code
                || self.callers
                || above == Some(Origin::Kernel)
                || names::is_kernel_entry(&node.name);
            origins.push(if kernel { Origin::Kernel } else { Origin::User });
        }
        origins
    }
}

/// The labels of a root such as `comm=fio`.
fn group(name: &str) -> Option<Labels> {
    let (key, value) = name.split_once('=')?;
    if !["comm", "pid", "cgroup", "cpu"].contains(&key) {
        return None;
    }
    let mut labels = Labels::default();
    match key {
        _ if value == "?" => {}
        "comm" => labels.comm = Some(value.into()),
        "cgroup" => labels.cgroup = Some(value.into()),
        "pid" => labels.pid = Some(value.parse().ok()?),
        _ => labels.cpu = Some(value.parse().ok()?),
    }
    Some(labels)
}
