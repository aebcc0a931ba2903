use proptest::prelude::*;

use super::line::TreeLine;
use crate::import::Place;
use crate::import::text::testing::{import, report, text_of};
use crate::profile::{CallTree, Kind, Labels, Session, Source, View};
use crate::testing::{kernel, push, session};

/// The lines of trees in a text, tabs made spaces.
fn tree_lines(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(TreeLine::parse);
    lines
        .map(|line| {
            let TreeLine { column, name, percent, count, parent, .. } = line;
            format!("{:column$}{name}({percent:.3}% {count}/{parent})", "")
        })
        .collect()
}

/// Name, weight and parent's weight of every node but what is unaccounted for.
fn nodes(session: &Session, kind: Kind) -> Vec<(String, u64, u64)> {
    let view = View { user: true, ..View::default() };
    let tree = CallTree::build(&session.profile, kind, &view).unwrap();
    let known = tree.ids().filter(|id| tree.frame(*id).is_none_or(|frame| !frame.is_left_out()));
    let mut nodes: Vec<_> = known
        .map(|id| (tree.label(id).name().into_owned(), tree.weight(id), tree.parent_weight(id)))
        .collect();
    nodes.sort();
    nodes
}

/// Every count of both trees and of the expanded node, and the trees in the form in which they came.
#[test]
fn the_founding_report_comes_out_as_it_went_in() {
    let text = String::from_utf8(text_of("bcachefs-randread.txt")).unwrap();
    let imported = import(text.as_bytes());
    assert_eq!(imported.warnings, []);
    let headings: Vec<_> =
        imported.sessions.iter().map(|session| session.heading.as_deref().unwrap()).collect();
    assert_eq!(
        headings,
        [
            "A: the file has been written once, in large pieces. 87.0 MiB/s.",
            "B: the same file after it was overwritten in 4 KiB pieces. About 850 MB/s."
        ]
    );
    let (first, second) = text.split_at(text.find("# B:").unwrap());
    let (tree, expanded) = first.split_at(first.find("# The node").unwrap());
    for (session, text) in imported.sessions.iter().zip([first, second]) {
        let mut expected: Vec<_> = text
            .lines()
            .filter_map(TreeLine::parse)
            .map(|line| (line.name.to_owned(), line.count, line.parent))
            .chain({
                let root = text.lines().find_map(TreeLine::parse).unwrap();
                [("[no stack]".to_owned(), root.parent - root.count, root.parent)]
            })
            .collect();
        expected.sort();
        // The node that is expanded is in both trees.
        expected.dedup();
        assert_eq!(nodes(session, Kind::Cpu), expected);
    }

    let report_a = report(&imported.sessions[0]);
    let lines = tree_lines(&report_a);
    // The expanded node's tree stands where the node is, five levels deeper.
    let at = lines.iter().position(|line| line.contains("bch2_bio_alloc_pages_pool")).unwrap();
    let below: Vec<_> = lines[at..].iter().map(|line| line[20..].to_owned()).take(9).collect();
    assert_eq!(below, tree_lines(expanded));
    let mut outer = lines.clone();
    outer.drain(at + 1..at + 9);
    assert_eq!(outer[..outer.len() - 1], tree_lines(tree)[..]);
    let lines = tree_lines(&report(&imported.sessions[1]));
    assert_eq!(lines[..lines.len() - 1], tree_lines(second)[..]);
    // `...` is where it was: beside the last callee that is shown.
    assert!(
        report_a.contains("bio_associate_blkg(1.668% 21877/1311194)\n                    ...\n"),
        "{report_a}"
    );
}

