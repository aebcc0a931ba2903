//! pprof to profile, for this program's own files and for those of others.

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use prost::Message as _;
use prost::bytes::{Buf as _, Bytes};
use prost::encoding::{DecodeContext, decode_key, skip_field};

use super::super::kind::{Kind, Unit};
use super::super::labels::{Device, IoOp, Labels, LockKind};
use super::super::session::{Session, Source};
use super::super::stacks::{Frame, FrameId, LocationId, Origin, Profile, Stack};
use super::error::{MAX_BYTES, MAX_DEPTH, MAX_ENTRIES, MAX_ENTRY_BYTES, MAX_FRAMES, PprofError};
use super::messages;
use super::{EVENTS_SUFFIX, KERNEL_MAPPING, KERNEL_START, key};

/// The stacks of a pprof file, gzipped or plain.
///
/// A sample type named and counted like a [`Kind`] is that kind. Of other programs' sample types,
/// `samples` (any unit) and else `cpu` in ns (divided by the sampling period, if that is in ns, too) are
/// [`Kind::Cpu`], and `delay` with `contentions` is [`Kind::LockWait`]. Where there is none of these, the
/// default sample type of the file, or else its last one, is taken for [`Kind::Cpu`]. Further sample types
/// and unknown labels are skipped; a label whose value makes no sense is `None`.
pub fn decode(data: &[u8]) -> Result<Profile, PprofError> {
    decode_session(data).map(|session| session.profile)
}

/// Like [`decode`], as an imported session with the times that the file gives.
pub fn decode_session(data: &[u8]) -> Result<Session, PprofError> {
    let data = decompress(data)?;
    check_entries(&data)?;
    let message = messages::Profile::decode(data)?;
    let mut session = Session::new(Source::Imported { format: "pprof".to_owned() });
    if message.time_nanos > 0 {
        session.started = jiff::Timestamp::from_nanosecond(message.time_nanos.into()).ok();
    }
    session.duration_ns = u64::try_from(message.duration_nanos).unwrap_or(0);
    session.profile = Decoder::new(&message)?.profile(&message)?;
    Ok(session)
}

fn decompress(data: &[u8]) -> Result<Bytes, PprofError> {
    if !data.starts_with(&[0x1f, 0x8b]) {
        return if data.len() > MAX_BYTES {
            Err(PprofError::TooLarge)
        } else {
            Ok(Bytes::copy_from_slice(data))
        };
    }
    let mut plain = Vec::new();
    MultiGzDecoder::new(data).take(MAX_BYTES as u64 + 1).read_to_end(&mut plain).map_err(PprofError::Gzip)?;
    if plain.len() > MAX_BYTES { Err(PprofError::TooLarge) } else { Ok(plain.into()) }
}

/// Counts the entries before anything is allocated for them: an empty one takes two bytes in the file.
fn check_entries(data: &Bytes) -> Result<(), PprofError> {
    let mut rest = data.clone();
    let mut entries = 0;
    while rest.has_remaining() {
        let (tag, wire_type) = decode_key(&mut rest)?;
        skip_field(wire_type, tag, &mut rest, DecodeContext::default())?;
        entries += 1;
        if entries > MAX_ENTRIES {
            return Err(PprofError::TooManyEntries);
        }
    }
    Ok(())
}

/// What one value of a sample is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    /// The weight of a stack of this kind, times `scale`.
    Weight { kind: Kind, scale: u64 },
    /// The number of events of a stack of this kind.
    Events(Kind),
    /// Something else.
    Other,
}

/// A mapping as frames see it.
#[derive(Clone)]
struct Owner {
    module: Option<Arc<str>>,
    origin: Origin,
}

struct Decoder {
    strings: Vec<Arc<str>>,
    columns: Vec<Column>,
    mappings: HashMap<u64, Owner>,
    functions: HashMap<u64, Arc<str>>,
    locations: HashMap<u64, Box<[LocationId]>>,
    profile: Profile,
    frames: usize,
}

