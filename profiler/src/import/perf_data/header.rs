//! The header of a perf.data file: which events were recorded, and what perf says about the machine.
//!
//! The layout is that of tools/perf/Documentation/perf.data-file-format.txt and tools/perf/util/header.h
//! in the kernel's sources. Sizes and counts in it are claims of whoever wrote the file: each is checked
//! against what is really there before anything is allocated for it.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

use super::bytes::Bytes;
use super::error::PerfDataError;

/// Most events of a file. `perf record -e '*:*'` takes some 2000.
pub const MAX_ATTRS: usize = 8192;
/// Most ids of events: one for each event and CPU, or thread.
pub const MAX_IDS: usize = 4 << 20;
/// Most bytes of a feature: the largest, build ids and event descriptions, take some hundred KiB.
const MAX_FEATURE: u64 = 16 << 20;

/// Size of `perf_pipe_file_header`; that of files that can be seeked in is larger.
const PIPE_HEADER: u64 = 16;
/// Size of `perf_event_attr` in its first version.
const ATTR_VER0: usize = 64;

/// Features, by their number in tools/perf/util/header.h.
pub mod feature {
    pub const BUILD_ID: u32 = 2;
    pub const HOSTNAME: u32 = 3;
    pub const OSRELEASE: u32 = 4;
    pub const ARCH: u32 = 6;
    pub const NRCPUS: u32 = 7;
    pub const CPUDESC: u32 = 8;
    pub const TOTAL_MEM: u32 = 10;
    pub const CMDLINE: u32 = 11;
    pub const EVENT_DESC: u32 = 12;
    pub const CPU_TOPOLOGY: u32 = 13;
    pub const NUMA_TOPOLOGY: u32 = 14;
    pub const DIR_FORMAT: u32 = 24;
    pub const CLOCK_DATA: u32 = 29;
    /// Those that are read.
    pub const ALL: [u32; 13] = [
        BUILD_ID,
        HOSTNAME,
        OSRELEASE,
        ARCH,
        NRCPUS,
        CPUDESC,
        TOTAL_MEM,
        CMDLINE,
        EVENT_DESC,
        CPU_TOPOLOGY,
        NUMA_TOPOLOGY,
        DIR_FORMAT,
        CLOCK_DATA,
    ];
}

/// What a file's header says.
#[derive(Debug, Default)]
pub struct Header {
    /// Byte order of everything in the file.
    pub big_endian: bool,
    /// The events.
    pub attrs: Vec<Attr>,
    /// The sections of the features in [`feature::ALL`], by number.
    pub features: BTreeMap<u32, Vec<u8>>,
    /// Bytes of the records; `None` where they go on to the end of the stream.
    pub data_size: Option<u64>,
    /// Whether perf did not get to finish the file.
    pub unfinished: bool,
}

/// An event: what of `perf_event_attr` (include/uapi/linux/perf_event.h) matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// `PERF_TYPE_*`.
    pub kind: u32,
    /// Which event of the type.
    pub config: u64,
    /// Period, or frequency in Hz with [`flag::FREQ`].
    pub sample_period: u64,
    /// `PERF_SAMPLE_*`: which fields samples have.
    pub sample_type: u64,
    /// `PERF_FORMAT_*`: which fields of the counter's value samples have.
    pub read_format: u64,
    /// Flags, the first at bit 0.
    pub flags: u64,
    /// Ids of its counters.
    pub ids: Vec<u64>,
    /// Name, as perf's command line had it; may be empty.
    pub name: String,
}

/// Flags of an event, by their bit in `perf_event_attr`.
pub mod flag {
    pub const EXCLUDE_USER: u64 = 1 << 4;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const FREQ: u64 = 1 << 10;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
}

