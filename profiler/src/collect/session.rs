//! From maps to model: turns what was collected into a [`Session`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use profiler_common::{Hist, HistKey, Stream, StreamState, Weight, WeightKey, aux, measure, op, reclaim};
use rustc_hash::FxBuildHasher;

use super::drain::Collected;
use super::totals::Totals;
use crate::kernel::cgroup::{CgroupNames, memory_limit};
use crate::kernel::host::host_facts;
use crate::kernel::sources::Sources;
use crate::profile::session::{ReadHow, ReadStat, Source};
use crate::profile::{
    BlockStat, Counter, Device, Frame, Histogram, IoOp, Kind, Labels, LocationId, LockKind, LockStat, Loss,
    Measure, MemoryLimit, Probe, ProbeState, Profile, ReadaheadStat, Session, Stack, Target, Unit,
};
use crate::symbolize::{KernelSymbols, Processes, UserSymbols, lookup_address};

/// File systems that read no device, as system calls name them.
const PSEUDO: [&str; 16] = [
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "tracefs",
    "debugfs",
    "devpts",
    "pipefs",
    "sockfs",
    "securityfs",
    "configfs",
    "bpf",
    "mqueue",
    "tmpfs",
    "devtmpfs",
    "ramfs",
];

/// Entries of the lock and readahead tables that a session keeps: the heaviest.
const TABLE: usize = 1000;

/// Everything a session is made of.
pub struct Raw {
    pub started: jiff::Timestamp,
    pub duration: Duration,
    pub target: Target,
    pub probes: Vec<Probe>,
    pub blind_spots: Vec<String>,
    /// CPU samples that were due, where that is known.
    pub due: Option<u64>,
    /// CPU samples that were due on idle CPUs, by the kernel's own account of idle time.
    pub idle_due: u64,
    pub collected: Collected,
    pub processes: Processes,
    pub totals: Totals,
    pub steal: Option<f64>,
    /// Pages of the whole machine that were needed again after they had been reclaimed.
    pub refaults: u64,
    /// Reports of what processes map that were lost.
    pub lost_mappings: u64,
    /// Events that the kernel kept from the programs, by probe.
    pub misses: BTreeMap<&'static str, u64>,
    pub cgroups: CgroupNames,
}

/// Builds the session. What the processes had mapped is handed back.
pub fn build(raw: Raw) -> (Session, Processes) {
    let mut session = Session::new(Source::Live);
    session.started = Some(raw.started);
    session.duration_ns = u64::try_from(raw.duration.as_nanos()).unwrap_or(u64::MAX);
    session.target = raw.target;
    session.host = host_facts();
    session.host.steal = raw.steal;
    session.blind_spots = raw.blind_spots;
    session.probes = raw.probes;
    session.histograms = histograms(&raw.totals);
    session.locks = locks(&raw.totals);
    session.readahead = readahead(&raw.totals);
    session.block = block(&raw.totals);
    session.reads = reads(&raw.totals);
    session.own_samples = raw.totals.streams[Stream::Cpu as usize].own;

    let mut stacks = StackBuilder::new(&raw.collected, &raw.processes, raw.cgroups);
    for (key, weight) in &raw.collected.weights {
        stacks.add(key, weight);
    }
    session.idle_samples = stacks.idle;
    let unnamed = std::mem::take(&mut stacks.unnamed);
    let mut profile = stacks.profile;
    // Samples differ by address, and stacks by frames that were cut off.
    profile.merge_equal();
    session.profile = profile;

    session.host.memory_limits = memory_limits(&session.profile);
    for probe in &mut session.probes {
        fill(probe, &raw.totals, raw.due);
    }
    let cpu = &raw.totals.streams[Stream::Cpu as usize];
    let idle = session.idle_samples + cpu.aux[aux::CPU_UNWANTED_IDLE];
    let got = cpu.events
        + cpu.own
        + cpu.aux[aux::CPU_UNWANTED]
        + cpu.aux[aux::CPU_UNWANTED_IDLE]
        + raw.totals.no_slot[Stream::Cpu as usize];
    let missing = raw.due.unwrap_or(0).saturating_sub(got);
    // The timer of an idle CPU may rest: such samples would have found it idle, and are no loss.
    let resting = missing.min(raw.idle_due.saturating_sub(idle));
    if resting > 0
        && let Some(probe) = session.probes.iter_mut().find(|probe| probe.name == "cpu")
    {
        let name = "due on idle CPUs, whose timer rested".to_owned();
        probe.counters.push(Counter { name, unit: Unit::Samples, value: resting });
    }
    if raw.refaults > 0
        && let Some(probe) =
            session.probes.iter_mut().find(|probe| probe.name == "reclaim" && probe.is_attached())
    {
        let name = "pages needed again after reclaim (whoever is measured)".to_owned();
        probe.counters.push(Counter { name, unit: Unit::Pages, value: raw.refaults });
    }
    session.losses = losses(&session.probes, &raw.totals, missing - resting);
    for (probe, count) in raw.misses {
        session.losses.push(Loss {
            probe: probe.to_owned(),
            cause: "another eBPF program was running on the CPU (events of any process)".to_owned(),
            count,
        });
    }
    if raw.lost_mappings > 0 {
        session.losses.push(Loss {
            probe: "user stacks".to_owned(),
            cause: "reports of what processes map (their frames may have no names)".to_owned(),
            count: raw.lost_mappings,
        });
    }
    for probe in &session.probes {
        if let Some(count) = probe.kind.and_then(|kind| unnamed.get(&kind)) {
            session.losses.push(Loss {
                probe: probe.name.clone(),
                cause: "user stacks that could not be named: the process was gone (counted, as [unknown])"
                    .to_owned(),
                count: *count,
            });
        }
    }
    (session, raw.processes)
}

