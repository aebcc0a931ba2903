//! Fixtures for tests.

mod findings;

use crate::profile::*;
pub(crate) use findings::{about, findings};

/// A call tree written down: function, inclusive weight, callees.
pub(crate) struct Node(pub &'static str, pub u64, pub &'static [Node]);

/// Adds the stacks that make up `node`, below `outer`. What no callee has is the function's own.
pub(crate) fn push_tree(profile: &mut Profile, kind: Kind, labels: LabelsId, outer: &[Frame], node: &Node) {
    let mut frames = outer.to_vec();
    frames.push(kernel(node.0));
    let own = node.1 - node.2.iter().map(|child| child.1).sum::<u64>();
    if own > 0 {
        push(profile, kind, labels, &frames, own);
    }
    for child in node.2 {
        push_tree(profile, kind, labels, &frames, child);
    }
}

/// A kernel function; `name [module]` for one of a module.
pub(crate) fn kernel(name: &str) -> Frame {
    let (name, module) = match name.strip_suffix(']').and_then(|name| name.split_once(" [")) {
        Some((name, module)) => (name, Some(module.into())),
        None => (name, None),
    };
    Frame { name: name.into(), module, origin: Origin::Kernel }
}

/// Adds a stack of functions, outermost first.
pub(crate) fn push(profile: &mut Profile, kind: Kind, labels: LabelsId, frames: &[Frame], weight: u64) {
    let frames = frames
        .iter()
        .map(|frame| {
            let frame = profile.intern_frame(frame.clone());
            profile.intern_location(frame, 0)
        })
        .collect();
    profile.push(Stack { kind, frames, labels, count: 1, weight });
}

/// Random 4 KiB direct reads from bcachefs, of a file written in large pieces.
pub(crate) const BCACHEFS: Node = Node(
    "io_submit_one",
    2_635_814,
    &[Node(
        "aio_read",
        2_550_297,
        &[Node(
            "bch2_read_iter [bcachefs]",
            2_504_125,
            &[Node(
                "__bch2_read [bcachefs]",
                1_758_320,
                &[Node(
                    "__bch2_read_extent [bcachefs]",
                    1_311_194,
                    &[
                        Node(
                            "bch2_bio_alloc_pages_pool [bcachefs]",
                            956_297,
                            &[
                                Node(
                                    "alloc_pages_mpol_noprof",
                                    790_323,
                                    &[
                                        Node(
                                            "__alloc_pages_noprof",
                                            707_833,
                                            &[
                                                Node(
                                                    "get_page_from_freelist",
                                                    564_855,
                                                    &[
                                                        Node("__rmqueue_pcplist", 139_593, &[]),
                                                        Node("post_alloc_hook", 84_983, &[]),
                                                        Node("kernel_init_pages", 2_000, &[]),
                                                    ],
                                                ),
                                                Node("__next_zones_zonelist", 25_323, &[]),
                                            ],
                                        ),
                                        Node("policy_nodemask", 26_495, &[]),
                                    ],
                                ),
                                Node("bio_add_page", 102_710, &[]),
                            ],
                        ),
                        Node("submit_bio_noacct_nocheck", 145_207, &[]),
                        Node("bio_alloc_bioset", 50_126, &[]),
                        Node("bch2_bkey_pick_read_device [bcachefs]", 28_281, &[]),
                        Node("bio_associate_blkg", 21_877, &[]),
                        Node("bch2_trans_unlock [bcachefs]", 9_000, &[]),
                    ],
                )],
            )],
        )],
    )],
);

/// All samples of the run that [`BCACHEFS`] comes from.
pub(crate) const BCACHEFS_TOTAL: u64 = 2_680_333;

/// The profile that [`BCACHEFS`] comes from.
pub(crate) fn bcachefs_profile() -> Profile {
    let mut profile = Profile::new();
    let labels = profile.intern_labels(Labels { comm: Some("fio".into()), ..Labels::default() });
    push_tree(&mut profile, Kind::Cpu, labels, &[], &BCACHEFS);
    push(&mut profile, Kind::Cpu, labels, &[kernel("io_getevents")], BCACHEFS_TOTAL - BCACHEFS.1);
    profile
}

/// Thread names such as an attacker would choose.
pub(crate) const HOSTILE_COMMS: [&str; 5] = [
    "<script>alert(1)</script>",
    "\x1b[31mred;\nforged 100",
    "\"quoted\" & 'quoted'",
    "# \u{202e}gnp.exe",
    "aVeryLongThreadNameThatGoesOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnUntilItEnds",
];

