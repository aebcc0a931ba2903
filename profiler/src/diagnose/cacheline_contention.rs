//! `cacheline-contention`: a small function waits for a cache line that others keep writing.

use std::collections::HashMap;

use super::cacheline_code;
use super::facts::{Facts, share};
use super::{About, Pathology, Threshold, number};
use crate::profile::{
    Advice, Confidence, Evidence, Finding, Impact, Kind, Mark, Resource, SHARES_TOTAL, Severity, Subject,
};

/// See [`ABOUT`].
pub struct CachelineContention;

pub(super) static ABOUT: About = About {
    id: "cacheline-contention",
    title: "a small function takes a share of CPU time that its work does not explain",
    symptom: "A function of a few instructions, often one that only reads a constant, is at the top of the flat \
              profile, on a machine with many cores or sockets; on another machine the same work shows hardly any \
              of it.",
    why: "A load waits when the cache line it needs was just written by another CPU. The field that is read may be \
          constant: it is enough that a field beside it, in the same line (64 bytes), is written often, such as a \
          counter or a lock. The profile charges the reader, and the more CPUs and sockets there are the more it \
          is charged; the cause is the writer. The function itself need not be improved.",
    cures: &[
        "Find the field that the function loads, and what shares its cache line (pahole shows the layout).",
        "Move read-mostly fields into a line without counters, locks and list heads (____cacheline_aligned_in_smp), \
         or make the counter a per-CPU counter.",
    ],
    confirmed_by: "a PMU that samples memory accesses (perf c2c)",
    suspected_by: "a small leaf function most of whose samples lie behind one load; likely if another hot function \
                   writes to the cache line of this load. Or a leaf function that has a multiple of its share in \
                   another session of the same work",
    thresholds: &[
        Threshold {
            what: "share of CPU time of the function itself",
            value: SHARE,
            reason: "below it there is little to win; the founding case has 25.8 %",
        },
        Threshold {
            what: "bytes of the function, in one session",
            value: cacheline_code::SMALL as f64,
            reason: "larger ones have work of their own; the founding case has some 120",
        },
        Threshold {
            what: "share of its samples at and behind one load, if nothing else speaks for it",
            value: cacheline_code::WAITS_ALONE,
            reason: "a reader whose line others write has 60 % to 85 %; its twin with the fields apart has 20 %",
        },
        Threshold {
            what: "the same if another function is seen to write to that line",
            value: cacheline_code::WAITS_WRITTEN,
            reason: "where the two CPUs are threads of one core, or the writer is not always there, 42 % was measured",
        },
        Threshold {
            what: "share of CPU time of a function that writes to the line",
            value: cacheline_code::WRITER,
            reason: "a write costs its CPU as much as it costs the readers",
        },
        Threshold {
            what: "its share as a multiple of that in the other session",
            value: RATIO,
            reason: "the founding case has 9.4; two runs of one kind on one machine stay below 2",
        },
        Threshold {
            what: "its share in the other session",
            value: PRESENT,
            reason: "else the other session may not have done this work at all",
        },
    ],
    explained_by: &[],
};

const SHARE: f64 = 0.1;
const RATIO: f64 = 4.0;
const PRESENT: f64 = 0.005;
/// The part of a function's time that must be its own, for it to be a leaf.
pub(super) const LEAF: f64 = 0.8;
/// Functions that are named besides the main one.
const OTHERS: usize = 4;

/// Parts of names of functions whose time is explained: they wait for locks, or work through data.
const EXPLAINED: &[&str] = &[
    "spin_lock",
    "spin_unlock",
    "spin_on_owner",
    "_slowpath",
    "osq_lock",
    "lll_lock",
    "futex",
    "mutex",
    "rwsem",
    "read_lock",
    "write_lock",
    "memcpy",
    "memset",
    "memmove",
    "memcmp",
    "copy_user",
    "copy_to_",
    "copy_from_",
    "_copy_",
    "clear_page",
    "clear_user",
    "crc",
    "csum",
    "checksum",
    "sha1",
    "sha2",
    "aes",
    "zstd",
    "lzo",
    "lz4",
    "inflate",
    "deflate",
    "compress",
    "xor_",
    "raid",
    "idle",
    "halt",
    "mwait",
    "cpu_relax",
    "strlen",
    "memchr",
    "strchr",
    "strcmp",
    "strncpy",
    "sort",
    "finish_task_switch",
    "unmap",
    "zap_pte",
];

