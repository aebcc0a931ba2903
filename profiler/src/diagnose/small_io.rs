//! `small-io`: requests that lie one behind the other, and are tiny all the same.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::devices;
use super::facts::{Facts, StackView, share};
use super::{About, Pathology, Threshold};
use crate::profile::units::{bytes, duration, number, rate};
use crate::profile::{
    Advice, BlockDevice, BlockStat, Confidence, Device, Evidence, Finding, FrameId, Histogram, Impact, IoOp,
    Kind, Mark, Measure, Resource, Severity, Subject, Unit,
};

/// See [`ABOUT`].
pub struct SmallIo;

const REQUESTS: Threshold = Threshold {
    what: "requests of a device in one direction",
    value: 1000.0,
    reason: "mounting, journals and metadata make some hundred small ones that are contiguous; a program that reads or \
             writes in small pieces makes thousands a second",
};

const CONTIGUOUS: Threshold = Threshold {
    what: "share of the requests that begin where another one has just ended",
    value: 0.9,
    reason: "dd with O_DIRECT has 0.997 to 1.0; runs of four reads at random places have 0.74, and reading more at a time would \
             not help them; tar, compilers and random reads have 0.00 to 0.35",
};

const SIZE: Threshold = Threshold {
    what: "mean size of these requests, bytes",
    value: 8192.0,
    reason: "buffered reads and writes that are contiguous are merged or read ahead to 200 KiB and more; up to 8 KiB is \
             a page, or a database's, at a time",
};

const LARGER: Threshold = Threshold {
    what: "how many times larger the device's requests may be",
    value: 4.0,
    reason: "with less than that to gain, the size of the requests is the device's own",
};

const BUSY: Threshold = Threshold {
    what: "share of the run in which a request was under way",
    value: 0.1,
    reason: "dd with 4 KiB at a time keeps even a device in memory busy for 0.3 to 0.5 of the time, a real one for more; \
             below 0.1 there is nothing to win",
};

const DURABLE: Threshold = Threshold {
    what: "flushes and writes with FUA for each write",
    value: 0.1,
    reason: "logs of databases and journals, whose pieces have to be on stable storage one by one, have 0.65 to 1.0; \
             direct writes that nobody waits for in that way have 0",
};

/// What it is.
pub static ABOUT: About = About {
    id: "small-io",
    title: "contiguous tiny requests that were never merged",
    symptom: "A file is read or written from its beginning to its end, and the device makes a fraction of its throughput. \
              It is busy with thousands of requests a second of 4 or 8 KiB, each right behind the one before.",
    why: "Each request costs the device, its driver and the submitter about the same, whether it has 4 KiB or 1 MiB. The \
          page cache makes large requests of small reads and writes, by reading ahead and by writing back later. Direct \
          (O_DIRECT) and synchronous I/O goes to the device as the program asks for it, and what the program has not asked \
          for yet cannot be merged with what it waits for.",
    cures: &[
        "read and write in larger pieces: 128 KiB to 1 MiB, such as dd bs=1M or fio --bs=1M",
        "leave the page cache on (no O_DIRECT): it makes large requests of small ones, at the price of a copy",
        "submit many neighbouring pieces at once (io_uring or io_submit in batches), so that the block layer merges them",
        "switch merging on (nomerges 0), and take a scheduler that waits for neighbours (mq-deadline)",
    ],
    confirmed_by: "probe `block`: requests that begin where another one ended, their sizes and latencies",
    suspected_by: "",
    thresholds: &[REQUESTS, CONTIGUOUS, SIZE, LARGER, BUSY, DURABLE],
    explained_by: &["readahead-disabled"],
};

impl Pathology for SmallIo {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn find(&self, facts: &Facts<'_>) -> Vec<Finding> {
        let stats = facts.session.block.iter();
        stats
            .filter(|stat| matches!(stat.op, IoOp::Read | IoOp::Write))
            .filter_map(|stat| look_at(facts, stat))
            .collect()
    }
}