impl Decoder {
    fn new(message: &messages::Profile) -> Result<Self, PprofError> {
        let strings = message.string_table.iter().map(|text| String::from_utf8_lossy(text).into()).collect();
        let mut decoder = Self {
            strings,
            columns: Vec::new(),
            mappings: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
            profile: Profile::new(),
            frames: 0,
        };
        decoder.columns = decoder.columns(message)?;
        Ok(decoder)
    }

    fn profile(mut self, message: &messages::Profile) -> Result<Profile, PprofError> {
        for mapping in &message.mapping {
            let owner = owner(mapping, self.string(mapping.filename)?);
            if mapping.id == 0 || self.mappings.insert(mapping.id, owner).is_some() {
                return Err(PprofError::Id { what: "mapping", id: mapping.id });
            }
        }
        for function in &message.function {
            let name = match function.name {
                0 => function.system_name,
                name => name,
            };
            let name = self.string(name)?.clone();
            if function.id == 0 || self.functions.insert(function.id, name).is_some() {
                return Err(PprofError::Id { what: "function", id: function.id });
            }
        }
        for (index, encoded) in message.location.iter().enumerate() {
            check_size("location", index, encoded)?;
            self.location(&messages::Location::decode(encoded.clone())?)?;
        }
        for (index, encoded) in message.sample.iter().enumerate() {
            check_size("sample", index, encoded)?;
            self.sample(index, &messages::Sample::decode(encoded.clone())?)?;
        }
        Ok(self.profile)
    }

