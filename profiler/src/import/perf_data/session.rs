//! From what a file holds to a session: names, weights, and what there is to say.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::PerfDataError;
use super::events;
use super::facts;
use super::header::flag;
use super::kernel::KernelNames;
use super::reader::Contents;
use super::sample::field;
use super::stacks::{Code, Place, Sum};
use super::user::UserNames;
use super::{Options, Recording};
use crate::profile::session::SHARES_TOTAL;
use crate::profile::{
    Frame, Kind, LocationId, Loss, Origin, Probe, ProbeState, Profile, Session, Source, Stack, Weights,
};

/// Name of the probe that the samples count as.
const PROBE: &str = "cpu";
/// How the kernel and its symbols are called in perf's tables of build ids.
const KERNEL: &str = "[kernel.kallsyms]";

/// Makes a session of what was read.
pub fn session(contents: Contents, options: &Options) -> Result<Recording, PerfDataError> {
    let mut session = Session::new(Source::Imported { format: "perf.data".to_owned() });
    session.host = facts::host(&contents.header);
    session.target = facts::target(&contents.header);
    if let Some((first, last)) = contents.counts.times {
        session.duration_ns = last - first;
        session.started = facts::clock(&contents.header).and_then(|(own, wall)| {
            let start = i128::from(wall) + i128::from(first) - i128::from(own);
            jiff::Timestamp::from_nanosecond(start).ok()
        });
    }
    session.probes = vec![probe(&contents)];
    session.losses = losses(&contents);
    session.blind_spots = blind_spots(&contents);
    let warnings = warnings(&contents);

    let Contents { build_ids, kernel, processes, stacks, counts, .. } = contents;
    let build_id = build_ids.get(KERNEL).cloned();
    let mut kernel =
        KernelNames::new(kernel, &session.host, build_id.as_deref(), options.kallsyms.as_deref());
    let mut user = UserNames::new(build_ids, &session.host);
    let frames = name(stacks.places(), &mut kernel, &mut user, |index| processes.objects().get(index));

    let mut profile = Profile::new();
    let locations: Vec<LocationId> = frames
        .into_iter()
        .zip(stacks.places())
        .map(|(frame, place)| {
            let frame = profile.intern_frame(frame);
            profile.intern_location(frame, place.address)
        })
        .collect();
    let labels: Vec<_> = stacks.labels().into_iter().map(|labels| profile.intern_labels(labels)).collect();
    let mut weigh = Weigher::new(counts.period, counts.periods_differ);
    session.weights = if counts.periods_differ { Weights::Periods } else { Weights::Counts };
    for (who, places, sum) in stacks.into_sums() {
        profile.push(Stack {
            kind: Kind::Cpu,
            frames: places.iter().map(|place| locations[*place as usize]).collect(),
            labels: labels[who as usize],
            count: sum.samples,
            weight: weigh.weight(sum),
        });
    }
    session.profile = profile;
    if let Some(why) = &kernel.missing {
        session.blind_spots.push(format!("Functions of the kernel have no names: {why}."));
    }
    session.blind_spots.extend(user.missing());
    Ok(Recording { session, warnings })
}

/// Gives each place a name.
fn name<'o>(
    places: &[Place],
    kernel: &mut KernelNames,
    user: &mut UserNames,
    object: impl Fn(usize) -> Option<&'o super::processes::Object>,
) -> Vec<Frame> {
    let mut by_code: BTreeMap<Code, Vec<usize>> = BTreeMap::new();
    for (index, place) in places.iter().enumerate() {
        by_code.entry(place.code).or_default().push(index);
    }
    let nothing = Frame { name: "?".into(), module: None, origin: Origin::User };
    let mut frames = vec![nothing; places.len()];
    let guest: Arc<str> = "[guest]".into();
    for (code, indexes) in by_code {
        let chosen = indexes.iter().map(|index| places[*index]);
        let found: Vec<Frame> = match code {
            Code::Kernel => {
                kernel.resolve(&chosen.map(|place| (place.address, place.exact)).collect::<Vec<_>>())
            }
            Code::Object(number) => {
                let Some(object) = object(number as usize) else { continue };
                let offsets: Vec<u64> = chosen
                    .map(|place| crate::symbolize::lookup_address(place.address, place.exact))
                    .collect();
                user.resolve(object, &offsets)
            }
            Code::Unknown => {
                chosen.map(|place| Frame::user(&format!("{:#018x}", place.address), "[unknown]")).collect()
            }
            Code::Guest => {
                chosen.map(|_| Frame { name: guest.clone(), module: None, origin: Origin::Kernel }).collect()
            }
        };
        for (index, frame) in indexes.into_iter().zip(found) {
            frames[index] = frame;
        }
    }
    frames
}