/// Limits of the control groups that reclaimed memory, as they are now.
fn memory_limits(profile: &Profile) -> Vec<MemoryLimit> {
    let groups: BTreeSet<&str> = profile
        .of_kind(Kind::Reclaim)
        .filter_map(|stack| profile.labels(stack.labels).cgroup.as_deref())
        .collect();
    groups.into_iter().take(TABLE).filter_map(|group| memory_limit(&Sources::default(), group)).collect()
}

/// The streams that feed a probe.
fn streams_of(probe: &str) -> &'static [Stream] {
    match probe {
        "cpu" => &[Stream::Cpu],
        "page-alloc" => &[Stream::PageAlloc],
        "lock" => &[Stream::LockSpin, Stream::LockSleep],
        "readahead" => &[Stream::Readahead],
        "block" => &[Stream::Block],
        "bio" => &[Stream::Bio],
        "read" => &[Stream::Read],
        "reclaim" => &[Stream::Reclaim],
        _ => &[],
    }
}

/// Fills in a probe's counts.
fn fill(probe: &mut Probe, totals: &Totals, due: Option<u64>) {
    let ProbeState::Attached { .. } = probe.state else { return };
    let mut pending = 0;
    for stream in streams_of(&probe.name) {
        let state = &totals.streams[*stream as usize];
        probe.events += state.events;
        probe.weight += state.weight;
        probe.stacks += state.stacks;
        pending += state.pending_weight;
    }
    let unit = probe.kind.map_or(Unit::Bytes, Kind::unit);
    let mut counters = vec![("counted after the last stack", unit, pending)];
    let state = |stream: Stream| &totals.streams[stream as usize];
    match probe.name.as_str() {
        "cpu" => {
            probe.due = due.unwrap_or(0);
            let cpu = state(Stream::Cpu);
            let others = cpu.aux[aux::CPU_UNWANTED];
            counters.push(("samples of processes that are not measured", Unit::Samples, others));
            let idle = cpu.aux[aux::CPU_UNWANTED_IDLE];
            counters.push(("samples of idle CPUs, which are not measured", Unit::Samples, idle));
        }
        "page-alloc" => {
            let failed = state(Stream::PageAlloc).aux[aux::PAGE_ALLOC_FAILED];
            counters.push(("allocations that failed", Unit::Events, failed));
        }
        "lock" => {
            let spin = state(Stream::LockSpin);
            counters.push(("waits begun", Unit::Events, spin.aux[aux::LOCK_BEGUN]));
            counters.push(("waits that had begun before", Unit::Events, spin.aux[aux::LOCK_UNPAIRED_END]));
            counters.push(("waits that still went on", Unit::Events, totals.waiting));
        }
        "bio" => {
            let bio = state(Stream::Bio);
            let clones = bio.aux[aux::BIO_CLONES];
            counters.push(("bios", Unit::Events, bio.events - clones.min(bio.events)));
            counters.push(("clones among them", Unit::Events, clones));
            counters.push(("vectors", Unit::Events, bio.aux[aux::BIO_VECTORS]));
        }
        "block" => {
            let unpaired = state(Stream::Block).aux[aux::BLOCK_UNPAIRED_COMPLETION];
            counters.push(("completions of requests issued before", Unit::Events, unpaired));
        }
        "reclaim" => {
            let by_cause = &totals.reclaim.by_cause;
            let (direct, memcg) = (by_cause[reclaim::DIRECT], by_cause[reclaim::MEMCG]);
            let compaction = by_cause[reclaim::COMPACTION];
            counters.push(("direct reclaims", Unit::Events, direct.count));
            counters.push(("time in direct reclaim", Unit::Nanoseconds, direct.ns));
            counters.push(("pages freed by direct reclaim", Unit::Pages, direct.pages));
            counters.push(("memcg reclaims", Unit::Events, memcg.count));
            counters.push(("time in memcg reclaim", Unit::Nanoseconds, memcg.ns));
            counters.push(("pages freed by memcg reclaim", Unit::Pages, memcg.pages));
            counters.push(("compactions", Unit::Events, compaction.count));
            counters.push(("time in compaction", Unit::Nanoseconds, compaction.ns));
            counters.push((
                "kswapd wakeups (whoever is measured)",
                Unit::Events,
                totals.reclaim.kswapd_wakes,
            ));
            let unpaired = state(Stream::Reclaim).aux[aux::RECLAIM_UNPAIRED_END];
            counters.push(("phases that had begun before", Unit::Events, unpaired));
            counters.push(("phases that still went on", Unit::Events, totals.reclaiming));
        }
        _ => {}
    }
    probe.counters = counters
        .into_iter()
        .filter(|(_, _, value)| *value > 0)
        .map(|(name, unit, value)| Counter { name: name.to_owned(), unit, value })
        .collect();
}

