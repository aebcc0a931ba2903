//! Session to pprof.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use prost::bytes::Bytes;

use super::super::kind::{Kind, Unit};
use super::super::labels::Labels;
use super::super::session::Session;
use super::super::stacks::{Frame, Origin, Profile, Stack};
use super::messages;
use super::{EVENTS_SUFFIX, KERNEL_MAPPING, KERNEL_START, key};

/// The stacks of `session` as a gzipped pprof file.
///
/// Equal sessions give equal bytes. Counts and weights over `i64::MAX`, the most that pprof can hold, become
/// `i64::MAX`; stacks that stand for nothing (count and weight 0) are left out.
pub fn encode(session: &Session) -> Vec<u8> {
    let message = Encoder::default().session(session);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&message.encode_to_vec())
        .and_then(|()| gzip.finish())
        .expect("writing to memory does not fail")
}

/// The columns of a sample's values that belong to a kind.
#[derive(Clone, Copy)]
struct Columns {
    weight: usize,
    events: Option<usize>,
}

#[derive(Default)]
struct Encoder {
    strings: Vec<Bytes>,
    string_ids: HashMap<Arc<str>, i64>,
    mappings: Vec<messages::Mapping>,
    mapping_ids: HashMap<(Origin, Option<Arc<str>>), u64>,
}

