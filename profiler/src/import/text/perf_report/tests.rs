use std::collections::BTreeMap;

use super::entry::{Columns, parse};
use crate::import::text::testing::{import, stacks_of, text_of};
use crate::profile::session::SHARES_TOTAL;
use crate::profile::{Kind, Session, Weights, flat};

/// Shares of the innermost functions in percent, by name.
fn own_shares(session: &Session) -> BTreeMap<String, f64> {
    let total = session.profile.total(Kind::Cpu) as f64;
    let mut shares = BTreeMap::new();
    for entry in flat(&session.profile, Kind::Cpu) {
        if let Some(frame) = entry.frame {
            let name = session.profile.frame(frame).name.to_string();
            *shares.entry(name).or_default() += entry.weight as f64 * 100.0 / total;
        }
    }
    shares
}

/// Shares of functions with what they call, in percent, by name.
fn shares_with_callees(session: &Session) -> BTreeMap<String, f64> {
    let total = session.profile.total(Kind::Cpu) as f64;
    let mut shares = BTreeMap::new();
    for stack in session.profile.of_kind(Kind::Cpu) {
        let names: std::collections::BTreeSet<_> =
            stack.frames.iter().map(|frame| session.profile.frame_of(*frame).name.to_string()).collect();
        for name in names {
            *shares.entry(name).or_default() += stack.weight as f64 * 100.0 / total;
        }
    }
    shares
}

/// What `perf report --sort sym` itself says of the first event: share with callees, own share, by name. Addresses
/// are left out: perf names them by binary here and by process there.
fn expected(name: &str) -> BTreeMap<String, (f64, f64)> {
    let mut columns = Columns::default();
    let mut shares: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for line in String::from_utf8(text_of(name)).unwrap().lines() {
        if let Some(found) = Columns::parse(line) {
            columns = found;
            if !shares.is_empty() {
                break;
            }
        } else if let Some(fields) = parse(line, &columns)
            && !fields.symbol.starts_with("0x")
            && !fields.symbol.starts_with("00")
        {
            let known = shares.entry(fields.symbol.to_owned()).or_default();
            *known = (known.0 + fields.children.unwrap_or(0.0), known.1 + fields.own);
        }
    }
    assert!(shares.len() > 20);
    shares
}

#[track_caller]
fn assert_near(what: &str, share: f64, expected: f64) {
    assert!((share - expected).abs() <= 0.01, "{what}: {share} instead of {expected}");
}

/// Every share of the founding report, by machine.
#[test]
fn the_founding_report() {
    let imported = import(&text_of("xfs-agino-range.txt"));
    let expected = [
        (
            "Machine A",
            &[
                ("xfs_agino_range", 2583),
                ("__xfs_dir3_data_check", 1268),
                ("xfs_verify_ino", 695),
                ("xfs_dir2_data_entry_tag_p", 678),
                ("xfs_buf_find", 356),
                ("xfs_verify_dir_ino", 231),
                ("xfs_dabuf_map.constprop.0", 202),
                ("xfs_ag_block_count", 165),
            ][..],
        ),
        (
            "Machine B",
            &[
                ("__pv_queued_spin_lock_slowpath", 1390),
                ("do_raw_spin_lock", 376),
                ("xfs_dir3_leaf_check_int", 283),
                ("xfs_agino_range", 275),
                ("__raw_callee_save___pv_queued_spin_unlock", 251),
                ("__xfs_dir3_data_check", 218),
                ("xfs_log_commit_cil", 202),
            ],
        ),
        (
            "Machine A after the read-only field was moved to a cache line of its own (6m42s)",
            &[
                ("xfs_agino_range", 977),
                ("__xfs_dir3_data_check", 627),
                ("__pv_queued_spin_lock_slowpath", 531),
                ("xfs_buf_find", 454),
                ("do_raw_spin_lock", 379),
                ("xfs_verify_ino", 339),
                ("__raw_callee_save___pv_queued_spin_unlock", 273),
            ],
        ),
    ];
    assert_eq!(imported.sessions.len(), 3);
    assert_eq!(imported.warnings, []);
    for (session, (heading, functions)) in imported.sessions.iter().zip(expected) {
        assert_eq!(session.heading.as_deref(), Some(heading));
        assert_eq!(session.weights, Weights::Shares);
        assert_eq!(session.profile.total(Kind::Cpu), SHARES_TOTAL);
        let mut wanted: Vec<String> =
            functions.iter().map(|(name, share)| format!("{name}_[k] {}", share * 1000)).collect();
        let known: u64 = functions.iter().map(|(_, share)| share * 1000).sum();
        wanted.push(format!(" {}", SHARES_TOTAL - known));
        assert_eq!(stacks_of(session), wanted);
    }
    let mut out = Vec::new();
    let view = crate::profile::View::default();
    crate::report::text::render(&imported.sessions[0], &view, &Default::default(), &mut out).unwrap();
    let report = String::from_utf8(out).unwrap();
    assert!(
        report.contains("\n  25.83%  [k] xfs_agino_range\n  12.68%  [k] __xfs_dir3_data_check\n"),
        "{report}"
    );
}

