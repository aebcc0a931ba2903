//! Recordings of `perf record`, read by this program and by `perf report`: the shares are the same.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::skip::skip;
use profiler::import::{Imported, Options, open, open_with};
use profiler::profile::{Kind, LocationId, Origin, Session, Source, Target, Weights};

/// A recording in a folder of its own.
struct Recording {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

/// Something that spends time in the kernel and in user space.
const LOAD: &str = "dd if=/dev/zero of=/dev/null bs=4k count=400000 2>/dev/null; find /usr -xdev >/dev/null; \
                    for i in 1 2 3 4 5 6 7 8; do /bin/true; done";

/// Records a load with these options; `None` where perf cannot, which has been noted as a skip.
fn record(test: &str, options: &[&str]) -> Option<Recording> {
    if !common::is_root(test) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let recorded = Command::new("perf")
        .args(["record", "-F", "997", "-o"])
        .arg(&path)
        .args(options)
        .args(["--", "sh", "-c", LOAD])
        .stdout(Stdio::null())
        .output();
    match recorded {
        Ok(output) if output.status.success() => Some(Recording { path, _folder: folder }),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            skip(test, &format!("perf cannot record here: {}", said.lines().next().unwrap_or_default()));
            None
        }
        Err(_) => {
            skip(test, "perf is not installed");
            None
        }
    }
}

fn session_of(path: &Path) -> Session {
    let Imported { mut sessions, warnings } = open(path, &|_, _| {}).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(sessions.len(), 1);
    sessions.remove(0)
}

/// Shares in percent, as `perf report` has them: by function in the kernel, by file elsewhere, since perf
/// takes the names of functions from debug files too.
fn perf_report(path: &Path, children: bool) -> BTreeMap<String, f64> {
    let output = Command::new("perf")
        .args(["report", "--stdio", "-g", "none", "--percent-limit", "0", "-t", "|", "--no-inline"])
        .args(["-F", if children { "overhead_children,dso,sym" } else { "period,dso,sym" }])
        .args([if children { "--children" } else { "--no-children" }, "-i"])
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut shares = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('|').collect();
        let [share, .., file, symbol] = fields[..] else { continue };
        let Ok(share) = share.trim().trim_end_matches('%').parse::<f64>() else { continue };
        let name = match symbol.trim().strip_prefix("[k] ") {
            Some(name) => name.to_owned(),
            None => format!("in {}", file.trim()),
        };
        *shares.entry(name).or_default() += share;
    }
    assert!(!shares.is_empty(), "perf report said nothing:\n{text}");
    if !children {
        let total: f64 = shares.values().sum();
        shares.values_mut().for_each(|period| *period *= 100.0 / total);
    }
    shares
}

/// The same of a session: of the innermost functions, or of all on a stack.
fn own_shares(session: &Session, children: bool) -> BTreeMap<String, f64> {
    let profile = &session.profile;
    let total = profile.total(Kind::Cpu) as f64;
    let symbols = if children { symbols() } else { BTreeMap::new() };
    let mut shares: BTreeMap<String, f64> = BTreeMap::new();
    for stack in profile.of_kind(Kind::Cpu) {
        let from = if children { 0 } else { stack.frames.len() - 1 };
        let name = |place: &LocationId| {
            let frame = profile.frame_of(*place);
            if frame.origin == Origin::User {
                return format!("in {}", frame.module.as_deref().unwrap_or("?"));
            }
            // Of callers perf looks up the address that is returned to, which may be behind their end.
            let symbol = symbols.range(..=profile.location(*place).address).next_back();
            symbol.map_or_else(|| frame.name.to_string(), |(_, name)| name.clone())
        };
        let mut names: Vec<String> = stack.frames[from..].iter().map(name).collect();
        names.sort();
        names.dedup();
        for name in names {
            *shares.entry(name).or_default() += stack.weight as f64 * 100.0 / total;
        }
    }
    shares
}

/// The kernel's functions by address, of several at one address any.
fn symbols() -> BTreeMap<u64, String> {
    let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let mut symbols = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        if let (Some(address), Some("t" | "T" | "w" | "W"), Some(name)) =
            (fields.next(), fields.next(), fields.next())
        {
            symbols.insert(u64::from_str_radix(address, 16).unwrap_or(0), name.to_owned());
        }
    }
    symbols
}

/// Kernel symbols that share an address may be called by either name.
fn aliases() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let mut by_address: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        if let (Some(address), Some(_), Some(name)) = (fields.next(), fields.next(), fields.next()) {
            by_address.entry(address).or_default().push(name.to_owned());
        }
    }
    let shared = by_address.into_values().filter(|names| names.len() > 1);
    shared.flat_map(|names| names.clone().into_iter().map(move |name| (name, names.clone()))).collect()
}