/// A session with everything in it: stacks of all kinds, hostile names, losses, a failed probe.
pub(crate) fn session() -> Session {
    let nvme = Device { major: 259, minor: 0 };
    let btrfs = Device { major: 0, minor: 47 };
    let mut session = Session::new(Source::Live);
    session.tool = "0.1.0".to_owned();
    session.started = Some("2026-03-01T10:00:00Z".parse().unwrap());
    session.duration_ns = 30_000_000_000;
    session.target = Target::Command {
        argv: ["fio", "--name=\x1b[2Jx", "job.fio"].map(str::to_owned).to_vec(),
        status: Some(0),
    };
    session.host = host(nvme, btrfs);
    session.probes = probes();
    session.blind_spots = vec![
        "Sampling uses cpu-clock, because this machine has no hardware counters: code that runs with interrupts \
         off is invisible, and its time lands on the instruction that enables them."
            .to_owned(),
    ];
    session.losses = vec![
        Loss { probe: "cpu".to_owned(), cause: "stack table full".to_owned(), count: 1200 },
        Loss { probe: "lock".to_owned(), cause: "thread table full".to_owned(), count: 3 },
    ];
    session.idle_samples = 21_500;
    session.own_samples = 17;
    session.histograms = histograms(nvme);
    session.locks = locks();
    session.readahead = readahead(nvme, btrfs);
    session.reads = vec![ReadStat {
        fs_type: "bcache\x1b[2J".to_owned(),
        device: btrfs,
        how: ReadHow::Direct,
        calls: 668_160,
        bytes: 668_160 * 4096,
    }];
    session.block = vec![BlockStat {
        device: nvme,
        op: IoOp::Read,
        bios: 668_160,
        bio_bytes: 668_160 * 65_536,
        requests: 668_160,
        request_bytes: 668_160 * 65_536,
        completed: 668_100,
        completed_bytes: 668_100 * 65_536,
        ..BlockStat::default()
    }];
    session.profile = profile(nvme);
    session
}

fn host(nvme: Device, btrfs: Device) -> Host {
    Host {
        hostname: "storage1\x1b]0;owned\x07".to_owned(),
        kernel: "6.12.9-amd64".to_owned(),
        kernel_version: "#1 SMP PREEMPT_DYNAMIC Debian 6.12.9-1 (2026-01-10)".to_owned(),
        arch: "x86_64".to_owned(),
        page_size: 4096,
        cpu_model: "AMD EPYC 7763 64-Core Processor".to_owned(),
        cpus: 16,
        sockets: Some(1),
        cores_per_socket: Some(8),
        threads_per_core: Some(2),
        numa_nodes: Some(1),
        memory: 17_179_869_184,
        hypervisor: Some("KVM".to_owned()),
        steal: Some(0.0312),
        devices: vec![BlockDevice {
            name: "nvme0n1".to_owned(),
            device: Some(nvme),
            ..BlockDevice::default()
        }],
        mounts: vec![Mount {
            device: btrfs,
            source: "/dev/mapper/data-backup".to_owned(),
            mount_point: "/backup".to_owned(),
            fs_type: "btrfs".to_owned(),
            options: "rw".to_owned(),
            read_ahead_kb: Some(0),
        }],
        memory_limits: Vec::new(),
    }
}

