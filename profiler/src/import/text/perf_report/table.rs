//! What a table with its call graphs says about stacks.
//!
//! Lines have the share of a function, with `--children` also that of all it calls. Graphs show who called it or, with
//! `-g caller`, the ways from the outermost caller down to it. What there is of a line's share beyond its graph is a
//! stack with the function alone: perf leaves out light branches.

use std::collections::{HashMap, HashSet};

use super::entry::Fields;
use super::graph::{Graph, Value};
use crate::import::merge::{Full, Merger};
use crate::import::names;
use crate::profile::session::SHARES_TOTAL;
use crate::profile::{Frame, Kind, Labels, LabelsId, LocationId, Origin, Session, Weights};

/// One percent.
const PERCENT: f64 = SHARES_TOTAL as f64 / 100.0;
/// perf prints two decimals.
const ROUNDING: f64 = 0.005 * PERCENT + 1.0;
/// Tables that have less than this share of everything in them are cut off.
const WHOLE: f64 = 90.0;

/// A line of the table.
#[derive(Default)]
pub(super) struct Entry {
    children: Option<f64>,
    own: f64,
    samples: Option<u64>,
    comm: Option<String>,
    binary: Option<String>,
    symbol: String,
    kernel: Option<bool>,
    pub graph: Graph,
}

impl Entry {
    pub fn new(fields: &Fields<'_>) -> Self {
        Self {
            children: fields.children,
            own: fields.own,
            samples: fields.samples,
            comm: fields.comm.map(str::to_owned),
            binary: fields.binary.map(str::to_owned),
            symbol: fields.symbol.to_owned(),
            kernel: fields.kernel,
            graph: Graph::default(),
        }
    }

    /// In parts of everything. `rounding`: by how many percent it has been rounded up.
    fn share(&self, rounding: f64) -> u64 {
        ((self.own - rounding).max(0.0) * PERCENT).round() as u64
    }

    /// The functions that its graph has below it. (What it has above it is the way to it.)
    fn callees(&self) -> impl Iterator<Item = &str> {
        let nodes = &self.graph.nodes;
        let mut below: Vec<bool> = Vec::with_capacity(nodes.len());
        for node in nodes {
            below.push(node.parent.map_or(node.name == self.symbol, |parent| below[parent]));
        }
        let callees = nodes.iter().zip(below).filter(|(node, below)| *below && node.name != self.symbol);
        callees.map(|(node, _)| &*node.name)
    }

    fn frame(&self) -> Option<Frame> {
        let symbol = self.symbol.strip_suffix(" (inlined)").unwrap_or(&self.symbol);
        (!symbol.is_empty()).then(|| names::frame(symbol, self.binary.as_deref(), self.kernel))
    }
}

/// A table.
#[derive(Default)]
pub(super) struct Table {
    pub entries: Vec<Entry>,
}

/// How graphs are to be read.
#[derive(Clone, Copy)]
struct Reading {
    /// The outermost caller comes first.
    callers_first: bool,
    /// Percentages are of the parent.
    relative: bool,
}

impl Table {
    /// Puts the stacks into the session.
    pub fn finish(&self, session: &mut Session) -> Result<(), Full> {
        let mut stacks =
            Stacks { merger: Merger::default(), functions: self.functions(), names: Default::default() };
        let none = stacks.merger.labels(Labels::default())?;
        let reading = self.reading();
        let total: f64 = self.entries.iter().map(|entry| entry.own).sum();
        let has_graphs = self.entries.iter().any(|entry| !entry.graph.nodes.is_empty());
        let has_deep_graphs = self.entries.iter().any(|entry| {
            entry.graph.nodes.len() > 1 && entry.children.is_some_and(|children| entry.own * 2.0 < children)
        });
        let notes = &mut session.blind_spots;
        if total < WHOLE && has_deep_graphs {
            notes.push(
                "The table is cut off: its stacks are made from the graphs of its callers, and what those leave out is \
                 not accounted for."
                    .to_owned(),
            );
            self.from_callers(reading, &mut stacks)?;
        } else {
            // Thousands of light lines, all rounded up, can make 103 % together. No line is changed by more than it can
            // have been rounded.
            let shown = self.entries.iter().filter(|entry| entry.own > 0.0).count().max(1);
            let rounding = ((total - 100.0) / shown as f64).clamp(0.0, 0.005);
            for entry in &self.entries {
                stacks.entry(entry, reading, rounding)?;
            }
            if has_graphs {
                notes.push(
                    "perf report leaves out light branches of its graphs: their callers are unknown, and callers weigh \
                     less here than they do."
                        .to_owned(),
                );
            } else {
                notes.push("The table has no call graphs: callers are unknown.".to_owned());
            }
        }
        if total < 99.0 && !has_deep_graphs {
            notes.push(format!("The table has {total:.2}% of everything; the rest is not accounted for."));
        }
        if self.has_counts(total) {
            session.profile =
                stacks.merger.finish_scaled(self.entries.iter().filter_map(|entry| entry.samples).sum());
        } else {
            notes
                .push("There are shares only and no counts: nothing can be said on significance.".to_owned());
            session.weights = Weights::Shares;
            session.profile = stacks.merger.finish_shares(SHARES_TOTAL, none)?;
        }
        Ok(())
    }

