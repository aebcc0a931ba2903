//! `cacheline-contention` from one session: samples, machine code and types together name the line.

use std::collections::BTreeSet;

use super::cacheline_contention::{ABOUT, is_explained};
use super::facts::{Facts, share};
use super::number::percent;
use super::symbols::normalize;
use crate::profile::{
    Advice, Confidence, Evidence, Finding, FunctionCode, Impact, Kind, Mark, MemberRef, Resource, Severity,
    Subject, Unit, Wait, Weights, Writer,
};

/// Bytes of a function that is small.
pub(super) const SMALL: u32 = 256;
/// Own share of the CPU time.
pub(super) const SHARE: f64 = 0.1;
/// Share of its samples at and behind one load, where nothing else speaks for it.
pub(super) const WAITS_ALONE: f64 = 0.6;
/// The same where a hot function writes to the line of this load.
pub(super) const WAITS_WRITTEN: f64 = 0.35;
/// Share of the CPU time of a function that writes to the line.
pub(super) const WRITER: f64 = 0.01;
/// Samples by which a share of a function's samples is known to some 15 %.
const SAMPLES: u64 = 50;

/// A load with the verdict on it.
struct Suspect<'s> {
    code: &'s FunctionCode,
    wait: &'s Wait,
    share: f64,
    /// Share of its samples at and behind the load.
    waits: f64,
    /// Who writes to the line, the heaviest first.
    writers: Vec<&'s Writer>,
}

/// What the code of the hottest functions says.
pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let session = facts.session;
    let total = facts.total(Kind::Cpu);
    if session.weights != Weights::Counts || total == 0 {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut lines: BTreeSet<(String, u64)> = BTreeSet::new();
    for code in &session.code {
        let Some(suspect) = suspect(code, total) else { continue };
        if !is_leaf(facts, code) || cpus(facts, &suspect) < 2 {
            continue;
        }
        let Some(finding) = judge(&suspect) else { continue };
        // A line is one thing, whoever waits for it.
        let is_new = match (&suspect.wait.member, &suspect.wait.line) {
            (Some(member), Some(line)) => lines.insert((member.structure.clone(), line.index)),
            _ => true,
        };
        if is_new {
            findings.push(finding);
        }
    }
    findings
}

fn suspect(code: &FunctionCode, total: u64) -> Option<Suspect<'_>> {
    let wait = code.wait.as_ref()?;
    // What an atomic operation costs shows behind it even where nobody else uses the line.
    let is_plain = !wait.locked && !code.spins && !is_explained(normalize(&code.name));
    if !is_plain || code.size > SMALL || code.samples < SAMPLES {
        return None;
    }
    let at =
        code.instructions.iter().find(|found| found.offset == wait.offset).map_or(0, |found| found.samples);
    let waits = share(wait.samples.saturating_add(at), code.samples);
    let own = share(code.samples, total);
    let writers = wait
        .writers
        .iter()
        .filter(|writer| writer.name != code.name && share(writer.samples, total) >= WRITER)
        .collect();
    (own >= SHARE).then_some(Suspect { code, wait, share: own, waits, writers })
}

/// Whether the function's time is its own, not that of functions it calls.
fn is_leaf(facts: &Facts<'_>, code: &FunctionCode) -> bool {
    let function = facts.matching(|_, frame| code.is_of(frame));
    share(code.samples, facts.through(Kind::Cpu, &function)) >= super::cacheline_contention::LEAF
}

/// On how many CPUs the function and the writers ran. A line is contended for by two at least.
fn cpus(facts: &Facts<'_>, suspect: &Suspect<'_>) -> usize {
    let profile = &facts.session.profile;
    let mut cpus = BTreeSet::new();
    for stack in profile.of_kind(Kind::Cpu) {
        let Some(innermost) = stack.frames.last() else { continue };
        let frame = profile.frame_of(*innermost);
        let counts = suspect.writers.is_empty()
            || suspect.code.is_of(frame)
            || suspect.writers.iter().any(|writer| *writer.name == *frame.name);
        match profile.labels(stack.labels).cpu {
            Some(cpu) if counts => drop(cpus.insert(cpu)),
            // Not known, as in imports: nothing speaks against it.
            None => return usize::MAX,
            _ => {}
        }
    }
    cpus.len()
}

fn judge(suspect: &Suspect<'_>) -> Option<Finding> {
    let wait = suspect.wait;
    let neighbours = wait.line.as_ref().is_some_and(|line| !line.often_written.is_empty());
    match &wait.member {
        Some(member) if !suspect.writers.is_empty() && suspect.waits >= WAITS_WRITTEN => {
            Some(written(suspect, member))
        }
        _ if suspect.waits < WAITS_ALONE || wait.on_return => None,
        Some(member) if neighbours => Some(suspected(suspect, Some(member))),
        // Nothing in its line is written: it waits for memory, not for another CPU.
        Some(_) => None,
        None => Some(suspected(suspect, None)),
    }
}

