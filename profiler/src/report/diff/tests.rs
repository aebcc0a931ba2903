//! Comparisons as people see them.

use super::flamegraph::Widths;
use super::*;
use crate::diagnose::normalize;
use crate::import;
use crate::profile::diff::{Options, diff};
use crate::profile::{Kind, Weights};
use crate::report::escape::width;
use crate::report::text::Style;
use crate::testing::{HOSTILE_COMMS, session};

fn founding() -> Vec<Session> {
    let text = include_str!("../../../tests/data/xfs-agino-range.txt");
    import::read(&mut text.as_bytes(), "xfs", &import::Options::default(), &|_, _| {}).unwrap().sessions
}

fn written(sessions: [&Session; 2]) -> String {
    let diff = diff(sessions, &|name| normalize(name), &Options::default());
    let mut out = Vec::new();
    let names = ["before \x1b[2J.data", "after.data"];
    render(&Comparison { sessions, names, diff: &diff }, &Style::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn machine_a_and_machine_b() {
    let sessions = founding();
    insta::assert_snapshot!(written([&sessions[0], &sessions[1]]));
}

#[test]
fn before_and_after_the_patch() {
    let sessions = founding();
    let text = written([&sessions[0], &sessions[2]]);
    let row = text.lines().find(|line| line.ends_with("xfs_agino_range")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>()[..4], ["25.83%", "9.77%", "-16.06", "0.38"]);
    let row = text.lines().find(|line| line.ends_with("__pv_queued_spin_lock_slowpath")).unwrap();
    assert_eq!(row.split_whitespace().take(3).collect::<Vec<_>>(), ["-", "5.31%", "?"]);
    assert!(text.contains("only shares are known"));
}

/// The same session, changed: other machine, other weights.
fn other() -> Session {
    let mut other = session();
    other.duration_ns /= 3;
    other.host.sockets = None;
    other.host.kernel = "6.1.0".to_owned();
    other.host.mounts[0].read_ahead_kb = Some(128);
    let mut profile = crate::profile::Profile::new();
    for (index, stack) in other.profile.stacks().iter().enumerate() {
        let frames = stack.frames.iter().map(|place| {
            let frame = profile.intern_frame(other.profile.frame_of(*place).clone());
            profile.intern_location(frame, 0)
        });
        let frames = frames.collect();
        let labels = profile.intern_labels(other.profile.labels(stack.labels).clone());
        let weight = stack.weight / (index as u64 % 3 + 1);
        profile.push(crate::profile::Stack { frames, labels, weight, ..stack.clone() });
    }
    other.profile = profile;
    other
}

#[test]
fn everything_at_once() {
    insta::assert_snapshot!(written([&session(), &other()]));
}

#[test]
fn hostile_names_are_harmless_and_lines_fit() {
    let text = written([&session(), &other()]);
    for line in text.lines() {
        assert!(width(line) <= 100, "{line}");
        assert!(!line.contains(|c: char| c.is_control() || c == '\u{202e}'), "{line:?}");
    }
    let mut periods = other();
    periods.weights = Weights::Periods;
    assert!(written([&session(), &periods]).lines().all(|line| width(line) <= 100));
}

#[test]
fn json_has_all_of_it() {
    let (a, b) = (session(), other());
    let diff = diff([&a, &b], &|name| normalize(name), &Options::default());
    let mut out = Vec::new();
    write_json(&Comparison { sessions: [&a, &b], names: ["a", "b"], diff: &diff }, &mut out).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["sides"][1]["host"]["kernel"], "6.1.0");
    assert_eq!(json["kinds"].as_array().unwrap().len(), a.profile.kinds().len());
    let functions = json["kinds"][0]["functions"].as_array().unwrap();
    assert!(functions.iter().any(|row| row["significance"]["significant"] == true), "{functions:?}");
    assert!(json["environment"].as_array().unwrap().iter().any(|fact| fact["what"] == "kernel"));
}

#[test]
fn flame_graphs_of_both_directions() {
    let (a, b) = (session(), other());
    let draw = |widths| {
        let mut out = Vec::new();
        flamegraph::write([&a, &b], Kind::Cpu, widths, &|name| normalize(name), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let (of_a, of_b) = (draw(Widths::OfA), draw(Widths::OfB));
    assert!(of_a.contains("widths of A") && of_b.contains("widths of B") && of_a != of_b);
    for comm in HOSTILE_COMMS {
        assert!(!of_a.contains(comm) || !comm.contains('<'), "{comm}");
    }
    // What a function gained in one graph it gained in the other.
    let gained = |svg: &str, name: &str| {
        let title = svg.split(&format!("<title>{name} (")).nth(1).unwrap().split("</title>").next().unwrap();
        title.rsplit("; ").next().unwrap().starts_with('+')
    };
    for name in ["do_syscall_64", "__x64_sys_io_submit", "submit_bio_noacct_nocheck"] {
        assert_eq!(gained(&of_a, name), gained(&of_b, name), "{name}");
    }
    let empty = Session::default();
    let error =
        flamegraph::write([&a, &empty], Kind::Cpu, Widths::OfA, &|name| name, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "there are no cpu stacks on side B");
}
