//! Collection: loads the probes, attaches them, drains what they have counted, and makes a
//! [`Session`](crate::profile::Session) of it. The only module that knows aya.

mod attach;
mod batch;
mod code;
mod cpu;
mod drain;
mod locks;
mod mappings;
mod memory;
mod misses;
mod object;
mod session;
mod totals;

use std::io;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use aya::programs::Program;
use aya::{Btf, Ebpf};
use profiler_common::{Stream, filter};

use crate::kernel::cgroup::{self, Cgroup, CgroupNames, Hierarchy};
use crate::kernel::cpu_times::{CpuTimes, steal_share};
use crate::kernel::ladder::{Part, ProbeSpec, Role};
use crate::kernel::offsets::Offsets;
use crate::kernel::probes::{self, PROBES};
use crate::kernel::sources::Sources;
use crate::kernel::vmstat;
use crate::profile::{Kind, Probe, ProbeState, Session, Target};
use crate::symbolize::Processes;

use attach::{Climber, Outcome};
use cpu::{Clock, CpuEvents};
use drain::{Collected, Drain};
use mappings::MappingEvents;
use object::{MapSizes, Settings};

/// The kernel's initial pid namespace has this inode number (PROC_PID_INIT_INO in
/// include/linux/proc_ns.h).
const INITIAL_PID_NAMESPACE: u64 = 0xefff_fffc;

/// Between two drains, when there is little to drain.
const SLOW_DRAIN: Duration = Duration::from_millis(1000);

/// Between two drains, when the maps fill up.
const FAST_DRAIN: Duration = Duration::from_millis(50);

/// Who is to be measured.
#[derive(Clone, Debug)]
pub enum Scope {
    /// Every process.
    System,
    /// These processes.
    Processes(Vec<u32>),
    /// A control group.
    Cgroup(Cgroup),
    /// A process that is about to become a command, with the children it will have.
    Command(u32),
}

/// What to collect, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of the probes.
    pub probes: Vec<String>,
    /// Who is measured.
    pub scope: Scope,
    /// CPU samples a second and CPU.
    pub frequency: u32,
    /// Stacks a second and CPU that each stream of events may take; 0: no limit.
    pub stack_rate: u32,
    /// Whether user stacks are taken.
    pub user_stacks: bool,
    /// Whether the profiler itself is measured too.
    pub include_self: bool,
    /// Whether the eBPF side's messages are shown.
    pub verbose: bool,
    /// Rungs of the ladder that must not be used.
    pub without: Vec<String>,
    /// A function whose code is wanted, however few samples it has.
    pub code_of: Option<String>,
}

/// Numbers for the status line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// CPU samples of busy or idle CPUs.
    pub samples: u64,
    /// Events, by stream.
    pub events: [u64; profiler_common::STREAMS as usize],
    /// Events and samples lost so far.
    pub lost: u64,
}

/// A collection that runs.
pub struct Collector {
    ebpf: Ebpf,
    options: Options,
    probes: Vec<Probe>,
    blind_spots: Vec<String>,
    cpu: Option<CpuEvents>,
    mappings: Option<MappingEvents>,
    drain: Drain,
    collected: Collected,
    processes: Processes,
    /// Start of the measurement.
    started: (jiff::Timestamp, Instant),
    cpu_times: Option<CpuTimes>,
    /// Pages needed again after reclaim, since boot.
    refaults: Option<u64>,
    cgroups: CgroupNames,
}

impl Collector {
    /// Loads and attaches the probes. They count from here on.
    ///
    /// # Errors
    ///
    /// If no probe could be attached, with the reasons of each.
    pub fn start(options: Options) -> anyhow::Result<Self> {
        let mut collector = Self::attach(options)?;
        if !collector.probes.iter().any(Probe::is_attached) {
            let reasons: Vec<String> = collector
                .probes
                .iter()
                .filter_map(|probe| match &probe.state {
                    ProbeState::Failed { reason } => Some(format!("{}: {reason}", probe.name)),
                    _ => None,
                })
                .collect();
            anyhow::bail!("no probe could be attached\n  {}", reasons.join("\n  "));
        }
        drain::set_running(&mut collector.ebpf, 1).context("the probes do not start")?;
        collector.refaults = vmstat::refaults(&Sources::default());
        collector.started = (jiff::Timestamp::now(), Instant::now());
        Ok(collector)
    }

