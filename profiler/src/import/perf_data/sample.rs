//! Samples and the kernel's other records, field by field (include/uapi/linux/perf_event.h).

use super::bytes::Bytes;
use super::header::{Attr, flag};
use super::records::{Record, kind};

/// Fields of samples: `PERF_SAMPLE_*`.
pub mod field {
    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const STACK_USER: u64 = 1 << 13;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of `read_format`: `PERF_FORMAT_*`.
mod format {
    pub const TOTAL_TIME_ENABLED: u64 = 1;
    pub const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub const ID: u64 = 1 << 2;
    pub const GROUP: u64 = 1 << 3;
    pub const LOST: u64 = 1 << 4;
}

/// A sample, as far as it matters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample<'d> {
    /// Instruction, 0 if not recorded.
    pub ip: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU.
    pub cpu: Option<u32>,
    /// How many of the event it stands for.
    pub period: u64,
    /// Call chain, innermost first, with context markers; numbers of 64 bits.
    pub chain: Option<Bytes<'d>>,
}

impl<'d> Sample<'d> {
    /// The fields that `attr` says there are; `None` if it is cut off.
    pub fn parse(attr: &Attr, mut body: Bytes<'d>) -> Option<Self> {
        let has = |field: u64| attr.sample_type & field != 0;
        let mut sample = Self::default();
        if has(field::IDENTIFIER) {
            body.u64()?;
        }
        if has(field::IP) {
            sample.ip = body.u64()?;
        }
        if has(field::TID) {
            sample.pid = body.u32()?;
            sample.tid = body.u32()?;
        }
        for skipped in [field::TIME, field::ADDR, field::ID, field::STREAM_ID] {
            if has(skipped) {
                body.u64()?;
            }
        }
        if has(field::CPU) {
            sample.cpu = Some(body.u32()?);
            body.u32()?;
        }
        // Without the field the period is fixed.
        sample.period = if has(field::PERIOD) { body.u64()? } else { attr.sample_period.max(1) };
        if has(field::READ) {
            skip_read(attr.read_format, &mut body)?;
        }
        if has(field::CALLCHAIN) {
            let length = usize::try_from(body.u64()?).ok()?.checked_mul(8)?;
            sample.chain = Some(body.part(length)?);
        }
        Some(sample)
    }
}

/// The value of a counter, or of a group of them.
fn skip_read(read_format: u64, body: &mut Bytes<'_>) -> Option<()> {
    let count = |bits: u64| u64::from((read_format & bits).count_ones());
    let times = count(format::TOTAL_TIME_ENABLED | format::TOTAL_TIME_RUNNING);
    let extra = count(format::ID | format::LOST);
    if read_format & format::GROUP == 0 {
        return body.skip_u64s(1 + times + extra);
    }
    let members = body.u64()?;
    body.skip_u64s(times.checked_add(members.checked_mul(1 + extra)?)?)
}

/// Where id and time of a record are. perf requires that all events of a file agree about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Positions {
    id_in_sample: Option<usize>,
    time_in_sample: Option<usize>,
    /// From the end of other records.
    id_in_others: Option<usize>,
    time_in_others: Option<usize>,
}

impl Positions {
    /// As this event has them.
    pub fn of(attr: &Attr) -> Self {
        let kind = attr.sample_type;
        let bytes = |fields: u64| (kind & fields).count_ones() as usize * 8;
        let position = |field: u64, at: usize| (kind & field != 0).then_some(at);
        let before_time = field::IDENTIFIER | field::IP | field::TID;
        let id_in_sample = position(field::IDENTIFIER, 0)
            .or_else(|| position(field::ID, bytes(before_time | field::TIME | field::ADDR)));
        let time_in_sample = position(field::TIME, bytes(before_time));
        if !attr.has(flag::SAMPLE_ID_ALL) {
            return Self { id_in_sample, time_in_sample, ..Self::default() };
        }
        // These end in what of TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER is asked for.
        let after_id = field::ID | field::STREAM_ID | field::CPU | field::IDENTIFIER;
        let id_in_others = position(field::IDENTIFIER, 8).or_else(|| position(field::ID, bytes(after_id)));
        let time_in_others = position(field::TIME, bytes(field::TIME | after_id));
        Self { id_in_sample, time_in_sample, id_in_others, time_in_others }
    }

    /// When it happened; 0 if that is not recorded.
    pub fn time(self, record: &Record<'_>) -> u64 {
        read(record, self.time_in_sample, self.time_in_others).unwrap_or(0)
    }

    /// Id of the event that it belongs to.
    pub fn id(self, record: &Record<'_>) -> Option<u64> {
        read(record, self.id_in_sample, self.id_in_others)
    }
}

fn read(record: &Record<'_>, in_sample: Option<usize>, from_end: Option<usize>) -> Option<u64> {
    let mut body = record.body;
    let at = if record.kind == kind::SAMPLE { in_sample? } else { body.len().checked_sub(from_end?)? };
    body.take(at)?;
    body.u64()
}

