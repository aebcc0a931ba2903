//! Very many different stacks: each is in the result, or counted as lost.

mod common;

use std::collections::HashSet;

use common::{Workload, attach, exclusive, is_root, lost, lost_weights};
use profiler::profile::{Kind, LocationId, Session};

const STACKS: u64 = 50_000;

/// Runs the program that makes [`STACKS`] user stacks, each ending in a page allocation, with `pause` us after each
/// 100 of them.
fn measure(pause: &str) -> Session {
    let program = Workload::build("stacks");
    let run = attach(&[
        "--probes",
        "page-alloc",
        "--stack-rate",
        "0",
        "--",
        &program.arg(),
        &STACKS.to_string(),
        pause,
    ]);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    run.session()
}

/// Stacks that differ in their frames.
fn distinct(session: &Session) -> u64 {
    let stacks: HashSet<&[LocationId]> =
        session.profile.of_kind(Kind::PageAlloc).map(|stack| &*stack.frames).collect();
    stacks.len() as u64
}

fn lost_stacks(session: &Session) -> u64 {
    lost(session, "page-alloc", "no room in the map of stacks")
}

/// What must hold however much is lost.
fn check(session: &Session) {
    let probe = session.probe("page-alloc").unwrap();
    assert!(probe.events >= STACKS, "{} events", probe.events);
    assert_eq!(probe.stacks, probe.events, "a stack was to be taken for every event");
    let counts: u64 = session.profile.of_kind(Kind::PageAlloc).map(|stack| stack.count).sum();
    assert_eq!(counts + lost_weights(session, "page-alloc"), probe.events);
    // A process that was gone before its mappings were read has its stacks without names.
    let unnamed = lost(session, "page-alloc", "user stacks that could not be named");
    let known = distinct(session) + lost_stacks(session) + lost_weights(session, "page-alloc") + unnamed;
    assert!(known >= STACKS, "{known} stacks found or lost of {STACKS}");
}

/// All at once: more than the maps hold until they are drained.
#[test]
fn a_burst_is_found_or_counted_as_lost() {
    if !is_root("stacks::a_burst_is_found_or_counted_as_lost") {
        return;
    }
    let _turn = exclusive();
    let session = measure("0");
    check(&session);
}

/// Some ten thousand a second: draining keeps up once it has noticed.
#[test]
fn a_stream_of_new_stacks_is_found() {
    if !is_root("stacks::a_stream_of_new_stacks_is_found") {
        return;
    }
    let _turn = exclusive();
    let session = measure("10000");
    check(&session);
    let (found, lost) = (distinct(&session), lost_stacks(&session));
    assert!(found >= STACKS * 8 / 10, "{found} of {STACKS} stacks found, {lost} lost");
}
