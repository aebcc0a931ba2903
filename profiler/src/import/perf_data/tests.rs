//! Whole files, made by hand, and damaged ones.

use std::io::Cursor;

use proptest::prelude::*;

use super::super::{Options, read as import};
use super::header::{Attr, feature, flag};
use super::sample::field;
use super::*;
use crate::profile::{Kind, Weights, flat};

/// Samples have this.
const FIELDS: u64 =
    field::IP | field::TID | field::TIME | field::ID | field::CPU | field::PERIOD | field::CALLCHAIN;
const KERNEL_CONTEXT: u64 = -128i64 as u64;
const USER_CONTEXT: u64 = -512i64 as u64;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn two(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
    bytes
}

fn header_text(content: &str) -> Vec<u8> {
    let content = text(content);
    [&(content.len() as u32).to_le_bytes()[..], &content].concat()
}

fn record(kind: u32, misc: u16, body: &[Vec<u8>]) -> Vec<u8> {
    let body = body.concat();
    let mut record = kind.to_le_bytes().to_vec();
    record.extend(misc.to_le_bytes());
    record.extend((8 + body.len() as u16).to_le_bytes());
    record.extend(body);
    record
}

/// What follows records other than samples: thread, time, id, CPU.
fn trailer(time: u64) -> Vec<u8> {
    words(&[0, time, 1, 0])
}

fn comm(tid: u32, name: &str, time: u64) -> Vec<u8> {
    record(records::kind::COMM, 0, &[words(&[two(7, tid)]), text(name), trailer(time)])
}

fn sample(tid: u32, id: u64, time: u64, period: u64, chain: &[u64]) -> Vec<u8> {
    let ip = chain.iter().copied().find(|address| *address < KERNEL_CONTEXT - 4096).unwrap_or(0);
    let misc = if chain.first() == Some(&USER_CONTEXT) { 2 } else { 1 };
    let body = words(&[ip, two(7, tid), time, id, 3, period, chain.len() as u64]);
    record(records::kind::SAMPLE, misc, &[body, words(chain)])
}

/// A `perf_event_attr` of its first size.
fn attr(kind: u32, config: u64) -> Vec<u8> {
    let flags = flag::FREQ | flag::SAMPLE_ID_ALL;
    words(&[two(kind, 64), config, 4000, FIELDS, 0, flags, 0, 0])
}

/// A recording of cpu-clock and page-faults: renamed in between, mappings of user space, a lost record.
fn recorded(periods: &[u64]) -> Vec<u8> {
    let mapped = words(&[two(7, 7), 0x1000, 0x1000, 0x400]);
    let mut all = vec![
        comm(7, "early", 10),
        record(records::kind::MMAP, 2, &[mapped, text("/no/such/fio"), trailer(11)]),
    ];
    // CPU 1's buffer comes after CPU 0's, with older records.
    all.push(sample(7, 1, 100, periods[0], &[KERNEL_CONTEXT, 0xffff_ffff_8000_1000, 0xffff_ffff_8000_2000]));
    all.push(sample(7, 2, 101, 1, &[KERNEL_CONTEXT, 0xffff_ffff_8000_9000]));
    all.push(sample(7, 1, 50, periods[1], &[USER_CONTEXT, 0x1010, 0x1020, 0x9999]));
    all.push(comm(7, "late", 60));
    all.push(record(records::kind::FINISHED_ROUND, 0, &[]));
    all.push(sample(7, 1, 110, periods[2], &[KERNEL_CONTEXT, 0xffff_ffff_8000_1000, USER_CONTEXT, 0x1030]));
    all.push(record(records::kind::LOST, 0, &[words(&[1, 5]), trailer(120)]));
    all.push(record(records::kind::FINISHED_ROUND, 0, &[]));
    all.concat()
}

/// The file around records.
fn file(data: &[u8]) -> Vec<u8> {
    let attrs = [(attr(1, 0), 1u64), (attr(1, 2), 2)];
    let ids_at = 104u64;
    let attrs_at = ids_at + 16;
    let data_at = attrs_at + 2 * 80;
    let features = [(feature::HOSTNAME, header_text("box")), (feature::OSRELEASE, header_text("1.2.3-test"))];
    let bits = features.iter().fold(0u64, |bits, (number, _)| bits | 1 << number);
    let mut file = b"PERFILE2".to_vec();
    file.extend(words(&[104, 80, attrs_at, 160, data_at, data.len() as u64, 0, 0, bits, 0, 0, 0]));
    file.extend(words(&[1, 2]));
    for (index, (attr, _)) in attrs.iter().enumerate() {
        file.extend(attr);
        file.extend(words(&[ids_at + index as u64 * 8, 8]));
    }
    file.extend(data);
    let mut at = file.len() as u64 + features.len() as u64 * 16;
    for (_, feature) in &features {
        file.extend(words(&[at, feature.len() as u64]));
        at += feature.len() as u64;
    }
    features.iter().for_each(|(_, feature)| file.extend(feature));
    file
}

/// The same as a stream.
fn stream(data: &[u8]) -> Vec<u8> {
    let mut stream = b"PERFILE2".to_vec();
    stream.extend(words(&[16]));
    for (index, kind) in [(1, attr(1, 0)), (2, attr(1, 2))] {
        stream.extend(record(records::kind::HEADER_ATTR, 0, &[kind, words(&[index])]));
    }
    let hostname = [words(&[u64::from(feature::HOSTNAME)]), header_text("box"), vec![0; 4]];
    stream.extend(record(records::kind::HEADER_FEATURE, 0, &hostname));
    stream.extend(data);
    stream
}

fn open(file: &[u8]) -> Result<Recording, PerfDataError> {
    read(Cursor::new(file), &Options::default())
}

