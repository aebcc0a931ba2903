//! Facts about machine and measurement that differ.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::profile::session::{BlockDevice, Host, Mount, Probe, ProbeState, Session};
use crate::profile::units;

/// A fact that is not the same for both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// What.
    pub what: String,
    /// What it is on each side; `None` where it is unknown. Untrusted.
    pub values: [Option<String>; 2],
}

/// The facts that differ. What neither side knows is no difference.
pub fn facts(sessions: [&Session; 2]) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |what: String, values: [Option<String>; 2]| {
        if values[0] != values[1] {
            facts.push(Fact { what, values });
        }
    };
    let hosts = sessions.map(|session| &session.host);
    for (what, of) in HOST {
        add((*what).to_owned(), hosts.map(of));
    }
    let devices = hosts.map(|host| by(&host.devices, |device| device.name.as_str()));
    for name in names(&devices) {
        for (what, of) in DEVICE {
            add(
                format!("{name} {what}"),
                devices.each_ref().map(|side| side.get(name).and_then(|device| of(device))),
            );
        }
    }
    let mounts = hosts.map(|host| by(&host.mounts, |mount| mount.mount_point.as_str()));
    for name in names(&mounts) {
        for (what, of) in MOUNT {
            add(
                format!("{name} {what}"),
                mounts.each_ref().map(|side| side.get(name).and_then(|mount| of(mount))),
            );
        }
    }
    let probes = sessions.map(|session| by(&session.probes, |probe| probe.name.as_str()));
    for name in names(&probes) {
        add(format!("probe {name}"), probes.each_ref().map(|side| side.get(name).map(|probe| rung(probe))));
    }
    facts
}

type Of<T> = (&'static str, fn(&T) -> Option<String>);

const HOST: &[Of<Host>] = &[
    ("host", |host| text(&host.hostname)),
    ("kernel", |host| text(&host.kernel)),
    ("architecture", |host| text(&host.arch)),
    ("CPU model", |host| text(&host.cpu_model)),
    ("CPUs", |host| (host.cpus > 0).then(|| host.cpus.to_string())),
    ("sockets", |host| host.sockets.map(|count| count.to_string())),
    ("cores a socket", |host| host.cores_per_socket.map(|count| count.to_string())),
    ("threads a core", |host| host.threads_per_core.map(|count| count.to_string())),
    ("NUMA nodes", |host| host.numa_nodes.map(|count| count.to_string())),
    ("hypervisor", |host| host.hypervisor.clone()),
    ("steal", |host| host.steal.map(|share| format!("{:.1}%", share * 100.0))),
    ("memory", |host| (host.memory > 0).then(|| units::bytes(host.memory as f64))),
    ("page size", |host| (host.page_size > 0).then(|| units::bytes(host.page_size as f64))),
];

const DEVICE: &[Of<BlockDevice>] = &[
    ("size", |device| (device.size > 0).then(|| units::bytes(device.size as f64))),
    ("scheduler", |device| device.scheduler.clone()),
    ("read_ahead_kb", |device| device.read_ahead_kb.map(|kib| kib.to_string())),
    ("max_sectors_kb", |device| device.max_sectors_kb.map(|kib| kib.to_string())),
    ("nr_requests", |device| device.nr_requests.map(|count| count.to_string())),
    ("rotational", |device| device.rotational.map(|is| if is { "yes" } else { "no" }.to_owned())),
];

const MOUNT: &[Of<Mount>] = &[
    ("file system", |mount| text(&mount.fs_type)),
    ("device", |mount| text(&mount.source)),
    ("options", |mount| text(&mount.options)),
    ("read_ahead_kb", |mount| mount.read_ahead_kb.map(|kib| kib.to_string())),
];

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn rung(probe: &Probe) -> String {
    match &probe.state {
        ProbeState::Attached { rung, to, .. } => format!("{rung} {}", to.join(", ")),
        ProbeState::Failed { .. } => "could not be attached".to_owned(),
        ProbeState::Off => "off".to_owned(),
    }
}

fn by<'s, T>(items: &'s [T], name: impl Fn(&'s T) -> &'s str) -> BTreeMap<&'s str, &'s T> {
    items.iter().map(|item| (name(item), item)).collect()
}

fn names<'s, T>(sides: &[BTreeMap<&'s str, &'s T>; 2]) -> BTreeSet<&'s str> {
    sides.iter().flat_map(BTreeMap::keys).copied().collect()
}