fn probes() -> Vec<Probe> {
    let attached = |rung: &str, to: &[&str], notes: &[&str]| ProbeState::Attached {
        rung: rung.to_owned(),
        to: to.iter().map(|name| (*name).to_owned()).collect(),
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
    };
    let cpu = Probe {
        state: attached("perf_event", &["cpu-clock at 99 Hz on 16 CPUs"], &[]),
        events: 47_000,
        weight: 47_000,
        stacks: 45_800,
        due: 47_520,
        ..Probe::off("cpu", Some(Kind::Cpu))
    };
    let pages = Probe {
        state: attached(
            "kprobe",
            &["__alloc_pages_noprof"],
            &[
                "fentry was refused (EPERM), so orders are read from registers and allocations that were inlined \
               into the bulk allocator are not counted",
            ],
        ),
        events: 10_690_560,
        weight: 10_700_000,
        stacks: 83_520,
        counters: vec![
            Counter { name: "direct reclaim".to_owned(), unit: Unit::Events, value: 12 },
            Counter { name: "pages \x1b[1mbulk".to_owned(), unit: Unit::Pages, value: 5_300_000 },
        ],
        ..Probe::off("page-alloc", Some(Kind::PageAlloc))
    };
    let block = Probe {
        state: attached("tp_btf", &["block_rq_issue", "block_rq_complete", "block_bio_queue"], &[]),
        events: 668_160,
        weight: 668_160 * 65_536,
        stacks: 668_160,
        ..Probe::off("block", Some(Kind::BlockIo))
    };
    let lock = Probe {
        state: attached("tracepoint", &["lock:contention_begin", "lock:contention_end"], &[]),
        events: 90_210,
        weight: 45_000_000_000,
        stacks: 90_210,
        ..Probe::off("lock", Some(Kind::LockWait))
    };
    let readahead = Probe {
        state: ProbeState::Failed {
            reason: "no function to attach to: page_cache_ra_order and page_cache_sync_ra are not in \
                     /proc/kallsyms of this kernel, and it has no readahead tracepoints (those exist from 6.18)"
                .to_owned(),
        },
        ..Probe::off("readahead", Some(Kind::Readahead))
    };
    vec![cpu, pages, block, lock, readahead, Probe::off("bio", Some(Kind::Bio))]
}

fn histograms(nvme: Device) -> Vec<Histogram> {
    let histogram = |measure, buckets: &[(u64, u64)]| {
        let mut histogram = Histogram {
            measure,
            device: None,
            op: None,
            lock_kind: None,
            count: buckets.iter().map(|(_, count)| count).sum(),
            sum: buckets.iter().map(|(value, count)| value * count).sum(),
            buckets: Vec::new(),
        };
        for (value, count) in buckets {
            let bucket = Histogram::bucket_of(*value);
            histogram.buckets.resize(histogram.buckets.len().max(bucket + 1), 0);
            histogram.buckets[bucket] += count;
        }
        histogram
    };
    let latency = [(70_000, 1_000), (90_000, 500_000), (200_000, 160_000), (3_000_000, 7_100)];
    vec![
        Histogram {
            device: Some(nvme),
            op: Some(IoOp::Read),
            ..histogram(Measure::RequestLatency, &latency)
        },
        Histogram {
            device: Some(nvme),
            op: Some(IoOp::Read),
            ..histogram(Measure::RequestSize, &[(4096, 160), (65_536, 668_000)])
        },
        Histogram {
            lock_kind: Some(LockKind::Spin),
            ..histogram(Measure::LockWait, &[(700, 80_000), (9_000, 10_000)])
        },
        histogram(Measure::ReadaheadWanted, &[(0, 3), (32, 8_000)]),
        histogram(Measure::PageAllocSize, &[(1, 10_690_000), (4, 200)]),
    ]
}

fn locks() -> Vec<LockStat> {
    let lock = |address, name: Option<&str>, kind, waits, total_ns, max_ns| LockStat {
        address,
        name: name.map(str::to_owned),
        named_by: None,
        kind,
        waits,
        total_ns,
        max_ns,
        buckets: Vec::new(),
    };
    vec![
        lock(0xffff_8881_0123_4580, None, LockKind::RwsemWrite, 210, 43_000_000_000, 912_000_000),
        lock(
            0xffff_ffff_8300_0040,
            Some("zone \u{202e}lock"),
            LockKind::Spin,
            90_000,
            2_000_000_000,
            1_200_000,
        ),
    ]
}

fn readahead(nvme: Device, btrfs: Device) -> Vec<ReadaheadStat> {
    let stat = ReadaheadStat {
        device: btrfs,
        inode: 257,
        sync: 262_144,
        async_: 0,
        sequential: 262_143,
        random: 1,
        wanted_pages: 8_388_608,
        issued_pages: 262_144,
        ra_pages: 0,
    };
    vec![
        stat.clone(),
        ReadaheadStat { device: nvme, inode: 1 << 40, random: 52, async_: 9_000, ra_pages: 32, ..stat },
    ]
}