/// A device in one direction.
fn look_at(facts: &Facts<'_>, stat: &BlockStat) -> Option<Finding> {
    let session = facts.session;
    let seconds = facts.seconds()?;
    let contiguous = share(stat.contiguous, stat.requests);
    let mean = stat.contiguous_bytes as f64 / stat.contiguous.max(1) as f64;
    if (stat.requests as f64) < REQUESTS.value || contiguous < CONTIGUOUS.value || mean > SIZE.value {
        return None;
    }
    let device = session.device(stat.device);
    let largest = device.and_then(|device| device.max_sectors_kb).map(|kib| kib as f64 * 1024.0);
    if largest.is_some_and(|largest| largest < LARGER.value * mean) {
        return None;
    }
    if stat.op == IoOp::Write && durable(facts, stat) >= DURABLE.value {
        return None;
    }
    let latency = facts
        .histograms(|histogram| {
            histogram.measure == Measure::RequestLatency
                && histogram.device == Some(stat.device)
                && histogram.op == Some(stat.op)
        })
        .next()?;
    // Mean number of requests under way; with several at a time the device is not busy for longer than all of it.
    let under_way = stat.requests as f64 * latency.mean()? / 1e9 / seconds;
    let busy = under_way.min(1.0);
    if busy < BUSY.value {
        return None;
    }
    let submitters = Submitters::of(facts, stat);
    let name = session.device_name(stat.device);
    let verb = if stat.op == IoOp::Read { "read" } else { "written" };
    let mean_text = bytes(mean);
    let mut about = vec![Subject::Device(name.clone())];
    about.extend(submitters.file_system.iter().flat_map(|device| {
        let subjects = devices::subjects(session, *device).into_iter();
        subjects.filter(|subject| !matches!(subject, Subject::Device(_)))
    }));
    about.extend(submitters.process.iter().map(|(process, _)| Subject::Process(process.clone())));
    let place = submitters.file_system.map_or(name, |device| devices::place(session, device));
    Some(Finding {
        id: ABOUT.id.to_owned(),
        title: format!("{place} is {verb} in contiguous requests of {mean_text}, which nothing makes larger"),
        severity: Severity::Warning,
        confidence: Confidence::Confirmed,
        impact: Impact { share: busy * contiguous, of: Resource::WallTime },
        about,
        evidence: evidence(stat, seconds, device, latency, under_way, &submitters),
        why: why(&submitters, device),
        advice: advice(facts, stat, device, under_way, &submitters),
        marks: submitters.marks,
    })
}

/// Flushes and writes with FUA for each write to the disk.
fn durable(facts: &Facts<'_>, stat: &BlockStat) -> f64 {
    let flushes =
        devices::block_io(facts.session, &[stat.device], IoOp::Flush).map_or(0, |flush| flush.requests);
    (flushes + stat.fua) as f64 / stat.requests.max(1) as f64
}

/// Who submits the bios of a disk.
struct Submitters {
    /// Thread name, and its share of the bytes.
    process: Option<(String, f64)>,
    /// The file system that most bytes are for; the partition or disk where it is none.
    file_system: Option<Device>,
    /// Share of the bytes that went past the page cache; `None` without stacks.
    direct: Option<f64>,
    marks: Vec<Mark>,
}