/// A report of this program with everything in it; names that are cut or escaped stay so.
#[test]
fn our_own_report_comes_out_as_it_went_in() {
    let text = {
        let mut out = Vec::new();
        let style = crate::report::text::Style::default();
        crate::report::text::render(&session(), &View::default(), &style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert!(text.contains("continued from depth"), "{text}");
    let imported = import(text.as_bytes());
    assert_eq!(imported.warnings, []);
    assert_eq!(imported.sessions.len(), 1);
    let again = &imported.sessions[0];
    assert_eq!(again.profile.kinds(), session().profile.kinds());
    assert_eq!(again.host.kernel, "6.12.9-amd64");
    let mut out = Vec::new();
    crate::report::text::render(again, &View::default(), &Default::default(), &mut out).unwrap();
    let trees = |text: &str| {
        let text = text.split("\nDistributions").next().unwrap();
        let is_tree = |line: &&str| {
            let line = line.trim();
            TreeLine::parse(line).is_some() || line == "..." || line.contains("continued from")
        };
        text.lines()
            .filter(is_tree)
            .map(|line| line.split("  <-").next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(trees(&String::from_utf8(out).unwrap()), trees(&text));
}

#[test]
fn several_reports_in_a_row_are_several_sessions() {
    let mut text = String::new();
    for heading in ["first", "second"] {
        text.push_str(&format!(
            "{heading}\n======\nprofiler: 0.1.0\n\nCPU time: 10 samples\n----\nf(50.000% 5/10)\n\n"
        ));
    }
    let imported = import(text.as_bytes());
    let headings: Vec<_> = imported.sessions.iter().map(|session| session.heading.as_deref()).collect();
    assert_eq!(headings, [Some("first"), Some("second")]);
    assert!(imported.sessions.iter().all(|session| session.profile.total(Kind::Cpu) == 10));
}

#[test]
fn what_does_not_add_up_is_a_warning_with_its_line() {
    let text = "main(100.000% 10/10)\n    a(70.000% 7/10)\n    b(60.000% 6/10)\n        c(150.000% 9/6)\n    d(50.000% 1/10)\n";
    let imported = import(text.as_bytes());
    let places: Vec<_> = imported.warnings.iter().map(|warning| warning.place).collect();
    assert_eq!(
        places,
        [Place::Line(3), Place::Line(4), Place::Line(4), Place::Line(5)],
        "{:?}",
        imported.warnings
    );
    assert!(imported.warnings[1].text.contains("`c`"), "{:?}", imported.warnings);
    assert_eq!(imported.sessions[0].profile.total(Kind::Cpu), 7 + 9 + 1);
}

#[test]
fn unaccounted_weight_is_no_functions_own() {
    let foreign = "main(100.000% 10/10)\n    a(40.000% 4/10)\n";
    let own = format!("profiler: 0.1.0\n\nCPU time: 10 samples\n----\n{foreign}");
    let top = |text: &str| {
        let session = import(text.as_bytes()).sessions.remove(0);
        let flat = crate::profile::flat(&session.profile, Kind::Cpu);
        flat[0].frame.map(|frame| session.profile.frame(frame).name.to_string())
    };
    assert_eq!(top(foreign), None);
    assert_eq!(top(&own).as_deref(), Some("main"));
}

#[test]
fn user_code_is_what_enters_the_kernel() {
    let text = "main(100.000% 10/10)\n    compute(40.000% 4/10)\n    read(60.000% 6/10)\n        \
                entry_SYSCALL_64_after_hwframe(100.000% 6/6)\n            vfs_read(100.000% 6/6)\n";
    let session = import(text.as_bytes()).sessions.remove(0);
    let report = report(&session);
    assert!(report.contains("[user space](40.000% 4/10)"), "{report}");
    assert!(
        report.contains("\nentry_SYSCALL_64_after_hwframe(60.000% 6/10)\n    vfs_read(100.000% 6/6)"),
        "{report}"
    );
}

proptest! {
    /// Trees of any shape, as our report writes them, read and written again.
    #[test]
    fn trees_come_out_as_they_went_in(
        stacks in proptest::collection::vec((proptest::collection::vec(0usize..6, 0..24), 1u64..1000), 1..30),
    ) {
        let mut session = Session::new(Source::Live);
        let labels = session.profile.intern_labels(Labels::default());
        for (frames, weight) in &stacks {
            let frames: Vec<_> = frames.iter().map(|index| kernel(&format!("f{index}(int)"))).collect();
            push(&mut session.profile, Kind::Cpu, labels, &frames, *weight);
        }
        let text = report(&session);
        let imported = import(text.as_bytes());
        prop_assert_eq!(&imported.warnings, &[]);
        prop_assert_eq!(nodes(&imported.sessions[0], Kind::Cpu), nodes(&session, Kind::Cpu));
        let again = report(&imported.sessions[0]);
        let trees = |text: &str| text.split_once("\nCPU time").map(|(_, tree)| tree.to_owned());
        prop_assert_eq!(trees(&again), trees(&text));
    }
}