impl Encoder {
    fn session(mut self, session: &Session) -> messages::Profile {
        let profile = &session.profile;
        self.string(""); // index 0 has to be the empty string

        let (sample_type, columns) = self.sample_types(profile);
        let default_sample_type = sample_type.first().map_or(0, |first| first.r#type);
        let function = self.functions(profile);
        let location = self.locations(profile);
        let sample = profile
            .stacks()
            .iter()
            .filter(|stack| stack.count > 0 || stack.weight > 0)
            .map(|stack| self.sample(profile, stack, sample_type.len(), &columns))
            .collect();

        let period = cpu_period_ns(session);
        let period_type = period.map(|_| self.value_type("cpu", Unit::Nanoseconds));
        let mut comment = vec![self.string(&format!("profiler {}", session.tool))];
        if !session.host.kernel.is_empty() {
            comment.push(self.string(&format!("Linux {} {}", session.host.kernel, session.host.arch)));
        }
        messages::Profile {
            sample_type,
            sample,
            mapping: self.mappings,
            location,
            function,
            string_table: self.strings,
            time_nanos: session
                .started
                .map_or(0, |started| i64::try_from(started.as_nanosecond()).unwrap_or(0)),
            duration_nanos: saturate(session.duration_ns),
            period_type,
            period: period.map_or(0, saturate),
            comment,
            default_sample_type,
        }
    }

    /// The sample types, `cpu` first if there is any: readers show the default, which is the first.
    fn sample_types(&mut self, profile: &Profile) -> (Vec<messages::ValueType>, HashMap<Kind, Columns>) {
        let mut kinds = profile.kinds();
        if kinds.is_empty() {
            kinds.push(Kind::Cpu); // a profile without sample types is not valid
        }
        let mut types = Vec::new();
        let mut columns = HashMap::new();
        for kind in kinds {
            let weight = types.len();
            types.push(self.value_type(kind.name(), kind.unit()));
            let events = profile.of_kind(kind).any(|stack| stack.count != stack.weight).then(|| {
                types.push(self.value_type(&format!("{}{EVENTS_SUFFIX}", kind.name()), Unit::Events));
                types.len() - 1
            });
            columns.insert(kind, Columns { weight, events });
        }
        (types, columns)
    }

    /// One function a frame; the ids are those of the frames + 1.
    fn functions(&mut self, profile: &Profile) -> Vec<messages::Function> {
        (1..)
            .zip(profile.frames())
            .map(|(id, frame)| {
                let name = self.shared_string(&frame.name);
                messages::Function { id, name, system_name: name }
            })
            .collect()
    }

    /// The locations; the ids are the profile's own + 1.
    fn locations(&mut self, profile: &Profile) -> Vec<Bytes> {
        (1..)
            .zip(profile.locations())
            .map(|(id, location)| {
                let line = vec![messages::Line { function_id: u64::from(location.frame.0) + 1 }];
                let mapping_id = self.mapping(profile.frame(location.frame));
                messages::Location { id, mapping_id, address: location.address, line }.encode_to_vec().into()
            })
            .collect()
    }

    fn sample(
        &mut self,
        profile: &Profile,
        stack: &Stack,
        columns: usize,
        of_kind: &HashMap<Kind, Columns>,
    ) -> Bytes {
        let mut value = vec![0; columns];
        let own = of_kind[&stack.kind];
        value[own.weight] = saturate(stack.weight);
        if let Some(events) = own.events {
            value[events] = saturate(stack.count);
        }
        let location_id = stack.frames.iter().rev().map(|location| u64::from(location.0) + 1).collect();
        let label = self.labels(profile.labels(stack.labels));
        messages::Sample { location_id, value, label }.encode_to_vec().into()
    }

    /// All labels are strings: `go tool pprof` drops a number that is 0 and appends its key to the others.
    fn labels(&mut self, labels: &Labels) -> Vec<messages::Label> {
        let texts = [
            (key::COMM, labels.comm.clone()),
            (key::PID, labels.pid.map(|pid| pid.to_string().into())),
            (key::CPU, labels.cpu.map(|cpu| cpu.to_string().into())),
            (key::CGROUP, labels.cgroup.clone()),
            (key::LOCK_KIND, labels.lock_kind.map(|kind| kind.name().into())),
            (key::LOCK, labels.lock.map(|address| format!("{address:#x}").into())),
            (key::DEVICE, labels.device.map(|device| device.to_string().into())),
            (key::OP, labels.op.map(|op| op.name().into())),
            (key::ORDER, labels.order.map(|order| order.to_string().into())),
        ];
        texts
            .into_iter()
            .filter_map(|(key, text)| {
                let text: Arc<str> = text?;
                Some(messages::Label {
                    key: self.string(key),
                    str: self.shared_string(&text),
                    ..Default::default()
                })
            })
            .collect()
    }

    /// The mapping of a frame: one for the kernel, for each module and for each binary.
    fn mapping(&mut self, frame: &Frame) -> u64 {
        let owner = (frame.origin, frame.module.clone());
        if let Some(id) = self.mapping_ids.get(&owner) {
            return *id;
        }
        let filename = match (frame.origin, &frame.module) {
            (Origin::Kernel, None) => self.string(KERNEL_MAPPING),
            (Origin::Kernel, Some(module)) => self.string(&format!("[{module}]")),
            (Origin::User, Some(binary)) => self.shared_string(binary),
            (Origin::User, None) => 0,
        };
        // The ranges do not touch: `go tool pprof` merges adjacent mappings.
        let (memory_start, memory_limit) = match frame.origin {
            Origin::Kernel => (KERNEL_START, u64::MAX),
            Origin::User => (0, KERNEL_START - 1),
        };
        let id = self.mappings.len() as u64 + 1;
        self.mappings.push(messages::Mapping {
            id,
            memory_start,
            memory_limit,
            filename,
            has_functions: true,
        });
        self.mapping_ids.insert(owner, id);
        id
    }

    fn value_type(&mut self, name: &str, unit: Unit) -> messages::ValueType {
        messages::ValueType { r#type: self.string(name), unit: self.string(unit.name()) }
    }

    fn string(&mut self, text: &str) -> i64 {
        match self.string_ids.get(text) {
            Some(id) => *id,
            None => self.shared_string(&text.into()),
        }
    }

    fn shared_string(&mut self, text: &Arc<str>) -> i64 {
        if let Some(id) = self.string_ids.get(text) {
            return *id;
        }
        let id = self.strings.len() as i64;
        self.strings.push(Bytes::copy_from_slice(text.as_bytes()));
        self.string_ids.insert(text.clone(), id);
        id
    }
}

/// Mean time between two CPU samples of one CPU in ns, where the session knows it.
fn cpu_period_ns(session: &Session) -> Option<u64> {
    let due = session.probes.iter().find(|probe| probe.kind == Some(Kind::Cpu) && probe.due > 0)?.due;
    let cpu_time = session.duration_ns.saturating_mul(u64::from(session.host.cpus));
    Some(cpu_time / due).filter(|period| *period > 0)
}

fn saturate(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
