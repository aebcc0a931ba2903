//! Makes large recordings of small ones.

use std::fs::File;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

/// Where a perf.data file's header has the size of its records, and the bits of its features
/// (tools/perf/Documentation/perf.data-file-format.txt).
const DATA_SIZE: usize = 48;
const FEATURES: usize = 72;

/// Writes a perf.data file with the records of `from` as often as fits `size`, once at least; returns how
/// often.
pub fn repeat_data(from: &Path, to: &Path, size: u64) -> anyhow::Result<u64> {
    let data = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    let mut out =
        BufWriter::new(File::create(to).with_context(|| format!("cannot create {}", to.display()))?);
    let copies = write_repeated(&data, size, &mut out)?;
    out.flush()?;
    Ok(copies)
}

fn write_repeated(data: &[u8], size: u64, out: &mut dyn std::io::Write) -> anyhow::Result<u64> {
    let number = |at: usize| {
        let bytes = data.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u64::from_le_bytes).context("the recording is cut off")
    };
    if !data.starts_with(b"PERFILE2") {
        bail!("perf record has not written a perf.data file of this machine's byte order");
    }
    let (begin, length) = (number(DATA_SIZE - 8)?, number(DATA_SIZE)?);
    let end = usize::try_from(begin + length)?;
    let begin = usize::try_from(begin)?;
    let records =
        data.get(begin..end).filter(|records| !records.is_empty()).context("the recording is empty")?;
    let copies = (size / length).max(1);
    let mut header = data[..begin].to_vec();
    header[DATA_SIZE..DATA_SIZE + 8].copy_from_slice(&(length * copies).to_le_bytes());
    out.write_all(&header)?;
    for _ in 0..copies {
        out.write_all(records)?;
    }
    // A table of where the features are, which lie behind it, follows the records.
    let mut rest = data[end..].to_vec();
    let features: u32 =
        (0..4).map(|word| number(FEATURES + word * 8).map(u64::count_ones)).sum::<Result<_, _>>()?;
    for index in 0..features as usize {
        let entry = rest.get_mut(index * 16..index * 16 + 8).context("the recording is cut off")?;
        let offset = number(end + index * 16)? + length * (copies - 1);
        entry.copy_from_slice(&offset.to_le_bytes());
    }
    out.write_all(&rest)?;
    Ok(copies)
}

/// Writes what `command` prints, over and over until it is `size` bytes; ends at the end of a sample.
pub fn repeat_text(command: &mut Command, to: &Path, size: u64) -> anyhow::Result<()> {
    let mut child = command.spawn().context("cannot run perf script")?;
    let mut text = Vec::new();
    let output = child.stdout.take().context("perf script has no output")?;
    output.take(size).read_to_end(&mut text)?;
    // It need not be heard to its end.
    let _ = child.kill();
    child.wait()?;
    // Samples end in an empty line.
    let end = text.windows(2).rposition(|pair| pair == b"\n\n").context("perf script printed no sample")? + 2;
    let mut out =
        BufWriter::new(File::create(to).with_context(|| format!("cannot create {}", to.display()))?);
    for _ in 0..(size / end as u64).max(1) {
        out.write_all(&text[..end])?;
    }
    out.flush().context("cannot write the text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_repeated_and_features_move() {
        let mut data = b"PERFILE2".to_vec();
        for word in [104u64, 0, 0, 0, 104, 6, 0, 0, 1 << 3 | 1 << 4, 0, 0, 0] {
            data.extend(word.to_le_bytes());
        }
        data.extend(b"record");
        for word in [142u64, 3, 145, 3] {
            data.extend(word.to_le_bytes());
        }
        data.extend(b"onetwo");
        let mut out = Vec::new();
        assert_eq!(write_repeated(&data, 20, &mut out).unwrap(), 3);
        assert_eq!(out.len(), data.len() + 12);
        assert_eq!(out[DATA_SIZE], 18);
        let at = |index: usize| out[104 + 18 + index * 16] as usize;
        assert_eq!((&out[at(0)..at(0) + 3], &out[at(1)..at(1) + 3]), (&b"one"[..], &b"two"[..]));
        assert!(write_repeated(&data[..120], 20, &mut Vec::new()).is_err());
    }
}