impl Submitters {
    fn of(facts: &Facts<'_>, stat: &BlockStat) -> Self {
        let session = facts.session;
        let mut disks: HashMap<Device, bool, FxBuildHasher> = HashMap::default();
        let stacks: Vec<StackView<'_, '_>> = facts
            .stacks(Kind::BlockIo)
            .filter(|stack| stack.labels().op == Some(stat.op))
            .filter(|stack| {
                let Some(device) = stack.labels().device else { return false };
                *disks.entry(device).or_insert_with(|| {
                    device == stat.device || devices::disks_below(session, device).contains(&stat.device)
                })
            })
            .collect();
        let total: u64 = stacks.iter().fold(0, |sum, stack| sum.saturating_add(stack.weight()));
        let direct = facts.matching(|name, _| is_direct(name));
        let mut by_function: HashMap<FrameId, u64, FxBuildHasher> = HashMap::default();
        let mut past_the_cache = 0u64;
        for stack in &stacks {
            if let Some(function) = stack.frames().find(|frame| direct.contains(*frame)) {
                past_the_cache = past_the_cache.saturating_add(stack.weight());
                *by_function.entry(function).or_default() += stack.weight();
            }
        }
        let function = by_function.into_iter().max_by_key(|(frame, weight)| (*weight, frame.0));
        let file_systems = devices::file_systems_on(session, stat.device);
        Self {
            process: facts.main_process(stacks.iter().copied()),
            // Of several file systems on one disk it is not known which.
            file_system: if let [one] = file_systems[..] { Some(one) } else { None },
            direct: (total > 0).then(|| share(past_the_cache, total)),
            marks: function
                .map(|(frame, _)| Mark {
                    kind: Some(Kind::BlockIo),
                    frame: session.profile.frame(frame).qualified().into_owned(),
                })
                .into_iter()
                .collect(),
        }
    }

    fn are_direct(&self) -> bool {
        self.direct.is_some_and(|share| share >= 0.5)
    }
}

/// Functions of direct I/O: `iomap_dio_rw`, `ext4_direct_IO`, `blkdev_direct_IO`, `__blkdev_direct_IO_simple`,
/// `bch2_direct_IO_read`, `btrfs_dio_read`.
fn is_direct(name: &str) -> bool {
    name.contains("_dio_")
        || name.contains("direct_IO")
        || name.contains("_direct_read")
        || name.contains("_direct_write")
}

fn evidence(
    stat: &BlockStat,
    seconds: f64,
    device: Option<&BlockDevice>,
    latency: &Histogram,
    under_way: f64,
    submitters: &Submitters,
) -> Vec<Evidence> {
    let mean = stat.contiguous_bytes as f64 / stat.contiguous.max(1) as f64;
    let contiguous = share(stat.contiguous, stat.requests);
    let per_second = stat.requests as f64 / seconds;
    let throughput = stat.request_bytes as f64 / seconds;
    let mut evidence = vec![
        Evidence::new(
            "request_size",
            mean,
            Unit::Bytes,
            format!(
                "mean size of the contiguous requests: {} ({} requests)",
                bytes(mean),
                number(stat.contiguous as f64)
            ),
        ),
        Evidence::new(
            "contiguous",
            contiguous,
            None,
            format!("requests that begin where another one has just ended: {:.1} %", contiguous * 100.0),
        ),
        Evidence::new(
            "requests_per_second",
            per_second,
            Unit::Events,
            format!("requests: {}/s", number(per_second)),
        ),
        Evidence::new(
            "throughput",
            throughput,
            Unit::Bytes,
            format!("throughput: {}", rate(throughput, Unit::Bytes)),
        ),
    ];
    if let Some(p50) = latency.quantile_below(0.5) {
        let text = format!("half of the requests took less than {}", duration(p50 as f64));
        evidence.push(Evidence::new("latency_p50_below", p50 as f64, Unit::Nanoseconds, text));
    }
    let busy = under_way.min(1.0);
    evidence.push(Evidence::new(
        "busy",
        busy,
        None,
        format!(
            "a request was under way for {:.0} % of the time ({under_way:.2} at a time, on average)",
            busy * 100.0
        ),
    ));
    if let Some(kib) = device.and_then(|device| device.max_sectors_kb) {
        let bytes_allowed = kib as f64 * 1024.0;
        let text = format!("the queue allows requests of {} (max_sectors_kb {kib})", bytes(bytes_allowed));
        evidence.push(Evidence::new("allowed_size", bytes_allowed, Unit::Bytes, text));
    }
    if let Some(optimal) = device.and_then(|device| device.optimal_io_size) {
        let text = format!("the device is best with requests of {} (optimal_io_size)", bytes(optimal as f64));
        evidence.push(Evidence::new("optimal_size", optimal as f64, Unit::Bytes, text));
    }
    if let Some(direct) = submitters.direct {
        let text = format!("bytes that went past the page cache (direct I/O): {:.0} %", direct * 100.0);
        evidence.push(Evidence::new("direct", direct, None, text));
    }
    if let Some((process, share)) = &submitters.process {
        let text = format!("bytes submitted by {process}: {:.0} %", share * 100.0);
        evidence.push(Evidence::new("process_share", *share, None, text));
    }
    evidence
}