impl Attr {
    /// From the bytes of a `perf_event_attr` of any size.
    pub fn parse(mut bytes: Bytes<'_>) -> Option<Self> {
        if bytes.len() < ATTR_VER0 {
            return None;
        }
        let kind = bytes.u32()?;
        let _size = bytes.u32()?;
        let config = bytes.u64()?;
        let sample_period = bytes.u64()?;
        let sample_type = bytes.u64()?;
        let read_format = bytes.u64()?;
        // The bit field begins at the lowest bit on little-endian machines, at the highest on others.
        let flags = bytes.u64()?;
        let flags = if bytes.is_big_endian() { flags.reverse_bits() } else { flags };
        Some(Self { kind, config, sample_period, sample_type, read_format, flags, ..Self::default() })
    }

    /// Whether it has the flag.
    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

impl Header {
    /// Reads the header, and leaves `reader` at the first record.
    pub fn read<R: Read + Seek>(reader: &mut R) -> Result<Self, PerfDataError> {
        let mut start = [0; 16];
        reader.read_exact(&mut start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => PerfDataError::Magic,
            _ => error.into(),
        })?;
        let big_endian = match &start[..8] {
            b"PERFILE2" => false,
            b"2ELIFREP" => true,
            b"PERFFILE" => return Err(PerfDataError::Version1),
            _ => return Err(PerfDataError::Magic),
        };
        let size = Bytes::new(&start[8..], big_endian).u64().unwrap_or(0);
        if size == PIPE_HEADER {
            return Ok(Self { big_endian, ..Self::default() });
        }
        Self::read_file(reader, big_endian)
    }

    /// The rest of the header of a file that can be seeked in.
    fn read_file<R: Read + Seek>(reader: &mut R, big_endian: bool) -> Result<Self, PerfDataError> {
        let length = reader.seek(SeekFrom::End(0)).map_err(|error| match error.kind() {
            io::ErrorKind::NotSeekable => PerfDataError::Pipe,
            _ => error.into(),
        })?;
        reader.seek(SeekFrom::Start(16))?;
        // attr_size, three sections of offset and size, 256 bits of features.
        let mut rest = [0; 8 + 3 * 16 + 32];
        reader.read_exact(&mut rest).map_err(|_| PerfDataError::Header("it ends early"))?;
        let mut bytes = Bytes::new(&rest, big_endian);
        let mut next = || bytes.u64().unwrap_or(0);
        let attr_size = next();
        let attrs = Section { offset: next(), size: next() };
        let mut data = Section { offset: next(), size: next() };
        let _event_types = Section { offset: next(), size: next() };
        let features = [next(), next(), next(), next()];

        let mut file = File { reader, length, big_endian };
        let mut header = Self { big_endian, ..Self::default() };
        if data.offset > length {
            return Err(PerfDataError::Header("the records begin behind the end of the file"));
        }
        // perf writes the size last: 0 says that it was killed.
        header.unfinished = data.size == 0 || data.size > length - data.offset;
        if header.unfinished {
            data.size = length - data.offset;
        } else {
            header.features = file.features(data.offset + data.size, features)?;
        }
        header.attrs = file.attrs(attrs, attr_size)?;
        header.data_size = Some(data.size);
        file.reader.seek(SeekFrom::Start(data.offset))?;
        if header.features.contains_key(&feature::DIR_FORMAT) {
            return Err(PerfDataError::Directory);
        }
        Ok(header)
    }

    /// The bytes of a feature.
    pub fn feature(&self, number: u32) -> Option<Bytes<'_>> {
        self.features.get(&number).map(|data| Bytes::new(data, self.big_endian))
    }

    /// Takes the names over from the event descriptions: of the same ids, or else in the same order.
    pub fn name_events(&mut self) {
        let described = self.feature(feature::EVENT_DESC).and_then(event_descriptions).unwrap_or_default();
        let same_count = described.len() == self.attrs.len();
        for (index, attr) in self.attrs.iter_mut().enumerate().filter(|(_, attr)| attr.name.is_empty()) {
            let by_id = described.iter().find(|(ids, _)| ids.first().is_some_and(|id| attr.ids.contains(id)));
            let named = by_id.or_else(|| described.get(index).filter(|_| same_count));
            if let Some((_, name)) = named {
                attr.name.clone_from(name);
            }
        }
    }
}

