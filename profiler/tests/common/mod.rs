//! What the tests share that run the real program on the running kernel.
//!
//! They need root. Cargo runs test binaries one after another; within one, tests that the load of another would
//! disturb take turns by [`exclusive`].

// Each test binary uses a part.
#![allow(dead_code, unused_imports)]

pub mod disk;
pub mod memory_group;
pub mod run;
pub mod skip;
pub mod workload;

use std::sync::{Mutex, MutexGuard, PoisonError};

use profiler::profile::{CallTree, Frame, Kind, Session, Stack, View};

pub use disk::Disk;
pub use memory_group::MemoryGroup;
pub use run::{Run, Running, attach, command, profiler};
pub use workload::Workload;

/// Whether eBPF programs can be loaded at all; the test `name` must return otherwise.
pub fn is_root(name: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        skip::skip(name, "needs root");
    }
    root
}

/// Waits for its turn among the tests of this binary.
pub fn exclusive() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed has let go of the machine as well.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails unless `value` is within `percent` of `expected`.
#[track_caller]
pub fn assert_near(what: &str, value: u64, expected: u64, percent: f64) {
    let off = (value as f64 - expected as f64).abs() * 100.0 / (expected as f64).max(1.0);
    assert!(off <= percent, "{what}: {value} is {off:.2} % off {expected}, more than {percent} %");
}

/// A counter of a probe; 0 if it is not there, as counters of 0 are left out.
pub fn counter(session: &Session, probe: &str, name: &str) -> u64 {
    let probe = session.probe(probe).unwrap_or_else(|| panic!("no probe {probe}"));
    probe.counters.iter().find(|counter| counter.name == name).map_or(0, |counter| counter.value)
}

/// What was lost of a probe for causes that start with `cause`.
pub fn lost(session: &Session, probe: &str, cause: &str) -> u64 {
    let losses = session.losses.iter();
    losses.filter(|loss| loss.probe == probe && loss.cause.starts_with(cause)).map(|loss| loss.count).sum()
}

/// Weights that are in no stack since a map was full.
pub fn lost_weights(session: &Session, probe: &str) -> u64 {
    lost(session, probe, "no room in the map of weights") + lost(session, probe, "too many probes nested")
}

/// Events of a probe, of any process, that the kernel kept from it since another eBPF program or a map's system call
/// was under way on the CPU. With plain tracepoints that happens, and more so on a busy machine, where the
/// profiler can lose its CPU in such a call.
pub fn kept_away(session: &Session, probe: &str) -> u64 {
    lost(session, probe, "another eBPF program was running")
}

/// Fails unless the probe runs, by the rung `rung`.
#[track_caller]
pub fn assert_attached(session: &Session, probe: &str, rung: &str) {
    let state = &session.probe(probe).unwrap_or_else(|| panic!("no probe {probe}")).state;
    match state {
        profiler::profile::ProbeState::Attached { rung: taken, .. } => assert_eq!(taken, rung, "{state:?}"),
        _ => panic!("{probe}: {state:?}"),
    }
}

/// The frames of a stack, outermost first.
pub fn frames<'s>(session: &'s Session, stack: &'s Stack) -> impl Iterator<Item = &'s Frame> {
    stack.frames.iter().map(|location| session.profile.frame_of(*location))
}

/// Weight of the stacks of `kind` that pass through a function.
pub fn weight_of(session: &Session, kind: Kind, function: &str) -> u64 {
    let through = session
        .profile
        .of_kind(kind)
        .filter(|stack| frames(session, stack).any(|frame| &*frame.name == function));
    through.map(|stack| stack.weight).sum()
}

/// Processes that have stacks of `kind`.
pub fn pids(session: &Session, kind: Kind) -> std::collections::BTreeSet<u32> {
    session.profile.of_kind(kind).filter_map(|stack| session.profile.labels(stack.labels).pid).collect()
}

/// Fails unless every node of the tree weighs what its children and itself weigh, and the roots the total.
pub fn assert_adds_up(session: &Session, kind: Kind, view: &View) {
    let tree = CallTree::build(&session.profile, kind, view).unwrap();
    for id in tree.ids() {
        let children: u64 = tree.children(id).iter().map(|child| tree.weight(*child)).sum();
        assert_eq!(tree.weight(id), tree.self_weight(id) + children, "{kind:?} {:?}", tree.label(id).name());
    }
    let roots: u64 = tree.roots().iter().map(|root| tree.weight(*root)).sum();
    assert_eq!(roots, session.profile.total(kind), "{kind:?}");
}
