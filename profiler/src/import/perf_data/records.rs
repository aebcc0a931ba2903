//! The records of a perf.data file, one after the other, decompressed where they are compressed.

use std::io::{self, Read};

use zstd::stream::raw::{Decoder, Operation as _};

use super::bytes::Bytes;
use super::error::PerfDataError;

/// Types of records: the kernel's (`PERF_RECORD_*` in include/uapi/linux/perf_event.h), and from 64 perf's
/// own (tools/lib/perf/include/perf/event.h).
pub mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const KSYMBOL: u32 = 17;
    /// The first of perf's own.
    pub const FIRST_OF_PERF: u32 = 64;
    pub const HEADER_ATTR: u32 = 64;
    pub const HEADER_TRACING_DATA: u32 = 66;
    pub const HEADER_BUILD_ID: u32 = 67;
    pub const FINISHED_ROUND: u32 = 68;
    pub const AUXTRACE: u32 = 71;
    pub const EVENT_UPDATE: u32 = 78;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// `perf_event_header`: type, misc and size of the whole record.
const HEADER: usize = 8;
/// Bytes that are decompressed in one go.
const CHUNK: usize = 128 << 10;

/// A record without its header.
#[derive(Clone, Copy, Debug)]
pub struct Record<'b> {
    /// One of [`kind`].
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`.
    pub misc: u16,
    /// What follows the header.
    pub body: Bytes<'b>,
}

/// Reads records.
pub struct Records<R> {
    reader: R,
    big_endian: bool,
    /// Bytes of records that are still to come; `None`: to the end of the stream.
    left: Option<u64>,
    /// Bytes read.
    at: u64,
    body: Vec<u8>,
    inflate: Option<Inflate>,
    /// Whether the stream ended within a record.
    pub cut_off: bool,
}

impl<R: Read> Records<R> {
    /// Reads from `reader`, which stands at the first record.
    pub fn new(reader: R, big_endian: bool, size: Option<u64>) -> Self {
        Self { reader, big_endian, left: size, at: 0, body: Vec::new(), inflate: None, cut_off: false }
    }

    /// The next record, `None` at the end.
    pub fn next(&mut self) -> Result<Option<Record<'_>>, PerfDataError> {
        let (kind, misc) = loop {
            if let Some(inflate) = &mut self.inflate
                && let Some(header) = inflate.next(&mut self.body, self.big_endian, self.at)?
            {
                break header;
            }
            let Some((kind, misc)) = self.next_outer()? else { return Ok(None) };
            match kind {
                kind::COMPRESSED => {
                    let data = std::mem::take(&mut self.body);
                    self.inflate()?.feed(&data);
                    self.body = data;
                }
                // Since Linux 6.16: the length without padding comes first.
                kind::COMPRESSED2 => {
                    let mut bytes = Bytes::new(&self.body, self.big_endian);
                    let length = bytes.u64().and_then(|length| usize::try_from(length).ok());
                    let data = length.and_then(|length| bytes.take(length));
                    let data = data.ok_or(self.damaged("a compressed record is shorter than it says"))?;
                    let data = data.to_vec();
                    self.inflate()?.feed(&data);
                }
                // What belongs to these follows them.
                kind::AUXTRACE => {
                    let size = Bytes::new(&self.body, self.big_endian).u64().unwrap_or(0);
                    self.skip(size)?;
                }
                kind::HEADER_TRACING_DATA if self.left.is_none() => {
                    let size = Bytes::new(&self.body, self.big_endian).u32().unwrap_or(0);
                    self.skip(u64::from(size).next_multiple_of(8))?;
                }
                _ => break (kind, misc),
            }
        };
        Ok(Some(Record { kind, misc, body: Bytes::new(&self.body, self.big_endian) }))
    }

    /// The next record of the file itself; its body is then in `self.body`.
    fn next_outer(&mut self) -> Result<Option<(u32, u16)>, PerfDataError> {
        if self.left == Some(0) {
            return Ok(None);
        }
        let mut header = [0; HEADER];
        match read_all(&mut self.reader, &mut header)? {
            0 => return Ok(None),
            HEADER => {}
            _ => {
                self.cut_off = true;
                return Ok(None);
            }
        }
        let (kind, misc, size) = parse_header(&header, self.big_endian);
        let length = usize::from(size).checked_sub(HEADER);
        let length = length.ok_or(self.damaged("a record is smaller than its header"))?;
        self.body.resize(length, 0);
        if read_all(&mut self.reader, &mut self.body)? < length {
            self.cut_off = true;
            return Ok(None);
        }
        self.advance(u64::from(size));
        Ok(Some((kind, misc)))
    }

    fn advance(&mut self, bytes: u64) {
        self.at = self.at.saturating_add(bytes);
        self.left = self.left.map(|left| left.saturating_sub(bytes));
    }

    fn skip(&mut self, bytes: u64) -> Result<(), PerfDataError> {
        let bytes = self.left.map_or(bytes, |left| left.min(bytes));
        let skipped = io::copy(&mut self.reader.by_ref().take(bytes), &mut io::sink())?;
        self.cut_off |= skipped < bytes;
        self.advance(bytes);
        Ok(())
    }

    fn inflate(&mut self) -> Result<&mut Inflate, PerfDataError> {
        if self.inflate.is_none() {
            self.inflate = Some(Inflate::new().map_err(PerfDataError::Zstd)?);
        }
        self.inflate.as_mut().ok_or(PerfDataError::Header("it has no decompressor"))
    }

    fn damaged(&self, what: &'static str) -> PerfDataError {
        PerfDataError::Record { at: self.at, what }
    }
}

fn parse_header(header: &[u8], big_endian: bool) -> (u32, u16, u16) {
    let mut bytes = Bytes::new(header, big_endian);
    let (kind, misc, size) = (bytes.u32(), bytes.u16(), bytes.u16());
    (kind.unwrap_or(0), misc.unwrap_or(0), size.unwrap_or(0))
}

/// Fills `buffer` as far as the stream goes.
fn read_all(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Compressed records are pieces of one zstd stream, in which records lie without regard to the pieces.
///
/// Never more than a chunk and a record are decompressed at a time, whatever the ratio.
struct Inflate {
    decoder: Decoder<'static>,
    input: Vec<u8>,
    used: usize,
    plain: Vec<u8>,
    taken: usize,
}

impl Inflate {
    fn new() -> io::Result<Self> {
        let decoder = Decoder::new()?;
        Ok(Self { decoder, input: Vec::new(), used: 0, plain: Vec::new(), taken: 0 })
    }

    /// Takes the next piece of the stream. The one before is used up.
    fn feed(&mut self, data: &[u8]) {
        self.input.clear();
        self.input.extend_from_slice(data);
        self.used = 0;
    }

    /// The next record, its body into `body`; `None` when the next piece is needed.
    fn next(
        &mut self,
        body: &mut Vec<u8>,
        big_endian: bool,
        at: u64,
    ) -> Result<Option<(u32, u16)>, PerfDataError> {
        loop {
            let plain = &self.plain[self.taken..];
            if let Some(header) = plain.first_chunk::<HEADER>() {
                let (kind, misc, size) = parse_header(header, big_endian);
                let size = usize::from(size);
                if size < HEADER {
                    return Err(PerfDataError::Record {
                        at,
                        what: "a compressed record is smaller than its header",
                    });
                }
                if let Some(record) = plain.get(HEADER..size) {
                    body.clear();
                    body.extend_from_slice(record);
                    self.taken += size;
                    return Ok(Some((kind, misc)));
                }
            }
            if !self.more().map_err(PerfDataError::Zstd)? {
                return Ok(None);
            }
        }
    }

    /// Decompresses a chunk; false when the piece gives no more.
    fn more(&mut self) -> io::Result<bool> {
        self.plain.drain(..self.taken);
        self.taken = 0;
        let start = self.plain.len();
        self.plain.resize(start + CHUNK, 0);
        let status = self.decoder.run_on_buffers(&self.input[self.used..], &mut self.plain[start..]);
        self.plain.truncate(start + status.as_ref().map_or(0, |status| status.bytes_written));
        let status = status?;
        self.used += status.bytes_read;
        Ok(status.bytes_written > 0 || status.bytes_read > 0 && self.used < self.input.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut record = kind.to_le_bytes().to_vec();
        record.extend(7u16.to_le_bytes());
        record.extend((HEADER as u16 + body.len() as u16).to_le_bytes());
        record.extend(body);
        record
    }

    fn kinds(data: &[u8], size: Option<u64>) -> (Vec<(u32, usize)>, bool) {
        let mut records = Records::new(data, false, size);
        let mut kinds = Vec::new();
        while let Some(record) = records.next().unwrap() {
            kinds.push((record.kind, record.body.len()));
        }
        (kinds, records.cut_off)
    }

    #[test]
    fn records_one_by_one() {
        let mut data = [record(1, b"abcd"), record(kind::AUXTRACE, &16u64.to_le_bytes())].concat();
        data.extend([0; 16]);
        data.extend(record(3, b""));
        let size = data.len() as u64;
        assert_eq!(kinds(&data, Some(size)), (vec![(1, 4), (3, 0)], false));
        assert_eq!(kinds(&data, None), (vec![(1, 4), (3, 0)], false));
        assert_eq!(kinds(&data[..size as usize - 3], None), (vec![(1, 4)], true));
        let broken = [record(1, b""), vec![0; 8]].concat();
        let mut records = Records::new(&broken[..], false, None);
        assert!(records.next().unwrap().is_some());
        let error = records.next().unwrap_err().to_string();
        assert_eq!(error, "the perf.data file is damaged at byte 8: a record is smaller than its header");
    }

    #[test]
    fn compressed_records_may_be_cut_anywhere() {
        let plain: Vec<u8> = (0..500).flat_map(|index| record(9, &[index as u8; 100])).collect();
        let packed = zstd::encode_all(&plain[..], 1).unwrap();
        for piece in [1, 7, 100, 4000] {
            let mut data = Vec::new();
            for part in packed.chunks(piece) {
                data.extend(record(kind::COMPRESSED, part));
            }
            let (kinds, cut_off) = kinds(&data, Some(data.len() as u64));
            assert_eq!((kinds.len(), kinds[499], cut_off), (500, (9, 100), false), "pieces of {piece}");
        }
        let mut padded = (packed.len() as u64).to_le_bytes().to_vec();
        padded.extend(&packed);
        padded.extend([0xff; 3]);
        assert_eq!(kinds(&record(kind::COMPRESSED2, &padded), None).0.len(), 500);
    }
}