/// What is mapped where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapped<'d> {
    /// Process; `u32::MAX` for the kernel's own code.
    pub pid: u32,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Offset in the file of `start`; for the kernel's main mapping the address of its first symbol.
    pub offset: u64,
    /// Path, or a label in brackets.
    pub path: &'d [u8],
    /// Build id, where the record has it; else empty.
    pub build_id: &'d [u8],
    /// Inode number, where the record has it.
    pub inode: Option<u64>,
}

/// `PERF_RECORD_MISC_MMAP_DATA`: not code.
const MISC_MMAP_DATA: u16 = 1 << 13;
/// `PERF_RECORD_MISC_COMM_EXEC`: the name comes with a new program. Same bit.
pub const MISC_COMM_EXEC: u16 = 1 << 13;
/// `PERF_RECORD_MISC_MMAP_BUILD_ID`.
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
/// `PROT_EXEC`.
const PROT_EXEC: u32 = 4;
/// Bytes of a build id at most.
const MAX_BUILD_ID: usize = 20;

impl<'d> Mapped<'d> {
    /// From an `MMAP` or `MMAP2` record; `None` where it is not of code, or cut off.
    pub fn parse(record: &Record<'d>) -> Option<Self> {
        let mut body = record.body;
        let mut mapped = Self { pid: body.u32()?, ..Self::default() };
        let _tid = body.u32()?;
        mapped.start = body.u64()?;
        mapped.length = body.u64()?;
        mapped.offset = body.u64()?;
        if record.kind == kind::MMAP2 {
            if record.misc & MISC_MMAP_BUILD_ID != 0 {
                let length = usize::from(*body.take(4)?.first()?).min(MAX_BUILD_ID);
                mapped.build_id = &body.take(MAX_BUILD_ID)?[..length];
            } else {
                let _device = (body.u32()?, body.u32()?);
                mapped.inode = Some(body.u64()?);
                let _generation = body.u64()?;
            }
            let protection = body.u32()?;
            let _flags = body.u32()?;
            if protection & PROT_EXEC == 0 {
                return None;
            }
        } else if record.misc & MISC_MMAP_DATA != 0 {
            return None;
        }
        mapped.path = body.text();
        Some(mapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn every_field_before_the_call_chain() {
        let all = field::IDENTIFIER
            | field::IP
            | field::TID
            | field::TIME
            | field::ADDR
            | field::ID
            | field::STREAM_ID
            | field::CPU
            | field::PERIOD
            | field::READ
            | field::CALLCHAIN;
        let group = format::GROUP | format::ID | format::LOST | format::TOTAL_TIME_RUNNING;
        let attr = Attr { sample_type: all, read_format: group, ..Attr::default() };
        // Two counters of the group, each with value, id and lost.
        let data = words(&[
            77,
            0x1000,
            5 | 6 << 32,
            123,
            1,
            77,
            1,
            3,
            250,
            2,
            9,
            1,
            77,
            0,
            1,
            78,
            0,
            2,
            0x1000,
            0x2000,
            99,
        ]);
        let record = Record { kind: kind::SAMPLE, misc: 0, body: Bytes::new(&data, false) };
        let sample = Sample::parse(&attr, record.body).unwrap();
        assert_eq!((sample.ip, sample.pid, sample.tid, sample.cpu), (0x1000, 5, 6, Some(3)));
        assert_eq!(sample.period, 250);
        assert_eq!(sample.chain.unwrap().rest(), words(&[0x1000, 0x2000]));
        let positions = Positions::of(&attr);
        assert_eq!((positions.time(&record), positions.id(&record)), (123, Some(77)));
        for length in 0..data.len() - 8 {
            assert!(Sample::parse(&attr, Bytes::new(&data[..length], false)).is_none(), "{length}");
        }
    }

    #[test]
    fn records_end_in_time_and_id() {
        let attr = Attr {
            sample_type: field::TID | field::TIME | field::ID | field::CPU,
            flags: flag::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        let body = words(&[1, 2, 3, 4, 5, 123, 77, 0]);
        let record = Record { kind: kind::COMM, misc: 0, body: Bytes::new(&body, false) };
        let positions = Positions::of(&attr);
        assert_eq!((positions.time(&record), positions.id(&record)), (123, Some(77)));
        let positions = Positions::of(&Attr { flags: 0, ..attr });
        assert_eq!((positions.time(&record), positions.id(&record)), (0, None));
    }

    #[test]
    fn a_build_id_is_no_longer_than_it_can_be() {
        let mut body = words(&[7, 0x1000, 0x2000, 0]);
        body.extend([255, 0, 0, 0]);
        body.extend([0xab; 20]);
        body.extend(words(&[4]));
        body.extend(b"/bin/x\0\0");
        let record = Record { kind: kind::MMAP2, misc: MISC_MMAP_BUILD_ID, body: Bytes::new(&body, false) };
        let mapped = Mapped::parse(&record).unwrap();
        assert_eq!((mapped.path, mapped.build_id), (&b"/bin/x"[..], &[0xab; 20][..]));
    }
}
