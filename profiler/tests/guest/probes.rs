//! Every probe attaches, or says why not.

use profiler::kernel::probes::PROBES;
use profiler::profile::Session;

use crate::guest::{attach, attach_to, has_tracepoint, out, rung, state};

/// `cargo xtask vm` takes this session for the matrix of kernels and probes.
#[test]
fn every_probe_attaches_or_says_why_not() {
    let session = attach_to(&out().join("all-probes"), &["--duration", "3s"]);
    no_program_is_refused(&session);
    for probe in PROBES {
        match state(&session, probe.name) {
            Ok((rung, to)) => assert!(!rung.is_empty() && !to.is_empty(), "{}: {rung} {to:?}", probe.name),
            Err(reason) => assert!(reason.len() > 20, "{}: {reason}", probe.name),
        }
    }
    for probe in ["cpu", "block", "page-alloc"] {
        rung(&session, probe);
    }
    for (probe, tracepoint) in
        [("lock", "lock/contention_begin"), ("readahead", "readahead/page_cache_sync_ra")]
    {
        let state = state(&session, probe);
        if has_tracepoint(tracepoint) {
            assert!(state.is_ok(), "{probe}: {state:?}");
        }
    }
}

#[test]
fn every_probe_attaches_without_btf_tracepoints_or_says_why_not() {
    no_program_is_refused(&attach(&["--duration", "1s", "--without", "tp_btf"]));
}

/// A kernel may lack what a rung needs, but must not find fault with a program.
fn no_program_is_refused(session: &Session) {
    let probes = serde_json::to_string(&session.probes).unwrap();
    assert!(!probes.contains("refuses"), "{probes}");
}
