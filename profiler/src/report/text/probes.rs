//! Tables of what the probes counted.

use std::io::{self, Write};

use super::device_name;
use super::style::Style;
use super::table::{Align, Table};
use crate::profile::histogram::quantile_below;
use crate::profile::units;
use crate::profile::{BlockStat, Histogram, LockStat, Measure, NamedBy, ReadHow, Session, Source, Target};
use crate::report::escape::sanitize;

/// Rows of a table at most.
const ROWS: usize = 10;

/// Writes all tables that have something to say.
pub(crate) fn write(session: &Session, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    rates(session, style, out)?;
    reads(session, style, out)?;
    block(session, style, out)?;
    readahead(session, style, out)?;
    locks(session, style, out)
}

/// Writes the counters of less interest, and what the probes are attached to.
pub(crate) fn write_details(session: &Session, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let attached: Vec<_> = session.probes.iter().filter(|probe| probe.is_attached()).collect();
    if attached.is_empty() {
        return Ok(());
    }
    super::section("Probes", style, out)?;
    super::header::write_probes(&session.probes, style, out)?;
    if attached.iter().all(|probe| probe.counters.is_empty()) {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new(&[
        ("probe", Align::Left),
        ("counter", Align::Left),
        ("value", Align::Right),
        ("rate", Align::Right),
    ]);
    for probe in attached {
        for counter in &probe.counters {
            table.row(vec![
                sanitize(&probe.name).into_owned(),
                sanitize(&counter.name).into_owned(),
                units::weight(counter.value as f64, counter.unit),
                or_dash(a_second(counter.value, session).map(|rate| units::rate(rate, counter.unit))),
            ]);
        }
    }
    table.write(style, out)
}

fn a_second(value: u64, session: &Session) -> Option<f64> {
    (session.duration_ns > 0).then(|| value as f64 * 1e9 / session.duration_ns as f64)
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn rates(session: &Session, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let counting: Vec<_> =
        session.probes.iter().filter(|probe| probe.is_attached() && probe.events > 0).collect();
    if counting.is_empty() {
        return Ok(());
    }
    super::section("Rates", style, out)?;
    let mut table = Table::new(&[
        ("probe", Align::Left),
        ("events", Align::Right),
        ("events/s", Align::Right),
        ("weight", Align::Right),
        ("rate", Align::Right),
        ("stacks", Align::Right),
        ("ev/stack", Align::Right),
    ]);
    for probe in &counting {
        let unit = probe.kind.map(|kind| kind.unit());
        let rate = a_second(probe.weight, session).zip(unit);
        let every = probe.events as f64 / probe.stacks as f64;
        table.row(vec![
            sanitize(&probe.name).into_owned(),
            units::grouped(probe.events),
            or_dash(a_second(probe.events, session).map(units::number)),
            or_dash(unit.map(|unit| units::weight(probe.weight as f64, unit))),
            or_dash(rate.map(|(rate, unit)| units::rate(rate, unit))),
            units::grouped(probe.stacks),
            or_dash((probe.stacks > 0).then(|| units::number((every * 10.0).round() / 10.0))),
        ]);
    }
    table.write(style, out)
}

/// What was asked for, to be held against what the block devices had to read.
fn reads(session: &Session, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    if session.reads.is_empty() {
        return Ok(());
    }
    super::section("Reads asked for", style, out)?;
    let mut table = Table::new(&[
        ("file system", Align::Left),
        ("device", Align::Left),
        ("how", Align::Left),
        ("calls", Align::Right),
        ("bytes", Align::Right),
        ("size", Align::Right),
        ("MB/s", Align::Right),
    ]);
    for stat in session.reads.iter().take(ROWS) {
        let how = match stat.how {
            ReadHow::Buffered => "buffered",
            ReadHow::Direct => "direct",
            ReadHow::PageCache => "page cache lookups",
        };
        table.row(vec![
            sanitize(&stat.fs_type).into_owned(),
            sanitize(&device_name(session, stat.device)).into_owned(),
            how.to_owned(),
            units::grouped(stat.calls),
            units::bytes(stat.bytes as f64),
            or_dash(mean(stat.bytes, stat.calls).map(units::bytes)),
            or_dash(a_second(stat.bytes, session).map(|rate| format!("{:.1}", rate / 1e6))),
        ]);
    }
    table.write(style, out)?;
    left_out(session.reads.len(), out)
}

fn block(session: &Session, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    if session.block.is_empty() {
        return Ok(());
    }
    super::section("Block devices", style, out)?;
    let mut table = Table::new(&[
        ("device", Align::Left),
        ("op", Align::Left),
        ("bios", Align::Right),
        ("bio size", Align::Right),
        ("requests", Align::Right),
        ("size", Align::Right),
        ("MB/s", Align::Right),
        ("latency", Align::Right),
        ("p50 <", Align::Right),
        ("p99 <", Align::Right),
    ]);
    for stat in session.block.iter().take(ROWS) {
        table.row(block_row(session, stat));
    }
    table.write(style, out)?;
    left_out(session.block.len(), out)?;
    // They are issued and completed by whoever comes by, so that they cannot be told apart.
    let all_requests = matches!(session.source, Source::Live) && session.target != Target::System;
    if all_requests && session.block.iter().any(|stat| stat.requests > 0) {
        let note = "bios are those of the target; requests belong to no process and are everybody's";
        for line in style.wrap(note, 2) {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(())
}

fn block_row(session: &Session, stat: &BlockStat) -> Vec<String> {
    let latency = session.histograms.iter().find(|histogram| {
        histogram.measure == Measure::RequestLatency
            && histogram.device == Some(stat.device)
            && histogram.op == Some(stat.op)
    });
    let quantile = |q| latency.and_then(|histogram| histogram.quantile_below(q));
    // Completed bytes are what the device delivered; a source may know only what was issued.
    let bytes = if stat.completed > 0 { stat.completed_bytes } else { stat.request_bytes };
    vec![
        sanitize(&device_name(session, stat.device)).into_owned(),
        stat.op.name().to_owned(),
        units::grouped(stat.bios),
        or_dash(mean(stat.bio_bytes, stat.bios).map(units::bytes)),
        units::grouped(stat.requests),
        or_dash(mean(stat.request_bytes, stat.requests).map(units::bytes)),
        or_dash(a_second(bytes, session).map(|rate| format!("{:.1}", rate / 1e6))),
        or_dash(latency.and_then(Histogram::mean).map(units::duration)),
        or_dash(quantile(0.5).map(|ns| units::duration(ns as f64))),
        or_dash(quantile(0.99).map(|ns| units::duration(ns as f64))),
    ]
}

fn mean(sum: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum as f64 / count as f64)
}

fn readahead(session: &Session, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    if session.readahead.is_empty() {
        return Ok(());
    }
    super::section("Readahead by file", style, out)?;
    let mut table = Table::new(&[
        ("device", Align::Left),
        ("inode", Align::Right),
        ("sync", Align::Right),
        ("async", Align::Right),
        ("sequential", Align::Right),
        ("random", Align::Right),
        ("wanted", Align::Right),
        ("issued", Align::Right),
        ("ra_pages", Align::Right),
    ]);
    for stat in session.readahead.iter().take(ROWS) {
        // No reader came by: another caller, such as mmap or execve, asked for the pages itself.
        let ra_pages = (stat.sync + stat.async_ > 0).then(|| stat.ra_pages.to_string());
        table.row(vec![
            sanitize(&device_name(session, stat.device)).into_owned(),
            stat.inode.to_string(),
            units::number(stat.sync as f64),
            units::number(stat.async_ as f64),
            units::number(stat.sequential as f64),
            units::number(stat.random as f64),
            units::number(stat.wanted_pages as f64),
            units::number(stat.issued_pages as f64),
            or_dash(ra_pages),
        ]);
    }
    table.write(style, out)?;
    left_out(session.readahead.len(), out)
}

fn locks(session: &Session, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    if session.locks.is_empty() {
        return Ok(());
    }
    // A wait that spins burns a CPU, one that sleeps does not: their times must not be added up.
    let (spinning, sleeping): (Vec<_>, Vec<_>) = session.locks.iter().partition(|lock| lock.kind.spins());
    super::section("Locks", style, out)?;
    let mut first = true;
    for (title, locks) in [("spinning", spinning), ("sleeping", sleeping)] {
        if locks.is_empty() {
            continue;
        }
        if !std::mem::take(&mut first) {
            writeln!(out)?;
        }
        let waits = locks.iter().fold(0u64, |sum, lock| sum.saturating_add(lock.waits));
        let total = locks.iter().fold(0u64, |sum, lock| sum.saturating_add(lock.total_ns));
        writeln!(out, "  {title}: {} waits, {}", units::grouped(waits), units::duration(total as f64))?;
        lock_table(&locks).write(style, out)?;
        left_out(locks.len(), out)?;
    }
    Ok(())
}

fn lock_table(locks: &[&LockStat]) -> Table {
    let mut table = Table::new(&[
        ("lock", Align::Left),
        ("kind", Align::Left),
        ("waits", Align::Right),
        ("total", Align::Right),
        ("mean", Align::Right),
        ("p50 <", Align::Right),
        ("p99 <", Align::Right),
        ("max", Align::Right),
    ]);
    for lock in locks.iter().take(ROWS) {
        let quantile = |q| {
            let below = quantile_below(&lock.buckets, q).map(|ns| ns.min(lock.max_ns));
            or_dash(below.map(|ns| units::duration(ns as f64)))
        };
        table.row(vec![
            lock_name(lock),
            lock.kind.name().to_owned(),
            units::grouped(lock.waits),
            units::duration(lock.total_ns as f64),
            or_dash(mean(lock.total_ns, lock.waits).map(units::duration)),
            quantile(0.5),
            quantile(0.99),
            units::duration(lock.max_ns as f64),
        ]);
    }
    table
}

/// The name of a lock. Where it is a member, the end of the address tells it from others of the same name.
fn lock_name(lock: &LockStat) -> String {
    match &lock.name {
        Some(name) if matches!(lock.named_by, Some(NamedBy::SlabMember | NamedBy::Caller)) => {
            format!("{} @{:x}", sanitize(name), lock.address & 0xff_ffff)
        }
        Some(name) => sanitize(name).into_owned(),
        None => format!("{:#018x}", lock.address),
    }
}

fn left_out(rows: usize, out: &mut dyn Write) -> io::Result<()> {
    match rows.saturating_sub(ROWS) {
        0 => Ok(()),
        more => writeln!(out, "  ... {more} more"),
    }
}
