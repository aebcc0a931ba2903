//! Properties of comparisons.

use proptest::prelude::*;

use super::*;
use crate::profile::session::SHARES_TOTAL;
use crate::profile::{
    BlockDevice, BlockStat, Device, Evidence, Host, IoOp, Labels, Severity, Source, Stack, Subject,
};
use crate::testing::{BCACHEFS, finding, kernel, push, push_tree};

fn plain(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

fn compare(a: &Session, b: &Session) -> Diff {
    diff([a, b], &|name| plain(name), &Options { lines: 0, ..Options::default() })
}

/// A session of stacks, each with its weight.
fn session(stacks: &[(&[&str], u64)]) -> Session {
    let mut session = Session::new(Source::Live);
    let labels = session.profile.intern_labels(Labels::default());
    for (names, weight) in stacks {
        let frames: Vec<_> = names.iter().map(|name| kernel(name)).collect();
        push(&mut session.profile, Kind::Cpu, labels, &frames, *weight);
    }
    session
}

/// What the comparison the other way round must be.
fn mirrored(mut diff: Diff) -> Diff {
    diff.only.swap(0, 1);
    for kind in &mut diff.kinds {
        kind.totals.swap(0, 1);
        kind.events.swap(0, 1);
        for row in &mut kind.functions {
            row.names.swap(0, 1);
            row.shares.swap(0, 1);
            if let Some(found) = &mut row.significance {
                found.z = -found.z;
            }
        }
        kind.tree.iter_mut().for_each(|node| node.shares.swap(0, 1));
    }
    diff.rates.iter_mut().for_each(|rate| rate.values.swap(0, 1));
    diff.environment.iter_mut().for_each(|fact| fact.values.swap(0, 1));
    for change in &mut diff.findings {
        change.titles.swap(0, 1);
        change.grades.swap(0, 1);
        change.change = match change.change {
            Change::Appears => Change::Vanishes,
            Change::Vanishes => Change::Appears,
            other => other,
        };
        for evidence in &mut change.evidence {
            evidence.values.swap(0, 1);
            evidence.texts.swap(0, 1);
        }
    }
    diff
}

fn row<'d>(diff: &'d Diff, name: &str) -> &'d FunctionChange {
    let rows = &diff.kinds[0].functions;
    rows.iter().find(|row| row.names.iter().flatten().any(|known| known == name)).unwrap()
}

#[test]
fn lengths_of_runs_do_not_matter_but_numbers_of_samples_do() {
    let a = session(&[(&["work", "alloc"], 600), (&["work", "copy"], 9400)]);
    let b = session(&[(&["work", "alloc"], 30), (&["work", "copy"], 970)]);
    let diff = compare(&a, &b);
    let alloc = row(&diff, "alloc");
    assert_eq!(alloc.shares, [Some(0.06), Some(0.03)]);
    assert_eq!(alloc.ratio(), Some(0.5));
    assert!(alloc.significance.is_some_and(|found| found.significant && found.z < 0.0), "{alloc:?}");
    // The same shares of few samples are no proof.
    let few = session(&[(&["work", "alloc"], 6), (&["work", "copy"], 94)]);
    let as_few = session(&[(&["work", "alloc"], 3), (&["work", "copy"], 97)]);
    let diff = compare(&few, &as_few);
    assert_eq!(row(&diff, "alloc").shares, [Some(0.06), Some(0.03)]);
    assert!(row(&diff, "alloc").significance.is_none());
}

#[test]
fn clones_are_one_function_and_keep_their_names() {
    let a = session(&[(&["work", "copy.isra.0"], 40), (&["work", "copy.cold"], 10), (&["work"], 50)]);
    let b = session(&[(&["work", "copy"], 20), (&["work", "fresh"], 80)]);
    let diff = compare(&a, &b);
    let copy = row(&diff, "copy");
    assert_eq!(copy.names, [Some("copy.isra.0".to_owned()), Some("copy".to_owned())]);
    assert_eq!(copy.shares, [Some(0.5), Some(0.2)]);
    assert_eq!(row(&diff, "fresh").shares, [Some(0.0), Some(0.8)]);
    let nodes = diff.kinds[0].tree.iter();
    let tree: Vec<_> = nodes.map(|node| (node.depth, &*node.name, node.shares)).collect();
    assert_eq!(
        tree,
        [
            (0, "work", [Some(1.0), Some(1.0)]),
            (1, "fresh", [Some(0.0), Some(0.8)]),
            (1, "copy.isra.0", [Some(0.5), Some(0.2)]),
        ]
    );
}

