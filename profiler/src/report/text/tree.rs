//! Call trees as text.
//!
//! Each line is `name(share of the parent, count/parent's count)`, four spaces a level. A subtree that
//! is too deep for the width is continued below the tree, from the left margin, as people do when they
//! post such a tree by hand.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Write};

use super::style::{Style, percent};
use crate::profile::units;
use crate::profile::{CallTree, Finding, Frame, Label, NodeId, View};
use crate::report::escape::{sanitize, shorten, width};
use crate::report::selection::{Marked, Selection, is_cut, marked};

/// Columns of a level.
const INDENT: usize = 4;
/// A subtree may be continued below from the level at which this part of the columns is indentation.
const INDENTED: usize = 3;
/// Columns that a long name gets before a subtree counts as too deep.
const NAME_ROOM: usize = 40;
/// Columns that a name gets at least, however deep.
const NAME_MIN: usize = 8;
/// An arrow that would leave a name fewer columns than this goes to a line of its own.
const NAME_BESIDE_ARROW: usize = 24;
/// Columns of the findings' ids at an arrow.
const FINDINGS: usize = 40;

/// A line of the tree.
struct Line {
    id: NodeId,
    name: String,
    numbers: String,
    arrow: String,
    depth: usize,
    children: Vec<usize>,
    /// Whether children were left out.
    cut: bool,
    /// Columns that the subtree needs, from the start of this line.
    extent: usize,
}

/// Writes the tree.
pub(crate) fn write(
    tree: &CallTree<'_>,
    view: &View,
    findings: &[Finding],
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let layout = Layout::new(tree, view, &marked(tree, findings));
    if layout.lines.len() < layout.passing {
        let (shown, all) = (units::grouped(layout.lines.len() as u64), units::grouped(layout.passing as u64));
        writeln!(out, "the heaviest {shown} of {all} lines:")?;
    }
    let mut printer = Printer { layout: &layout, tree, style, out, later: VecDeque::new(), sections: 0 };
    printer.roots()?;
    while let Some((number, line)) = printer.later.pop_front() {
        printer.section(number, line)?;
    }
    Ok(())
}

/// Which nodes are shown, and how much room they need.
struct Layout {
    lines: Vec<Line>,
    roots: Vec<usize>,
    roots_cut: bool,
    /// The weight of all that is in the tree.
    whole: u64,
    /// Lines there would be, were there no limit to them.
    passing: usize,
}

impl Layout {
    fn new(tree: &CallTree<'_>, view: &View, marked: &Marked<'_>) -> Self {
        let whole = tree.shown_total();
        let selection = Selection::new(tree, view, marked);

        let mut lines: Vec<Line> = Vec::new();
        let mut roots = Vec::new();
        let mut todo: Vec<(NodeId, Option<usize>, usize)> = Vec::new();
        let shown_of = |ids: &[NodeId]| -> Vec<NodeId> {
            ids.iter().copied().filter(|id| selection.nodes.contains(id)).collect()
        };
        let shown = shown_of(tree.roots());
        let roots_cut = is_cut(tree, tree.roots(), shown.len());
        todo.extend(shown.into_iter().rev().map(|id| (id, None, 0)));
        while let Some((id, parent, depth)) = todo.pop() {
            let index = lines.len();
            match parent {
                Some(parent) => lines[parent].children.push(index),
                None => roots.push(index),
            }
            let (weight, parent_weight) = (tree.weight(id), tree.parent_weight(id));
            let shown = shown_of(tree.children(id));
            lines.push(Line {
                id,
                name: String::new(),
                numbers: format!("({:.3}% {weight}/{parent_weight})", percent(weight, parent_weight)),
                arrow: marked
                    .get(&id)
                    .map(|ids| format!("  <----- {}", shorten(&sanitize(&ids.join(", ")), FINDINGS)))
                    .unwrap_or_default(),
                depth,
                children: Vec::new(),
                cut: is_cut(tree, tree.children(id), shown.len()),
                extent: 0,
            });
            todo.extend(shown.into_iter().rev().map(|id| (id, Some(index), depth + 1)));
        }

        let ambiguous = ambiguous_names(tree, &lines);
        for index in (0..lines.len()).rev() {
            let name = shown_name(tree.label(lines[index].id), &ambiguous);
            let line = &lines[index];
            let own = width(&name).min(NAME_ROOM) + line.numbers.len() + width(&line.arrow);
            let below = line.children.iter().map(|child| INDENT + lines[*child].extent).max().unwrap_or(0);
            let dots = if line.cut { INDENT + 3 } else { 0 };
            lines[index].extent = own.max(below).max(dots);
            lines[index].name = name;
        }
        Self { lines, roots, roots_cut, whole, passing: selection.passing }
    }
}