/// Another function writes to the line.
fn written(suspect: &Suspect<'_>, member: &MemberRef) -> Finding {
    let same = suspect.writers.iter().find(|writer| writer.same);
    let writer = same.or_else(|| suspect.writers.first()).map_or("another function", |writer| &writer.name);
    let (title, why, advice) = match same {
        Some(_) => (
            format!(
                "{} waits for {}, which {writer} keeps writing (true sharing)",
                suspect.code.name,
                member.full()
            ),
            format!(
                "A load waits when the cache line it needs was just written by another CPU. Here it is the very field \
                 that is read, {}, that {writer} writes from other CPUs: every write takes the line away from the \
                 readers. Moving the field elsewhere does not help; writing it, or reading it, less often does.",
                member.full()
            ),
            vec![Advice::new(
                "Write it less often: a counter for each CPU or thread (percpu_counter, per-CPU variables), summed up by \
                 who reads it; or collect several changes before one write. Or read it less often: keep a copy, and \
                 refresh it now and then.",
            )],
        ),
        None => (
            format!(
                "{} waits for {}, which shares its cache line with {}, written by {writer} (false sharing)",
                suspect.code.name,
                member.full(),
                suspect.writers.first().map_or("a field", |writer| &writer.member.path)
            ),
            ABOUT.why.to_owned(),
            false_sharing_advice(suspect, member),
        ),
    };
    Finding { title, why, ..finding(suspect, Confidence::Likely, Severity::Warning, advice) }
}

/// Only the samples, and perhaps the types, speak for it.
fn suspected(suspect: &Suspect<'_>, member: Option<&MemberRef>) -> Finding {
    let code = suspect.code;
    let (title, severity, advice) = match member {
        Some(member) => (
            format!(
                "{} waits for {}, whose cache line has members that are written often",
                code.name,
                member.full()
            ),
            Severity::Warning,
            false_sharing_advice(suspect, member),
        ),
        None => (
            format!("{} waits for one load, of a member that is not known", code.name),
            // It may as well wait for memory that is in no cache.
            Severity::Info,
            vec![
                Advice::new(
                    "See what the load reads, and what shares its cache line. It may also be memory that is in no cache: \
                     then the time does not depend on what other CPUs do.",
                ),
                Advice::paste(
                    "Where the CPU samples memory accesses, see which line it is, and who writes it.",
                    "perf c2c record -a -- sleep 10 && perf c2c report --stdio",
                ),
            ],
        ),
    };
    Finding { title, ..finding(suspect, Confidence::Suspected, severity, advice) }
}

fn false_sharing_advice(suspect: &Suspect<'_>, member: &MemberRef) -> Vec<Advice> {
    let layout = suspect.wait.line.iter().flat_map(|line| &line.advice);
    let mut advice: Vec<Advice> =
        layout.map(|advice| Advice { text: advice.text.clone(), paste: advice.paste.clone() }).collect();
    if advice.is_empty() {
        let others: BTreeSet<&str> = suspect
            .writers
            .iter()
            .map(|writer| writer.member.path.as_str())
            .chain(suspect.wait.line.iter().flat_map(|line| line.often_written.iter().map(|n| &*n.path)))
            .collect();
        advice.push(Advice::new(format!(
            "Give {} and {} cache lines of their own: move {} to the members that are only read, or what is written \
             behind ____cacheline_aligned_in_smp (alignas(64) in user space).",
            member.path,
            others.into_iter().collect::<Vec<_>>().join(", "),
            member.path
        )));
    }
    advice.push(Advice::new(
        "Or write less often: a counter for each CPU or thread, summed up by who reads it.",
    ));
    advice
}

fn finding(
    suspect: &Suspect<'_>,
    confidence: Confidence,
    severity: Severity,
    mut advice: Vec<Advice>,
) -> Finding {
    let Suspect { code, wait, .. } = suspect;
    let mut evidence = vec![
        Evidence::new(
            "share",
            suspect.share,
            None,
            format!(
                "{}: {} of the CPU time, with {} bytes of code",
                code.name,
                percent(suspect.share),
                code.size
            ),
        ),
        Evidence::new(
            "waits",
            suspect.waits,
            None,
            format!(
                "{} of its samples lie at and behind one load, `{}` at +{:#x}",
                percent(suspect.waits),
                wait.text,
                wait.offset
            ),
        ),
    ];
    let mut about = Vec::new();
    if let Some(member) = &wait.member {
        about.push(Subject::Structure(member.full()));
        evidence.push(Evidence::new(
            "offset",
            member.offset as f64,
            Unit::Bytes,
            format!("it reads {}, {} bytes into the structure", member.full(), member.offset),
        ));
    } else if let Some(why) = &wait.unknown {
        evidence.push(Evidence::new("unknown", 1.0, None, format!("what it reads is not known: {why}")));
    }
    about.push(Subject::Function(code.name.clone()));
    for writer in &suspect.writers {
        let of_total = suspect.share * share(writer.samples, code.samples);
        about.push(Subject::Function(writer.name.clone()));
        evidence.push(Evidence::new(
            "writer_share",
            of_total,
            None,
            format!(
                "{} writes {} at +{:#x}{} ({} of the CPU time)",
                writer.name,
                writer.member.full(),
                writer.at,
                if writer.locked { ", atomically" } else { "" },
                percent(of_total)
            ),
        ));
    }
    if let Some(line) = &wait.line {
        for neighbour in &line.often_written {
            evidence.push(Evidence::new(
                "neighbour",
                line.index as f64,
                None,
                format!("in the same line: {} ({}), {}", neighbour.path, neighbour.type_name, neighbour.why),
            ));
        }
        if let Some(caveat) = &line.caveat {
            evidence.push(Evidence::new("alignment", line.bytes as f64, Unit::Bytes, caveat.clone()));
        }
    }
    advice.push(Advice::paste("See the instructions:", format!("profiler annotate {}", code.name)));
    Finding {
        id: ABOUT.id.to_owned(),
        title: String::new(),
        severity,
        confidence,
        impact: Impact { share: suspect.share * suspect.waits, of: Resource::CpuTime },
        about,
        evidence,
        why: ABOUT.why.to_owned(),
        advice,
        marks: vec![Mark { kind: Some(Kind::Cpu), frame: code.name.clone() }],
    }
}

#[cfg(test)]
#[path = "cacheline_code_tests.rs"]
mod tests;