/// What was lost, by probe and cause.
fn losses(probes: &[Probe], totals: &Totals, missing: u64) -> Vec<Loss> {
    let mut losses = Vec::new();
    let mut lost = |probe: &str, cause: &str, count: u64| {
        if count > 0 {
            losses.push(Loss { probe: probe.to_owned(), cause: cause.to_owned(), count });
        }
    };
    for probe in probes.iter().filter(|probe| probe.is_attached()) {
        for stream in streams_of(&probe.name) {
            let StreamState { lost_weights, lost_stacks, lost_walks, aux, .. } =
                totals.streams[*stream as usize];
            lost(&probe.name, "no room in the map of weights", lost_weights);
            lost(&probe.name, "no room in the map of stacks (counted, without the stack)", lost_stacks);
            lost(&probe.name, "the kernel could not walk the stack (counted, without the stack)", lost_walks);
            lost(&probe.name, "too many probes nested on one CPU", totals.no_slot[*stream as usize]);
            lost(
                &probe.name,
                "no room in the map of histograms",
                aux[aux::LOST_HISTOGRAM] * u64::from(*stream != Stream::LockSpin),
            );
            match stream {
                Stream::LockSpin => {
                    lost(&probe.name, "no room in the map of waits", aux[aux::LOCK_LOST_BEGIN]);
                    lost(
                        &probe.name,
                        "no room in the table of locks (counted elsewhere)",
                        aux[aux::LOCK_LOST_STATS],
                    );
                }
                Stream::Readahead => lost(
                    &probe.name,
                    "no room in the table of files (counted elsewhere)",
                    aux[aux::READAHEAD_LOST_INODE],
                ),
                Stream::Read => {
                    lost(&probe.name, "no room in the table of file systems", aux[aux::READ_LOST]);
                }
                Stream::Block => {
                    lost(
                        &probe.name,
                        "no room in the map of requests (no latency)",
                        aux[aux::BLOCK_LOST_REQUEST],
                    );
                    lost(
                        &probe.name,
                        "no room in the table of the ends of requests (counted, but not as contiguous)",
                        aux[aux::BLOCK_LOST_END],
                    );
                }
                Stream::Reclaim => {
                    lost(
                        &probe.name,
                        "no room in the map of phases that go on",
                        aux[aux::RECLAIM_LOST_BEGIN],
                    );
                }
                _ => {}
            }
        }
        if probe.name == "cpu" {
            // One a CPU may be under way.
            lost(&probe.name, "samples due that did not come (timer delayed, or eBPF busy)", missing);
        }
    }
    losses
}

