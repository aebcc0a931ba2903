//! Round trips, files of other programs, and damaged files.

use std::io::Read as _;

use proptest::prelude::*;
use prost::Message as _;

use super::super::kind::Kind;
use super::super::labels::{Device, IoOp, Labels, LockKind};
use super::super::session::{Probe, ProbeState, Session, Source};
use super::super::stacks::{Frame, Origin, Profile, Stack};
use super::{PprofError, decode, decode_session, encode, messages};

/// A stack with everything resolved, to compare profiles whose ids differ.
type Resolved = (Kind, Vec<(Frame, u64)>, Labels, u64, u64);

fn resolved(profile: &Profile) -> Vec<Resolved> {
    let mut stacks: Vec<Resolved> = profile
        .stacks()
        .iter()
        .filter(|stack| stack.count > 0 || stack.weight > 0)
        .map(|stack| {
            let frames = stack
                .frames
                .iter()
                .map(|id| (profile.frame_of(*id).clone(), profile.location(*id).address))
                .collect();
            (stack.kind, frames, profile.labels(stack.labels).clone(), stack.count, stack.weight)
        })
        .collect();
    stacks.sort();
    stacks
}

fn session_of(stacks: Vec<Resolved>) -> Session {
    let mut session = Session::new(Source::Live);
    for (kind, frames, labels, count, weight) in stacks {
        let profile = &mut session.profile;
        let frames = frames
            .into_iter()
            .map(|(frame, address)| {
                let frame = profile.intern_frame(frame);
                profile.intern_location(frame, address)
            })
            .collect();
        let labels = profile.intern_labels(labels);
        profile.push(Stack { kind, frames, labels, count, weight });
    }
    session
}

fn gunzip(data: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(data).read_to_end(&mut plain).unwrap();
    plain
}

prop_compose! {
    fn any_frame()(
        name in "[a-z_.]{0,6}|\\PC{1,4}",
        module in proptest::option::of("xfs|btrfs|/usr/bin/fio|\\[vdso\\]|kernelx"),
        kernel in any::<bool>(),
        address in prop_oneof![Just(0), any::<u64>()],
    ) -> (Frame, u64) {
        let origin = if kernel { Origin::Kernel } else { Origin::User };
        (Frame { name: name.into(), module: module.map(Into::into), origin }, address)
    }
}

prop_compose! {
    fn any_labels()(
        comm in proptest::option::of("\\PC{0,4}"),
        pid in proptest::option::of(0..3u32),
        cpu in proptest::option::of(0..3u32),
        cgroup in proptest::option::of("/[a-z]{0,4}"),
        lock_kind in proptest::option::of(proptest::sample::select(LockKind::ALL.to_vec())),
        lock in proptest::option::of(any::<u64>()),
        device in proptest::option::of((any::<u32>(), any::<u32>())),
        op in proptest::option::of(proptest::sample::select(
            vec![IoOp::Read, IoOp::Write, IoOp::Discard, IoOp::Flush],
        )),
        order in proptest::option::of(any::<u8>()),
    ) -> Labels {
        Labels {
            comm: comm.map(Into::into),
            pid,
            cpu,
            cgroup: cgroup.map(Into::into),
            lock_kind,
            lock,
            device: device.map(|(major, minor)| Device { major, minor }),
            op,
            order,
        }
    }
}

fn any_stacks() -> impl Strategy<Value = Vec<Resolved>> {
    let amount = || prop_oneof![0..5u64, 0..=i64::MAX as u64];
    proptest::collection::vec(
        (
            proptest::sample::select(Kind::ALL.to_vec()),
            proptest::collection::vec(any_frame(), 0..6),
            any_labels(),
            amount(),
            amount(),
        ),
        0..12,
    )
}

proptest! {
    #[test]
    fn a_session_survives_the_round_trip(stacks in any_stacks()) {
        let session = session_of(stacks);
        let encoded = encode(&session);
        let decoded = decode(&encoded).unwrap();
        prop_assert_eq!(resolved(&session.profile), resolved(&decoded));
        let plain = decode(&gunzip(&encoded)).unwrap();
        prop_assert_eq!(resolved(&decoded), resolved(&plain));
    }

    #[test]
    fn random_bytes_never_panic(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&data);
    }

    #[test]
    fn mutated_files_never_panic(
        stacks in any_stacks(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<proptest::sample::Index>(),
        zipped in any::<bool>(),
    ) {
        let mut data = encode(&session_of(stacks));
        if !zipped {
            data = gunzip(&data);
        }
        for (at, byte) in changes {
            let at = at.index(data.len());
            data[at] = byte;
        }
        let _ = decode(&data);
        data.truncate(cut.index(data.len()));
        let _ = decode(&data);
    }
}