    /// Loads and attaches the probes, as far as that is possible. They do not count yet, except for
    /// the samples.
    ///
    /// # Errors
    ///
    /// If not even the maps can be made, or the control group cannot be measured.
    pub fn attach(options: Options) -> anyhow::Result<Self> {
        // Without it, what needs it says so by name.
        if let Err(error) = crate::kernel::tracefs::provide() {
            tracing::info!("cannot mount tracefs: {error}");
        }
        let kernel_btf = crate::kernel::btf::Btf::vmlinux();
        let offsets = Offsets::resolve(kernel_btf.as_ref().ok());
        let mut settings = settings(&options);
        let mut blind_spots = Vec::new();
        let sources = Sources::default();
        let hierarchy = match &options.scope {
            Scope::Cgroup(cgroup) => Some(cgroup.hierarchy.clone()),
            _ => cgroup::main_hierarchy(&sources),
        };
        let told = hierarchy_settings(hierarchy.as_ref(), kernel_btf.as_ref().ok(), &offsets, &mut settings);
        if let Scope::Cgroup(cgroup) = &options.scope {
            told.context("--cgroup cannot be used")?;
            settings.longs.insert("CGROUP_ID", cgroup.id);
        } else if let Err(error) = told {
            blind_spots.push(format!("control groups are not told apart: {error:#}"));
        }
        let no_btf = kernel_btf.as_ref().err().map(ToString::to_string);
        let btf = match &no_btf {
            None => Btf::from_sys_fs().map_err(|error| error.to_string()),
            Some(reason) => Err(reason.clone()),
        };
        blind_spots.extend(crate::kernel::privilege::hidden_kernel_addresses(&sources));
        if let Err(reason) = &btf {
            blind_spots.push(format!("{reason}; probes fall back to plain tracepoints"));
        }
        // Reading kallsyms is for kernels that let functions be attached.
        if std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists()
            && let Some(address) = crate::kernel::kallsyms::address_of("generic_file_read_iter")
        {
            settings.longs.insert("GENERIC_READ_ITER", address);
        }
        let cpus = online_cpus()?;
        let sizes = MapSizes::for_cpus(cpus.len() as u32);
        let mut ebpf = object::load(&settings, &offsets, sizes, options.verbose)?;
        if options.verbose {
            start_log(&mut ebpf);
        }

        let mut collector = Self {
            probes: Vec::new(),
            blind_spots,
            cpu: None,
            mappings: None,
            drain: Drain::new(),
            collected: Collected::default(),
            processes: Processes::default(),
            started: (jiff::Timestamp::now(), Instant::now()),
            cpu_times: CpuTimes::read(&sources),
            refaults: None,
            cgroups: CgroupNames::new(&sources, hierarchy.as_ref().unwrap_or(&Hierarchy::V2)),
            ebpf,
            options,
        };
        collector.attach_all(&cpus, btf.as_ref(), kernel_btf.as_ref().ok(), &offsets)?;
        Ok(collector)
    }

    fn attach_all(
        &mut self,
        cpus: &[u32],
        btf: Result<&Btf, &String>,
        types: Option<&crate::kernel::btf::Btf>,
        offsets: &Offsets,
    ) -> anyhow::Result<()> {
        let wanted = |options: &Options, name: &str| options.probes.iter().any(|probe| probe == name);
        if self.options.user_stacks {
            match MappingEvents::start(cpus) {
                Ok(mappings) => self.mappings = Some(mappings),
                Err(error) => self.blind_spots.push(format!(
                    "user stacks of short-lived processes have no names: the kernel does not report mappings ({error})"
                )),
            }
        }
        // The targets first: what is attached without them measures nobody.
        self.add_targets()?;
        // Then the samples: loading the other probes takes the kernel's verifier some 200 ms, which
        // are the profiler's own and in no sample.
        let cpu = if wanted(&self.options, "cpu") {
            self.attach_cpu(cpus)
        } else {
            Probe::off("cpu", Some(Kind::Cpu))
        };
        self.probes.push(cpu);

        let btf = btf.map_err(String::as_str);
        let mut climber = Climber::new(&mut self.ebpf, btf, types, offsets, &self.options.without);
        if matches!(self.options.scope, Scope::Command(_)) {
            for part in probes::FOLLOW_FORK {
                if let Outcome::Failed(reasons) = climber.climb(part)
                    && part.role == Role::Essential
                {
                    self.blind_spots.push(format!("{} are not measured: {}", part.gives, reasons.join("; ")));
                }
            }
        }
        for spec in PROBES.iter().filter(|spec| !spec.parts.is_empty()) {
            self.probes.push(if wanted(&self.options, spec.name) {
                attach_probe(&mut climber, spec)
            } else {
                Probe::off(spec.name, spec.kind)
            });
        }

        Ok(())
    }