/// Turns sums of periods into weights.
struct Weigher {
    total: u128,
    differ: bool,
    /// Periods and weights given out so far: rounding is carried on, so that the weights add up.
    periods: u128,
    given: u64,
}

impl Weigher {
    fn new(total: u64, differ: bool) -> Self {
        Self { total: u128::from(total), differ, periods: 0, given: 0 }
    }

    fn weight(&mut self, sum: Sum) -> u64 {
        if !self.differ {
            return sum.samples;
        }
        self.periods += u128::from(sum.period);
        let until = self.periods.min(self.total) * u128::from(SHARES_TOTAL) / self.total.max(1);
        let until = u64::try_from(until).unwrap_or(SHARES_TOTAL);
        let weight = until - self.given;
        self.given = until;
        weight
    }
}

fn probe(contents: &Contents) -> Probe {
    let attr = contents.choice.taken.first().and_then(|index| contents.header.attrs.get(*index));
    let rate = attr.map(events::rate).unwrap_or_default();
    let mut notes = Vec::new();
    if contents.counts.periods_differ {
        notes.push(
            "samples stand for unequal parts of the event, so shares are by its periods, as perf's"
                .to_owned(),
        );
    }
    Probe {
        state: ProbeState::Attached {
            rung: "perf record".to_owned(),
            to: vec![format!("{}, {rate}", contents.choice.name)],
            notes,
        },
        events: contents.counts.samples,
        weight: contents.counts.samples,
        stacks: contents.counts.samples - contents.stacks.lost.min(contents.counts.samples),
        ..Probe::off(PROBE, Some(Kind::Cpu))
    }
}

fn losses(contents: &Contents) -> Vec<Loss> {
    let all = [
        ("perf's buffer was full", contents.counts.lost),
        ("the record is damaged", contents.counts.damaged),
        ("more distinct stacks than are kept", contents.stacks.lost),
    ];
    all.into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(cause, count)| Loss { probe: PROBE.to_owned(), cause: cause.to_owned(), count })
        .collect()
}

fn blind_spots(contents: &Contents) -> Vec<String> {
    let mut spots = Vec::new();
    let choice = &contents.choice;
    let attr = choice.taken.first().and_then(|index| contents.header.attrs.get(*index));
    if !choice.is_time {
        spots.push(format!(
            "The event {} does not go with time: shares of it are not shares of CPU time.",
            choice.name
        ));
    }
    if !choice.others.is_empty() {
        spots.push(format!(
            "Only the event {} was imported; the file has samples of {} too.",
            choice.name,
            choice.others.join(", ")
        ));
    }
    if let Some(attr) = attr {
        if attr.sample_type & field::CALLCHAIN == 0 {
            spots.push("Without call chains (`perf record -g`): callers are not known.".to_owned());
        }
        if attr.sample_type & field::STACK_USER != 0 {
            spots.push(
                "User stacks were copied to be unwound later (--call-graph dwarf), which is not done."
                    .to_owned(),
            );
        }
        if attr.has(flag::EXCLUDE_KERNEL) || attr.has(flag::EXCLUDE_CALLCHAIN_KERNEL) {
            spots.push("The kernel was left out of the recording.".to_owned());
        }
        if attr.has(flag::EXCLUDE_USER) {
            spots.push("User space was left out of the recording.".to_owned());
        }
    }
    if choice.name.starts_with("cpu-clock") || choice.name.starts_with("task-clock") {
        spots.push(format!(
            "Sampled by {}: code that runs with interrupts off is invisible, and its time lands on the \
             instruction that enables them.",
            choice.name
        ));
    }
    if contents.counts.deferred > 0 {
        spots.push(format!(
            "{} user stacks were put off to later records, which are not joined.",
            contents.counts.deferred
        ));
    }
    if contents.counts.throttled > 0 {
        spots.push(format!(
            "The kernel held sampling back {} times, because it took too long.",
            contents.counts.throttled
        ));
    }
    if contents.stacks.without_cpu {
        spots.push("CPUs are not told apart: there are too many distinct stacks.".to_owned());
    }
    spots
}

fn warnings(contents: &Contents) -> Vec<String> {
    let mut warnings = Vec::new();
    if contents.cut_off {
        warnings.push("the perf.data file is not complete: perf was killed, or the file was cut".to_owned());
    }
    if contents.processes.overflowed {
        warnings.push(
            "the perf.data file has more processes or mappings than are kept; some names are missing"
                .to_owned(),
        );
    }
    if contents.counts.damaged > 0 {
        warnings.push(format!("{} records of the perf.data file are damaged", contents.counts.damaged));
    }
    warnings
}
