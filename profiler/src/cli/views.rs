//! Options that every report takes.

use crate::profile::view::{GroupBy, View};

/// How the call trees are shown.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Views")]
pub struct ViewArgs {
    /// Show only what is below this function, all its occurrences merged.
    #[arg(long, value_name = "FUNC", conflicts_with = "callers")]
    root: Option<String>,
    /// Show who calls this function: the tree upside down.
    #[arg(long, value_name = "FUNC")]
    callers: Option<String>,
    /// Show user frames in the trees, too.
    #[arg(long)]
    user: bool,
    /// Split the trees by comm, pid, cgroup or cpu.
    #[arg(long, value_name = "KEY")]
    by: Option<GroupBy>,
    /// Leave out children with less than this share of their parent, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    min_percent: f64,
    /// Show this many lines of each tree at most, the heaviest; 0: all.
    #[arg(long, value_name = "N", default_value_t = View::LINES)]
    lines: usize,
}

impl ViewArgs {
    /// The view they ask for.
    pub fn view(&self) -> View {
        View {
            root: self.root.clone(),
            callers: self.callers.clone(),
            user: self.user,
            by: self.by,
            min_percent: self.min_percent,
            lines: self.lines,
        }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err("a percentage is a number from 0 to 100".to_owned()),
    }
}