fn profile(nvme: Device) -> Profile {
    let mut profile = Profile::new();
    let labels = |comm: &str, cpu| Labels {
        comm: Some(comm.into()),
        pid: Some(4242),
        cpu: Some(cpu),
        cgroup: Some("/user.slice".into()),
        ..Labels::default()
    };
    let fio = profile.intern_labels(labels("fio", 3));
    let entry = [
        Frame::user("main", "fio"),
        Frame::user("td_io_queue<void (*)(int)>", "fio"),
        Frame::user("0x7f3a12345678", "libc.so.6"),
        kernel("entry_SYSCALL_64_after_hwframe"),
        kernel("do_syscall_64"),
        kernel("__x64_sys_io_submit"),
    ];
    push_tree(&mut profile, Kind::Cpu, fio, &entry, &BCACHEFS);
    for (index, comm) in HOSTILE_COMMS.into_iter().enumerate() {
        let labels = profile.intern_labels(labels(comm, 5));
        let frames = [Frame::user(comm, comm), kernel("do_idle\x1b[2J; 7"), kernel("xfs_agino_range [xfs]")];
        push(&mut profile, Kind::Cpu, labels, &frames, 100_000 + index as u64);
        push(&mut profile, Kind::Cpu, labels, &frames[..1], 50_000);
        push(&mut profile, Kind::Cpu, labels, &[], 5_000);
    }

    // The way of a page fault to the disk, which is deeper than a page is wide.
    let deep: Vec<Frame> = [
        "asm_exc_page_fault",
        "exc_page_fault",
        "do_user_addr_fault",
        "handle_mm_fault",
        "__handle_mm_fault",
        "do_fault",
        "__do_fault",
        "xfs_filemap_fault [xfs]",
        "filemap_fault",
        "page_cache_ra_order",
        "read_pages",
        "xfs_vm_readahead [xfs]",
        "iomap_readahead",
        "submit_bio_noacct_nocheck",
        "blk_mq_submit_bio",
        "blk_mq_dispatch_queue_requests_with_a_very_long_function_name_that_does_not_fit",
    ]
    .into_iter()
    .map(kernel)
    .collect();
    let read = Labels { device: Some(nvme), op: Some(IoOp::Read), ..labels("fio", 3) };
    let read = profile.intern_labels(read);
    push(&mut profile, Kind::BlockIo, read, &deep, 30_000_000_000);
    push(&mut profile, Kind::BlockIo, read, &deep[..12], 13_788_534_016);
    push(&mut profile, Kind::BlockIo, read, &deep[1..4], 1_000_000_000);
    push(&mut profile, Kind::Bio, read, &deep[..13], 43_788_534_272);
    push(&mut profile, Kind::Readahead, fio, &deep[..11], 262_144);

    let lock = Labels {
        lock: Some(0xffff_8881_0123_4580),
        lock_kind: Some(LockKind::RwsemWrite),
        ..labels("rm", 1)
    };
    let lock = profile.intern_labels(lock);
    let unlink = ["do_syscall_64", "do_unlinkat", "down_write", "rwsem_down_write_slowpath"].map(kernel);
    push(&mut profile, Kind::LockWait, lock, &unlink, 43_000_000_000);
    push(&mut profile, Kind::LockWait, lock, &unlink[..2], 2_000_000_000);

    let pages = Labels { order: Some(0), ..labels("fio", 3) };
    let pages = profile.intern_labels(pages);
    let alloc =
        ["do_syscall_64", "bch2_bio_alloc_pages_pool [bcachefs]", "alloc_pages_mpol_noprof"].map(kernel);
    push(&mut profile, Kind::PageAlloc, pages, &alloc, 10_690_560);
    push(&mut profile, Kind::PageAlloc, pages, &alloc[..1], 9_440);
    profile
}

/// A finding of the pathology `id`, about nothing, that points at `frames`.
pub(crate) fn finding(id: &str, severity: Severity, frames: &[&str]) -> Finding {
    Finding {
        id: id.to_owned(),
        title: format!("{id}: what is wrong with it"),
        severity,
        confidence: Confidence::Suspected,
        impact: Impact { share: 0.5, of: Resource::CpuTime },
        about: Vec::new(),
        evidence: Vec::new(),
        why: String::new(),
        advice: Vec::new(),
        marks: frames.iter().map(|frame| Mark { kind: None, frame: (*frame).to_owned() }).collect(),
    }
}

/// A probe that ran.
pub(crate) fn attached(name: &str) -> Probe {
    let state = ProbeState::Attached { rung: "tp_btf".to_owned(), to: Vec::new(), notes: Vec::new() };
    Probe { state, ..Probe::off(name, None) }
}
