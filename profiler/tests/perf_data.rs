//! Recordings of `perf record`, read by this program and by `perf report`: the shares are the same.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::skip::skip;
use profiler::import::{Imported, Options, open, open_with};
use profiler::profile::{Kind, Session, Source, Target, Weights};

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

/// Shares in percent by function, as `perf report` has them.
fn perf_report(path: &Path, options: &[&str]) -> BTreeMap<String, f64> {
    let output = Command::new("perf")
        .args(["report", "--stdio", "--sort", "sym", "-g", "none", "--percent-limit", "0", "-t", "|"])
        .args(["--no-inline", "-i"])
        .arg(path)
        .args(options)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut shares = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split('|');
        let (Some(share), Some(symbol)) = (fields.next(), fields.next_back()) else { continue };
        let (Ok(share), Some((_, name))) =
            (share.trim().trim_end_matches('%').parse(), symbol.split_once("] "))
        else {
            continue;
        };
        *shares.entry(plain(name)).or_default() += share;
    }
    assert!(!shares.is_empty(), "perf report said nothing:\n{text}");
    shares
}

/// A function's name without what demanglers differ in.
fn plain(name: &str) -> String {
    let name = name.trim();
    name.split(['(', '<']).next().unwrap_or(name).to_owned()
}

/// Shares in percent by function: of the innermost ones, or of all on a stack.
fn own_shares(session: &Session, children: bool) -> BTreeMap<String, f64> {
    let profile = &session.profile;
    let total = profile.total(Kind::Cpu) as f64;
    let mut shares: BTreeMap<String, f64> = BTreeMap::new();
    for stack in profile.of_kind(Kind::Cpu) {
        let from = if children { 0 } else { stack.frames.len() - 1 };
        let mut names: Vec<String> =
            stack.frames[from..].iter().map(|place| plain(&profile.frame_of(*place).name)).collect();
        names.sort();
        names.dedup();
        for name in names {
            *shares.entry(name).or_default() += stack.weight as f64 * 100.0 / total;
        }
    }
    shares
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

/// Fails unless the shares of all named functions agree to 0.01 points.
#[track_caller]
fn assert_same_shares(own: &BTreeMap<String, f64>, perf: &BTreeMap<String, f64>) {
    let aliases = aliases();
    let mut compared = 0.0;
    let mut differ = Vec::new();
    // Two digits are printed, so 0.005 are theirs.
    for (name, share) in perf.iter().filter(|(name, share)| **share >= 0.05 && !name.starts_with("0x")) {
        let known = own
            .get(name)
            .copied()
            .or_else(|| aliases.get(name)?.iter().find_map(|alias| own.get(alias).copied()));
        compared += share;
        if known.is_none_or(|known| (known - share).abs() > 0.015) {
            differ.push(format!("{name}: perf {share:.2}, own {known:?}"));
        }
    }
    assert!(differ.is_empty(), "of {compared:.2} %, these differ:\n{}", differ.join("\n"));
    assert!(compared > 20.0, "only {compared:.2} % could be compared");
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
    assert_same_shares(&own_shares(&session, false), &perf_report(&recording.path, &["--no-children"]));
    assert_same_shares(&own_shares(&session, true), &perf_report(&recording.path, &["--children"]));
    let comms: Vec<_> =
        session.profile.all_labels().iter().filter_map(|labels| labels.comm.clone()).collect();
    assert!(["dd", "find"].iter().all(|name| comms.iter().any(|comm| &**comm == *name)), "{comms:?}");
}

#[test]
fn compressed_recordings_are_the_same() {
    let Some(recording) = record("compressed_recordings_are_the_same", &["-a", "-g", "-z"]) else { return };
    let session = session_of(&recording.path);
    assert_same_shares(&own_shares(&session, false), &perf_report(&recording.path, &["--no-children"]));
}

#[test]
fn without_call_chains_leaves_remain() {
    let Some(recording) = record("without_call_chains_leaves_remain", &["-a"]) else { return };
    let session = session_of(&recording.path);
    assert!(session.profile.stacks().iter().all(|stack| stack.frames.len() == 1));
    assert!(session.blind_spots.iter().any(|spot| spot.contains("perf record -g")));
    assert_same_shares(&own_shares(&session, false), &perf_report(&recording.path, &[]));
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