/// Builds stacks of names out of stacks of addresses.
struct StackBuilder<'a> {
    collected: &'a Collected,
    processes: &'a Processes,
    cgroups: CgroupNames,
    kernel: KernelSymbols,
    user: UserSymbols,
    profile: Profile,
    kernel_stacks: HashMap<(u64, bool), Arc<KernelStack>, FxBuildHasher>,
    user_stacks: HashMap<(u32, u64), UserStack, FxBuildHasher>,
    idle: u64,
    /// Events whose user stack could not be named, by kind.
    unnamed: HashMap<Kind, u64>,
}

/// A kernel stack, outermost frame first.
struct KernelStack {
    frames: Box<[LocationId]>,
    idle: bool,
}

type UserStack = Option<Arc<[LocationId]>>;

impl<'a> StackBuilder<'a> {
    fn new(collected: &'a Collected, processes: &'a Processes, cgroups: CgroupNames) -> Self {
        let mut builder = Self {
            collected,
            processes,
            cgroups,
            kernel: KernelSymbols::new(),
            user: UserSymbols::new(),
            profile: Profile::new(),
            kernel_stacks: HashMap::default(),
            user_stacks: HashMap::default(),
            idle: 0,
            unnamed: HashMap::new(),
        };
        builder.resolve();
        builder
    }

    /// Resolves every address once, in few calls.
    fn resolve(&mut self) {
        let mut kernel = Vec::new();
        let mut user = Vec::new();
        for key in self.collected.weights.keys() {
            let innermost_is_exact = key.stream == Stream::Cpu as u8;
            for (i, ip) in self.frames(key.kernel_stack).iter().enumerate() {
                kernel.push(lookup_address(*ip, innermost_is_exact && i == 0));
            }
            for (i, ip) in self.frames(key.user_stack).iter().enumerate() {
                user.push((key.tgid, lookup_address(*ip, i == 0)));
            }
        }
        kernel.sort_unstable();
        kernel.dedup();
        user.sort_unstable();
        user.dedup();
        self.kernel.resolve(&kernel);
        self.user.resolve(self.processes, &user);
    }

