//! The stacks that the graphs of a table stand for.

use std::collections::HashMap;

use super::graph::{Graph, Value};
use super::table::{Entry, PERCENT, ROUNDING, Reading};
use crate::import::merge::{Full, Merger};
use crate::import::names;
use crate::profile::{Frame, Kind, Labels, LabelsId, LocationId, Origin};

/// Stacks in the making.
pub(super) struct Stacks {
    pub merger: Merger,
    /// What the table says about functions, by name.
    functions: HashMap<String, Frame>,
    names: HashMap<(String, bool), LocationId>,
}

impl Stacks {
    pub fn new(functions: HashMap<String, Frame>) -> Self {
        Self { merger: Merger::default(), functions, names: HashMap::new() }
    }

    /// The stacks that end in the function of a line.
    pub fn entry(&mut self, entry: &Entry, reading: Reading, rounding: f64) -> Result<(), Full> {
        let share = entry.share(rounding);
        if share == 0 {
            return Ok(());
        }
        let weights = weights(&entry.graph, entry.children.unwrap_or(entry.own), reading);
        let mut left = share;
        let below = children_sums(&entry.graph, &weights);
        // Whether the branch that each node is in begins with the line's function.
        let mut begins_with_it: Vec<bool> = Vec::with_capacity(weights.len());
        for node in &entry.graph.nodes {
            begins_with_it.push(node.parent.map_or(node.name == entry.symbol, |root| begins_with_it[root]));
        }
        for (index, weight) in weights.iter().enumerate() {
            let of_callees = match entry.children {
                Some(children) if reading.callers_first => begins_with_it[index] && entry.own < children,
                // Who calls a function is who calls what it calls as well: it tells something where that is little.
                Some(children) => entry.own < children * 0.9,
                None => false,
            };
            if of_callees {
                continue;
            }
            let mut rest = weight.saturating_sub(below[index]);
            if below[index] > 0 && rest as f64 <= ROUNDING * 2.0 {
                rest = 0;
            }
            let rest = rest.min(left);
            if rest == 0 {
                continue;
            }
            let mut path: Vec<usize> = Vec::new();
            let mut next = Some(index);
            while let Some(at) = next {
                path.push(at);
                next = entry.graph.nodes[at].parent;
            }
            left -= rest;
            let ends_here = entry.graph.nodes[index].name == entry.symbol || below[index] == 0;
            if reading.callers_first {
                path.reverse();
            }
            let names: Vec<&str> = path.iter().map(|node| &*entry.graph.nodes[*node].name).collect();
            let callers = match (reading.callers_first, entry.symbol.is_empty()) {
                (_, true) => &names[..],
                (true, _) if ends_here => &names[..names.len() - 1],
                (true, _) => &names[..],
                (false, _) => &names[..names.len() - 1],
            };
            self.stack(entry, callers, !ends_here && reading.callers_first, rest)?;
        }
        // A small rest is but the rounding of the branches: it goes where most of it came from.
        self.add(entry, &[], left)
    }

    pub fn add(&mut self, entry: &Entry, callers: &[&str], weight: u64) -> Result<(), Full> {
        if weight == 0 { Ok(()) } else { self.stack(entry, callers, false, weight) }
    }

    /// A stack of `callers`, outermost first, and the function of the line. `gap`: functions between them are unknown.
    fn stack(&mut self, entry: &Entry, callers: &[&str], gap: bool, weight: u64) -> Result<(), Full> {
        let labels = self.labels(entry)?;
        let own = entry.frame();
        // Kernel code calls no user code.
        let in_kernel = own.as_ref().map(|frame| frame.origin == Origin::Kernel);
        let mut frames = self.callers(callers, in_kernel)?;
        if gap {
            frames.push(self.merger.frame(Frame::left_out())?);
        }
        if let Some(own) = own {
            frames.push(self.merger.frame(own)?);
        }
        self.merger.add(Kind::Cpu, labels, &frames, 0, weight)
    }

    fn callers(&mut self, callers: &[&str], ends_in_kernel: Option<bool>) -> Result<Vec<LocationId>, Full> {
        let mut kernel = false;
        let mut frames = Vec::with_capacity(callers.len() + 2);
        for name in callers {
            kernel |= names::is_kernel_entry(name);
            frames.push(self.function(name, kernel && ends_in_kernel != Some(false))?);
        }
        Ok(frames)
    }