/// One recording in all shapes: the shares of the innermost functions are those that perf gives.
#[test]
fn own_shares_are_perfs_in_every_shape() {
    let expected = expected("perf/report-symbols.txt");
    for shape in [
        "script",
        "report-callee",
        "report-caller",
        "report-fractal",
        "report-samples",
        "report-separated",
        "report-count",
        "report-flat",
        "report-symbols",
    ] {
        let imported = import(&text_of(&format!("perf/{shape}.txt")));
        assert_eq!(imported.sessions.len(), 1, "{shape}");
        let shares = own_shares(&imported.sessions[0]);
        for (name, (_, own)) in &expected {
            assert_near(&format!("{shape}: {name}"), shares.get(name).copied().unwrap_or(0.0), *own);
        }
    }
}

/// Of whole stacks, the shares with callees are those that perf gives.
#[test]
fn shares_with_callees_are_perfs() {
    let expected = expected("perf/report-symbols-children.txt");
    let imported = import(&text_of("perf/script.txt"));
    let shares = shares_with_callees(&imported.sessions[0]);
    for (name, (children, _)) in &expected {
        assert_near(name, shares.get(name).copied().unwrap_or(0.0), *children);
    }
}

/// Graphs of either order and either kind of percentage are the same stacks.
#[test]
fn graphs_are_the_same_in_every_order() {
    let stack = "dd;__GI___libc_write;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];ksys_write_[k];vfs_write_[k];\
                 ext4_buffered_write_iter_[k];generic_perform_write_[k];copy_folio_from_iter_atomic_[k] ";
    let weights: Vec<f64> = [
        "report-callee",
        "report-caller",
        "report-fractal",
        "report-count",
        "report-flat",
        "report-children",
        "report-children-callee",
    ]
    .map(|shape| {
        let session = import(&text_of(&format!("perf/{shape}.txt"))).sessions.remove(0);
        let stacks = stacks_of(&session);
        let weight = stacks.iter().find_map(|found| found.strip_prefix(stack));
        let total = session.profile.total(Kind::Cpu) as f64;
        weight.unwrap_or_else(|| panic!("{shape}: {stacks:#?}")).parse::<f64>().unwrap() * 100.0 / total
    })
    .to_vec();
    for weight in &weights {
        assert!((weight - weights[0]).abs() < 0.05, "{weights:?}");
    }
}

#[test]
fn facts_of_the_machine_and_of_the_event() {
    let session = import(&text_of("perf/report-callee.txt")).sessions.remove(0);
    assert_eq!(
        (&*session.host.hostname, &*session.host.kernel, session.host.cpus),
        ("storage1", "6.18.44", 2)
    );
    let notes = session.blind_spots.join("\n");
    assert!(notes.contains("interrupts off"), "{notes}");
    assert!(notes.contains("page-faults were left out"), "{notes}");
    let samples = import(&text_of("perf/report-samples.txt")).sessions.remove(0);
    assert_eq!((samples.weights, samples.profile.total(Kind::Cpu)), (Weights::Counts, 141));
}

/// A screen in a mail: only the top of the table is there, and its graph has what matters.
#[test]
fn the_screen_quoted_in_a_mail() {
    let session = import(&text_of("perf/screen.txt")).sessions.remove(0);
    let path = "entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];__x64_sys_io_submit_[k];io_submit_one_[k];aio_read_[k]";
    let stacks = stacks_of(&session);
    for stack in [
        format!("fio;{path};bch2_read_iter_[k] 1240000"),
        format!("fio;{path};bch2_read_iter_[k];..._[k] {}", 7_293_000 - 1_240_000),
        format!("fio;{path};security_file_permission_[k];..._[k] 200000"),
        format!("fio;{path};..._[k] {}", 9_511_000 - 7_293_000 - 200_000),
        "fio;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];__x64_sys_io_getevents_[k] 83000"
            .to_owned(),
    ] {
        assert!(stacks.contains(&stack), "{stack}: {stacks:#?}");
    }
    let shares = shares_with_callees(&session);
    assert_near("do_syscall_64", shares["do_syscall_64"], 98.30);
    assert_near("bch2_read_iter", shares["bch2_read_iter"], 72.93);
}

#[test]
fn perf_top() {
    let session = import(&text_of("perf/top.txt")).sessions.remove(0);
    let report = crate::import::text::testing::report(&session);
    assert!(report.contains("  25.83%  [k] xfs_agino_range\n  12.68%  [k] __xfs_dir3_data_check [xfs]\n   3.10%  [.] malloc [libc.so.6]\n"), "{report}");
}

#[test]
fn a_share_above_that_with_callees_is_a_warning() {
    let text = b"  Children      Self  Symbol\n  10.00%  20.00%  [k] f\n";
    let imported = import(text);
    assert_eq!(imported.warnings.len(), 1);
    assert_eq!(imported.warnings[0].place, crate::import::Place::Line(2));
}