fn why(submitters: &Submitters, device: Option<&BlockDevice>) -> String {
    let mut why = ABOUT.why.to_owned();
    if submitters.are_direct() {
        why.push_str(" Here the program does direct I/O in pieces of this size.");
    }
    if !submitters.are_direct() && device.and_then(|device| device.read_ahead_kb) == Some(0) {
        why.push_str(" Readahead is off (read_ahead_kb is 0), so that the page cache reads page by page.");
    }
    if let Some(number) = device.and_then(|device| device.nomerges).filter(|number| *number > 0) {
        why.push_str(&format!(" The queue does not merge requests either (nomerges is {number})."));
    }
    why
}

fn advice(
    facts: &Facts<'_>,
    stat: &BlockStat,
    device: Option<&BlockDevice>,
    under_way: f64,
    submitters: &Submitters,
) -> Vec<Advice> {
    let queue = devices::queue_directory(facts.session, stat.device);
    let largest = device.and_then(|device| device.max_sectors_kb).unwrap_or(1024);
    let program = submitters.process.as_ref().map_or("the program", |(process, _)| process);
    let mut advice = Vec::new();
    // Without it, nothing is merged whatever the program does.
    if device.and_then(|device| device.nomerges).is_some_and(|number| number > 0) {
        advice.push(Advice::paste(
            "Switch merging on; looking for neighbours costs some CPU time for each request.",
            format!("echo 0 > {queue}/nomerges"),
        ));
    }
    advice.push(Advice::new(format!(
        "Have {program} use larger pieces: 128 KiB to 1 MiB at a time (this device takes up to {largest} KiB), such as \
         bs=1M for dd and fio. It costs a buffer of that size."
    )));
    if submitters.are_direct() {
        advice.push(Advice::new(
            "Leave O_DIRECT away where the data may be cached: the page cache reads ahead and writes back in large \
             requests. It costs a copy, and the memory that the cache takes.",
        ));
        advice.push(Advice::new(
            "If the pieces have to be small, submit many neighbouring ones at a time (io_uring or io_submit with \
             batches): the block layer merges what is submitted together. It costs a larger latency of the first piece.",
        ));
    } else if device.and_then(|device| device.read_ahead_kb) == Some(0) && stat.op == IoOp::Read {
        advice.push(Advice::paste(
            "Switch readahead on; random readers then read more than they ask for.",
            format!("echo 128 > {queue}/read_ahead_kb"),
        ));
    }
    let scheduler = device.and_then(|device| device.scheduler.as_deref());
    // A program that waits for each request has none that could be merged with it.
    if under_way >= 2.0 && scheduler == Some("none") {
        advice.push(Advice::paste(
            "Several requests are under way at a time, and no scheduler keeps them to merge neighbours: try one that \
             does. It costs CPU time and a lock for each request, which fast NVMe devices feel.",
            format!("echo mq-deadline > {queue}/scheduler"),
        ));
    }
    advice
}

#[cfg(test)]
#[path = "small_io_tests.rs"]
mod tests;
