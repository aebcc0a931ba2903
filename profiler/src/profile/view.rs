//! Which part of the stacks a call tree shows, and how.

use std::fmt;
use std::str::FromStr;

use super::labels::Labels;
use super::stacks::Frame;

/// How to look at the stacks of a profile.
///
/// The default is the kernel's side: trees begin at the kernel's entry points, and everything that
/// never entered the kernel is gathered under one node.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Show only what lies below this function, all its occurrences merged.
    pub root: Option<String>,
    /// Show this function with its callers below it.
    pub callers: Option<String>,
    /// Show user frames too.
    pub user: bool,
    /// One top-level node for each value of this label.
    pub by: Option<GroupBy>,
    /// Reports leave out children that have less than this share of their parent, in percent.
    pub min_percent: f64,
    /// Reports show this many lines of a tree at most, the heaviest ones; 0: all.
    pub lines: usize,
}

impl View {
    /// Lines of a tree, unless asked for otherwise: two or three screens.
    pub const LINES: usize = 100;
}

impl Default for View {
    fn default() -> Self {
        Self { root: None, callers: None, user: false, by: None, min_percent: 1.0, lines: Self::LINES }
    }
}

/// A label to group stacks by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupBy {
    /// Thread name.
    Comm,
    /// Process id.
    Pid,
    /// Control group.
    Cgroup,
    /// CPU number.
    Cpu,
}

/// A word that names no [`GroupBy`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot group by `{0}`: use comm, pid, cgroup or cpu")]
pub struct UnknownGroup(pub String);

impl GroupBy {
    /// All of them.
    pub const ALL: [GroupBy; 4] = [GroupBy::Comm, GroupBy::Pid, GroupBy::Cgroup, GroupBy::Cpu];

    /// The name on the command line and in group nodes.
    pub fn name(self) -> &'static str {
        match self {
            GroupBy::Comm => "comm",
            GroupBy::Pid => "pid",
            GroupBy::Cgroup => "cgroup",
            GroupBy::Cpu => "cpu",
        }
    }

    /// The value of this label; `?` where the source did not know it.
    pub fn value(self, labels: &Labels) -> String {
        let known = match self {
            GroupBy::Comm => labels.comm.as_ref().map(ToString::to_string),
            GroupBy::Pid => labels.pid.map(|pid| pid.to_string()),
            GroupBy::Cgroup => labels.cgroup.as_ref().map(ToString::to_string),
            GroupBy::Cpu => labels.cpu.map(|cpu| cpu.to_string()),
        };
        known.unwrap_or_else(|| "?".to_owned())
    }
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for GroupBy {
    type Err = UnknownGroup;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        GroupBy::ALL.into_iter().find(|by| by.name() == word).ok_or_else(|| UnknownGroup(word.to_owned()))
    }
}

/// Why a view cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// No stack passes through the function.
    #[error("no stack passes through a function named `{name}`{}", did_you_mean(suggestions))]
    NoSuchFunction {
        /// The name that was asked for.
        name: String,
        /// Names of functions that come near it, the nearest first.
        suggestions: Vec<String>,
    },
    /// Both a root and callers were asked for.
    #[error("a tree shows either what lies below a function or its callers: give one of root and callers")]
    RootAndCallers,
}

fn did_you_mean(suggestions: &[String]) -> String {
    if suggestions.is_empty() {
        return String::new();
    }
    let quoted: Vec<String> = suggestions.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
    format!("; did you mean {}?", quoted.join(" or "))
}

/// How many names to suggest.
const SUGGESTIONS: usize = 3;
/// Jaro-Winkler similarity from which a name is worth suggesting. Names of one kernel subsystem share
/// a prefix, which alone makes about 0.7.
const NEAR: f64 = 0.8;
/// Names longer than this are not compared: the measure takes quadratic time, and names can be hostile.
const LONGEST: usize = 256;

/// The names of `frames` that are nearest to `name`, the nearest first.
pub(crate) fn suggest<'a>(name: &str, frames: impl Iterator<Item = &'a Frame>) -> Vec<String> {
    if name.len() > LONGEST {
        return Vec::new();
    }
    let mut near: Vec<(f64, &str)> = frames
        .filter(|frame| frame.name.len() <= LONGEST)
        .map(|frame| (strsim::jaro_winkler(name, &frame.name), &*frame.name))
        .filter(|(similarity, _)| *similarity >= NEAR)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    near.dedup_by(|a, b| a.1 == b.1);
    near.into_iter().take(SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_names_round_trip() {
        for by in GroupBy::ALL {
            assert_eq!(by.name().parse(), Ok(by));
        }
        assert_eq!("tid".parse::<GroupBy>(), Err(UnknownGroup("tid".to_owned())));
    }

    #[test]
    fn suggests_the_nearest_names() {
        let frames =
            ["bch2_read_iter", "bch2_read_endio", "io_submit_one", "bch2_read_iter"].map(Frame::kernel);
        let names = suggest("bch2_raed_iter", frames.iter());
        assert_eq!(names[0], "bch2_read_iter");
        assert!(!names.contains(&"io_submit_one".to_owned()));
        assert!(suggest(&"x".repeat(10_000), frames.iter()).is_empty());
    }

    #[test]
    fn errors_say_what_to_do() {
        let error = ViewError::NoSuchFunction {
            name: "foo".to_owned(),
            suggestions: vec!["fooo".to_owned(), "fo".to_owned()],
        };
        assert_eq!(
            error.to_string(),
            "no stack passes through a function named `foo`; did you mean `fooo` or `fo`?"
        );
    }
}
