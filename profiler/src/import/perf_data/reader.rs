//! One pass over the records: names and mappings kept up to date, samples added up.

use std::collections::HashMap;
use std::io::{BufReader, Read, Seek};

use rustc_hash::FxBuildHasher;

use super::bytes::Bytes;
use super::chain::{self, Link, Space};
use super::error::PerfDataError;
use super::events::{self, Choice};
use super::facts;
use super::header::{Attr, Header, MAX_ATTRS, MAX_IDS, flag};
use super::kernel::KernelCode;
use super::processes::Processes;
use super::records::{Record, Records, kind};
use super::rounds::Rounds;
use super::sample::{Mapped, Positions, Sample, field};
use super::stacks::{Code, Place, Stacks, Who};

/// Bytes read at once.
const BUFFER: usize = 1 << 20;
/// Most build ids that come as records.
const MAX_BUILD_IDS: usize = 1 << 16;

/// All that a file holds, addresses still without names.
#[derive(Debug, Default)]
pub struct Contents {
    /// Header and features.
    pub header: Header,
    /// The event that was taken.
    pub choice: Choice,
    /// Build ids by path.
    pub build_ids: HashMap<String, Vec<u8>>,
    /// Code of the kernel.
    pub kernel: KernelCode,
    /// Files that were mapped.
    pub processes: Processes,
    /// The samples.
    pub stacks: Stacks,
    /// What was counted along the way.
    pub counts: Counts,
    /// Whether the file ends within a record, or perf did not get to finish it.
    pub cut_off: bool,
}

/// What was counted along the way.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Samples of the event that was taken.
    pub samples: u64,
    /// Sum of their periods.
    pub period: u64,
    /// Period of all samples so far, unless they differ.
    pub same_period: Option<u64>,
    /// Whether periods differ.
    pub periods_differ: bool,
    /// First and last time of a sample in ns.
    pub times: Option<(u64, u64)>,
    /// Records that the kernel could not deliver.
    pub lost: u64,
    /// Times that the kernel held an event back because it came too often.
    pub throttled: u64,
    /// Records that make no sense.
    pub damaged: u64,
    /// Samples whose user stack was put off to a later record.
    pub deferred: u64,
}

/// Reads a file to its end, for samples of the event that is called `event`, if one is asked for.
pub fn read<R: Read + Seek>(source: R, event: Option<&str>) -> Result<Contents, PerfDataError> {
    let mut source = BufReader::with_capacity(BUFFER, source);
    let mut header = Header::read(&mut source)?;
    let mut records = Records::new(source, header.big_endian, header.data_size);
    let big_endian = header.big_endian;
    let mut build_ids = HashMap::new();

    // In a stream the header comes as records, before everything else.
    let mut replay: Option<(u32, u16, Vec<u8>)> = None;
    if header.data_size.is_none() {
        while let Some(record) = records.next()? {
            if !header_record(&mut header, &mut build_ids, &record)? {
                replay = Some((record.kind, record.misc, record.body.rest().to_vec()));
                break;
            }
        }
    }
    header.name_events();
    let mut pass = Pass::new(&header, event)?;
    let mut rounds = Rounds::default();
    if let Some((kind, misc, body)) = replay {
        pass.take(Record { kind, misc, body: Bytes::new(&body, big_endian) }, &mut rounds);
    }
    while let Some(record) = records.next()? {
        if !header_record(&mut header, &mut build_ids, &record)? {
            pass.take(record, &mut rounds);
        }
    }
    rounds.finish(big_endian, &mut |time, record| pass.event(time, &record));

    let cut_off = records.cut_off || header.unfinished;
    build_ids.extend(facts::build_ids(&header));
    let Pass { choice, kernel, processes, stacks, counts, .. } = pass;
    if counts.samples == 0 {
        return Err(PerfDataError::NoSamples(choice.name));
    }
    Ok(Contents { header, choice, build_ids, kernel, processes, stacks, counts, cut_off })
}

