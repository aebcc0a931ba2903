//! Reports: one file an output. They read a session and never change it.

pub mod escape;
pub mod flamegraph;
pub mod folded;
pub mod text;

/// Points at a function that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Id of the finding, as the arrow shows it.
    pub finding: String,
    /// Name of the function, plain or with its module: `xfs_agino_range [xfs]`. Each tree is marked at
    /// the heaviest node of this function.
    pub frame: String,
}
