//! Call trees as people post them, and as this program's own reports have them.
//!
//! ```text
//! io_submit_one(98.339% 2635814/2680333)
//!     aio_read(96.756% 2550297/2635814)
//!         bch2_read_iter(98.190% 2504125/2550297)  <----- read-amplification
//!         ...
//! ```
//!
//! A tree whose root is a node of the tree before it is that node's continuation. What the callees of a node lack to
//! its weight is its own in our reports, which say `...` where callees are left out. Others leave out callees without
//! a word: there it is unaccounted for.

mod line;
mod tree;

use self::line::{TreeLine, continued, indentation, is_arrow};
use self::tree::Tree;
use super::heading::Heading;
use super::lines::Head;
use super::{ImportError, Reader};
use crate::profile::{Kind, Session, Weights};

/// Most nodes of all trees of a text.
const MAX_NODES: usize = 4 << 20;
/// Most sessions that a text may have.
const MAX_SESSIONS: usize = 256;

pub(super) fn recognises(head: &Head<'_>) -> bool {
    head.lines.iter().any(|line| str::from_utf8(line).is_ok_and(|line| TreeLine::parse(line).is_some()))
}

/// Reads all trees.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<Session>, ImportError> {
    let mut text = Text { parts: vec![Part::default()], heading: Heading::default(), nodes: 0 };
    while let Some(line) = reader.lines.next()? {
        let line = String::from_utf8_lossy(line);
        match TreeLine::parse(&line) {
            Some(line) => {
                for warning in text.tree_line(&line) {
                    reader.warn(|| warning);
                }
                if text.nodes > MAX_NODES {
                    return Err(reader.too_much("lines of call trees", MAX_NODES as u64));
                }
                if text.parts.len() > MAX_SESSIONS {
                    return Err(reader.too_much("profiles", MAX_SESSIONS as u64));
                }
            }
            None => text.other_line(&line),
        }
    }
    let parts: Vec<Part> = text.parts.into_iter().filter(|part| !part.is_empty()).collect();
    let several = parts.len() > 1;
    parts
        .into_iter()
        .map(|part| {
            let mut session = reader.session();
            part.finish(&mut session, several).map_err(|full| reader.full(full))?;
            Ok(session)
        })
        .collect()
}

/// A text with trees in it.
struct Text {
    parts: Vec<Part>,
    heading: Heading,
    nodes: usize,
}

/// What becomes one session.
#[derive(Default)]
struct Part {
    heading: Option<String>,
    trees: Vec<Tree>,
    /// Whether this program wrote it.
    own: bool,
    shares: bool,
    facts: Session,
    /// Whether the line before was of a tree. In our own reports, an empty line ends it.
    in_tree: bool,
    /// The kind of the tree that comes next.
    kind: Option<Kind>,
    /// The tree that comes next shows callers.
    callers: bool,
    /// The section that comes next.
    section: Option<u32>,
}

impl Text {
    fn part(&mut self) -> &mut Part {
        self.parts.last_mut().expect("there is always one")
    }

    /// Adds a line, and says what is odd about it.
    fn tree_line(&mut self, line: &TreeLine<'_>) -> Vec<String> {
        self.nodes += 1;
        let heading = self.heading.take();
        let part = self.part();
        part.in_tree = true;
        let is_root = part.trees.last().is_none_or(|tree| !tree.is_below(line)) || heading.is_some();
        let section = part.section.take();
        if !is_root && section.is_none() && part.kind.is_none() {
            return part.trees.last_mut().map_or_else(Vec::new, |tree| tree.add(line));
        }
        if let Some(kind) = part.kind.take() {
            part.trees.push(Tree::new(kind, part.callers, line));
            return part.trees.last_mut().map_or_else(Vec::new, |tree| tree.add_root(line));
        }
        if let Some(tree) = part.trees.last_mut() {
            // The rest of a node, or a further root of the same tree.
            if tree.continues(line, section) {
                return Vec::new();
            }
            if (heading.is_none() || part.own) && tree.total() == line.parent {
                return tree.add_root(line);
            }
            let own = part.own;
            self.parts.push(Part { own, in_tree: true, ..Part::default() });
        }
        let part = self.part();
        part.heading = part.heading.take().or(heading);
        part.trees.push(Tree::new(Kind::Cpu, false, line));
        part.trees.last_mut().map_or_else(Vec::new, |tree| tree.add_root(line))
    }

    fn other_line(&mut self, line: &str) {
        let (column, text) = indentation(line);
        let text = text.trim_end();
        if is_arrow(text) {
            return;
        }
        if text.is_empty() {
            let part = self.part();
            part.in_tree &= !part.own;
            return;
        }
        if text == "..." && self.part().in_tree {
            // Where tabs are mixed with spaces, it stands at the next tab stop behind its siblings.
            let sibling = line.trim_end_matches(['.', '\r']).ends_with('\t');
            if let Some(tree) = self.part().trees.last_mut() {
                if sibling { tree.left_out_beside() } else { tree.left_out(column) }
            }
            return;
        }
        if let Some(section) = continued(text) {
            self.part().section = Some(section);
            return;
        }
        if column == 0 && text.starts_with("profiler: ") {
            let heading = self.heading.take();
            if !self.part().is_empty() {
                self.parts.push(Part::default());
            }
            let part = self.part();
            part.own = true;
            part.heading = heading;
            return;
        }
        if self.part().own {
            self.part().own_line(text);
            // The heading of the report after this one.
            if !self.part().is_empty() {
                self.heading.line(text);
            }
        } else {
            self.heading.line(text);
        }
    }
}

impl Part {
    fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// A line of our own report that is of no tree.
    fn own_line(&mut self, text: &str) {
        let Some((key, value)) = text.split_once(':') else { return };
        let value = value.trim();
        if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.heading() == key) {
            let is_total =
                value.starts_with(|c: char| c.is_ascii_digit()) && value.contains(kind.unit().name());
            if is_total {
                self.kind = Some(kind);
                self.callers = false;
            }
            return;
        }
        match key {
            "host" => self.facts.host.hostname = value.to_owned(),
            "kernel" => self.facts.host.kernel = value.split(' ').next().unwrap_or_default().to_owned(),
            _ if key.starts_with("callers of ") => self.callers = true,
            _ => {}
        }
    }

    fn finish(self, session: &mut Session, several: bool) -> Result<(), crate::import::merge::Full> {
        session.host = self.facts.host;
        session.heading = self.heading.filter(|_| several || self.own);
        let hidden = self.trees.iter().any(Tree::hides);
        let mut merger = crate::import::merge::Merger::default();
        for tree in &self.trees {
            tree.emit(self.own, &mut merger)?;
        }
        session.profile = merger.finish();
        let notes = &mut session.blind_spots;
        if self.shares {
            session.weights = Weights::Shares;
        }
        if !self.own {
            notes.push(
                "A call tree says nothing about who was measured and what the counts are; they are taken for CPU \
                 samples, and its functions for the kernel's unless they call into it."
                    .to_owned(),
            );
            notes.push(
                "Call trees leave out callees: what those in the text lack to the weight of their caller may be its \
                 own, or theirs."
                    .to_owned(),
            );
        } else if hidden {
            notes.push("The report leaves out light callees: their names are unknown.".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