/// Takes a record that is part of the header; false if it is not.
fn header_record(
    header: &mut Header,
    build_ids: &mut HashMap<String, Vec<u8>>,
    record: &Record<'_>,
) -> Result<bool, PerfDataError> {
    let mut body = record.body;
    match record.kind {
        kind::HEADER_ATTR => {
            // The attribute says how long it is.
            let mut peek = body;
            let size = peek.u32().and_then(|_| peek.u32()).and_then(|size| usize::try_from(size).ok());
            let attr = size.and_then(|size| body.part(size)).and_then(Attr::parse);
            let mut attr = attr.ok_or(PerfDataError::Header("an event is cut off"))?;
            attr.ids = std::iter::from_fn(|| body.u64()).collect();
            let ids: usize = header.attrs.iter().map(|attr| attr.ids.len()).sum();
            if header.attrs.len() >= MAX_ATTRS || ids + attr.ids.len() > MAX_IDS {
                return Err(PerfDataError::TooManyEvents);
            }
            header.attrs.push(attr);
        }
        kind::HEADER_FEATURE => {
            if let Some(number) = body.u64().and_then(|number| u32::try_from(number).ok())
                && super::header::feature::ALL.contains(&number)
            {
                header.features.insert(number, body.rest().to_vec());
            }
        }
        kind::HEADER_BUILD_ID => {
            if let Some((path, id)) = facts::build_id(record.misc, body)
                && build_ids.len() < MAX_BUILD_IDS
            {
                build_ids.insert(path, id);
            }
        }
        // Type (2 is the name), id of the event, name.
        kind::EVENT_UPDATE => {
            if let (Some(2), Some(id)) = (body.u64(), body.u64()) {
                let name = super::bytes::string(body.text());
                if let Some(attr) = header.attrs.iter_mut().find(|attr| attr.ids.contains(&id)) {
                    attr.name = name;
                }
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The state of the pass.
struct Pass {
    attrs: Vec<Attr>,
    by_id: HashMap<u64, usize, FxBuildHasher>,
    taken: Vec<bool>,
    choice: Choice,
    positions: Positions,
    timed: bool,
    kernel: KernelCode,
    processes: Processes,
    stacks: Stacks,
    counts: Counts,
    links: Vec<Link>,
    key: Vec<u32>,
}

impl Pass {
    fn new(header: &Header, event: Option<&str>) -> Result<Self, PerfDataError> {
        let attrs = header.attrs.clone();
        let Some(first) = attrs.first() else {
            return Err(PerfDataError::Header("it names no events"));
        };
        let choice = events::choose(&attrs, event);
        let choice = choice.ok_or_else(|| PerfDataError::NoSuchEvent(events::names(&attrs)))?;
        let ids = attrs.iter().enumerate();
        let by_id = ids.flat_map(|(index, attr)| attr.ids.iter().map(move |id| (*id, index))).collect();
        Ok(Self {
            taken: (0..attrs.len()).map(|index| choice.taken.contains(&index)).collect(),
            positions: Positions::of(first),
            timed: first.sample_type & field::TIME != 0 && first.has(flag::SAMPLE_ID_ALL),
            attrs,
            by_id,
            choice,
            kernel: KernelCode::default(),
            processes: Processes::default(),
            stacks: Stacks::default(),
            counts: Counts::default(),
            links: Vec::new(),
            key: Vec::new(),
        })
    }

    /// Takes a record as it comes: held back until its turn if it has a time.
    fn take(&mut self, record: Record<'_>, rounds: &mut Rounds) {
        match record.kind {
            kind::FINISHED_ROUND => {
                rounds
                    .finish_round(record.body.is_big_endian(), &mut |time, record| self.event(time, &record));
            }
            kind if kind >= kind::FIRST_OF_PERF => {}
            // Without times the order in the file must do.
            _ if !self.timed => {
                let time = self.positions.time(&record);
                self.event(time, &record);
            }
            _ => {
                let time = self.positions.time(&record);
                rounds.push(time, record, &mut |time, record| self.event(time, &record));
            }
        }
    }

    /// Takes a record of the kernel's in its turn.
    fn event(&mut self, time: u64, record: &Record<'_>) {
        let mut body = record.body;
        let understood = match record.kind {
            kind::SAMPLE => self.sample(time, record),
            kind::COMM => self.processes.comm(record),
            kind::FORK => self.processes.fork(body),
            kind::EXIT => self.processes.exit(body),
            kind::MMAP | kind::MMAP2 => {
                match Mapped::parse(record) {
                    Some(mapped) if mapped.pid == u32::MAX => self.kernel.mapped(&mapped),
                    Some(mapped) => self.processes.mapped(&mapped),
                    None => {}
                }
                Some(())
            }
            kind::KSYMBOL => self.kernel.generated(body),
            // Id, then how many; the other kind only how many.
            kind::LOST => body.u64().and_then(|_| self.lost(body)),
            kind::LOST_SAMPLES => self.lost(body),
            kind::THROTTLE => {
                self.counts.throttled += 1;
                Some(())
            }
            _ => Some(()),
        };
        if understood.is_none() {
            self.counts.damaged += 1;
        }
    }

    fn lost(&mut self, mut body: Bytes<'_>) -> Option<()> {
        self.counts.lost = self.counts.lost.saturating_add(body.u64()?);
        Some(())
    }

    fn sample(&mut self, time: u64, record: &Record<'_>) -> Option<()> {
        let index = match self.attrs.len() {
            1 => 0,
            // perf takes the first for those with an unknown id, too.
            _ => self.positions.id(record).and_then(|id| self.by_id.get(&id).copied()).unwrap_or(0),
        };
        if !self.taken[index] {
            return Some(());
        }
        let sample = Sample::parse(&self.attrs[index], record.body)?;
        self.counts.add(time, sample.period);
        if chain::links(&sample, record.misc, &mut self.links) {
            self.counts.deferred += 1;
        }
        let comm = self.processes.comm_of(sample.tid).cloned();
        let who = self.stacks.who(&Who { comm, pid: sample.pid, cpu: sample.cpu });
        if self.places(sample.pid, who).is_some() {
            self.stacks.add(&self.key, sample.period);
        } else {
            self.stacks.lost += 1;
        }
        Some(())
    }

    /// Makes the stack's key of its links; `None` where there is no room for another address.
    fn places(&mut self, pid: u32, who: u32) -> Option<()> {
        self.key.clear();
        for (depth, link) in self.links.iter().enumerate() {
            let (code, address) = match link.space {
                Space::Kernel => (Code::Kernel, link.address),
                Space::Guest => (Code::Guest, 0),
                Space::User => match self.processes.find(pid, link.address) {
                    Some((object, offset)) => (Code::Object(object), offset),
                    None if depth == 0 => (Code::Unknown, link.address),
                    // A caller where nothing is mapped: the walk has gone astray.
                    None => break,
                },
            };
            self.key.push(self.stacks.place(Place { code, address, exact: link.exact })?);
        }
        self.key.push(who);
        self.key.reverse();
        Some(())
    }
}

impl Counts {
    fn add(&mut self, time: u64, period: u64) {
        self.samples += 1;
        self.period = self.period.saturating_add(period);
        let same = *self.same_period.get_or_insert(period);
        self.periods_differ |= same != period;
        if time > 0 {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
    }
}
