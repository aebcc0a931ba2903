//! What probes counted, a second.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::profile::kind::Unit;
use crate::profile::session::{ReadHow, Session};

/// A counter of both sessions, by the length of each.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// What is counted. Untrusted.
    pub what: String,
    /// Its unit; `None` where it is no rate but the size of one, in bytes.
    pub unit: Option<Unit>,
    /// How many a second, or the size. `None` where it was not counted.
    pub values: [Option<f64>; 2],
}

/// Rates of everything that either counted; empty where the length of a session is unknown.
pub fn rates(sessions: [&Session; 2]) -> Vec<Rate> {
    if sessions.iter().any(|session| session.duration_ns == 0) {
        return Vec::new();
    }
    let sides = sessions.map(counters);
    let mut keys: Vec<&(String, Option<Unit>)> = sides.iter().flat_map(BTreeMap::keys).collect();
    keys.sort();
    keys.dedup();
    let rate = |key: &(String, Option<Unit>)| Rate {
        what: key.0.clone(),
        unit: key.1,
        values: sides.each_ref().map(|side| side.get(key).copied()),
    };
    keys.into_iter().map(rate).filter(|rate| rate.values.iter().flatten().any(|value| *value > 0.0)).collect()
}

type Counters = BTreeMap<(String, Option<Unit>), f64>;

/// Beginnings of the names of counters that are about the collection.
const OWN_COUNTERS: &[&str] = &["counted after the last stack", "due on idle CPUs", "samples of"];

fn counters(session: &Session) -> Counters {
    let seconds = session.duration_ns as f64 / 1e9;
    let mut counters = Counters::new();
    let mut add = |what: String, unit: Unit, value: u64| {
        *counters.entry((what, Some(unit))).or_default() += value as f64 / seconds;
    };
    for block in &session.block {
        let what = format!("{} {}", session.device_name(block.device), block.op.name());
        add(what.clone(), Unit::Bytes, block.request_bytes);
        add(format!("{what} requests"), Unit::Events, block.requests);
    }
    for lock in &session.locks {
        add(format!("{} waits", lock.kind.name()), Unit::Events, lock.waits);
        add(format!("{} waits, time", lock.kind.name()), Unit::Nanoseconds, lock.total_ns);
    }
    for read in &session.reads {
        let how = match read.how {
            ReadHow::Buffered => "buffered reads",
            ReadHow::Direct => "direct reads",
            ReadHow::PageCache => "page cache lookups",
        };
        let what = format!("{} {how}", read.fs_type);
        add(what.clone(), Unit::Bytes, read.bytes);
        add(format!("{what}, calls"), Unit::Events, read.calls);
    }
    for stat in &session.readahead {
        add("readahead wanted".to_owned(), Unit::Pages, stat.wanted_pages);
        add("readahead issued".to_owned(), Unit::Pages, stat.issued_pages);
    }
    for probe in session.probes.iter().filter(|probe| probe.is_attached()) {
        // Of samples the number says only how often one was taken.
        if probe.name != "cpu" {
            add(format!("probe {}", probe.name), Unit::Events, probe.events);
        }
        // How the collection itself went says nothing about the machine.
        let own = |name: &str| OWN_COUNTERS.iter().any(|start| name.starts_with(start));
        for counter in probe.counters.iter().filter(|counter| !own(&counter.name)) {
            add(format!("probe {}: {}", probe.name, counter.name), counter.unit, counter.value);
        }
    }
    for block in session.block.iter().filter(|block| block.requests > 0) {
        let what = format!("{} {} request size", session.device_name(block.device), block.op.name());
        counters.insert((what, None), block.request_bytes as f64 / block.requests as f64);
    }
    counters
}
