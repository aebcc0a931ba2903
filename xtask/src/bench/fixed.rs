//! The fixed costs of `profiler attach`: start, report, memory, CPU time, disk space.

use std::time::Duration;

use super::Context;
use super::load::Load;
use super::process::Attached;
use super::stats::Series;
use crate::run::say;

/// Length of the runs that only measure the start.
const SHORT: Duration = Duration::from_millis(200);

/// Runs it.
pub fn run(context: &Context) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for (what, args) in [("all probes", &[][..]), ("`--probes cpu`", &["--probes", "cpu"][..])] {
        rows.extend(start(context, what, args)?);
    }
    let load_before = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    rows.extend(while_running(context, "no load added")?);
    let load = Load::start(&context.folder)?;
    rows.extend(while_running(context, "loaded")?);
    drop(load);

    let others = load_before.split_whitespace().next().unwrap_or("?");
    let Context { repeat, seconds, .. } = context;
    Ok(format!(
        "## Fixed costs\n\n\
         `profiler attach` with default options, release build, {repeat} runs of each kind. *No load added* is the machine as it was, which\n\
         had a load average of {others} before, from other work. *Loaded*, it has one\n\
         loop a CPU that writes, syncs, reads and hashes a file of 64 MiB in short-lived processes.\n\n\
         - *start*: from the exec until the probes count. The first CPU sample follows within 1/99 s.\n\
         - *report*: from SIGINT until the process has ended, with the report printed and everything saved.\n\
         - *CPU time while measuring*: of the profiler's own threads, user and system, over {seconds} s; what its probes\n  \
           take in other processes is not in it.\n\n\
         | what | median | lowest to highest |\n| --- | ---: | ---: |\n{}\n",
        rows.join("\n")
    ))
}

fn row(what: &str, series: &Series, unit: &str) -> String {
    format!("| {what} | {} |", series.cells(unit))
}

fn start(context: &Context, what: &str, args: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut start = Series::default();
    // The first run reads the program from the disk.
    for number in 0..=context.repeat {
        let attached = Attached::start(&context.profiler, &context.folder, args)?;
        if number > 0 {
            start.push(millis(attached.start_up));
        }
        std::thread::sleep(SHORT);
        attached.interrupt()?;
    }
    Ok(vec![row(&format!("start, {what}"), &start, "ms")])
}

fn while_running(context: &Context, state: &str) -> anyhow::Result<Vec<String>> {
    let [mut cpu, mut whole_user, mut whole_system, mut report, mut peak, mut saved] =
        std::array::from_fn(|_| Series::default());
    for number in 1..=context.repeat {
        say(format_args!("fixed costs, {state}: run {number} of {}", context.repeat));
        let attached = Attached::start(&context.profiler, &context.folder, &[])?;
        let before = attached.cpu_time()?;
        std::thread::sleep(Duration::from_secs(context.seconds.into()));
        cpu.push(millis(attached.cpu_time()?.saturating_sub(before)));
        let ended = attached.interrupt()?;
        whole_user.push(millis(ended.user));
        whole_system.push(millis(ended.system));
        report.push(millis(ended.report));
        peak.push(ended.peak as f64 / f64::from(1 << 20));
        saved.push(ended.saved as f64 / f64::from(1 << 20));
    }
    Ok(vec![
        row(&format!("report, {state}"), &report, "ms"),
        row(&format!("CPU time while measuring, {state}"), &cpu, "ms"),
        row(&format!("CPU time of the whole run, user, {state}"), &whole_user, "ms"),
        row(&format!("CPU time of the whole run, system, {state}"), &whole_system, "ms"),
        row(&format!("peak resident memory, {state}"), &peak, "MiB"),
        row(&format!("session folder, {state}"), &saved, "MiB"),
    ])
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