impl Pathology for CachelineContention {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn find(&self, facts: &Facts<'_>) -> Vec<Finding> {
        // A share alone proves nothing: a loop around a padded line shows the same. Code can tell them apart.
        cacheline_code::find(facts)
    }

    fn compare(&self, facts: &Facts<'_>, baseline: &Facts<'_>) -> Vec<Finding> {
        let (here, there) = (own_shares(facts), own_shares(baseline));
        let floor = smallest_listed(baseline);
        let mut grown: Vec<Grown<'_>> = here
            .iter()
            .filter(|(name, own)| own.share >= SHARE / 2.0 && own.leaf >= LEAF && !is_explained(name))
            .filter_map(|(name, own)| {
                let before = there.get(name)?.share;
                (before >= PRESENT && own.share >= RATIO * before).then_some(Grown {
                    shown: own.shown,
                    share: own.share,
                    before,
                })
            })
            .collect();
        grown
            .sort_by(|a, b| (b.share - b.before).total_cmp(&(a.share - a.before)).then(a.shown.cmp(b.shown)));
        match grown.first() {
            Some(first) if first.share >= SHARE => vec![finding(first, &grown[1..], floor)],
            _ => Vec::new(),
        }
    }
}

/// A function's own part of the CPU time.
struct Own<'s> {
    share: f64,
    /// Which part of the time below it is its own; 1 where there are no callees.
    leaf: f64,
    shown: &'s str,
}

/// A function with a larger share here than there.
struct Grown<'s> {
    shown: &'s str,
    share: f64,
    before: f64,
}

/// The kernel's functions with their own share of CPU time, by normalised name.
fn own_shares<'s>(facts: &Facts<'s>) -> HashMap<&'s str, Own<'s>> {
    let profile = &facts.session.profile;
    // Own and inclusive weight.
    let mut weights: HashMap<&str, (u64, u64, &str)> = HashMap::new();
    let mut seen: Vec<&str> = Vec::new();
    for stack in facts.stacks(Kind::Cpu) {
        seen.clear();
        for frame in stack.frames() {
            let name = facts.name(frame);
            let entry = weights.entry(name).or_insert((0, 0, &profile.frame(frame).name));
            // Recursion counts once.
            if !seen.contains(&name) {
                seen.push(name);
                entry.1 = entry.1.saturating_add(stack.weight());
            }
        }
        if let Some(entry) = seen.last().and_then(|name| weights.get_mut(name)) {
            entry.0 = entry.0.saturating_add(stack.weight());
        }
    }
    weights
        .into_iter()
        .map(|(name, (own, all, shown))| {
            (name, Own { share: facts.share(Kind::Cpu, own), leaf: share(own, all), shown })
        })
        .collect()
}

/// Lists that people post end somewhere: the share of their last line.
fn smallest_listed(facts: &Facts<'_>) -> Option<f64> {
    if facts.has_counts() {
        return None;
    }
    let listed = facts.stacks(Kind::Cpu).filter(|stack| !stack.stack.frames.is_empty());
    listed.map(|stack| stack.weight() as f64 / SHARES_TOTAL as f64).reduce(f64::min)
}

/// Whether the time of a function is explained by its name.
pub(super) fn is_explained(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    EXPLAINED.iter().any(|part| name.contains(part))
}