    /// Whether the numbers of samples say the same as the shares, and all of them are there.
    fn has_counts(&self, total: f64) -> bool {
        let samples: u64 = self.entries.iter().map(|entry| entry.samples.unwrap_or(0)).sum();
        let agrees = |entry: &Entry| {
            let share = entry.samples.unwrap_or(0) as f64 * 100.0 / samples as f64;
            entry.samples.is_some() && (share - entry.own).abs() < 0.0051
        };
        samples > 0
            && (total - 100.0).abs() <= 0.01 + 0.005 * self.entries.len() as f64
            && self
                .entries
                .iter()
                .all(|entry| entry.children.is_none() && entry.graph.nodes.is_empty() && agrees(entry))
    }

    /// Which functions the table knows, by name.
    fn functions(&self) -> HashMap<String, Frame> {
        let frames = self.entries.iter().filter_map(Entry::frame);
        let mut functions = HashMap::new();
        for frame in frames {
            functions.entry(frame.name.to_string()).or_insert(frame);
        }
        functions
    }

    fn reading(&self) -> Reading {
        let with_children = self.entries.iter().any(|entry| entry.children.is_some());
        let (mut first, mut last, mut leaves, mut deep) = (0, 0, 0, 0);
        let mut relative = false;
        for entry in &self.entries {
            let nodes = &entry.graph.nodes;
            let (Some(start), Some(end)) = (nodes.first(), nodes.last()) else { continue };
            if nodes.len() > 1 {
                first += usize::from(start.name == entry.symbol);
                last += usize::from(end.name == entry.symbol);
            }
            // With callees below it, the graph of a function that calls nothing is the way down to it.
            if entry.children.is_some_and(|children| entry.own >= 0.9 * children) && nodes.len() > 1 {
                leaves += usize::from(start.name != entry.symbol);
                deep += usize::from(start.name == entry.symbol);
            }
            relative |= is_relative(&entry.graph, entry.children.unwrap_or(entry.own));
        }
        let callers_first = if with_children { leaves >= deep } else { last > first };
        Reading { callers_first, relative }
    }

    /// Stacks of a table of which only the top is there: each graph that is not a part of one before it.
    fn from_callers(&self, reading: Reading, stacks: &mut Stacks) -> Result<(), Full> {
        // What each function has of its own is in the table, not in the graphs.
        let mut own: HashMap<&str, u64> = HashMap::new();
        for entry in &self.entries {
            let of_name = own.entry(&entry.symbol).or_default();
            *of_name = of_name.saturating_add(entry.share(0.0));
        }
        if !reading.callers_first {
            // Who calls a function says nothing about what it calls.
            return self.entries.iter().try_for_each(|entry| stacks.entry(entry, reading, 0.0));
        }
        // The outermost functions first: those that are below no other line's.
        let below: HashSet<(Option<&str>, &str)> = self
            .entries
            .iter()
            .flat_map(|entry| entry.callees().map(move |name| (entry.comm.as_deref(), name)))
            .collect();
        let (outermost, others): (Vec<&Entry>, Vec<&Entry>) =
            self.entries.iter().partition(|entry| !below.contains(&(entry.comm.as_deref(), &*entry.symbol)));
        let mut covered: HashMap<(Option<&str>, &str), u64> = HashMap::new();
        let mut room = SHARES_TOTAL;
        for entry in outermost.into_iter().chain(others) {
            let share = (entry.children.unwrap_or(entry.own) * PERCENT).round() as u64;
            let known = covered.get(&(entry.comm.as_deref(), &*entry.symbol)).copied().unwrap_or(0);
            let share = share.saturating_sub(known).min(room);
            if known == 0 {
                room -= share;
                stacks.tree(entry, reading, share, &mut own)?;
                for (name, weight) in outermost_weights(entry, reading) {
                    let covered = covered.entry((entry.comm.as_deref(), name)).or_default();
                    *covered = covered.saturating_add(weight);
                }
            } else if share as f64 > PERCENT {
                // Part of it is in the trees of its callers; of the rest, what it calls is unknown.
                room -= share;
                stacks.not_shown(entry, share)?;
            }
        }
        Ok(())
    }
}

