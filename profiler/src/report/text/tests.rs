use proptest::prelude::*;

use super::*;
use crate::profile::{
    Advice, Evidence, Finding, GroupBy, Impact, Labels, ProbeState, Resource, Severity, Source, Subject,
    Target, ViewError,
};
use crate::report::escape::width;
use crate::testing::{self, bcachefs_profile, finding, kernel, push, session};

fn rendered(session: &Session, view: &View, marks: &[Finding]) -> String {
    let session = Session { findings: marks.to_vec(), ..session.clone() };
    let mut out = Vec::new();
    // What cannot be seen depends on the pathologies that are known, and has tests of its own.
    render_with(&session, &[], view, &Style::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The section of findings.
fn findings_section(findings: &[Finding], unseen: &[Unseen], width: usize) -> String {
    let session = Session { findings: findings.to_vec(), ..session() };
    let mut out = Vec::new();
    findings::write(&session, unseen, &Style { color: false, width }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn unseen_example() -> Vec<Unseen> {
    vec![
        Unseen {
            probes: vec!["readahead"],
            ids: vec!["readahead-disabled", "readahead-waste"],
            suspected: true,
        },
        Unseen { probes: vec!["bio", "block"], ids: vec!["small-io"], suspected: false },
    ]
}

#[test]
fn findings_section_of_a_mail() {
    insta::assert_snapshot!(findings_section(&testing::findings(), &unseen_example(), 100));
}

#[test]
fn findings_section_of_a_narrow_terminal() {
    insta::assert_snapshot!(findings_section(&testing::findings(), &[], 60));
}

#[test]
fn without_findings_it_says_what_could_not_be_seen() {
    insta::assert_snapshot!(findings_section(&[], &unseen_example(), 100));
    let imported = Unseen { probes: Vec::new(), ids: vec!["a", "b", "c"], suspected: true };
    let section = findings_section(&[], &[imported], 100);
    assert!(section.ends_with("\n- without probes, a, b and c can at most be suspected\n"), "{section}");
}

#[test]
fn of_many_findings_the_worst_are_shown() {
    let many = vec![finding("small-io", Severity::Info, &[]); 100];
    let section = findings_section(&many, &[], 100);
    assert_eq!(section.matches("INFO small-io").count(), 20);
    assert!(section.ends_with("\n... 80 more\n"), "{section}");
}

fn mark(id: &str, frame: &str) -> Finding {
    finding(id, Severity::Warning, &[frame])
}

fn marks() -> Vec<Finding> {
    vec![
        mark("read-amplification", "bch2_bio_alloc_pages_pool"),
        mark("cacheline-contention", "xfs_agino_range [xfs]"),
    ]
}

#[test]
fn full_report() {
    insta::assert_snapshot!(rendered(&session(), &View::default(), &marks()));
}

#[test]
fn by_thread_name_with_user_frames() {
    let mut session = session();
    session.histograms.clear();
    let view = View { user: true, by: Some(GroupBy::Comm), ..View::default() };
    insta::assert_snapshot!(rendered(&session, &view, &[]));
}

/// The tree in the form in which people post it.
const FOUNDING: &str = "\
io_submit_one(98.339% 2635814/2680333)
    aio_read(96.756% 2550297/2635814)
        bch2_read_iter(98.190% 2504125/2550297)
            __bch2_read(70.217% 1758320/2504125)
                __bch2_read_extent(74.571% 1311194/1758320)
                    bch2_bio_alloc_pages_pool(72.933% 956297/1311194)
                        alloc_pages_mpol_noprof(82.644% 790323/956297)
                            __alloc_pages_noprof(89.562% 707833/790323)
                                get_page_from_freelist(79.801% 564855/707833)
                                    __rmqueue_pcplist(24.713% 139593/564855)
                                    post_alloc_hook(15.045% 84983/564855)
                                    ...
                                __next_zones_zonelist(3.578% 25323/707833)
                            policy_nodemask(3.352% 26495/790323)
                        bio_add_page(10.740% 102710/956297)
                    submit_bio_noacct_nocheck(11.074% 145207/1311194)
                    bio_alloc_bioset(3.823% 50126/1311194)
                    bch2_bkey_pick_read_device(2.157% 28281/1311194)
                    bio_associate_blkg(1.668% 21877/1311194)
                    ...
";

fn bcachefs_session() -> Session {
    Session { profile: bcachefs_profile(), ..Session::new(Source::Imported { format: "test".to_owned() }) }
}

#[test]
fn tree_has_the_form_of_the_founding_report() {
    let report = rendered(&bcachefs_session(), &View::default(), &[]);
    assert!(report.contains(FOUNDING), "{report}");
    assert!(report.contains("\nlost: not known\n"), "{report}");

    let arrow = rendered(&bcachefs_session(), &View::default(), &marks());
    assert!(arrow.contains("bch2_bio_alloc_pages_pool(72.933% 956297/1311194)  <----- read-amplification\n"));
}

#[test]
fn root_and_callers_say_their_share() {
    let root = View { root: Some("bch2_bio_alloc_pages_pool".to_owned()), ..View::default() };
    let report = rendered(&bcachefs_session(), &root, &[]);
    let expected = "below bch2_bio_alloc_pages_pool: 35.678% of all samples (956297/2680333)\n\
                    bch2_bio_alloc_pages_pool(35.678% 956297/2680333)\n    \
                    alloc_pages_mpol_noprof(82.644% 790323/956297)\n";
    assert!(report.contains(expected), "{report}");

    let callers = View { callers: Some("post_alloc_hook".to_owned()), ..View::default() };
    let report = rendered(&bcachefs_session(), &callers, &[]);
    let expected =
        "post_alloc_hook(3.171% 84983/2680333)\n    get_page_from_freelist(100.000% 84983/84983)\n";
    assert!(report.contains(expected), "{report}");
}

#[test]
fn an_unknown_function_is_an_error_a_missing_one_is_not() {
    let view = |name: &str| View { root: Some(name.to_owned()), ..View::default() };
    let error = render(&session(), &view("aio_raed"), &Style::default(), &mut Vec::new()).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(ViewError::NoSuchFunction { .. })), "{error}");
    let report = rendered(&session(), &view("do_unlinkat"), &[]);
    assert!(report.contains("no stack of this kind passes through that function"));
}

#[test]
fn light_nodes_that_stand_out_are_shown() {
    let mut session = bcachefs_session();
    let labels = session.profile.intern_labels(Labels::default());
    push(&mut session.profile, Kind::Cpu, labels, &["light", "lighter"].map(kernel), 3);
    assert!(!rendered(&session, &View::default(), &[]).contains("lighter("));
    let mark = mark("small-io", "lighter");
    assert!(
        rendered(&session, &View::default(), &[mark])
            .contains("    lighter(100.000% 3/3)  <----- small-io\n")
    );
}

#[test]
fn of_a_large_tree_the_heaviest_lines_are_shown() {
    let mut session = Session::new(Source::Live);
    let labels = session.profile.intern_labels(Labels::default());
    for index in 0..50 {
        let frames = [kernel("main"), kernel(&format!("f{index}")), kernel("leaf")];
        push(&mut session.profile, Kind::Cpu, labels, &frames, 100 + index);
    }
    let view = View { lines: 6, ..View::default() };
    let tree = |view: &View, marks: &[Finding]| {
        let report = rendered(&session, view, marks);
        report.split_once("\nCPU time").unwrap().1.lines().skip(2).collect::<Vec<_>>().join("\n")
    };
    let expected = "the heaviest 6 of 101 lines:\n\
                    main(100.000% 6225/6225)\n    \
                    f49(2.394% 149/6225)\n        \
                    leaf(100.000% 149/149)\n    \
                    f48(2.378% 148/6225)\n        \
                    leaf(100.000% 148/148)\n    \
                    f47(2.361% 147/6225)\n        \
                    ...\n    ...";
    assert_eq!(tree(&view, &[]), expected);
    // What a finding is about is shown however many heavier lines there are.
    let mark = mark("small-io", "f0");
    assert!(tree(&view, &[mark]).contains("    f0(1.606% 100/6225)  <----- small-io\n"));
    assert!(!tree(&View { lines: 0, ..View::default() }, &[]).contains("heaviest"));
}

#[test]
fn functions_of_one_name_are_told_apart() {
    let mut session = bcachefs_session();
    let labels = session.profile.intern_labels(Labels::default());
    push(&mut session.profile, Kind::Cpu, labels, &[kernel("init [xfs]")], 900_000);
    push(&mut session.profile, Kind::Cpu, labels, &[kernel("init [ext4]")], 800_000);
    let report = rendered(&session, &View::default(), &[]);
    assert!(report.contains("\ninit [xfs](") && report.contains("\ninit [ext4]("), "{report}");
}

#[test]
fn color_changes_nothing_but_color() {
    let style = Style { color: true, width: 100 };
    let mut out = Vec::new();
    let findings = testing::findings();
    let session = Session { findings: findings.clone(), ..session() };
    render_with(&session, &[], &View::default(), &style, &mut out).unwrap();
    let colored = String::from_utf8(out).unwrap();
    assert!(colored.contains("\x1b[31m"));
    assert!(
        colored.contains("\x1b[1m\x1b[33mWARNING readahead-disabled, likely: 41.2% of wall time\x1b[0m\n")
    );
    let mut plain = String::new();
    for (index, part) in colored.split("\x1b[").enumerate() {
        plain.push_str(if index == 0 { part } else { part.split_once('m').unwrap().1 });
    }
    assert_eq!(plain, rendered(&session, &View::default(), &findings));
}

#[test]
fn an_empty_session_has_a_report() {
    let report = rendered(&Session::new(Source::Live), &View::default(), &[]);
    assert!(report.contains("lost: nothing"));
}

#[test]
fn a_hundred_thousand_levels_do_no_harm() {
    let mut session = Session::new(Source::Live);
    let labels = session.profile.intern_labels(Labels::default());
    push(&mut session.profile, Kind::Cpu, labels, &vec![kernel("recurse"); 100_000], 7);
    let report = rendered(&session, &View { lines: 0, ..View::default() }, &[]);
    assert!(report.lines().filter(|line| line.contains("recurse(100.000% 7/7)")).count() >= 100_000);
}

#[test]
fn a_terminal_of_80_columns_is_wide_enough() {
    let session = Session { findings: testing::findings(), ..session() };
    let mut out = Vec::new();
    let style = Style { color: false, width: 80 };
    render_with(&session, &unseen_example(), &View::default(), &style, &mut out).unwrap();
    let report = String::from_utf8(out).unwrap();
    // What cannot be continued is left whole.
    let pasted = |line: &&str| line.starts_with("           ");
    let wide: Vec<&str> = report.lines().filter(|line| width(line) > 80 && !pasted(line)).collect();
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_line_fits_and_prints(
        stacks in prop::collection::vec((prop::collection::vec(".{0,60}", 0..40), 0u64..u64::MAX / 100), 1..20),
        finding in ".{0,20}",
    ) {
        let mut session = Session::new(Source::Live);
        let labels = session.profile.intern_labels(Labels::default());
        let mut frame = String::new();
        for (names, weight) in stacks {
            frame = names.last().cloned().unwrap_or_default();
            let frames: Vec<_> = names.iter().map(|name| kernel(name)).collect();
            push(&mut session.profile, Kind::BlockIo, labels, &frames, weight);
        }
        let view = View { min_percent: 0.0, ..View::default() };
        let report = rendered(&session, &view, &[mark(&finding, &frame)]);
        for line in report.lines() {
            prop_assert!(width(line) <= 100, "{}: {line}", width(line));
            prop_assert!(!line.chars().any(char::is_control));
        }
    }

    #[test]
    fn hostile_text_anywhere_stays_in_its_line(text in "\\PC{0,150}|(?s:.{0,150})") {
        let mut session = session();
        session.tool = text.clone();
        let host = &mut session.host;
        for field in [&mut host.hostname, &mut host.kernel, &mut host.arch, &mut host.cpu_model] {
            *field = text.clone();
        }
        host.hypervisor = Some(text.clone());
        host.devices[0].name = text.clone();
        host.mounts[0].source = text.clone();
        for probe in &mut session.probes {
            probe.name = text.clone();
            match &mut probe.state {
                ProbeState::Attached { rung, to, notes } => {
                    *rung = text.clone();
                    to.push(text.clone());
                    notes.push(text.clone());
                }
                ProbeState::Failed { reason } => *reason = text.clone(),
                ProbeState::Off => {}
            }
            for counter in &mut probe.counters {
                counter.name = text.clone();
            }
        }
        for loss in &mut session.losses {
            loss.cause = text.clone();
        }
        for lock in &mut session.locks {
            lock.name = Some(text.clone());
        }
        session.blind_spots.push(text.clone());
        session.target = Target::Cgroup { path: text.clone() };
        let finding = Finding {
            title: text.clone(),
            about: vec![Subject::Lock(text.clone()), Subject::Process(text.clone())],
            evidence: vec![Evidence::new(&text, f64::INFINITY, None, text.clone())],
            why: text.clone(),
            advice: vec![Advice::new(text.clone())],
            impact: Impact { share: 1e300, of: Resource::CpuTime },
            ..finding(&text, Severity::Critical, &[&text])
        };
        let report = rendered(&session, &View::default(), &[finding]);
        for line in report.lines() {
            prop_assert!(width(line) <= 100, "{}: {line}", width(line));
            prop_assert!(!line.chars().any(char::is_control));
        }
        let lines = |report: &str| report.lines().filter(|line| line.starts_with("lost:")).count();
        prop_assert_eq!(lines(&report), 1);
        prop_assert_eq!(report.lines().filter(|line| *line == "Findings").count(), 1);
    }
}
