//! Findings in the outputs and in the exit status.

mod common;

use common::disk::Disk;
use common::run::profiler;
use common::{attach, exclusive, is_root, skip::skip};

#[test]
fn json_is_all_there_is_on_standard_output() {
    if !is_root("findings::json_is_all_there_is_on_standard_output") {
        return;
    }
    let _turn = exclusive();
    let run = attach(&["--format", "json", "--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let report: serde_json::Value = serde_json::from_str(&run.stdout).expect("standard output is JSON");
    for field in ["findings", "losses", "probes", "unseen", "blind_spots"] {
        assert!(report[field].is_array(), "{field}");
    }
    assert!(report["duration_ns"].as_u64().unwrap() > 0);
    assert_eq!(report["target"]["what"], "command");
    assert_eq!(report["schema"], profiler::profile::session::SCHEMA);
    assert!(report["stacks"].is_object());
    assert!(run.stderr.contains("out\n") && run.stderr.contains("err\n"), "{}", run.stderr);
    // It says what the session on disk says.
    let saved = serde_json::to_value(run.session()).unwrap();
    for (field, value) in saved.as_object().unwrap() {
        assert_eq!(&report[field], value, "{field}");
    }
}

#[test]
fn without_findings_the_status_is_the_commands() {
    if !is_root("findings::without_findings_the_status_is_the_commands") {
        return;
    }
    let _turn = exclusive();
    let with = |command: &str| {
        // Requests to devices are everybody's, and what others do may well be one.
        let run = attach(&["--fail-on", "warning", "--probes", "cpu", "--", "sh", "-c", command]);
        assert_eq!(run.session().findings, [], "a command that does nothing is no pathology");
        assert!(run.stdout.contains("\nFindings\n--------\nnothing was found\n"), "{}", run.stdout);
        run.code()
    };
    assert_eq!(with("true"), 0);
    assert_eq!(with("exit 5"), 5);
}

#[test]
fn what_is_found_decides_the_status_of_a_command_that_succeeds() {
    const NAME: &str = "findings::what_is_found_decides_the_status_of_a_command_that_succeeds";
    if !is_root(NAME) {
        return;
    }
    let _turn = exclusive();
    let disk = match Disk::format(64, "mkfs.ext4 -q").and_then(|disk| disk.mount("noatime").map(|()| disk)) {
        Ok(disk) => disk,
        Err(reason) => return skip(NAME, &reason),
    };
    let file = disk.file("data");
    std::fs::write(&file, vec![1; 16 << 20]).unwrap();
    disk.set_readahead(0);
    let with = |after: &str| {
        Disk::drop_caches();
        let script = format!("cat {file} >/dev/null; {after}");
        attach(&["--fail-on", "warning", "--probes", "readahead,read,block", "--", "sh", "-c", &script])
    };
    let run = with("true");
    let session = run.session();
    if !session.probe("readahead").is_some_and(|probe| probe.is_attached()) {
        return skip(NAME, "the probe readahead cannot attach");
    }
    assert!(session.findings.iter().any(|finding| finding.id == "readahead-disabled"), "{}", run.stdout);
    assert!(run.stdout.contains(" readahead-disabled, confirmed: "), "{}", run.stdout);
    assert_eq!(run.code(), 3, "{}", run.stderr);
    assert_eq!(with("exit 5").code(), 5);
}

#[test]
fn pathologies_are_listed_and_explained() {
    let of = |args: &[&str]| {
        let output = profiler().arg("pathologies").args(args).output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), stdout, stderr)
    };
    let (status, list, _) = of(&[]);
    assert_eq!(status, Some(0));
    assert_eq!(list.lines().count(), profiler::diagnose::ALL.len());
    for pathology in profiler::diagnose::ALL {
        let about = pathology.about();
        let (status, text, _) = of(&[about.id]);
        assert_eq!(status, Some(0));
        assert!(text.contains(about.id) && text.contains("\nWhat to do\n"), "{text}");
        // A letter too few is a slip that a suggestion can help.
        let (status, _, error) = of(&[&about.id[1..]]);
        assert_eq!(status, Some(2));
        assert!(error.contains(about.id), "{error}");
    }
    assert_eq!(of(&["no-such-pathology"]).0, Some(2));
}
