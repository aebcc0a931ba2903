//! The data model: it knows nothing but itself.
//!
//! A [`Session`] says what was measured and on what machine; its [`Profile`] holds the weighted
//! stacks. Live collection and imports both end in a session, and everything downstream reads
//! nothing else.

pub mod calltree;
pub mod code;
pub mod diff;
pub mod finding;
pub mod flat;
pub mod histogram;
pub mod kind;
pub mod labels;
pub mod paths;
pub mod pprof;
pub mod session;
pub mod stacks;
pub mod store;
pub(crate) mod trie;
pub(crate) mod units;
pub mod view;

pub use calltree::{CallTree, NodeId};
pub use code::{
    FunctionCode, FunctionText, InstructionSamples, LayoutAdvice, LineOfMember, MemberAccess, MemberRef,
    Neighbour, Wait, Writer,
};
pub use finding::{Advice, Confidence, Evidence, Finding, Impact, Mark, Resource, Severity, Subject};
pub use flat::{FlatEntry, flat};
pub use histogram::{Histogram, Measure};
pub use kind::{Kind, Unit};
pub use labels::{Device, IoOp, Labels, LockKind};
pub use paths::Label;
pub use session::{
    BlockDevice, BlockStat, Counter, Host, LockStat, Loss, MemoryLimit, Mount, NamedBy, Probe, ProbeState,
    ReadHow, ReadStat, ReadaheadStat, SHARES_TOTAL, Session, Source, Target, Weights,
};
pub use stacks::{Frame, FrameId, LabelsId, Location, LocationId, Origin, Profile, Stack};
pub use view::{GroupBy, UnknownGroup, View, ViewError};