    fn string(&self, index: i64) -> Result<&Arc<str>, PprofError> {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.strings.get(index))
            .ok_or(PprofError::String { index, len: self.strings.len() })
    }

    /// What each sample type is; see [`decode`].
    fn columns(&self, message: &messages::Profile) -> Result<Vec<Column>, PprofError> {
        let names = message
            .sample_type
            .iter()
            .map(|kind| Ok((&**self.string(kind.r#type)?, &**self.string(kind.unit)?)))
            .collect::<Result<Vec<_>, PprofError>>()?;
        if names.is_empty() {
            return Err(PprofError::NoSampleTypes);
        }
        let mut columns: Vec<Column> = names.iter().map(|(name, unit)| own_column(name, unit)).collect();

        let has = |columns: &[Column], kind| {
            columns
                .iter()
                .any(|column| matches!(column, Column::Weight { kind: known, .. } if *known == kind))
        };
        if !has(&columns, Kind::Cpu) {
            if let Some(at) = names.iter().position(|(name, _)| matches!(*name, "samples" | "sample")) {
                columns[at] = Column::Weight { kind: Kind::Cpu, scale: 1 };
            } else if let Some(at) = names.iter().position(|name| *name == ("cpu", "nanoseconds")) {
                columns[at] =
                    Column::Weight { kind: Kind::Cpu, scale: self.period_ns(message)?.unwrap_or(1) };
            }
        }
        if !has(&columns, Kind::LockWait)
            && let Some(at) = names.iter().position(|name| *name == ("delay", "nanoseconds"))
        {
            columns[at] = Column::Weight { kind: Kind::LockWait, scale: 1 };
            if let Some(at) = names.iter().position(|(name, _)| *name == "contentions") {
                columns[at] = Column::Events(Kind::LockWait);
            }
        }
        if !Kind::ALL.into_iter().any(|kind| has(&columns, kind)) {
            let default = self.string(message.default_sample_type)?;
            let at = names.iter().position(|(name, _)| *name == &**default).unwrap_or(names.len() - 1);
            columns[at] = Column::Weight { kind: Kind::Cpu, scale: 1 };
        }
        Ok(columns)
    }

    /// The sampling period in ns, if it is in ns.
    fn period_ns(&self, message: &messages::Profile) -> Result<Option<u64>, PprofError> {
        let Some(period_type) = message.period_type else { return Ok(None) };
        if &**self.string(period_type.unit)? != "nanoseconds" {
            return Ok(None);
        }
        Ok(u64::try_from(message.period).ok().filter(|period| *period > 0))
    }

    fn location(&mut self, location: &messages::Location) -> Result<(), PprofError> {
        let owner = match location.mapping_id {
            0 if location.address >= KERNEL_START => Owner { module: None, origin: Origin::Kernel },
            0 => Owner { module: None, origin: Origin::User },
            id => self.mappings.get(&id).ok_or(PprofError::Mapping { location: location.id, id })?.clone(),
        };
        let mut places = Vec::with_capacity(location.line.len().max(1));
        for line in location.line.iter().rev() {
            let name = self
                .functions
                .get(&line.function_id)
                .ok_or(PprofError::Function { location: location.id, id: line.function_id })?
                .clone();
            places.push(self.place(name, &owner, location.address));
        }
        if places.is_empty() {
            let name = format!("{:#x}", location.address).into();
            places.push(self.place(name, &owner, location.address));
        }
        if location.id == 0 || self.locations.insert(location.id, places.into()).is_some() {
            return Err(PprofError::Id { what: "location", id: location.id });
        }
        Ok(())
    }

    fn place(&mut self, name: Arc<str>, owner: &Owner, address: u64) -> LocationId {
        let frame: FrameId =
            self.profile.intern_frame(Frame { name, module: owner.module.clone(), origin: owner.origin });
        self.profile.intern_location(frame, address)
    }

    fn sample(&mut self, index: usize, sample: &messages::Sample) -> Result<(), PprofError> {
        if sample.value.len() != self.columns.len() {
            return Err(PprofError::Values {
                sample: index,
                found: sample.value.len(),
                expected: self.columns.len(),
            });
        }
        if let Some(value) = sample.value.iter().find(|value| **value < 0) {
            return Err(PprofError::Negative { sample: index, value: *value });
        }

        let mut frames: Vec<LocationId> = Vec::new();
        for id in sample.location_id.iter().rev() {
            let places = self.locations.get(id).ok_or(PprofError::Location { sample: index, id: *id })?;
            if frames.len() + places.len() > MAX_DEPTH {
                return Err(PprofError::TooDeep { sample: index });
            }
            frames.extend_from_slice(places);
        }
        let labels = self.labels(&sample.label)?;
        let labels = self.profile.intern_labels(labels);

        for kind in Kind::ALL {
            let Some((count, weight)) = self.amounts(kind, &sample.value) else { continue };
            self.frames += frames.len();
            if self.frames > MAX_FRAMES {
                return Err(PprofError::TooManyFrames);
            }
            self.profile.push(Stack { kind, frames: frames.clone().into(), labels, count, weight });
        }
        Ok(())
    }

    /// Count and weight that `values` hold for `kind`, or `None` where both are 0.
    fn amounts(&self, kind: Kind, values: &[i64]) -> Option<(u64, u64)> {
        let mut weight = None;
        let mut count = None;
        for (column, value) in self.columns.iter().zip(values) {
            let value = value.unsigned_abs(); // not negative, as was checked
            match column {
                // At least 1, so that no sample gets lost by rounding.
                Column::Weight { kind: of, scale } if *of == kind => {
                    weight = Some((value / scale).max(u64::from(value > 0)));
                }
                Column::Events(of) if *of == kind => count = Some(value),
                _ => {}
            }
        }
        let weight = weight?;
        let count = count.unwrap_or(weight);
        (count > 0 || weight > 0).then_some((count, weight))
    }

    fn labels(&self, labels: &[messages::Label]) -> Result<Labels, PprofError> {
        let mut known = Labels::default();
        for label in labels {
            let text = match (label.str, label.num) {
                (0, num) if num != 0 => num.to_string().into(),
                (index, _) => self.string(index)?.clone(),
            };
            // A number that is 0 looks like an empty string.
            let number = if text.is_empty() { "0" } else { &*text };
            match &**self.string(label.key)? {
                key::COMM => known.comm = Some(text),
                key::CGROUP => known.cgroup = Some(text),
                key::PID => known.pid = number.parse().ok(),
                key::CPU => known.cpu = number.parse().ok(),
                key::ORDER => known.order = number.parse().ok(),
                key::LOCK => {
                    known.lock = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
                }
                key::LOCK_KIND => known.lock_kind = LockKind::from_name(&text),
                key::DEVICE => known.device = device(&text),
                key::OP => known.op = IoOp::from_name(&text),
                _ => {}
            }
        }
        Ok(known)
    }
}

fn check_size(what: &'static str, index: usize, encoded: &Bytes) -> Result<(), PprofError> {
    if encoded.len() > MAX_ENTRY_BYTES { Err(PprofError::EntryTooLarge { what, index }) } else { Ok(()) }
}

/// What a sample type with this name and unit is in this program's own files.
fn own_column(name: &str, unit: &str) -> Column {
    if let Some(kind) = Kind::from_name(name)
        && kind.unit().name() == unit
    {
        return Column::Weight { kind, scale: 1 };
    }
    match name.strip_suffix(EVENTS_SUFFIX).and_then(Kind::from_name) {
        Some(kind) if unit == Unit::Events.name() => Column::Events(kind),
        _ => Column::Other,
    }
}

/// Whose code a mapping holds: by its address range, or by its name where it has none.
fn owner(mapping: &messages::Mapping, filename: &Arc<str>) -> Owner {
    let is_kernel_name =
        filename.starts_with(KERNEL_MAPPING) || filename.starts_with("[guest.kernel.kallsyms");
    let has_range = mapping.memory_start != 0 || mapping.memory_limit != 0;
    if mapping.memory_start < KERNEL_START && (has_range || !is_kernel_name) {
        let module = (!filename.is_empty()).then(|| filename.clone());
        return Owner { module, origin: Origin::User };
    }
    let base = filename.rsplit('/').next().unwrap_or(filename);
    let module = if let Some(inner) = filename.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        (!is_kernel_name).then(|| inner.into())
    } else if is_kernel_name || filename.is_empty() || base.starts_with("vmlinu") {
        None
    } else {
        // A module's file: `xfs.ko`, perhaps compressed.
        Some(base.split(".ko").next().unwrap_or(base).into())
    };
    Owner { module, origin: Origin::Kernel }
}

/// `MAJOR:MINOR`.
fn device(text: &str) -> Option<Device> {
    let (major, minor) = text.split_once(':')?;
    Some(Device { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, limit: u64, name: &str) -> (Option<String>, Origin) {
        let mapping = messages::Mapping { memory_start: start, memory_limit: limit, ..Default::default() };
        let owner = owner(&mapping, &name.into());
        (owner.module.map(|module| module.to_string()), owner.origin)
    }

    #[test]
    fn mappings_of_other_programs_have_an_owner() {
        let high = 0xffff_ffff_8100_0000;
        let kernel = |module: Option<&str>| (module.map(str::to_owned), Origin::Kernel);
        let user = |module: Option<&str>| (module.map(str::to_owned), Origin::User);
        assert_eq!(mapping(high, u64::MAX, "[kernel.kallsyms]_text"), kernel(None));
        assert_eq!(mapping(0, 0, "[kernel.kallsyms]"), kernel(None));
        assert_eq!(mapping(high, u64::MAX, "/usr/lib/debug/boot/vmlinux-6.1.0"), kernel(None));
        assert_eq!(mapping(high, u64::MAX, "/lib/modules/6.1/kernel/fs/xfs/xfs.ko.xz"), kernel(Some("xfs")));
        assert_eq!(mapping(high, u64::MAX, "[xfs]"), kernel(Some("xfs")));
        assert_eq!(mapping(0x5000, 0x6000, "/usr/bin/fio"), user(Some("/usr/bin/fio")));
        assert_eq!(mapping(0, 0, "[vdso]"), user(Some("[vdso]")));
        assert_eq!(mapping(0, KERNEL_START - 1, "[kernel.kallsyms]"), user(Some("[kernel.kallsyms]")));
        assert_eq!(mapping(0, 0, ""), user(None));
    }

    #[test]
    fn sample_types_are_known_by_name_and_unit() {
        assert_eq!(own_column("lock-wait", "nanoseconds"), Column::Weight { kind: Kind::LockWait, scale: 1 });
        assert_eq!(own_column("lock-wait-events", "events"), Column::Events(Kind::LockWait));
        assert_eq!(own_column("cpu", "nanoseconds"), Column::Other);
        assert_eq!(own_column("bio", "count"), Column::Other);
    }
}