    fn frames(&self, hash: u64) -> &'a [u64] {
        self.collected.stacks.get(&hash).map_or(&[], |stack| stack)
    }

    fn add(&mut self, key: &WeightKey, weight: &Weight) {
        let Some(kind) = kind_of(key.stream) else { return };
        let kernel = self.kernel_stack(key);
        if kind == Kind::Cpu && key.tgid == 0 && kernel.idle {
            self.idle += weight.count;
            return;
        }
        let user = match self.user_stack(key) {
            Some(stack) => stack,
            None if key.user_stack == 0 => [].into(),
            None => {
                let innermost = self.frames(key.user_stack).first().copied().unwrap_or(0);
                tracing::debug!("no name for {innermost:#x} of process {}", key.tgid);
                *self.unnamed.entry(kind).or_default() += weight.count;
                self.unknown_user()
            }
        };
        let frames = user.iter().chain(&kernel.frames).copied().collect();
        let labels = self.labels(key);
        self.profile.push(Stack { kind, frames, labels, count: weight.count, weight: weight.weight });
    }

    fn kernel_stack(&mut self, key: &WeightKey) -> Arc<KernelStack> {
        let sampled = key.stream == Stream::Cpu as u8;
        if let Some(known) = self.kernel_stacks.get(&(key.kernel_stack, sampled)) {
            return Arc::clone(known);
        }
        let ips = self.frames(key.kernel_stack);
        let names: Vec<Frame> = ips
            .iter()
            .enumerate()
            .map(|(i, ip)| self.kernel.get(lookup_address(*ip, sampled && i == 0)))
            .collect();
        let skip = if sampled { 0 } else { tracing_frames(&names) };
        let idle = is_idle(&names);
        let mut frames: Vec<LocationId> = Vec::with_capacity(names.len());
        for (name, ip) in names.into_iter().zip(ips).skip(skip) {
            let frame = self.profile.intern_frame(name);
            frames.push(self.profile.intern_location(frame, *ip));
        }
        frames.reverse();
        let stack = Arc::new(KernelStack { frames: frames.into(), idle });
        self.kernel_stacks.insert((key.kernel_stack, sampled), Arc::clone(&stack));
        stack
    }

    /// The user stack, cut where it leaves the process' code; `None` if nothing of it has a name.
    fn user_stack(&mut self, key: &WeightKey) -> UserStack {
        if let Some(known) = self.user_stacks.get(&(key.tgid, key.user_stack)) {
            return known.clone();
        }
        let mut frames = Vec::new();
        for (i, ip) in self.frames(key.user_stack).iter().enumerate() {
            let Some(frame) = self.user.get(key.tgid, lookup_address(*ip, i == 0)) else { break };
            let frame = self.profile.intern_frame(frame.clone());
            frames.push(self.profile.intern_location(frame, *ip));
        }
        frames.reverse();
        let stack = if frames.is_empty() { None } else { Some(frames.into()) };
        self.user_stacks.insert((key.tgid, key.user_stack), stack.clone());
        stack
    }

    /// What stands for a user stack without names, so that it is still known to be one.
    fn unknown_user(&mut self) -> Arc<[LocationId]> {
        let frame = self.profile.intern_frame(Frame::user("[unknown]", "[unknown]"));
        [self.profile.intern_location(frame, 0)].into()
    }

    fn labels(&mut self, key: &WeightKey) -> crate::profile::LabelsId {
        let length = key.comm.iter().position(|byte| *byte == 0).unwrap_or(key.comm.len());
        let mut labels = Labels {
            comm: Some(String::from_utf8_lossy(&key.comm[..length]).into()),
            pid: Some(key.tgid),
            cpu: Some(u32::from(key.cpu)),
            cgroup: self.cgroups.name(key.cgroup),
            ..Labels::default()
        };
        match kind_of(key.stream) {
            Some(Kind::LockWait) => {
                labels.lock = Some(key.detail);
                labels.lock_kind = Some(LockKind::from_flags(u32::from(key.sub)));
            }
            Some(Kind::BlockIo) => {
                labels.device = Some(Device::from_kernel(key.detail as u32));
                labels.op = op_from(u16::from(key.sub));
            }
            Some(Kind::Readahead) => labels.device = Some(Device::from_kernel(key.detail as u32)),
            Some(Kind::PageAlloc) => labels.order = Some(key.detail as u8),
            Some(Kind::Reclaim) if key.detail != reclaim::NO_ORDER => labels.order = Some(key.detail as u8),
            _ => {}
        }
        self.profile.intern_labels(labels)
    }
}

/// How many of the innermost frames belong to tracing itself: everything up to the last one that
/// carries a tracepoint or an eBPF program.
fn tracing_frames(names: &[Frame]) -> usize {
    const DEPTH: usize = 10;
    const TRACING: [&str; 8] = [
        "bpf_prog_",
        "bpf_trampoline_",
        "bpf_trace_run",
        "bpf_get_stack",
        "__bpf_trace_",
        "__traceiter_",
        "trace_call_bpf",
        "perf_trace_",
    ];
    let is_tracing = |frame: &Frame| TRACING.iter().any(|prefix| frame.name.starts_with(prefix));
    names.iter().take(DEPTH).rposition(is_tracing).map_or(0, |last| last + 1)
}

/// Whether a sample of thread 0 shows an idle CPU, and not an interrupt that it serves: interrupts
/// come in through assembly entries, `asm_*` on x86 and `el1*` on arm64.
fn is_idle(names: &[Frame]) -> bool {
    !names.iter().any(|frame| frame.name.starts_with("asm_") || frame.name.starts_with("el1"))
}

fn kind_of(stream: u8) -> Option<Kind> {
    let stream = Stream::ALL.into_iter().find(|known| *known as u8 == stream)?;
    Some(match stream {
        Stream::Cpu => Kind::Cpu,
        Stream::PageAlloc => Kind::PageAlloc,
        Stream::LockSpin | Stream::LockSleep => Kind::LockWait,
        Stream::Readahead => Kind::Readahead,
        Stream::Block => Kind::BlockIo,
        Stream::Bio => Kind::Bio,
        Stream::Reclaim => Kind::Reclaim,
        Stream::Read => return None,
    })
}