    fn attach_cpu(&mut self, cpus: &[u32]) -> Probe {
        let mut probe = Probe::off("cpu", Some(Kind::Cpu));
        probe.state = match self.try_attach_cpu(cpus) {
            Ok(state) => state,
            Err(error) => ProbeState::Failed { reason: format!("{error:#}") },
        };
        probe
    }

    fn try_attach_cpu(&mut self, cpus: &[u32]) -> anyhow::Result<ProbeState> {
        let program = self.ebpf.program_mut("cpu_sample").context("no cpu_sample in the eBPF object")?;
        let Program::PerfEvent(program) = program else { anyhow::bail!("cpu_sample is of another kind") };
        program.load().map_err(|error| anyhow::anyhow!("{}", attach::describe(&error)))?;
        let fd = program.fd().context("the program is not loaded")?.as_fd().try_clone_to_owned()?;
        let events = CpuEvents::open(cpus, self.options.frequency, fd.as_fd())
            .context("the kernel refuses sampling events (perf_event_open)")?;
        events.enable().context("the sampling events do not start")?;
        let mut notes = Vec::new();
        if events.clock() == Clock::CpuClock {
            self.blind_spots.push(
                "no hardware cycle counter: samples come from a timer (cpu-clock), so code that runs with \
                 interrupts off is not seen, and its time shows at the instruction that turns them on again"
                    .to_owned(),
            );
        }
        notes.extend(events.failed().iter().map(|reason| format!("not sampled: {reason}")));
        let to = vec![format!("{} at {} Hz", events.clock().name(), self.options.frequency)];
        self.cpu = Some(events);
        Ok(ProbeState::Attached { rung: "perf_event".to_owned(), to, notes })
    }

    fn add_targets(&mut self) -> anyhow::Result<()> {
        let pids = match &self.options.scope {
            Scope::Processes(pids) => pids.clone(),
            Scope::Command(pid) => vec![*pid],
            Scope::System | Scope::Cgroup(_) => return Ok(()),
        };
        let map = self.ebpf.map_mut("TARGETS").context("the eBPF object has no map TARGETS")?;
        let mut map = aya::maps::HashMap::<_, u32, u8>::try_from(map)?;
        for pid in pids {
            map.insert(pid, 1, 0).with_context(|| format!("cannot measure process {pid}"))?;
        }
        Ok(())
    }

    /// The probes, attached or not; their counts are filled in by [`stop`](Self::stop).
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// What the run cannot see.
    pub fn blind_spots(&self) -> &[String] {
        &self.blind_spots
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.1.elapsed()
    }

    /// Moves what the probes have collected to user space; to be called again after the time that
    /// it returns.
    ///
    /// # Errors
    ///
    /// What bpf(2) reports. Nothing is lost by it: what was not read stays in the maps.
    pub fn drain(&mut self) -> io::Result<Duration> {
        self.processes.next_round();
        if let Some(mappings) = &mut self.mappings {
            mappings.drain(&mut self.processes);
        }
        let processes = &mut self.processes;
        self.drain.run(&mut self.ebpf, &mut self.collected, |key, collected| {
            let innermost = collected.stacks.get(&key.user_stack).and_then(|stack| stack.first());
            if let Some(innermost) = innermost {
                processes.note(key.tgid, *innermost);
            }
        })?;
        // A quarter of a generation full: the next burst might fill it.
        Ok(if self.drain.last_stacks > 2048 { FAST_DRAIN } else { SLOW_DRAIN })
    }