/// Names that more than one of the functions shown has.
fn ambiguous_names<'t>(tree: &'t CallTree<'_>, lines: &[Line]) -> HashSet<&'t str> {
    let mut known: HashMap<&str, &Frame> = HashMap::new();
    lines
        .iter()
        .filter_map(|line| tree.frame(line.id))
        .filter(|frame| *known.entry(&*frame.name).or_insert(frame) != *frame)
        .map(|frame| &*frame.name)
        .collect()
}

fn shown_name(label: Label<'_>, ambiguous: &HashSet<&str>) -> String {
    match label {
        // A bare address says nothing without the binary that it lies in.
        Label::Frame(frame) if ambiguous.contains(&*frame.name) || frame.name.starts_with("0x") => {
            sanitize(&frame.qualified()).into_owned()
        }
        label => sanitize(&label.name()).into_owned(),
    }
}

struct Printer<'a, 'p> {
    layout: &'a Layout,
    tree: &'a CallTree<'p>,
    style: &'a Style,
    out: &'a mut dyn Write,
    /// Subtrees that are continued below, with their numbers.
    later: VecDeque<(usize, usize)>,
    sections: usize,
}

/// What is to be printed next.
enum Todo {
    Line { line: usize, level: usize },
    Dots { level: usize },
}

impl Printer<'_, '_> {
    fn roots(&mut self) -> io::Result<()> {
        let mut todo = Vec::new();
        if self.layout.roots_cut {
            todo.push(Todo::Dots { level: 0 });
        }
        todo.extend(self.layout.roots.iter().rev().map(|line| Todo::Line { line: *line, level: 0 }));
        self.run(todo)
    }

    fn section(&mut self, number: usize, index: usize) -> io::Result<()> {
        let line = &self.layout.lines[index];
        writeln!(self.out)?;
        writeln!(
            self.out,
            "{}",
            self.style.heading(format!("[{number}] continued from depth {}:", line.depth))
        )?;
        self.line(index, 0, None)?;
        let mut todo = Vec::new();
        self.push_children(index, 0, &mut todo);
        self.run(todo)
    }

    fn run(&mut self, mut todo: Vec<Todo>) -> io::Result<()> {
        while let Some(next) = todo.pop() {
            match next {
                Todo::Dots { level } => writeln!(self.out, "{:1$}...", "", level * INDENT)?,
                Todo::Line { line, level } => {
                    let shown = &self.layout.lines[line];
                    let fits = level * INDENT + shown.extent <= self.style.columns();
                    let deep = level * INDENT >= self.style.columns() / INDENTED - INDENT;
                    if deep && !fits && !shown.children.is_empty() {
                        self.sections += 1;
                        self.later.push_back((self.sections, line));
                        self.line(line, level, Some(self.sections))?;
                    } else {
                        self.line(line, level, None)?;
                        self.push_children(line, level, &mut todo);
                    }
                }
            }
        }
        Ok(())
    }

    fn push_children(&self, index: usize, level: usize, todo: &mut Vec<Todo>) {
        let line = &self.layout.lines[index];
        if line.cut {
            todo.push(Todo::Dots { level: level + 1 });
        }
        todo.extend(line.children.iter().rev().map(|child| Todo::Line { line: *child, level: level + 1 }));
    }

    fn line(&mut self, index: usize, level: usize, section: Option<usize>) -> io::Result<()> {
        let line = &self.layout.lines[index];
        let indent = level * INDENT;
        let columns = self.style.columns();
        let section = section.map(|number| format!("  [{number}]")).unwrap_or_default();
        let taken = indent + line.numbers.len() + section.len();
        let with_arrow = taken + width(&line.arrow);
        let beside = with_arrow + width(&line.name).min(NAME_BESIDE_ARROW) <= columns;

        let room = columns.saturating_sub(if beside { with_arrow } else { taken });
        let name = shorten(&line.name, room.max(NAME_MIN));
        let share = percent(self.tree.weight(line.id), self.layout.whole);
        let text = self.style.share(share, format_args!("{name}{}", line.numbers));
        let arrow = if line.arrow.is_empty() { String::new() } else { self.style.alarm(&line.arrow) };
        if beside {
            writeln!(self.out, "{:indent$}{text}{arrow}{section}", "")
        } else {
            writeln!(self.out, "{:indent$}{text}{section}", "")?;
            if arrow.is_empty() { Ok(()) } else { writeln!(self.out, "{:indent$}{arrow}", "") }
        }
    }
}
