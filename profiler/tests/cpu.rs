//! CPU samples: shares, totals, and trees that add up.

mod common;

use common::{Workload, assert_adds_up, attach, counter, exclusive, is_root, lost, lost_weights, weight_of};
use profiler::profile::{GroupBy, Kind, Target, View};

/// A program spends 70 % of its time in one function and 30 % in another.
#[test]
fn shares_and_totals_are_right() {
    if !is_root("cpu::shares_and_totals_are_right") {
        return;
    }
    let _turn = exclusive();
    let split = Workload::build("split");
    let run = attach(&["--probes", "cpu", "--frequency", "1999", "--", &split.arg(), "3", "70"]);
    let session = run.session();
    let probe = session.probe("cpu").unwrap();

    let total = session.profile.total(Kind::Cpu);
    let percent = |function| weight_of(&session, Kind::Cpu, function) as f64 * 100.0 / total as f64;
    // The loop around the two takes next to nothing.
    for (function, expected) in [("heavy", 70.0), ("light", 30.0)] {
        let share = percent(function);
        assert!((share - expected).abs() < 3.0, "{function}: {share:.1} % instead of {expected} %");
        let chunks = run.value(function) as f64 * 100.0 / (run.value("heavy") + run.value("light")) as f64;
        assert!(
            (share - chunks).abs() < 3.0,
            "{function}: {share:.1} % of samples, {chunks:.1} % of the work"
        );
    }
    assert!(percent("main") > 97.0, "user stacks end before main: {}", percent("main"));

    // The kernel's own account of the CPU time: a sample each period. A timer that came late is a loss.
    let period = 1_000_000_000 / 1999;
    let due = run.value("cpu_ns") / period;
    let late = lost(&session, "cpu", "samples due");
    assert!(total <= due + due / 20, "{total} samples where {due} were due");
    assert!(total + late + due / 20 >= due, "{total} samples and {late} lost where {due} were due");

    // Every sample is somewhere.
    assert_eq!(total + session.idle_samples + lost_weights(&session, "cpu"), probe.events);
    let others = counter(&session, "cpu", "samples of processes that are not measured")
        + counter(&session, "cpu", "samples of idle CPUs, which are not measured")
        + counter(&session, "cpu", "due on idle CPUs, whose timer rested");
    let seen = probe.events + session.own_samples + others + late;
    assert!(seen.abs_diff(probe.due) <= u64::from(session.host.cpus), "{seen} samples, due {}", probe.due);

    let argv = vec![split.arg(), "3".to_owned(), "70".to_owned()];
    assert_eq!(session.target, Target::Command { argv, status: Some(0) });
    assert_eq!(run.code(), 0);
}

/// The whole machine, all probes: no weight appears or vanishes on the way to the trees.
#[test]
fn every_tree_adds_up() {
    if !is_root("cpu::every_tree_adds_up") {
        return;
    }
    let _turn = exclusive();
    let burn = Workload::build("burn");
    let mut load = std::process::Command::new(burn.path())
        .args(["3", "1", "3"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let run = attach(&["--duration", "2s", "--include-self"]);
    load.wait().unwrap();
    let session = run.session();

    let kinds = session.profile.kinds();
    assert!(kinds.contains(&Kind::Cpu) && kinds.contains(&Kind::PageAlloc), "{kinds:?}");
    for kind in kinds {
        for by in [None, Some(GroupBy::Comm), Some(GroupBy::Pid), Some(GroupBy::Cpu)] {
            for user in [false, true] {
                assert_adds_up(&session, kind, &View { user, by, ..View::default() });
            }
        }
    }
    for probe in session.probes.iter().filter(|probe| probe.is_attached()) {
        // Some probes only count.
        let Some(kind) = probe.kind else { continue };
        let idle = if kind == Kind::Cpu { session.idle_samples } else { 0 };
        let pending = counter(&session, &probe.name, "counted after the last stack");
        let in_stacks = session.profile.total(kind) + idle + pending;
        // What was lost is known in events only, and an event weighs 1 at least.
        if lost_weights(&session, &probe.name) == 0 {
            assert_eq!(in_stacks, probe.weight, "{}", probe.name);
        } else {
            assert!(in_stacks + lost_weights(&session, &probe.name) <= probe.weight, "{}", probe.name);
        }
    }
    // --include-self: nothing is the profiler's own.
    assert_eq!(session.own_samples, 0);
}