    /// Numbers for the status line.
    pub fn progress(&self) -> Progress {
        let mut progress = Progress::default();
        let Ok(streams) = totals::streams(&self.ebpf) else { return progress };
        for stream in Stream::ALL {
            let state = &streams[stream as usize];
            progress.events[stream as usize] = state.events;
            progress.lost += state.lost_weights + state.lost_stacks + state.lost_walks;
        }
        progress.samples = streams[Stream::Cpu as usize].events;
        progress
    }

    /// Ends the collection and makes a session of it.
    ///
    /// # Errors
    ///
    /// If the maps cannot be read.
    pub fn stop(mut self, target: Target) -> anyhow::Result<Session> {
        drain::set_running(&mut self.ebpf, 0).context("the probes do not stop")?;
        let duration = self.started.1.elapsed();
        let refaults = self.refaults.zip(vmstat::refaults(&Sources::default()));
        let due = self.cpu.as_ref().and_then(|cpu| {
            cpu.disable();
            cpu.due()
        });
        // Before draining, in which more is kept from the programs.
        let misses = misses::by_probe(&self.ebpf);
        // Twice, since each drain empties one generation, and the probes have written to both.
        for _ in 0..2 {
            self.drain().context("cannot read the probes' maps")?;
        }
        let totals = totals::Totals::read(&mut self.ebpf).context("cannot read the probes' counters")?;
        let times = CpuTimes::read(&Sources::default());
        let idle_ns = self.cpu_times.as_ref().zip(times).map_or(0, |(before, now)| now.idle_ns_since(before));
        let steal = self.cpu_times.take().and_then(|before| steal_share(before, times?));
        let raw = session::Raw {
            started: self.started.0,
            duration,
            target,
            probes: self.probes,
            blind_spots: self.blind_spots,
            due,
            idle_due: idle_ns / 1_000_000 * u64::from(self.options.frequency) / 1000,
            collected: self.collected,
            processes: self.processes,
            totals,
            steal,
            refaults: refaults.map_or(0, |(before, now)| now.saturating_sub(before)),
            misses,
            lost_mappings: self.mappings.as_ref().map_or(0, |mappings| mappings.lost),
            cgroups: self.cgroups,
        };
        // The programs stay until their own addresses have names. The kernel takes a grace period for
        // each that it detaches: meanwhile the report is printed.
        let mut ebpf = self.ebpf;
        let (mut session, processes) = session::build(raw);
        locks::name(&mut session, &mut ebpf);
        code::look_into(&mut session, &mut ebpf, &processes, self.options.code_of.as_deref());
        std::thread::spawn(move || drop(ebpf));
        Ok(session)
    }
}

/// The globals that say who is measured and how.
fn settings(options: &Options) -> Settings {
    let mut settings = Settings::default();
    let words = &mut settings.words;
    words.insert("STACK_RATE", options.stack_rate);
    words.insert("USER_STACKS", u32::from(options.user_stacks));
    words.insert("SELF_TGID", if options.include_self { 0 } else { std::process::id() });
    words.insert("PAGE_SHIFT", page_size().trailing_zeros());
    words.insert(
        "FILTER",
        match options.scope {
            Scope::System => filter::ALL,
            Scope::Processes(_) | Scope::Command(_) => filter::PROCESSES,
            Scope::Cgroup(_) => filter::CGROUP,
        },
    );
    // As open(2) has it here.
    words.insert("O_DIRECT", libc::O_DIRECT as u32);
    // In a container with processes of its own, ids are those of its namespace.
    if let Some((device, inode)) = pid_namespace()
        && inode != INITIAL_PID_NAMESPACE
    {
        settings.longs.insert("PIDNS_DEV", device);
        settings.longs.insert("PIDNS_INO", inode);
    }
    settings
}