#[test]
fn files_without_symbols_are_one_row() {
    let mut session = Session::new(Source::Live);
    let labels = session.profile.intern_labels(Labels::default());
    for name in ["libx.so+0x10", "libx.so+0x20"] {
        push(&mut session.profile, Kind::Cpu, labels, &[crate::profile::Frame::user(name, "libx.so")], 5);
    }
    let diff = diff([&session; 2], &|name| crate::diagnose::normalize(name), &Options::default());
    let names: Vec<_> = diff.kinds[0].functions.iter().map(|row| row.names[0].as_deref()).collect();
    assert_eq!(names, [Some("libx.so")]);
}

#[test]
fn what_a_list_leaves_out_is_unknown() {
    let quarter = SHARES_TOTAL / 4;
    let mut a = session(&[(&["hot"], quarter), (&[], quarter * 3)]);
    let mut b = session(&[(&["hot"], quarter / 2), (&["other"], quarter / 2), (&[], quarter * 3)]);
    for session in [&mut a, &mut b] {
        session.weights = Weights::Shares;
    }
    let diff = compare(&a, &b);
    assert_eq!(diff.kinds[0].test, Test::OnlyShares);
    assert_eq!(row(&diff, "hot").shares, [Some(0.25), Some(0.125)]);
    assert_eq!(row(&diff, "other").shares, [None, Some(0.125)]);
    assert!(diff.kinds[0].functions.iter().all(|row| row.significance.is_none()));
    assert_eq!(diff.kinds[0].functions.len(), 2);
    assert_eq!(diff.kinds[0].tree, []);
}

#[test]
fn unequal_periods_are_fewer_samples() {
    // One sample weighs as much as the other 9999: nothing can be said.
    let mut a = session(&[(&["one"], 5_000_000)]);
    let labels = a.profile.intern_labels(Labels::default());
    let frame = a.profile.intern_frame(kernel("many"));
    let frames = [a.profile.intern_location(frame, 0)].into();
    a.profile.push(Stack { kind: Kind::Cpu, frames, labels, count: 9999, weight: 5_000_000 });
    a.weights = Weights::Periods;
    let b = session(&[(&["one"], 4000), (&["many"], 6000)]);
    let diff = compare(&a, &b);
    assert_eq!(diff.kinds[0].test, Test::Samples);
    assert!(row(&diff, "one").significance.is_none(), "{:?}", row(&diff, "one"));
}