fn op_from(number: u16) -> Option<IoOp> {
    match u8::try_from(number).ok()? {
        op::READ => Some(IoOp::Read),
        op::WRITE => Some(IoOp::Write),
        op::DISCARD => Some(IoOp::Discard),
        op::FLUSH => Some(IoOp::Flush),
        _ => None,
    }
}

fn histograms(totals: &Totals) -> Vec<Histogram> {
    let mut histograms: Vec<Histogram> =
        totals.histograms.iter().filter_map(|(key, hist)| histogram(key, hist)).collect();
    if let Some(orders) = order_histogram(&totals.orders) {
        histograms.push(orders);
    }
    histograms.sort_by_key(|hist| (hist.measure, hist.device, hist.op, hist.lock_kind));
    histograms
}

fn histogram(key: &HistKey, hist: &Hist) -> Option<Histogram> {
    let device = (key.device != 0).then(|| Device::from_kernel(key.device));
    let (measure, op, lock_kind) = match key.measure {
        measure::BIO_SIZE => (Measure::BioSize, op_from(key.op), None),
        measure::REQUEST_SIZE => (Measure::RequestSize, op_from(key.op), None),
        measure::REQUEST_LATENCY => (Measure::RequestLatency, op_from(key.op), None),
        measure::LOCK_WAIT => (Measure::LockWait, None, Some(LockKind::from_flags(u32::from(key.op)))),
        measure::READAHEAD_WANTED => (Measure::ReadaheadWanted, None, None),
        measure::READAHEAD_ISSUED => (Measure::ReadaheadIssued, None, None),
        _ => return None,
    };
    Some(Histogram {
        measure,
        device,
        op,
        lock_kind,
        count: hist.count,
        sum: hist.sum,
        buckets: trim(&hist.buckets),
    })
}

/// Allocation sizes: an allocation of order n has 2^n pages, which is bucket n + 1.
fn order_histogram(orders: &[u64]) -> Option<Histogram> {
    let count: u64 = orders.iter().sum();
    if count == 0 {
        return None;
    }
    let sum = orders.iter().enumerate().map(|(order, count)| count << order).sum();
    let buckets: Vec<u64> = std::iter::once(0).chain(orders.iter().copied()).collect();
    Some(Histogram {
        measure: Measure::PageAllocSize,
        device: None,
        op: None,
        lock_kind: None,
        count,
        sum,
        buckets: trim(&buckets),
    })
}

fn trim(buckets: &[u64]) -> Vec<u64> {
    let used = buckets.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    buckets[..used].to_vec()
}

fn locks(totals: &Totals) -> Vec<LockStat> {
    let mut locks: Vec<LockStat> = totals
        .locks
        .iter()
        .map(|(key, value)| LockStat {
            address: key.lock,
            name: None,
            named_by: None,
            kind: LockKind::from_flags(key.flags as u32),
            waits: value.waits,
            total_ns: value.total,
            max_ns: value.max,
            buckets: trim(&value.buckets),
        })
        .collect();
    locks.sort_by_key(|lock| (std::cmp::Reverse(lock.total_ns), lock.address));
    locks.truncate(TABLE);
    locks
}

fn readahead(totals: &Totals) -> Vec<ReadaheadStat> {
    let mut files: Vec<ReadaheadStat> = totals
        .inodes
        .iter()
        .map(|(key, value)| ReadaheadStat {
            device: Device::from_kernel(key.device as u32),
            inode: key.inode,
            sync: value.sync,
            async_: value.async_,
            sequential: value.sequential,
            random: value.random,
            wanted_pages: value.wanted,
            issued_pages: value.issued,
            ra_pages: u32::try_from(value.ra_pages).unwrap_or(u32::MAX),
        })
        .collect();
    files.sort_by_key(|file| (std::cmp::Reverse(file.issued_pages.max(file.wanted_pages)), file.inode));
    files.truncate(TABLE);
    files
}

