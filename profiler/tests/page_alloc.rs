//! Page allocations against the kernel's own counts.

mod common;

use common::run::value;
use common::{
    Running, Workload, assert_attached, assert_near, attach, exclusive, frames, is_root, lost_weights,
};
use profiler::profile::{Kind, Measure, Session};

/// Sum of the `pgalloc_*` counters of /proc/vmstat: pages that the page allocator has handed out since boot. The
/// kernel keeps them by CPU and adds all of them up for each reader, so they are exact.
fn pages_allocated() -> u64 {
    let vmstat = std::fs::read_to_string("/proc/vmstat").unwrap();
    let counts = vmstat.lines().filter(|line| line.starts_with("pgalloc_"));
    counts.map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum()
}

fn measured(session: &Session) -> u64 {
    let probe = session.probe("page-alloc").unwrap();
    assert!(probe.events <= probe.weight);
    let orders = session.histograms.iter().find(|hist| hist.measure == Measure::PageAllocSize).unwrap();
    assert_eq!((orders.count, orders.sum), (probe.events, probe.weight));
    probe.weight
}

/// All pages of the system.
///
/// The counters of /proc/vmstat cannot be read in the instant when the probe begins to count, nor when it ends. So the
/// pages of a load that takes millions in the meantime are counted, once before and after the load, while the
/// profiler counts already and still, and once before the profiler was started and after it ended: what it says must
/// lie between the two, to 1 %. Pages that are allocated in bulk (pipes, network, vmalloc) are in the counters
/// and do not pass the tracepoint, but are few.
#[test]
fn all_pages_are_counted() {
    if !is_root("page_alloc::all_pages_are_counted") {
        return;
    }
    let _turn = exclusive();
    let faults = Workload::build("faults");
    for tracepoints in [false, true] {
        let before_all = pages_allocated();
        let running = Running::start(&["--probes", "page-alloc", "--include-self"], tracepoints).attached();
        let before_load = pages_allocated();
        // 2 GiB in pages, 8 GiB in huge ones where there are any.
        let load = std::process::Command::new(faults.path()).args(["2048", "8192"]).output().unwrap();
        let after_load = pages_allocated();
        let run = running.interrupt();
        let after_all = pages_allocated();
        assert!(load.status.success() && run.code() == 0, "{}", run.stderr);

        let session = run.session();
        assert_attached(&session, "page-alloc", if tracepoints { "tracepoint" } else { "tp_btf" });
        let (pages, inner, outer) = (measured(&session), after_load - before_load, after_all - before_all);
        assert!(inner > (10 << 30) / 4096, "the load took {inner} pages only");
        assert!(pages as f64 >= inner as f64 * 0.99, "{pages} pages measured, {inner} allocated meanwhile");
        assert!(pages as f64 <= outer as f64 * 1.01, "{pages} pages measured, {outer} allocated in all");
    }
}

/// The pages of one command, against the page faults that the kernel counts for it: each takes a page.
#[test]
fn a_commands_faults_are_its_pages() {
    if !is_root("page_alloc::a_commands_faults_are_its_pages") {
        return;
    }
    let _turn = exclusive();
    let faults = Workload::build("faults");
    let run = attach(&["--probes", "page-alloc", "--", &faults.arg(), "2048", "0"]);
    let session = run.session();

    // Besides the faults: page tables, one for each 2 MiB, and what starting a program takes.
    assert_near("pages", measured(&session), value(&run.stdout, "faults"), 1.0);

    // The stacks, sampled as they are, show where it was.
    let total = session.profile.total(Kind::PageAlloc);
    let through_touch: u64 = session
        .profile
        .of_kind(Kind::PageAlloc)
        .filter(|stack| frames(&session, stack).any(|frame| &*frame.name == "touch"))
        .map(|stack| stack.weight)
        .sum();
    assert_near("pages below touch()", through_touch, total, 2.0);
    let probe = session.probe("page-alloc").unwrap();
    assert!(probe.stacks < probe.events, "{} stacks of {} events: not sampled", probe.stacks, probe.events);
    let counts: u64 = session.profile.of_kind(Kind::PageAlloc).map(|stack| stack.count).sum();
    assert!(counts + lost_weights(&session, "page-alloc") <= probe.events);
}