fn finding(main: &Grown<'_>, others: &[Grown<'_>], floor: Option<f64>) -> Finding {
    let line = |grown: &Grown<'_>| {
        format!(
            "{}: {} of CPU time here, {} there ({})",
            grown.shown,
            number::percent(grown.share),
            number::percent(grown.before),
            number::times(grown.share / grown.before)
        )
    };
    let mut evidence = vec![
        Evidence::new("share", main.share, None, line(main)),
        Evidence::new(
            "ratio",
            main.share / main.before,
            None,
            format!(
                "{} times the share that the same work gives it in the other session",
                number::times(main.share / main.before).trim_end_matches('x')
            ),
        ),
    ];
    for other in others.iter().take(OTHERS) {
        evidence.push(Evidence::new("other_share", other.share, None, format!("likewise {}", line(other))));
    }
    if let Some(floor) = floor {
        evidence.push(Evidence::new(
            "listed_from",
            floor,
            None,
            format!("functions below {} are not listed there, and not compared", number::percent(floor)),
        ));
    }
    let mut about = vec![Subject::Function(main.shown.to_owned())];
    about.extend(others.iter().take(OTHERS).map(|other| Subject::Function(other.shown.to_owned())));
    Finding {
        id: ABOUT.id.to_owned(),
        title: format!("{}: {}", main.shown, ABOUT.title),
        severity: Severity::Warning,
        confidence: Confidence::Suspected,
        impact: Impact { share: main.share - main.before, of: Resource::CpuTime },
        about,
        evidence,
        why: ABOUT.why.to_owned(),
        advice: vec![
            Advice::new(
                "First compare what differs between the machines: sockets, cores a socket, NUMA nodes, hypervisor. \
                 A line that moves between sockets costs several times one that stays within a socket.",
            ),
            Advice::paste(
                format!(
                    "Where the CPU samples memory accesses, see which line {} waits for, and who writes it.",
                    main.shown
                ),
                "perf c2c record -a -- sleep 10 && perf c2c report --stdio",
            ),
            Advice::new(
                "Look at the structure that it reads from (pahole): which fields written often - counters, locks, list \
                 heads - lie in the 64 bytes of the one that it loads. Move the field that is only read to a line of \
                 read-mostly fields (____cacheline_aligned_in_smp), or make the counter per-CPU.",
            ),
        ],
        marks: vec![Mark { kind: Some(Kind::Cpu), frame: main.shown.to_owned() }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Session, Source, Weights};
    use crate::testing::{kernel, push};

    /// A flat profile as people post it, in hundredths of a percent.
    fn flat(lines: &[(&str, u64)]) -> Session {
        let mut session = Session::new(Source::Imported { format: "flat".to_owned() });
        session.weights = Weights::Shares;
        let labels = session.profile.intern_labels(Default::default());
        let mut rest = SHARES_TOTAL;
        for (name, hundredths) in lines {
            push(&mut session.profile, Kind::Cpu, labels, &[kernel(name)], hundredths * 1000);
            rest -= hundredths * 1000;
        }
        push(&mut session.profile, Kind::Cpu, labels, &[], rest);
        session
    }

    fn machine_a() -> Session {
        flat(&[
            ("xfs_agino_range", 2583),
            ("__xfs_dir3_data_check", 1268),
            ("xfs_verify_ino", 695),
            ("xfs_dabuf_map.constprop.0", 202),
        ])
    }

    fn machine_b() -> Session {
        flat(&[
            ("__pv_queued_spin_lock_slowpath", 1390),
            ("do_raw_spin_lock", 376),
            ("xfs_agino_range", 275),
            ("__xfs_dir3_data_check", 218),
        ])
    }

    fn compared(here: &Session, there: &Session) -> Vec<Finding> {
        CachelineContention.compare(&Facts::new(here), &Facts::new(there))
    }

    #[test]
    fn the_bystander_of_the_founding_report_stands_out() {
        let findings = compared(&machine_a(), &machine_b());
        assert_eq!(findings.len(), 1);
        let finding = &findings[0];
        assert_eq!(finding.about[0], Subject::Function("xfs_agino_range".into()));
        assert_eq!(finding.confidence, Confidence::Suspected);
        assert!((finding.value("ratio").unwrap() - 9.39).abs() < 0.01);
        assert!((finding.impact.share - 0.2308).abs() < 1e-9);
    }

    #[test]
    fn a_lock_is_not_a_bystander_and_like_is_like() {
        assert_eq!(compared(&machine_b(), &machine_a()), []);
        assert_eq!(compared(&machine_a(), &machine_a()), []);
    }

    #[test]
    fn functions_with_work_of_their_own_are_not_leaves() {
        let tree = |own: u64, below: u64| {
            let mut session = Session::new(Source::Live);
            let labels = session.profile.intern_labels(Default::default());
            push(&mut session.profile, Kind::Cpu, labels, &["sys", "small"].map(kernel), own);
            push(&mut session.profile, Kind::Cpu, labels, &["sys", "small", "memcpy"].map(kernel), below);
            push(&mut session.profile, Kind::Cpu, labels, &["sys", "rest"].map(kernel), 1000 - own - below);
            session
        };
        assert_eq!(compared(&tree(300, 0), &tree(30, 0)).len(), 1);
        assert_eq!(compared(&tree(300, 200), &tree(30, 20)), []);
        // The work is not there at all in the other.
        assert_eq!(compared(&tree(300, 0), &tree(2, 0)), []);
    }
}
