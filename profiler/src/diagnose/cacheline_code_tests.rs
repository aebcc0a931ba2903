use std::collections::BTreeMap;

use super::*;
use crate::code::text::Found;
use crate::code::{Types, analyse};
use crate::profile::{FunctionText, Labels, Origin, Session, Source, Stack};
use crate::testing::kernel;
use crate::types::btf::BtfTypes;
use crate::types::{Prototype, TypeSource, encoder};

/// mov 72(%rdi),%ecx; mov $1,%eax; shl %cl,%eax; ret: reads `mount.m_agino_log`.
const READER: &[u8] = &[0x8b, 0x4f, 0x48, 0xb8, 1, 0, 0, 0, 0xd3, 0xe0, 0xc3];
/// lock incq 80(%rdi); ret: counts in `mount.m_active_trans`.
const WRITER: &[u8] = &[0xf0, 0x48, 0xff, 0x47, 0x50, 0xc3];
/// lock incl 72(%rdi); ret: counts in the field that is read.
const SAME: &[u8] = &[0xf0, 0xff, 0x47, 0x48, 0xc3];
/// mov 192(%rdi),%rcx; ...: reads `mount.m_growlock`, in a line that nobody writes.
const QUIET: &[u8] = &[0x48, 0x8b, 0x8f, 0xc0, 0, 0, 0, 0xb8, 1, 0, 0, 0, 0xd3, 0xe0, 0xc3];

struct Mount(BtfTypes);

impl Types for Mount {
    fn of(&self, _found: &Found) -> Option<&dyn TypeSource> {
        Some(&self.0)
    }

    fn prototype(&self, _found: &Found, symbol: &str) -> Option<Prototype> {
        self.0.prototype(symbol)
    }
}

/// A function with its code and its samples by offset, all on one CPU.
struct Function(&'static str, &'static [u8], u32, &'static [(u32, u64)]);

fn session(functions: &[Function], others: u64) -> Session {
    let mut btf = encoder::mount();
    let mount = btf.types().named("mount")[0].0 as u32;
    let pointer = btf.pointer(mount);
    let mut session = Session::new(Source::Live);
    let mut found = Vec::new();
    let push = |session: &mut Session, name: &str, address: u64, cpu: u32, samples: u64| {
        let frame = session.profile.intern_frame(kernel(name));
        let location = session.profile.intern_location(frame, address);
        let labels = session.profile.intern_labels(Labels { cpu: Some(cpu), ..Labels::default() });
        let frames = [location].into();
        session.profile.push(Stack { kind: Kind::Cpu, frames, labels, count: samples, weight: samples });
    };
    for (index, Function(name, bytes, cpu, samples)) in functions.iter().enumerate() {
        btf.function(name, &[("mp", pointer)]);
        let start = 0xffff_ffff_8100_0000 + 0x1000 * index as u64;
        for (offset, count) in *samples {
            push(&mut session, name, start + u64::from(*offset), *cpu, *count);
        }
        found.push(Found {
            text: FunctionText {
                name: (*name).to_owned(),
                module: None,
                origin: Origin::Kernel,
                start,
                bytes: bytes.to_vec(),
                targets: Vec::new(),
            },
            symbol: (*name).to_owned(),
            binary: None,
            samples: samples.iter().copied().collect::<BTreeMap<u32, u64>>(),
        });
    }
    push(&mut session, "other", 0, 1, others);
    analyse(&mut session, found, &Mount(btf.types()));
    session
}

fn found(session: &Session) -> Vec<Finding> {
    find(&Facts::new(session))
}

const WAITING: &[(u32, u64)] = &[(0, 20), (3, 200), (8, 10), (10, 28)];

#[test]
fn the_founding_report_is_explained() {
    let session = session(
        &[
            Function("xfs_agino_range", READER, 0, WAITING),
            Function("xfs_trans_alloc", WRITER, 1, &[(5, 60)]),
        ],
        682,
    );
    let findings = found(&session);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let finding = &findings[0];
    assert_eq!(finding.confidence, Confidence::Likely);
    assert_eq!(finding.about[0], Subject::Structure("struct mount.m_agino_log".into()));
    assert!(
        finding.title.contains("m_active_trans") && finding.title.contains("false sharing"),
        "{finding:#?}"
    );
    assert!(finding.title.contains("xfs_trans_alloc"), "{}", finding.title);
    assert_eq!(finding.value("offset"), Some(72.0));
    let paste = finding.advice.iter().find_map(|advice| advice.paste.as_deref()).unwrap();
    assert!(paste.contains("m_agino_log") && paste.contains("m_active_trans"), "{paste}");
}

#[test]
fn true_sharing_is_told_from_false() {
    let session =
        session(&[Function("reader", READER, 0, WAITING), Function("counts", SAME, 1, &[(4, 300)])], 400);
    let findings = found(&session);
    assert_eq!(findings.len(), 1);
    assert!(findings[0].title.contains("true sharing"), "{}", findings[0].title);
    assert!(!findings[0].advice.iter().any(|advice| advice.text.contains("aligned")));
}

#[test]
fn neighbours_by_nature_alone_are_suspected() {
    let session = session(&[Function("reader", READER, 0, WAITING)], 700);
    let findings = found(&session);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].confidence, Confidence::Suspected);
    assert!(findings[0].evidence.iter().any(|evidence| evidence.text.contains("m_active_trans")));
}

#[test]
fn what_waits_for_no_other_cpu_is_silent() {
    let silent = |functions: &[Function], others| {
        let session = session(functions, others);
        assert_eq!(found(&session), [], "{:#?}", session.code);
    };
    let writer = || Function("counts", WRITER, 1, &[(5, 300)]);
    // The line of the load is not written.
    silent(&[Function("reader", QUIET, 0, &[(0, 20), (7, 200), (12, 30)]), writer()], 400);
    // The samples are spread.
    silent(&[Function("reader", READER, 0, &[(0, 60), (3, 25), (8, 80), (10, 90)]), writer()], 400);
    // It hardly counts.
    silent(&[Function("reader", READER, 0, WAITING), writer()], 10_000);
    // An uncontended atomic operation looks like this as well.
    silent(&[writer()], 400);
    // Locks have findings of their own.
    silent(&[Function("_raw_spin_lock", READER, 0, WAITING), writer()], 400);
}

#[test]
fn one_cpu_alone_contends_with_nobody() {
    let session =
        session(&[Function("reader", READER, 1, WAITING), Function("counts", WRITER, 1, &[(5, 300)])], 400);
    assert_eq!(found(&session), []);
}