fn labelled(kind: Kind, name: &str, count: u64, weight: u64) -> Resolved {
    (kind, vec![(Frame::kernel(name), 0)], Labels::default(), count, weight)
}

#[test]
fn the_header_says_when_and_how_long() {
    let mut session = session_of(vec![labelled(Kind::Cpu, "f", 2, 2)]);
    session.started = Some("2024-05-01T10:00:00Z".parse().unwrap());
    session.duration_ns = 2_000_000_000;
    session.host.cpus = 4;
    let state = ProbeState::Attached { rung: "perf_event".into(), to: Vec::new(), notes: Vec::new() };
    session.probes.push(Probe { due: 800, state, ..Probe::off("cpu", Some(Kind::Cpu)) });

    let encoded = encode(&session);
    let message = messages::Profile::decode(&*gunzip(&encoded)).unwrap();
    assert_eq!(message.period, 10_000_000, "4 CPUs took 800 samples in 2 s: one in 10 ms");
    let decoded = decode_session(&encoded).unwrap();
    assert_eq!(decoded.started, session.started);
    assert_eq!(decoded.duration_ns, session.duration_ns);
    assert_eq!(encoded, encode(&session), "equal sessions give equal files");
}

#[test]
fn an_empty_session_is_a_valid_file() {
    let decoded = decode(&encode(&Session::new(Source::Live))).unwrap();
    assert!(decoded.stacks().is_empty());
}