/// Fails unless they agree to 0.01 points; percentages that perf prints are rounded to half of that.
#[track_caller]
fn assert_same_shares(session: &Session, path: &Path, children: bool) {
    let (own, perf) = (own_shares(session, children), perf_report(path, children));
    let aliases = aliases();
    // Where an eBPF program of others is on a stack, perf at times resolves nothing of it: a sample more.
    let sample = 100.0 / session.profile.total(Kind::Cpu) as f64;
    let tolerance = if children { 0.01 + sample } else { 0.01 };
    let mut compared = 0.0;
    let mut differ = Vec::new();
    for (name, share) in perf.iter().filter(|(_, share)| **share >= 0.02) {
        let of_file = name.starts_with("in ");
        // Inclusive shares of functions do not add up to that of their file.
        if of_file && children || name.starts_with("in [unknown]") {
            continue;
        }
        // Programs that others load meanwhile: perf is told of some of them too late.
        if name.starts_with("bpf_") || name.starts_with("0xffffffffc") {
            continue;
        }
        // Where a walk of frame pointers goes astray, perf goes on.
        if children && ["0x", "0000"].iter().any(|start| name.starts_with(start)) {
            continue;
        }
        let alias = || aliases.get(name)?.iter().find_map(|alias| own.get(alias).copied());
        let known = own.get(name).copied().or_else(alias);
        compared += share;
        if known.is_none_or(|known| (known - share).abs() > tolerance) {
            differ.push(format!("{name}: perf {share:.2}, own {known:?}"));
        }
    }
    assert!(differ.is_empty(), "of {compared:.2} %, these differ:\n{}", differ.join("\n"));
    assert!(compared > 50.0, "only {compared:.2} % could be compared");
}

#[test]
fn shares_are_those_of_perf_report() {
    let Some(recording) = record("shares_are_those_of_perf_report", &["-a", "-g"]) else { return };
    let session = session_of(&recording.path);
    assert_eq!(session.source, Source::Imported { format: "perf.data".to_owned() });
    assert_eq!((session.weights, &session.target), (Weights::Counts, &Target::System));
    assert_eq!(session.host.kernel, nix::sys::utsname::uname().unwrap().release().to_str().unwrap());
    assert!(
        session.host.cpus > 0 && session.host.memory > 0 && session.duration_ns > 0,
        "{:?}",
        session.host
    );
    assert_same_shares(&session, &recording.path, false);
    assert_same_shares(&session, &recording.path, true);
    let comms: Vec<_> =
        session.profile.all_labels().iter().filter_map(|labels| labels.comm.clone()).collect();
    assert!(["dd", "find"].iter().all(|name| comms.iter().any(|comm| &**comm == *name)), "{comms:?}");
}

#[test]
fn compressed_recordings_are_the_same() {
    let Some(recording) = record("compressed_recordings_are_the_same", &["-a", "-g", "-z"]) else { return };
    let session = session_of(&recording.path);
    assert_same_shares(&session, &recording.path, false);
}

#[test]
fn without_call_chains_leaves_remain() {
    let Some(recording) = record("without_call_chains_leaves_remain", &["-a"]) else { return };
    let session = session_of(&recording.path);
    assert!(session.profile.stacks().iter().all(|stack| stack.frames.len() == 1));
    assert!(session.blind_spots.iter().any(|spot| spot.contains("perf record -g")));
    assert_same_shares(&session, &recording.path, false);
}

#[test]
fn one_of_several_events_is_taken() {
    let events = ["-a", "-g", "-e", "page-faults", "-e", "cpu-clock"];
    let Some(recording) = record("one_of_several_events_is_taken", &events) else { return };
    let session = session_of(&recording.path);
    assert!(session.blind_spots.iter().any(|spot| spot.contains("page-faults")), "{:?}", session.blind_spots);
    // Same order as in the file: the second event's part of the report.
    let script =
        Command::new("perf").args(["script", "-F", "event", "-i"]).arg(&recording.path).output().unwrap();
    let script = String::from_utf8_lossy(&script.stdout);
    let count =
        |event: &str| script.lines().filter(|line| line.trim_start().starts_with(event)).count() as u64;
    assert_eq!(session.profile.total(Kind::Cpu), count("cpu-clock"));
    let options = Options { event: Some("page-faults".to_owned()), ..Options::default() };
    let faults = open_with(&recording.path, &options, &|_, _| {}).unwrap().sessions.remove(0);
    let samples: u64 = faults.profile.of_kind(Kind::Cpu).map(|stack| stack.count).sum();
    assert_eq!(samples, count("page-faults"));
    let options = Options { event: Some("nonsense".to_owned()), ..Options::default() };
    let error = open_with(&recording.path, &options, &|_, _| {}).unwrap_err().to_string();
    assert!(error.contains("it has page-faults") && error.contains("cpu-clock"), "{error}");
}

#[test]
fn streams_are_read_like_files() {
    let Some(recording) = record("streams_are_read_like_files", &["-a", "-g"]) else { return };
    let stream = recording.path.with_extension("stream");
    let made = Command::new("perf")
        .args(["inject", "-i"])
        .arg(&recording.path)
        .args(["-o", "-"])
        .stdout(std::fs::File::create(&stream).unwrap())
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        return skip("streams_are_read_like_files", "perf inject makes no stream");
    }
    let (file, stream) = (session_of(&recording.path), session_of(&stream));
    assert_eq!(own_shares(&file, false), own_shares(&stream, false));
    assert_eq!(file.host.cpu_model, stream.host.cpu_model);
}
