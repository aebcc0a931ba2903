//! Scenarios: real work on this kernel, measured by the program, and what it must find and must not.
//!
//! Each is a test that takes a few seconds; they take turns, since each measures the whole machine. One that lacks
//! something is skipped. `cargo xtask repro` runs single ones and shows the report; with `PROFILER_SCENARIOS_DIR`
//! each leaves its result there, out of which `cargo xtask test --write-docs` makes the table in docs/pathologies.md.

#[path = "../common/mod.rs"]
mod common;
#[macro_use]
#[path = "mod.rs"]
mod scenarios;

use std::collections::BTreeSet;

use scenarios::scenario::{Listed, Scenario};

here!(tests);

/// All scenarios by name, and whether they need a virtual machine.
fn all() -> Vec<(&'static str, Scenario, bool)> {
    let mut all: Vec<(&str, Scenario, bool)> = Vec::new();
    all.extend(here!(named).into_iter().map(|(name, scenario)| (name, scenario, false)));
    let elsewhere = in_guests!(named).into_iter();
    let known: Vec<&str> = all.iter().map(|(name, ..)| *name).collect();
    all.extend(
        elsewhere.filter(|(name, _)| !known.contains(name)).map(|(name, scenario)| (name, scenario, true)),
    );
    all
}

/// Pathologies that take a machine which tests do not have: tested on recorded data.
const RECORDED_ONLY: [&str; 2] = ["lock-holder-preemption", "cacheline-contention"];

#[test]
fn every_pathology_has_a_reproducer_and_a_look_alike() {
    let of = |healthy: bool| -> BTreeSet<&str> {
        let all = all().into_iter().filter(|(_, scenario, _)| scenario.healthy == healthy);
        all.map(|(_, scenario, _)| scenario.pathology).collect()
    };
    let (reproducers, look_alikes) = (of(false), of(true));
    for pathology in profiler::diagnose::ALL {
        let id = pathology.about().id;
        if !RECORDED_ONLY.contains(&id) {
            assert!(reproducers.contains(id), "no reproducer of {id}");
            assert!(look_alikes.contains(id), "nothing that looks like {id} but is healthy");
        }
    }
    for id in reproducers.iter().chain(&look_alikes).filter(|id| !id.is_empty()) {
        assert!(profiler::diagnose::pathology(id).is_some(), "no pathology is called {id}");
    }
    // What `cargo xtask repro` chooses from.
    if let Some(file) = std::env::var_os("PROFILER_SCENARIOS_LIST") {
        let lines: Vec<String> = all()
            .iter()
            .map(|(name, scenario, guest)| {
                serde_json::to_string(&Listed::new(name, scenario, *guest)).unwrap() + "\n"
            })
            .collect();
        std::fs::write(&file, lines.concat()).unwrap();
    }
}