    /// The graph of a line from its function down, with all that it calls.
    pub fn tree<'e>(
        &mut self,
        entry: &'e Entry,
        reading: Reading,
        share: u64,
        own: &mut HashMap<&'e str, u64>,
    ) -> Result<(), Full> {
        let weights = weights(&entry.graph, entry.children.unwrap_or(entry.own), reading);
        let below = children_sums(&entry.graph, &weights);
        let labels = self.labels(entry)?;
        let in_kernel = entry.kernel.unwrap_or(false);
        let mut left = share;
        for (index, weight) in weights.iter().enumerate() {
            let rest = weight.saturating_sub(below[index]).min(left);
            if rest == 0 || below[index] > 0 && rest as f64 <= ROUNDING * 2.0 {
                continue;
            }
            left -= rest;
            let mut names: Vec<&str> = Vec::new();
            let mut next = Some(index);
            while let Some(at) = next {
                names.push(&entry.graph.nodes[at].name);
                next = entry.graph.nodes[at].parent;
            }
            let mut kernel = in_kernel && names.last() == Some(&&*entry.symbol);
            let mut frames = Vec::new();
            for name in names.iter().rev() {
                kernel |= names::is_kernel_entry(name);
                frames.push(self.function(name, kernel)?);
            }
            let node = &entry.graph.nodes[index];
            let is_own = match own.get_mut(&*node.name) {
                Some(own) => {
                    let part = rest.min(*own);
                    *own -= part;
                    part
                }
                None if below[index] > 0 || node.collapsed => 0,
                None => rest,
            };
            if is_own > 0 {
                self.merger.add(Kind::Cpu, labels, &frames, 0, is_own)?;
            }
            if rest > is_own {
                frames.push(self.merger.frame(Frame::unaccounted())?);
                self.merger.add(Kind::Cpu, labels, &frames, 0, rest - is_own)?;
            }
        }
        self.add(entry, &[], left)
    }

    /// A function of which it is unknown what it calls.
    pub fn not_shown(&mut self, entry: &Entry, weight: u64) -> Result<(), Full> {
        let labels = self.labels(entry)?;
        let mut frames = Vec::new();
        if let Some(own) = entry.frame() {
            frames.push(self.merger.frame(own)?);
        }
        frames.push(self.merger.frame(Frame::unaccounted())?);
        self.merger.add(Kind::Cpu, labels, &frames, 0, weight)
    }

    fn labels(&mut self, entry: &Entry) -> Result<LabelsId, Full> {
        self.merger.labels(Labels { comm: entry.comm.as_deref().map(Into::into), ..Labels::default() })
    }

    fn function(&mut self, name: &str, kernel: bool) -> Result<LocationId, Full> {
        let key = (name.to_owned(), kernel);
        if let Some(id) = self.names.get(&key) {
            return Ok(*id);
        }
        let frame = match self.functions.get(name) {
            Some(known) => known.clone(),
            None => names::frame(name, None, Some(kernel)),
        };
        let id = self.merger.frame(frame)?;
        self.names.insert(key, id);
        Ok(id)
    }
}

/// The weight of each node of a graph, in parts of everything.
pub(super) fn weights(graph: &Graph, whole: f64, reading: Reading) -> Vec<u64> {
    // Counts are of what the first branches have together.
    let counted: u64 = graph
        .nodes
        .iter()
        .filter(|node| node.parent.is_none())
        .filter_map(|node| match node.value {
            Some(Value::Count(count)) => Some(count),
            _ => None,
        })
        .fold(0, u64::saturating_add);
    let mut weights: Vec<f64> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let above = node.parent.map_or(whole * PERCENT, |parent| weights[parent]);
        weights.push(match node.value {
            None => above,
            Some(Value::Percent(value)) if reading.relative => above * value / 100.0,
            Some(Value::Percent(value)) => value * PERCENT,
            Some(Value::Count(_)) if counted == 0 => above,
            Some(Value::Count(count)) => whole * PERCENT * count as f64 / counted as f64,
        });
    }
    weights.into_iter().map(|weight| weight.round() as u64).collect()
}

/// What the children of each node weigh together.
fn children_sums(graph: &Graph, weights: &[u64]) -> Vec<u64> {
    let mut sums = vec![0u64; weights.len()];
    for (node, weight) in graph.nodes.iter().zip(weights) {
        if let Some(parent) = node.parent {
            sums[parent] = sums[parent].saturating_add(*weight);
        }
    }
    sums
}
