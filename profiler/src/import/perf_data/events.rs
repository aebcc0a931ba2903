//! Which of a file's events tells where CPU time goes.

use super::header::{Attr, flag};

/// Types of events: `PERF_TYPE_*`.
mod kind {
    pub const HARDWARE: u32 = 0;
    pub const SOFTWARE: u32 = 1;
    pub const TRACEPOINT: u32 = 2;
    pub const HW_CACHE: u32 = 3;
    pub const RAW: u32 = 4;
    pub const BREAKPOINT: u32 = 5;
}

const HARDWARE: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];

const SOFTWARE: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];

/// The events that are taken, by their index, and what the others are called.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Taken: one event, or the same one of several kinds of cores.
    pub taken: Vec<usize>,
    /// What it is called.
    pub name: String,
    /// Whether its count goes with time.
    pub is_time: bool,
    /// The names of the others, without those that sample nothing.
    pub others: Vec<String>,
}

/// The event to take: the one that is called `wanted`, or else the one that tells most about CPU time.
/// `None` where there is none.
pub fn choose(attrs: &[Attr], wanted: Option<&str>) -> Option<Choice> {
    let is_wanted =
        |attr: &Attr| wanted.is_none_or(|wanted| name(attr) == wanted || plain_name(attr) == wanted);
    let (best, rank) = attrs
        .iter()
        .enumerate()
        .filter(|(_, attr)| is_wanted(attr))
        .filter_map(|(index, attr)| Some((index, rank(attr)?)))
        .min_by_key(|(index, rank)| (*rank, *index))?;
    let chosen = plain_name(&attrs[best]);
    // On hybrid machines each kind of core has its own: cpu_core/cycles/ and cpu_atom/cycles/.
    let taken: Vec<usize> =
        (0..attrs.len()).filter(|index| *index == best || plain_name(&attrs[*index]) == chosen).collect();
    let mut others: Vec<String> = (0..attrs.len())
        .filter(|index| !taken.contains(index) && !is_silent(&attrs[*index]))
        .map(|index| name(&attrs[index]))
        .collect();
    others.dedup();
    Some(Choice { name: name(&attrs[best]), is_time: rank < NOT_TIME, taken, others })
}