fn reads(totals: &Totals) -> Vec<ReadStat> {
    let mut stats: Vec<ReadStat> = totals
        .reads
        .iter()
        .map(|(key, value)| {
            let length = key.fs_type.iter().position(|byte| *byte == 0).unwrap_or(key.fs_type.len());
            ReadStat {
                fs_type: String::from_utf8_lossy(&key.fs_type[..length]).into_owned(),
                device: Device::from_kernel(key.device),
                how: match key.how {
                    profiler_common::read::DIRECT => ReadHow::Direct,
                    profiler_common::read::PAGE_CACHE => ReadHow::PageCache,
                    _ => ReadHow::Buffered,
                },
                calls: value.calls,
                bytes: value.bytes,
            }
        })
        .collect();
    // A block device's inode belongs to a pseudo file system, too, but the device has a number.
    stats.retain(|stat| stat.device.major != 0 || !PSEUDO.contains(&stat.fs_type.as_str()));
    stats.sort_by(|a, b| {
        b.bytes.cmp(&a.bytes).then_with(|| (&a.fs_type, a.device).cmp(&(&b.fs_type, b.device)))
    });
    stats.truncate(TABLE);
    stats
}

fn block(totals: &Totals) -> Vec<BlockStat> {
    let mut stats: HashMap<(u32, u16), BlockStat> = HashMap::new();
    for (key, hist) in &totals.histograms {
        let measured = [
            measure::BIO_SIZE,
            measure::REQUEST_SIZE,
            measure::COMPLETED_SIZE,
            measure::REQUEST_LATENCY,
            measure::CONTIGUOUS_SIZE,
            measure::FUA_SIZE,
        ];
        if !measured.contains(&key.measure) {
            continue;
        }
        let Some(op) = op_from(key.op) else { continue };
        let stat = stats.entry((key.device, key.op)).or_insert_with(|| BlockStat {
            device: Device::from_kernel(key.device),
            op,
            ..BlockStat::default()
        });
        match key.measure {
            measure::BIO_SIZE => (stat.bios, stat.bio_bytes) = (hist.count, hist.sum),
            measure::REQUEST_SIZE => (stat.requests, stat.request_bytes) = (hist.count, hist.sum),
            measure::COMPLETED_SIZE => stat.completed_bytes = hist.sum,
            measure::CONTIGUOUS_SIZE => {
                (stat.contiguous, stat.contiguous_bytes) = (hist.count, hist.sum);
            }
            measure::FUA_SIZE => stat.fua = hist.count,
            _ => stat.completed = hist.count,
        }
    }
    let mut stats: Vec<BlockStat> = stats.into_values().collect();
    stats.sort_by_key(|stat| {
        (std::cmp::Reverse(stat.bio_bytes.max(stat.request_bytes)), stat.device, stat.op)
    });
    stats
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Frame> {
        names.iter().map(|name| Frame::kernel(name)).collect()
    }

    #[test]
    fn tracing_frames_are_dropped_and_no_others() {
        let tp_btf =
            names(&["bpf_prog_1_x", "bpf_trace_run2", "__bpf_trace_contention", "mutex_lock", "vfs_read"]);
        assert_eq!(tracing_frames(&tp_btf), 3);
        // Programs have no names where bpf_jit_kallsyms is off.
        let nameless = names(&["0xffffffffc0001234", "bpf_trace_run2", "mutex_lock"]);
        assert_eq!(tracing_frames(&nameless), 2);
        assert_eq!(tracing_frames(&names(&["mutex_lock", "vfs_read"])), 0);
        assert_eq!(tracing_frames(&[]), 0);
    }

    #[test]
    fn interrupts_of_an_idle_cpu_are_not_idle() {
        assert!(is_idle(&names(&["pv_native_safe_halt", "default_idle", "do_idle", "start_secondary"])));
        assert!(!is_idle(&names(&["blk_done", "sysvec_call", "asm_sysvec_call", "default_idle", "do_idle"])));
    }

    #[test]
    fn orders_become_a_histogram_of_pages() {
        let hist = order_histogram(&[5, 2, 0, 1]).unwrap();
        assert_eq!((hist.count, hist.sum), (8, 5 + 4 + 8));
        assert_eq!(hist.buckets, [0, 5, 2, 0, 1]);
        assert_eq!(order_histogram(&[0, 0]), None);
    }
}