#[test]
fn machines_and_counters() {
    let device = Device { major: 8, minor: 0 };
    let host = |read_ahead_kb| Host {
        devices: vec![BlockDevice {
            name: "sda".to_owned(),
            device: Some(device),
            read_ahead_kb: Some(read_ahead_kb),
            ..BlockDevice::default()
        }],
        sockets: (read_ahead_kb > 0).then_some(2),
        ..Host::default()
    };
    let block = |requests, bytes| BlockStat {
        device,
        op: IoOp::Read,
        bios: 0,
        bio_bytes: 0,
        requests,
        request_bytes: bytes,
        completed: 0,
        completed_bytes: 0,
        contiguous: 0,
        contiguous_bytes: 0,
        fua: 0,
    };
    let (mut a, mut b) = (Session::default(), Session::default());
    (a.host, b.host) = (host(0), host(128));
    (a.duration_ns, b.duration_ns) = (10_000_000_000, 1_000_000_000);
    (a.block, b.block) = (vec![block(1000, 4_096_000)], vec![block(100, 13_107_200)]);
    let mut slow = finding("readahead-disabled", Severity::Critical, &[]);
    slow.about = vec![Subject::Device("sda".to_owned())];
    slow.evidence = vec![Evidence::new("single-pages", 0.98, None, "98 %")];
    a.findings = vec![slow.clone()];
    let diff = compare(&a, &b);
    let facts = diff.environment.iter();
    let facts: Vec<_> =
        facts.map(|fact| (&*fact.what, fact.values.each_ref().map(Option::as_deref))).collect();
    assert_eq!(facts, [("sockets", [None, Some("2")]), ("sda read_ahead_kb", [Some("0"), Some("128")])]);
    let rates: Vec<_> = diff.rates.iter().map(|rate| (&*rate.what, rate.values)).collect();
    assert_eq!(
        rates,
        [
            ("sda read", [Some(409_600.0), Some(13_107_200.0)]),
            ("sda read request size", [Some(4096.0), Some(131_072.0)]),
            ("sda read requests", [Some(100.0), Some(100.0)]),
        ]
    );
    assert_eq!((diff.findings.len(), diff.findings[0].change), (1, Change::Vanishes));
    assert_eq!(mirrored(diff), compare(&b, &a));

    // With other numbers, and another process in it, it is the same finding.
    slow.about.push(Subject::Process("dd".to_owned()));
    slow.evidence[0].value = 0.5;
    b.findings = vec![slow];
    let changed = &compare(&a, &b).findings;
    assert_eq!((changed.len(), changed[0].change), (1, Change::Changes));
    assert_eq!(changed[0].evidence[0].values, [Some(0.98), Some(0.5)]);
    // Without lengths there are no rates.
    b.duration_ns = 0;
    assert_eq!(compare(&a, &b).rates, []);
}

#[test]
fn a_session_does_not_differ_from_itself() {
    let session = crate::testing::session();
    let diff = compare(&session, &session);
    assert_eq!((diff.kinds.len(), &diff.environment), (session.profile.kinds().len(), &Vec::new()));
    for kind in &diff.kinds {
        assert!(kind.functions.iter().all(|row| row.change() == Some(0.0)), "{:?}", kind.kind);
        assert!(kind.functions.iter().filter_map(|row| row.significance).all(|found| !found.significant));
        assert_eq!((kind.changed_nodes, &kind.tree), (0, &Vec::new()));
    }
    let tested = diff.kinds[0].functions.iter().filter(|row| row.significance.is_some()).count();
    assert!(tested > 5, "{tested}");
    assert!(diff.rates.iter().all(|rate| rate.values[0] == rate.values[1]));
    let mut tree = Session::default();
    let labels = tree.profile.intern_labels(Labels::default());
    push_tree(&mut tree.profile, Kind::Cpu, labels, &[], &BCACHEFS);
    assert_eq!(compare(&tree, &tree).kinds[0].changed_nodes, 0);
}

/// Stacks over few functions, so that they meet.
fn stacks() -> impl Strategy<Value = Vec<(Vec<u8>, u64)>> {
    let weight = prop_oneof![1u64..2000, Just(u64::MAX)];
    prop::collection::vec((prop::collection::vec(0u8..6, 0..5), weight), 0..30)
}

fn of(stacks: &[(Vec<u8>, u64)], weights: Weights) -> Session {
    let mut session = Session::new(Source::Live);
    let labels = session.profile.intern_labels(Labels::default());
    for (names, weight) in stacks {
        let frames: Vec<_> = names.iter().map(|name| kernel(&format!("f{name}"))).collect();
        push(&mut session.profile, Kind::Cpu, labels, &frames, *weight);
    }
    session.weights = weights;
    session
}

fn weights() -> impl Strategy<Value = Weights> {
    prop_oneof![Just(Weights::Counts), Just(Weights::Shares), Just(Weights::Periods)]
}

proptest! {
    #[test]
    fn the_other_way_round_all_is_mirrored(
        a in stacks(), b in stacks(), of_a in weights(), of_b in weights(),
    ) {
        let (a, b) = (of(&a, of_a), of(&b, of_b));
        prop_assert_eq!(mirrored(compare(&a, &b)), compare(&b, &a));
    }
}