/// The globals that say in which hierarchy a task's control group is looked up.
fn hierarchy_settings(
    hierarchy: Option<&Hierarchy>,
    btf: Option<&crate::kernel::btf::Btf>,
    offsets: &Offsets,
    settings: &mut Settings,
) -> anyhow::Result<()> {
    let missing = offsets.missing(&[
        "OFF_TASK_CGROUPS",
        "OFF_CSS_SET_DFL_CGRP",
        "OFF_CSS_SET_SUBSYS",
        "OFF_CSS_CGROUP",
        "OFF_CSS_PARENT",
        "OFF_CGROUP_SELF",
        "OFF_CGROUP_KN",
        "OFF_KN_ID",
    ]);
    if !missing.is_empty() {
        let names: Vec<String> = missing.into_iter().map(Offsets::describe).collect();
        anyhow::bail!("the kernel's type information (BTF) lacks {}", names.join(", "));
    }
    if let Some(Hierarchy::V1 { controller }) = hierarchy {
        let index = btf
            .and_then(|btf| btf.enum_value("cgroup_subsys_id", &format!("{controller}_cgrp_id")))
            .with_context(|| format!("this kernel does not know the cgroup controller {controller}"))?;
        let array = offsets.get("OFF_CSS_SET_SUBSYS").unwrap_or_default();
        settings.words.insert("CGROUP_V1", 1);
        // An array of pointers.
        settings.words.insert("OFF_CSS_SET_SUBSYS", array + 8 * index as u32);
    }
    Ok(())
}

/// Attaches what can be attached of a probe.
fn attach_probe(climber: &mut Climber<'_>, spec: &ProbeSpec) -> Probe {
    let mut probe = Probe::off(spec.name, spec.kind);
    let mut rungs: Vec<&str> = Vec::new();
    let mut attached = Vec::new();
    let mut notes = Vec::new();
    // Why parts failed: those that something stands in for, and the others.
    let mut replaced = Vec::new();
    let mut poorer = Vec::new();
    let mut has_one_of = false;
    for part in spec.parts {
        if part.role == Role::StandIn && has_one_of {
            continue;
        }
        match climber.climb(part) {
            Outcome::Attached { rung, to, lacks, passed } => {
                has_one_of |= part.role == Role::OneOf;
                if !rungs.contains(&rung) {
                    rungs.push(rung);
                }
                attached.extend(to);
                notes.extend(lacks.map(|lacks| format!("not measured: {lacks}")));
                notes.extend(passed.into_iter().map(|reason| format!("not {reason}")));
            }
            Outcome::Failed(reasons) => match part.role {
                Role::Essential => {
                    probe.state = ProbeState::Failed { reason: failure(part, &reasons) };
                    return probe;
                }
                Role::Useful => poorer.push(failure(part, &reasons)),
                Role::OneOf | Role::StandIn => replaced.extend(reasons),
            },
            Outcome::Absent if part.role == Role::Essential => {
                let reason = failure(part, &["this kernel has nothing to attach it to".to_owned()]);
                probe.state = ProbeState::Failed { reason };
                return probe;
            }
            Outcome::Absent => {}
        }
    }
    replaced.sort();
    replaced.dedup();
    let stands_in = spec.parts.iter().any(|part| part.role == Role::OneOf) && !has_one_of;
    if stands_in {
        notes.extend(replaced.iter().map(|reason| format!("not {reason}")));
    } else {
        notes.extend(poorer);
    }
    notes.dedup();
    probe.state = if attached.is_empty() {
        ProbeState::Failed { reason: replaced.join("; ") }
    } else {
        ProbeState::Attached { rung: rungs.join(", "), to: attached, notes }
    };
    probe
}

fn failure(part: &Part, reasons: &[String]) -> String {
    format!("no {}: {}", part.gives, reasons.join("; "))
}

fn start_log(ebpf: &mut Ebpf) {
    match aya_log::EbpfLogger::init(ebpf) {
        Ok(logger) => {
            tokio::spawn(async move {
                // SAFETY: the logger owns its descriptor, and is owned by the AsyncFd from here on.
                let registered = unsafe {
                    tokio::io::unix::AsyncFd::register_with_interest(logger, tokio::io::Interest::READABLE)
                };
                let Ok(mut logger) = registered else { return };
                while let Ok(mut guard) = logger.readable_mut().await {
                    guard.get_inner_mut().flush();
                    guard.clear_ready();
                }
            });
        }
        Err(error) => tracing::debug!("no messages from the eBPF side: {error}"),
    }
}

/// Numbers of the CPUs that are online.
fn online_cpus() -> anyhow::Result<Vec<u32>> {
    aya::util::online_cpus()
        .map_err(|(what, error)| anyhow::anyhow!("cannot tell which CPUs are online: {what}: {error}"))
}

fn page_size() -> u64 {
    // SAFETY: no pointers.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

fn pid_namespace() -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata("/proc/self/ns/pid").ok()?;
    Some((metadata.dev(), metadata.ino()))
}