#[test]
fn cpu_is_shown_first_and_has_no_second_column() {
    let stacks = vec![labelled(Kind::Bio, "f", 1, 4096), labelled(Kind::Cpu, "g", 7, 7)];
    let message = messages::Profile::decode(&*gunzip(&encode(&session_of(stacks)))).unwrap();
    let text = |index: i64| String::from_utf8_lossy(&message.string_table[index as usize]).into_owned();
    let types: Vec<_> = message.sample_type.iter().map(|kind| (text(kind.r#type), text(kind.unit))).collect();
    let expected = [("cpu", "samples"), ("bio", "bytes"), ("bio-events", "events")];
    assert_eq!(types, expected.map(|(name, unit)| (name.to_owned(), unit.to_owned())));
    assert_eq!(text(message.default_sample_type), "cpu");
}

/// A file with these sample types and one sample of one frame.
fn foreign(types: &[(&str, &str)], values: &[i64]) -> messages::Profile {
    let mut strings = vec!["".to_owned(), "main".to_owned()];
    let mut string = |text: &str| {
        strings.push(text.to_owned());
        strings.len() as i64 - 1
    };
    let sample_type = types
        .iter()
        .map(|(name, unit)| messages::ValueType { r#type: string(name), unit: string(unit) })
        .collect();
    let sample = messages::Sample { location_id: vec![7], value: values.to_vec(), label: Vec::new() };
    let line = vec![messages::Line { function_id: 3 }];
    let location = messages::Location { id: 7, line, ..Default::default() };
    messages::Profile {
        sample_type,
        sample: vec![sample.encode_to_vec().into()],
        location: vec![location.encode_to_vec().into()],
        function: vec![messages::Function { id: 3, name: 1, ..Default::default() }],
        string_table: strings.into_iter().map(Into::into).collect(),
        ..Default::default()
    }
}

fn amounts(message: &messages::Profile) -> Vec<(Kind, u64, u64)> {
    let profile = decode(&message.encode_to_vec()).unwrap();
    profile.stacks().iter().map(|stack| (stack.kind, stack.count, stack.weight)).collect()
}

#[test]
fn sample_types_of_other_programs_have_a_meaning() {
    let go_cpu = foreign(&[("samples", "count"), ("cpu", "nanoseconds")], &[5, 50_000_000]);
    assert_eq!(amounts(&go_cpu), [(Kind::Cpu, 5, 5)]);

    let mut only_time = foreign(&[("cpu", "nanoseconds")], &[50_000_000]);
    assert_eq!(amounts(&only_time), [(Kind::Cpu, 50_000_000, 50_000_000)]);
    only_time.period_type = Some(only_time.sample_type[0]);
    only_time.period = 10_000_000;
    assert_eq!(amounts(&only_time), [(Kind::Cpu, 5, 5)]);

    let go_mutex = foreign(&[("contentions", "count"), ("delay", "nanoseconds")], &[3, 900]);
    assert_eq!(amounts(&go_mutex), [(Kind::LockWait, 3, 900)]);

    let mut go_heap = foreign(&[("inuse_objects", "count"), ("inuse_space", "bytes")], &[3, 900]);
    assert_eq!(amounts(&go_heap), [(Kind::Cpu, 900, 900)]);
    go_heap.default_sample_type = go_heap.sample_type[0].r#type;
    assert_eq!(amounts(&go_heap), [(Kind::Cpu, 3, 3)]);
}

#[test]
fn inlined_functions_become_frames_below_their_caller() {
    let mut message = foreign(&[("samples", "count")], &[1]);
    message.string_table.push("inlined".into());
    let name = message.string_table.len() as i64 - 1;
    message.function.push(messages::Function { id: 4, name, ..Default::default() });
    let line = vec![messages::Line { function_id: 4 }, messages::Line { function_id: 3 }];
    let location = messages::Location { id: 7, line, address: 0x1234, ..Default::default() };
    message.location = vec![location.encode_to_vec().into()];

    let profile = decode(&message.encode_to_vec()).unwrap();
    let names: Vec<_> = profile.stacks()[0].frames.iter().map(|id| &*profile.frame_of(*id).name).collect();
    assert_eq!(names, ["main", "inlined"]);
}

#[test]
fn a_location_without_function_is_named_by_its_address() {
    let mut message = foreign(&[("samples", "count")], &[1]);
    let location = messages::Location { id: 7, address: 0xffff_ffff_8100_0010, ..Default::default() };
    message.location = vec![location.encode_to_vec().into()];
    let profile = decode(&message.encode_to_vec()).unwrap();
    assert_eq!(profile.frames(), [Frame::kernel("0xffffffff81000010")]);
}

#[test]
fn numeric_labels_are_read_too() {
    let mut message = foreign(&[("samples", "count")], &[1]);
    for name in ["pid", "cpu"] {
        message.string_table.push(name.into());
    }
    let key = message.string_table.len() as i64;
    let label = vec![
        messages::Label { key: key - 2, num: 42, ..Default::default() },
        messages::Label { key: key - 1, num: 0, ..Default::default() },
    ];
    let sample = messages::Sample { location_id: vec![7], value: vec![1], label };
    message.sample = vec![sample.encode_to_vec().into()];
    let profile = decode(&message.encode_to_vec()).unwrap();
    let labels = profile.labels(profile.stacks()[0].labels);
    assert_eq!((labels.pid, labels.cpu), (Some(42), Some(0)));
}

#[test]
fn damaged_files_say_what_is_wrong() {
    let error = |change: &dyn Fn(&mut messages::Profile)| {
        let mut message = foreign(&[("samples", "count")], &[1]);
        change(&mut message);
        decode(&message.encode_to_vec()).unwrap_err().to_string()
    };
    let sample = |location_id: Vec<u64>, value: Vec<i64>| {
        let sample = messages::Sample { location_id, value, label: Vec::new() };
        vec![sample.encode_to_vec().into()]
    };
    let messages = [
        error(&|message| message.sample_type.clear()),
        error(&|message| message.sample_type[0].unit = 99),
        error(&|message| message.function[0].name = -1),
        error(&|message| message.function[0].id = 0),
        error(&|message| message.location.push(message.location[0].clone())),
        error(&|message| message.function.clear()),
        error(&|message| {
            let location = messages::Location { id: 7, mapping_id: 5, ..Default::default() };
            message.location = vec![location.encode_to_vec().into()];
        }),
        error(&|message| message.sample = sample(vec![8], vec![1])),
        error(&|message| message.sample = sample(vec![7], vec![1, 2])),
        error(&|message| message.sample = sample(vec![7], vec![-1])),
        error(&|message| message.sample = sample(vec![7; 20_000], vec![1])),
        error(&|message| message.sample = sample(vec![7; 2_000_000], vec![1])),
        decode(b"").unwrap_err().to_string(),
        decode(b"hello, world").unwrap_err().to_string(),
        decode(&encode(&Session::default())[..30]).unwrap_err().to_string(),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn bombs_are_refused() {
    let gzip = |data: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, data).unwrap();
        encoder.finish().unwrap()
    };
    let zeros = gzip(&vec![0; super::error::MAX_BYTES + 1]);
    assert!(matches!(decode(&zeros), Err(PprofError::TooLarge)));
    // Empty samples: two bytes each.
    let samples = gzip(&[0x12, 0x00].repeat(super::error::MAX_ENTRIES + 1));
    assert!(matches!(decode(&samples), Err(PprofError::TooManyEntries)));
}