/// Names of all events that sample something.
pub fn names(attrs: &[Attr]) -> String {
    let names: Vec<String> = attrs.iter().filter(|attr| !is_silent(attr)).map(name).take(20).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The name of an event, as on perf's command line.
pub fn name(attr: &Attr) -> String {
    if !attr.name.is_empty() {
        return attr.name.clone();
    }
    // The upper half tells kinds of cores apart (PERF_PMU_TYPE_SHIFT).
    let config = (attr.config & u64::from(u32::MAX)) as usize;
    let known = match attr.kind {
        kind::HARDWARE => HARDWARE.get(config),
        kind::SOFTWARE => SOFTWARE.get(config),
        _ => None,
    };
    known.map_or_else(|| format!("event {}:{:#x}", attr.kind, attr.config), |name| (*name).to_owned())
}

/// How an event is sampled: `4000 Hz`, `every 1000000`.
pub fn rate(attr: &Attr) -> String {
    if attr.has(flag::FREQ) {
        format!("{} Hz", attr.sample_period)
    } else {
        format!("every {}", attr.sample_period)
    }
}

/// Number of the software event that never happens.
const DUMMY: u64 = 9;
/// From this rank on an event does not go with time.
const NOT_TIME: u32 = 10;

/// The lower the better; `None` for events without samples.
fn rank(attr: &Attr) -> Option<u32> {
    match plain_name(attr).as_str() {
        "cycles" | "cpu-cycles" => return Some(0),
        "ref-cycles" => return Some(1),
        "cpu-clock" => return Some(2),
        "task-clock" => return Some(3),
        _ => {}
    }
    match (attr.kind, attr.config & u64::from(u32::MAX)) {
        (kind::HARDWARE, 0) => Some(0),
        (kind::HARDWARE, 9) => Some(1),
        (kind::SOFTWARE, 0) => Some(2),
        (kind::SOFTWARE, 1) => Some(3),
        (kind::HARDWARE, 1) => Some(NOT_TIME),
        (kind::HARDWARE | kind::RAW | kind::HW_CACHE, _) => Some(NOT_TIME + 1),
        (kind::SOFTWARE, DUMMY) => None,
        (kind::SOFTWARE | kind::TRACEPOINT | kind::BREAKPOINT, _) => Some(NOT_TIME + 2),
        // PMUs of the CPU's own, such as `cpu/.../` and `ibs_op//`; not those of a chip or of probes.
        _ => {
            let pmu = attr.name.split('/').next().unwrap_or_default();
            let own = ["cpu", "ibs_", "armv8"].iter().any(|own| pmu.starts_with(own));
            Some(if own { NOT_TIME + 1 } else { NOT_TIME + 2 })
        }
    }
}

/// The name without the PMU and without modifiers: `cycles` of `cpu_core/cycles/P`.
fn plain_name(attr: &Attr) -> String {
    let name = name(attr);
    match name.split_once('/') {
        Some((pmu, rest)) if pmu.starts_with("cpu") => {
            rest.split(['/', ',']).next().unwrap_or(rest).to_owned()
        }
        Some(_) => name,
        None => name.split(':').next().unwrap_or(&name).to_owned(),
    }
}

/// Events that perf records only to be told of mappings.
fn is_silent(attr: &Attr) -> bool {
    attr.kind == kind::SOFTWARE && attr.config == DUMMY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(kind: u32, config: u64, name: &str) -> Attr {
        Attr { kind, config, name: name.to_owned(), ..Attr::default() }
    }

    fn chosen(attrs: &[Attr], wanted: Option<&str>) -> Option<(Vec<usize>, String, bool, String)> {
        choose(attrs, wanted)
            .map(|choice| (choice.taken, choice.name, choice.is_time, choice.others.join(" ")))
    }

    #[test]
    fn time_comes_first() {
        let attrs = [
            attr(kind::TRACEPOINT, 77, "block:block_rq_issue"),
            attr(kind::HARDWARE, 1, "instructions"),
            attr(kind::SOFTWARE, 0, "cpu-clock:pppH"),
            attr(kind::SOFTWARE, 9, "dummy:HG"),
        ];
        let others = "block:block_rq_issue instructions".to_owned();
        assert_eq!(chosen(&attrs, None), Some((vec![2], "cpu-clock:pppH".to_owned(), true, others)));
        assert_eq!(chosen(&attrs[3..], None), None);
        assert_eq!(chosen(&attrs, Some("cycles")), None);
        for (wanted, index) in [("block:block_rq_issue", 0), ("instructions", 1), ("cpu-clock", 2)] {
            assert_eq!(chosen(&attrs, Some(wanted)).unwrap().0, [index]);
        }
        assert_eq!(names(&attrs), "block:block_rq_issue, instructions, cpu-clock:pppH");
        let no_time = chosen(&attrs[..2], None).unwrap();
        assert_eq!((no_time.0, no_time.2), (vec![1], false));
    }

    #[test]
    fn the_cycles_of_all_cores() {
        let attrs = [
            attr(kind::HARDWARE, 8 << 32, "cpu_atom/cycles/P"),
            attr(kind::HARDWARE, 4 << 32, "cpu_core/cycles/P"),
            attr(10, 0, "uncore_imc_0/cas/"),
        ];
        let choice = choose(&attrs, None).unwrap();
        assert_eq!((choice.taken, choice.is_time), (vec![0, 1], true));
        assert!(choose(&attrs[2..], None).is_some_and(|choice| !choice.is_time));
        assert_eq!(name(&attr(kind::SOFTWARE, 1, "")), "task-clock");
        assert_eq!(name(&attr(kind::RAW, 0x1cd, "")), "event 4:0x1cd");
        assert!(choose(&[attr(11, 0, "ibs_op//")], None).is_some_and(|choice| !choice.is_time));
    }
}
