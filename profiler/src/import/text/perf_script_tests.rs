use super::*;
use crate::import::Options;
use crate::import::text::testing::{import, stacks_of, text_of, try_import};
use crate::profile::session::SHARES_TOTAL;

const USUAL: &str = "\
my app 4242/4243 [003] 12926.427332:    1000 cycles:P: \n\
\tffffffff822601ab vfs_read+0xb ([kernel.kallsyms])\n\
\tffffffffc0123456 xfs_file_read_iter+0x1f ([xfs])\n\
\tffffffff8225aa01 do_syscall_64+0x71 ([kernel.kallsyms])\n\
\t           d4ad7 __GI___read+0x7 (/usr/lib/x86_64-linux-gnu/libc.so.6)\n\
\t           11111 inner (inlined)\n\
\t           11111 outer<(int)1>+0x4 (/opt/my app (deleted))\n\
\t               0 [unknown] ([unknown])\n\
\n";

#[test]
fn the_usual_form() {
    let session = import(USUAL.as_bytes()).sessions.remove(0);
    assert_eq!(
        stacks_of(&session),
        [
            "my app;[unknown];outer<(int)1>;inner;__GI___read;do_syscall_64_[k];xfs_file_read_iter_[k];vfs_read_[k] 1"
        ]
    );
    let frames = session.profile.frames();
    let module = |name: &str| frames.iter().find(|frame| &*frame.name == name).unwrap().module.as_deref();
    assert_eq!(module("xfs_file_read_iter"), Some("xfs"));
    assert_eq!(module("vfs_read"), None);
    assert_eq!(module("inner"), Some("my app (deleted)"));
    assert_eq!(module("[unknown]"), None);
    let labels = session.profile.labels(session.profile.stacks()[0].labels);
    assert_eq!((labels.comm.as_deref(), labels.pid), (Some("my app"), Some(4242)));
}

#[test]
fn headers_in_many_forms() {
    for (line, comm, pid, time, period, event) in [
        (
            "swapper     0 [000] 12926.427332:    2004008 cpu-clock:ppp: ",
            "swapper",
            None,
            true,
            Some(2004008),
            "cpu-clock:ppp",
        ),
        ("  kworker/u8:2-ev   123 [001] 1.000001: cycles: ", "kworker/u8:2-ev", None, true, None, "cycles"),
        ("worker 12 345/346 1.5: 7 cycles: ", "worker 12", Some(345), true, Some(7), "cycles"),
        ("dd 10538 cycles:u: ", "dd", None, false, None, "cycles:u"),
        (":-1 -1/-1 [000] 5.5: 1 cpu_core/cycles/P: ", ":-1", None, true, Some(1), "cpu_core/cycles/P"),
        (
            "fio 9 [002] 3.25: block:block_rq_issue: 8,0 R 4096 () 2048 + 8 [fio]",
            "fio",
            None,
            true,
            None,
            "block:block_rq_issue",
        ),
    ] {
        let header = Header::parse(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
        let text = |bytes| str::from_utf8(bytes).unwrap();
        assert_eq!((text(header.comm), header.pid, text(header.event)), (comm, pid, event), "{line}");
        assert_eq!((header.time.is_some(), header.period), (time, period), "{line}");
    }
    for line in [
        "\tffffffff822601ab vfs_read+0xb ([kernel.kallsyms])",
        "some 12 words: of prose",
        "a 1",
        "",
        "1 2 3: 4",
    ] {
        assert!(Header::parse(line.as_bytes()).is_none(), "{line}");
    }
}

#[test]
fn without_call_graphs_the_frame_is_in_the_line() {
    let text = "dd 1 [000] 1.1: 5 cycles:  ffffffff82260dd1 clear_page+0x1 ([kernel.kallsyms])\n\
                dd 1 [000] 1.2: 5 cycles:            d4ad7 main+0x7 (/bin/dd)\n";
    let session = import(text.as_bytes()).sessions.remove(0);
    assert_eq!(stacks_of(&session), ["dd;clear_page_[k] 1", "dd;main 1"]);
}

#[test]
fn the_first_event_of_cpu_time_is_taken() {
    let sample = |event: &str, function: &str| {
        format!("dd 1 [000] 1.1: 1 {event}: \n\tffffffff82260dd1 {function}+0x1 ([kernel.kallsyms])\n\n")
    };
    let text = [
        sample("page-faults", "a"),
        sample("cycles:P", "b"),
        sample("task-clock", "c"),
        sample("cycles:P", "b"),
    ]
    .concat();
    let session = import(text.as_bytes()).sessions.remove(0);
    assert_eq!(stacks_of(&session), ["dd;b_[k] 2"]);
    assert!(
        session
            .blind_spots
            .iter()
            .any(|note| note.contains("page-faults (1 samples), task-clock (1 samples)"))
    );

    let take = |event: &str| {
        let options = Options { event: Some(event.to_owned()) };
        crate::import::read(&mut text.as_bytes(), "text", &options, &|_, _| {})
    };
    assert_eq!(stacks_of(&take("page-faults").unwrap().sessions[0]), ["dd;a_[k] 1"]);
    let error = take("instructions").unwrap_err().to_string();
    assert!(
        error.contains("no samples of the event `instructions`, only of page-faults, cycles:P, task-clock"),
        "{error}"
    );
}

#[test]
fn samples_weigh_as_much_as_their_periods() {
    let sample = |function: &str, period: u64| {
        format!(
            "dd 1 [000] 1.1: {period} cycles: \n\tffffffff82260dd1 {function}+0x1 ([kernel.kallsyms])\n\n"
        )
    };
    let text = [sample("a", 100), sample("b", 300), sample("a", 200), sample("b", 400)].concat();
    let session = import(text.as_bytes()).sessions.remove(0);
    assert_eq!(session.weights, Weights::Shares);
    assert_eq!(
        stacks_of(&session),
        [format!("dd;a_[k] {}", SHARES_TOTAL * 3 / 10), format!("dd;b_[k] {}", SHARES_TOTAL * 7 / 10)]
    );
    assert!(session.profile.stacks().iter().all(|stack| stack.count == 2));
}

#[test]
fn a_real_recording() {
    let imported = import(&text_of("perf/script.txt"));
    assert_eq!(imported.warnings, []);
    let session = &imported.sessions[0];
    assert_eq!((&*session.host.hostname, session.host.cpus), ("storage1", 2));
    assert_eq!((session.weights, session.profile.total(Kind::Cpu)), (Weights::Counts, 141));
    assert!((session.duration_ns as f64 / 1e6 - 1036.0).abs() < 20.0, "{}", session.duration_ns);
}

#[test]
fn text_in_between_is_a_warning() {
    let text = format!("{USUAL}what is this\n{USUAL}");
    let imported = import(text.as_bytes());
    assert_eq!(imported.warnings.len(), 1);
    assert_eq!(imported.warnings[0].place, crate::import::Place::Line(10));
    assert_eq!(imported.sessions[0].profile.total(Kind::Cpu), 2);
    assert!(try_import(b"just 12 words\n").is_err());
}