/// Stacks as text: thread, frames outermost first, count and weight.
fn stacks(session: &Session) -> Vec<String> {
    let profile = &session.profile;
    let line = |stack: &crate::profile::Stack| {
        let names: Vec<_> = stack.frames.iter().map(|place| profile.frame_of(*place).qualified()).collect();
        let labels = profile.labels(stack.labels);
        let comm = labels.comm.as_deref().unwrap_or("?");
        format!("{comm}/{:?} {} {}x {}", labels.cpu, names.join(";"), stack.count, stack.weight)
    };
    profile.stacks().iter().map(line).collect()
}

#[test]
fn a_file_is_read_in_the_order_of_time() {
    let Recording { session, warnings } = open(&file(&recorded(&[5, 5, 5]))).unwrap();
    assert_eq!(
        stacks(&session),
        [
            "early/Some(3) fio+0x41f [fio];fio+0x410 [fio] 1x 1",
            "late/Some(3) 0xffffffff80002000;0xffffffff80001000 1x 1",
            "late/Some(3) fio+0x430 [fio];0xffffffff80001000 1x 1",
        ]
    );
    assert_eq!((session.weights, session.duration_ns), (Weights::Counts, 60));
    assert_eq!((&*session.host.hostname, &*session.host.kernel), ("box", "1.2.3-test"));
    assert_eq!(session.losses.len(), 1);
    assert_eq!((session.losses[0].count, &*session.losses[0].cause), (5, "perf's buffer was full"));
    assert!(session.blind_spots.iter().any(|spot| spot.contains("page-faults")), "{:?}", session.blind_spots);
    assert!(session.blind_spots.iter().any(|spot| spot.contains("kernel 1.2.3-test")));
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn periods_weigh() {
    let session = open(&file(&recorded(&[10, 30, 60]))).unwrap().session;
    assert_eq!(session.weights, Weights::Periods);
    let mut weights: Vec<_> =
        session.profile.stacks().iter().map(|stack| (stack.weight, stack.count)).collect();
    weights.sort_unstable();
    assert_eq!(weights, [(1_000_000, 1), (3_000_000, 1), (6_000_000, 1)]);
    // However they divide, they add up to all.
    let session = open(&file(&recorded(&[1, 1, u64::MAX / 3]))).unwrap().session;
    assert_eq!(session.profile.total(Kind::Cpu), crate::profile::session::SHARES_TOTAL);
    assert_eq!(flat(&session.profile, Kind::Cpu)[0].weight, 10_000_000);
}

#[test]
fn a_stream_is_the_same_and_needs_no_seeking() {
    let data = recorded(&[5, 5, 5]);
    let as_file = open(&file(&data)).unwrap().session;
    let imported = import(&mut &stream(&data)[..], "x", &Options::default(), &|_, _| {}).unwrap();
    assert_eq!(stacks(&imported.sessions[0]), stacks(&as_file));
    assert_eq!(imported.sessions[0].host.hostname, "box");
    let error = import(&mut &file(&data)[..], "x", &Options::default(), &|_, _| {}).unwrap_err().to_string();
    assert!(error.contains("cannot be read from a pipe"), "{error}");
}

#[test]
fn a_file_that_perf_did_not_finish() {
    let mut file = file(&recorded(&[5, 5, 5]));
    file[48..56].fill(0);
    // What follows the records is no record, and is cut off here as it would be missing.
    let end = 104 + 16 + 160 + recorded(&[5, 5, 5]).len();
    let Recording { session, warnings } = open(&file[..end]).unwrap();
    assert_eq!((stacks(&session).len(), warnings.len()), (3, 1));
    let Recording { session, warnings } = open(&file[..end - 100]).unwrap();
    assert_eq!((stacks(&session).len(), warnings.len()), (2, 1), "{warnings:?}");
}

#[test]
fn errors_say_what_is_wrong() {
    let of = |file: &[u8]| open(file).unwrap_err().to_string();
    let good = file(&recorded(&[5, 5, 5]));
    assert!(of(b"PERFILE").contains("not a perf.data file"));
    assert!(of(b"PERFFILE........").contains("record anew"));
    let mut no_attrs = good.clone();
    no_attrs[24..32].fill(0xff);
    assert!(of(&no_attrs).contains("events"), "{}", of(&no_attrs));
    assert_eq!(of(&file(&comm(7, "x", 1))), "the perf.data file has no samples of cpu-clock");
    // Counts that no memory could hold.
    let mut huge = good;
    huge[32..40].fill(0xff);
    assert!(of(&huge).contains("events"), "{}", of(&huge));
    assert!(Attr::parse(bytes::Bytes::new(&[0; 63], false)).is_none());
}

proptest! {
    #[test]
    fn damage_does_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
        piped in any::<bool>(),
        packed in any::<bool>(),
    ) {
        let mut data = recorded(&[3, 5, 7]);
        if packed {
            data = record(records::kind::COMPRESSED, 0, &[zstd::encode_all(&data[..], 1).unwrap()]);
        }
        let mut file = if piped { stream(&data) } else { file(&data) };
        for (index, byte) in changes {
            let index = index.index(file.len());
            file[index] = byte;
        }
        if cut {
            file.truncate(length.index(file.len()));
        }
        if let Ok(Recording { session, .. }) = open(&file) {
            prop_assert!(session.profile.total(Kind::Cpu) > 0);
            prop_assert!(session.profile.stacks().len() <= 4);
        }
    }

    #[test]
    fn rubbish_does_no_harm(data in prop::collection::vec(any::<u8>(), 0..2000), piped in any::<bool>()) {
        let _ = open(&if piped { stream(&data) } else { file(&data) });
    }
}
