//! The call graphs of `perf report`, as it prints them and as its screen shows them.
//!
//! ```text
//!             |
//!             ---entry_SYSCALL_64_after_hwframe
//!                do_syscall_64
//!                |
//!                |--7.32%--__x64_sys_statx
//!                 --2.39%--__x64_sys_getdents64
//! ```

use super::entry::percent;

/// A function in a graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// The node before it on its way from the root.
    pub parent: Option<usize>,
    pub name: String,
    /// What the branch that begins here has; without it, all that its parent has.
    pub value: Option<Value>,
    /// The screen has a `+` before it: what it calls is not shown.
    pub collapsed: bool,
}

/// The weight of a branch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// Of everything or of the parent, in percent.
    Percent(f64),
    /// Samples, or the sum of their periods.
    Count(u64),
}

/// The graph of one line of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Graph {
    /// Every parent before its children.
    pub nodes: Vec<Node>,
    /// The branches on the way to the last node: their columns, and their last nodes.
    path: Vec<(usize, usize)>,
    /// The value of a branch whose nodes come on the lines below.
    pending: Option<Value>,
}

/// Longest chain that is kept.
const MAX_DEPTH: usize = 1024;

impl Graph {
    /// Adds a line. Returns whether it is one of a graph.
    pub fn line(&mut self, line: &str) -> bool {
        let text = line.trim_start_matches([' ', '|', '\t']);
        let column = line.len() - text.len();
        if text.is_empty() {
            return true;
        }
        // Graphs are indented; so this is prose.
        if column < 2 {
            return false;
        }
        if text == "[...]" || text == "..." {
            return true;
        }
        if let Some(rest) = text.strip_prefix("--") {
            return match branch(rest) {
                Some((value, name)) => self.add(column, Some(value), name),
                // `---name`.
                None => {
                    self.path.clear();
                    self.add(column, None, rest.trim_start_matches('-'))
                }
            };
        }
        // The screen: `- 98.30% do_syscall_64`, `+ 0.51% name`, `0.51% name`, or a name.
        let collapsed = text.starts_with("+ ");
        let sign = text.strip_prefix("- ").or_else(|| text.strip_prefix("+ "));
        let (column, text) = match sign {
            Some(rest) => (line.len() - rest.trim_start().len(), rest.trim_start()),
            None => (column, text),
        };
        if let Some((value, name)) = percent(text) {
            let name = name.trim();
            if name.is_empty() {
                // `-g flat`: the chain comes below.
                self.path.clear();
                self.pending = Some(Value::Percent(value));
                return true;
            }
            if name.contains(';') && sign.is_none() {
                return self.folded(value, name);
            }
            self.add(column, Some(Value::Percent(value)), name);
            return self.collapse(collapsed);
        }
        let pending = self.pending.take();
        if self.path.is_empty() {
            self.add(column, pending, text);
        } else {
            self.chain(text);
        }
        self.collapse(collapsed)
    }

    fn collapse(&mut self, collapsed: bool) -> bool {
        if let Some(last) = self.nodes.last_mut() {
            last.collapsed = collapsed;
        }
        true
    }

    /// A branch: it goes on from the nearest one before it that is further to the left.
    fn add(&mut self, column: usize, value: Option<Value>, name: &str) -> bool {
        let name = name.trim();
        if name == "[...]" || name.is_empty() {
            return true;
        }
        while self.path.last().is_some_and(|(last, _)| *last >= column) {
            self.path.pop();
        }
        let parent = self.path.last().map(|(_, node)| *node);
        if self.path.len() < MAX_DEPTH {
            self.path.push((column, self.nodes.len()));
            self.nodes.push(Node { parent, name: function(name).to_owned(), value, collapsed: false });
        }
        true
    }

    /// A function without a share continues the line before it.
    fn chain(&mut self, name: &str) -> bool {
        let next = self.nodes.len();
        if let Some((_, last)) = self.path.last_mut() {
            let parent = Some(std::mem::replace(last, next));
            self.nodes.push(Node { parent, name: function(name).to_owned(), value: None, collapsed: false });
        }
        true
    }

    /// `-g folded`.
    fn folded(&mut self, value: f64, names: &str) -> bool {
        self.path.clear();
        let mut value = Some(Value::Percent(value));
        let mut parent = None;
        for name in names.split(';').take(MAX_DEPTH) {
            self.nodes.push(Node {
                parent,
                name: function(name).to_owned(),
                value: value.take(),
                collapsed: false,
            });
            parent = Some(self.nodes.len() - 1);
        }
        true
    }
}

/// `7.32%--name` or `253--name`, behind the first dashes.
fn branch(text: &str) -> Option<(Value, &str)> {
    if let Some((value, rest)) = percent(text) {
        return Some((Value::Percent(value), rest.strip_prefix("--")?));
    }
    let (digits, name) = text.split_once("--")?;
    Some((Value::Count(digits.parse().ok()?), name))
}

/// A function without remarks behind its name.
fn function(name: &str) -> &str {
    let name = name.trim();
    name.strip_suffix(" (inlined)").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(text: &str) -> Vec<(Option<usize>, String, Option<Value>)> {
        let mut graph = Graph::default();
        for line in text.lines() {
            assert!(graph.line(line), "{line}");
        }
        graph.nodes.into_iter().map(|node| (node.parent, node.name, node.value)).collect()
    }

    fn node(
        parent: Option<usize>,
        name: &str,
        percent: Option<f64>,
    ) -> (Option<usize>, String, Option<Value>) {
        (parent, name.to_owned(), percent.map(Value::Percent))
    }

    #[test]
    fn printed() {
        let text = "            |\n            ---a\n               b\n               |          \n               \
                    |--7.32%--c\n               |          |          \n               |           --7.07%--d\n               \
                    |                     e\n               |          \n                --2.39%-- f (inlined)\n";
        assert_eq!(
            graph(text),
            [
                node(None, "a", None),
                node(Some(0), "b", None),
                node(Some(1), "c", Some(7.32)),
                node(Some(2), "d", Some(7.07)),
                node(Some(3), "e", None),
                node(Some(1), "f", Some(2.39)),
            ]
        );
        let text = "            |          \n            |--2.46%--a\n             --0.76%--b\n                       c\n";
        assert_eq!(
            graph(text),
            [node(None, "a", Some(2.46)), node(None, "b", Some(0.76)), node(Some(1), "c", None)]
        );
    }

    #[test]
    fn on_the_screen() {
        let text = "     a\n   - b\n      - 52.50% c\n         - d\n            - 51.93% e\n            + 0.20% f\n      + 7.00% g\n";
        assert_eq!(
            graph(text),
            [
                node(None, "a", None),
                node(Some(0), "b", None),
                node(Some(1), "c", Some(52.5)),
                node(Some(2), "d", None),
                node(Some(3), "e", Some(51.93)),
                node(Some(3), "f", Some(0.2)),
                node(Some(1), "g", Some(7.0)),
            ]
        );
    }

    #[test]
    fn flat_folded_and_counted() {
        let text =
            "           9.17%\n                a\n                b\n           1.00%\n                c\n";
        assert_eq!(
            graph(text),
            [node(None, "a", Some(9.17)), node(Some(0), "b", None), node(None, "c", Some(1.0))]
        );
        assert_eq!(graph("  0.80% a;b"), [node(None, "a", Some(0.8)), node(Some(0), "b", None)]);
        assert_eq!(graph("  |--95--a")[0].2, Some(Value::Count(95)));
    }
}