/// What each function has in the graph of a line; of recursive ones the outermost.
fn outermost_weights(entry: &Entry, reading: Reading) -> HashMap<&str, u64> {
    let weights = weights(&entry.graph, entry.children.unwrap_or(entry.own), reading);
    let mut sums: HashMap<&str, u64> = HashMap::new();
    for (node, weight) in entry.graph.nodes.iter().zip(weights) {
        let mut above = node.parent;
        while let Some(parent) = above.filter(|parent| entry.graph.nodes[*parent].name != node.name) {
            above = entry.graph.nodes[parent].parent;
        }
        if above.is_none() {
            let sum = sums.entry(&node.name).or_default();
            *sum = sum.saturating_add(weight);
        }
    }
    sums.entry(&entry.symbol).or_insert(1);
    sums
}

/// Whether the shares of a graph are such as only shares of the parent can be.
fn is_relative(graph: &Graph, whole: f64) -> bool {
    let mut sums: Vec<(f64, u32)> = vec![(0.0, 0); graph.nodes.len() + 1];
    let mut values: Vec<f64> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let above = node.parent.map_or(whole, |parent| values[parent]);
        values.push(match node.value {
            Some(Value::Percent(value)) => {
                let slot = &mut sums[node.parent.map_or(graph.nodes.len(), |parent| parent)];
                *slot = (slot.0 + value, slot.1 + 1);
                value
            }
            _ => above,
        });
    }
    sums.iter().enumerate().any(|(index, (sum, count))| {
        let limit = values.get(index).copied().unwrap_or(whole);
        *sum > limit + 0.01 * f64::from(count + 1)
    })
}

struct Stacks {
    merger: Merger,
    functions: HashMap<String, Frame>,
    names: HashMap<(String, bool), LocationId>,
}

impl Stacks {
    /// The stacks that end in the function of a line.
    fn entry(&mut self, entry: &Entry, reading: Reading, rounding: f64) -> Result<(), Full> {
        let share = entry.share(rounding);
        if share == 0 {
            return Ok(());
        }
        let weights = weights(&entry.graph, entry.children.unwrap_or(entry.own), reading);
        let mut left = share;
        let mut below: Vec<u64> = children_sums(&entry.graph, &weights);
        below.truncate(weights.len());
        for (index, weight) in weights.iter().enumerate() {
            let mut path: Vec<usize> = Vec::new();
            let mut next = Some(index);
            while let Some(at) = next {
                path.push(at);
                next = entry.graph.nodes[at].parent;
            }
            let root = path[path.len() - 1];
            // With callees below it, a graph that begins with the function itself is not about who called it.
            let begins_with_it = entry.graph.nodes[root].name == entry.symbol;
            let of_callees = match entry.children {
                Some(children) if reading.callers_first => begins_with_it && entry.own < children,
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

    fn add(&mut self, entry: &Entry, callers: &[&str], weight: u64) -> Result<(), Full> {
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
    fn tree<'e>(
        &mut self,
        entry: &'e Entry,
        reading: Reading,
        share: u64,
        own: &mut HashMap<&'e str, u64>,
    ) -> Result<(), Full> {
        let weights = weights(&entry.graph, entry.children.unwrap_or(entry.own), reading);
        let below = children_sums(&entry.graph, &weights);
        let labels = self.labels(entry)?;
        let unaccounted = self.merger.frame(Frame::unaccounted())?;
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
            for (weight, callee) in [(is_own, None), (rest - is_own, Some(unaccounted))] {
                frames.extend(callee);
                if weight > 0 {
                    self.merger.add(Kind::Cpu, labels, &frames, 0, weight)?;
                }
            }
        }
        self.add(entry, &[], left)
    }

    /// A function of which it is unknown what it calls.
    fn not_shown(&mut self, entry: &Entry, weight: u64) -> Result<(), Full> {
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
fn weights(graph: &Graph, whole: f64, reading: Reading) -> Vec<u64> {
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