/// The ids and the name of each event.
fn event_descriptions(mut bytes: Bytes<'_>) -> Option<Vec<(Vec<u64>, String)>> {
    let count = bytes.u32()?;
    let attr_size = usize::try_from(bytes.u32()?).ok()?;
    let mut described = Vec::new();
    for _ in 0..count {
        bytes.take(attr_size)?;
        let ids = usize::try_from(bytes.u32()?).ok()?;
        let name = bytes.header_string()?;
        let mut list = bytes.part(ids.checked_mul(8)?)?;
        described.push((std::iter::from_fn(|| list.u64()).collect(), name));
    }
    Some(described)
}

#[derive(Clone, Copy)]
struct Section {
    offset: u64,
    size: u64,
}

/// A file with its length, against which sections are checked.
struct File<'r, R> {
    reader: &'r mut R,
    length: u64,
    big_endian: bool,
}

impl<R: Read + Seek> File<'_, R> {
    /// The bytes of a section, `None` if it does not lie in the file.
    fn section(&mut self, section: Section) -> io::Result<Option<Vec<u8>>> {
        let end = section.offset.checked_add(section.size);
        if end.is_none_or(|end| end > self.length) {
            return Ok(None);
        }
        let Ok(size) = usize::try_from(section.size) else { return Ok(None) };
        self.reader.seek(SeekFrom::Start(section.offset))?;
        let mut data = vec![0; size];
        self.reader.read_exact(&mut data)?;
        Ok(Some(data))
    }

    /// The features that are wanted. A damaged one costs a fact, not the profile.
    fn features(&mut self, at: u64, bits: [u64; 4]) -> Result<BTreeMap<u32, Vec<u8>>, PerfDataError> {
        let present = (0..256u32).filter(|bit| bits[*bit as usize / 64] & 1 << (bit % 64) != 0);
        let present: Vec<u32> = present.collect();
        let table = self.section(Section { offset: at, size: present.len() as u64 * 16 })?;
        let Some(table) = table else { return Ok(BTreeMap::new()) };
        let mut table = Bytes::new(&table, self.big_endian);
        let mut features = BTreeMap::new();
        for number in present {
            let (Some(offset), Some(size)) = (table.u64(), table.u64()) else { break };
            if feature::ALL.contains(&number)
                && size <= MAX_FEATURE
                && let Some(data) = self.section(Section { offset, size })?
            {
                features.insert(number, data);
            }
        }
        Ok(features)
    }

    /// The events: each an attribute, and a section with its ids.
    fn attrs(&mut self, section: Section, attr_size: u64) -> Result<Vec<Attr>, PerfDataError> {
        let damaged = || PerfDataError::Header("its list of events is cut off");
        let entry = usize::try_from(attr_size).ok().filter(|size| *size >= ATTR_VER0 + 16);
        let entry = entry.ok_or(PerfDataError::Header("its events are too small"))?;
        if section.size / attr_size > MAX_ATTRS as u64 {
            return Err(PerfDataError::TooManyEvents);
        }
        let list = self.section(section)?.ok_or_else(damaged)?;
        let mut attrs = Vec::new();
        let mut ids = 0;
        for bytes in list.chunks_exact(entry) {
            let mut bytes = Bytes::new(bytes, self.big_endian);
            let attr = bytes.part(entry - 16).and_then(Attr::parse);
            let (mut attr, Some(offset), Some(size)) = (attr.ok_or_else(damaged)?, bytes.u64(), bytes.u64())
            else {
                return Err(damaged());
            };
            ids += size / 8;
            if ids > MAX_IDS as u64 {
                return Err(PerfDataError::TooManyEvents);
            }
            let data = self.section(Section { offset, size })?.ok_or_else(damaged)?;
            let mut data = Bytes::new(&data, self.big_endian);
            attr.ids = std::iter::from_fn(|| data.u64()).collect();
            attrs.push(attr);
        }
        Ok(attrs)
    }
}
