//! `page-alloc-pressure`: reading a mapped file in a control group that has room for a part of it, or for all; the same on a
//! machine whose memory is in use; and huge pages where there is memory enough, but in pieces.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use profiler::profile::Subject;

use super::memory::{Mapping, vmstat};
use super::scenario::{Bench, EXT4, Expected, Scenario};
use super::work::{needs, repeat, write_file};

const ID: &str = "page-alloc-pressure";
const MIB: u64 = 192;
const LIMIT_MIB: u64 = 16;
const SPARSE: usize = 96 << 20;

/// A control group for memory, of version 1 or 2.
struct Group {
    path: PathBuf,
    limit: &'static str,
}

impl Group {
    fn new(name: &str) -> Result<Self, String> {
        let (root, limit) = if Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists() {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            // There already, or not to be had: the file below tells.
            let _ = std::fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
            ("/sys/fs/cgroup", "memory.max")
        };
        let path = Path::new(root).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("no control group: {error}"))?;
        let group = Self { path, limit };
        if group.path.join(limit).exists() {
            Ok(group)
        } else {
            Err("no control groups for memory".to_owned())
        }
    }

    fn set_limit(&self, bytes: u64) {
        std::fs::write(self.path.join(self.limit), bytes.to_string()).unwrap();
    }

    /// The limit, as the kernel has it.
    fn limit(&self) -> f64 {
        let text = std::fs::read_to_string(self.path.join(self.limit)).unwrap();
        text.trim().parse().unwrap()
    }

    /// Pages that were taken from the group: by reclaim, while it has tasks.
    fn freed(&self) -> f64 {
        let text = std::fs::read_to_string(self.path.join("memory.stat")).unwrap();
        let value =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        // Version 2 counts what reclaim took, version 1 all that left.
        value("pgsteal_direct ").or_else(|| value("pgpgout ")).expect("the group counts its pages")
    }

    /// Runs a command in the group.
    fn run(&self, script: &str) {
        let script = format!("echo $$ > {}/cgroup.procs; exec {script}", self.path.display());
        let output = Command::new("sh").args(["-ec", &script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Pages that it still has go to its parent.
        let _ = std::fs::remove_dir(&self.path);
    }
}

fn read_mapped(bench: &mut Bench, limit: Option<u64>) -> Result<Group, String> {
    needs("fio")?;
    let group = Group::new("profiler-scenario")?;
    let disk = bench.disk(512, EXT4, "noatime")?;
    let file = disk.file("data");
    write_file(&file, MIB, 1 << 20, false);
    if let Some(limit) = limit {
        group.set_limit(limit);
    }
    let script = format!(
        "fio --name=mapped --filename={file} --rw=read --ioengine=mmap --bs=4k --thread --size={MIB}M --numjobs=2 \
         --time_based --runtime=3"
    );
    bench.measure(|| group.run(&script));
    Ok(group)
}

/// Each page that is read has to be paid for with another one.
pub fn small_limit() -> Scenario {
    Scenario::reproducer(
        ID,
        "read a mapped file of 192 MiB in a control group with a limit of 16 MiB",
        |bench| {
            let group = read_mapped(bench, Some(LIMIT_MIB << 20))?;
            let name = format!("/{}", group.path.file_name().unwrap().to_string_lossy());
            Ok(Expected::about(Subject::Cgroup(name))
                .figure("limit", group.limit(), "the control group")
                .figure("pages_freed", group.freed(), "memory.stat of the group"))
        },
    )
}

/// The same work with room for it.
pub fn no_limit() -> Scenario {
    Scenario::look_alike(ID, "the same without a limit", |bench| {
        read_mapped(bench, None)?;
        Expected::silence()
    })
}

/// Bytes that can be had without swapping.
fn available() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() << 10
}

/// Not on a machine that others use: it takes most of the memory.
fn small_machine() -> Result<(), String> {
    if available() > 4 << 30 { Err("needs a machine of less than 4 GiB".to_owned()) } else { Ok(()) }
}

/// Files that are all holes, so that no disk slows it down.
fn touch_mapped(bench: &mut Bench, left: Option<usize>) -> Result<(f64, f64), String> {
    const THREADS: usize = 4;
    small_machine()?;
    let disk = bench.disk(64, EXT4, "noatime")?;
    let files: Vec<_> = (0..THREADS)
        .map(|number| {
            let file = std::fs::File::create_new(disk.file(&number.to_string())).unwrap();
            file.set_len(SPARSE as u64).unwrap();
            std::fs::File::open(disk.file(&number.to_string())).unwrap()
        })
        .collect();
    let taken = left.map(|left| {
        let taken = Mapping::anonymous(available() - left);
        taken.touch();
        taken
    });
    let stalls = || vmstat("allocstall_");
    let before = (stalls(), vmstat("pgsteal_direct"));
    bench.measure(|| {
        repeat("toucher", THREADS, Duration::from_secs(3), |number| {
            Mapping::of(&files[number], SPARSE).touch();
        })
    });
    drop(taken);
    Ok(((stalls() - before.0) as f64, (vmstat("pgsteal_direct") - before.1) as f64))
}

/// kswapd does not keep up with four threads.
pub fn full_machine() -> Scenario {
    Scenario::reproducer(
        ID,
        "four threads touch mapped files of 96 MiB over and over, on a machine with 128 MiB left",
        |bench| {
            let (stalls, freed) = touch_mapped(bench, Some(128 << 20))?;
            Ok(Expected::about(Subject::Process("toucher".to_owned()))
                .figure("stall_count", stalls, "allocstall_* in /proc/vmstat")
                .figure("pages_freed", freed, "pgsteal_direct in /proc/vmstat"))
        },
    )
}

/// The same work with room for it.
pub fn roomy_machine() -> Scenario {
    Scenario::look_alike(ID, "the same with memory left", |bench| {
        touch_mapped(bench, None)?;
        Expected::silence()
    })
}

fn touch_huge(bench: &mut Bench, in_pieces: bool) -> Result<f64, String> {
    /// How eagerly kcompactd works ahead (since 5.9), in percent.
    const PROACTIVE: &str = "/proc/sys/vm/compaction_proactiveness";
    small_machine()?;
    let proactive = std::fs::read(PROACTIVE).map_err(|error| format!("{PROACTIVE}: {error}"))?;
    // Else it may be done before anybody wants the memory.
    std::fs::write(PROACTIVE, "0").map_err(|error| format!("{PROACTIVE}: {error}"))?;
    // Room for what the kernel and the profiler need, or the OOM killer comes.
    let scattered = Mapping::anonymous(available() - (256 << 20));
    scattered.never_huge();
    scattered.touch();
    if in_pieces {
        // Half of the memory is free then, and no block of it is larger than a page.
        scattered.forget_every_other_page();
    }
    // Given back otherwise, before anything is measured.
    let scattered = in_pieces.then_some(scattered);
    let before = vmstat("compact_stall");
    bench.measure(|| {
        std::thread::Builder::new()
            .name("toucher".to_owned())
            .spawn(|| {
                let huge = Mapping::anonymous(512 << 20);
                huge.rather_huge();
                huge.touch();
            })
            .unwrap()
            .join()
            .unwrap();
    });
    let stalls = vmstat("compact_stall") - before;
    drop(scattered);
    std::fs::write(PROACTIVE, proactive).unwrap();
    Ok(stalls as f64)
}

/// Each huge page has to be put together.
pub fn memory_in_pieces() -> Scenario {
    Scenario::reproducer(
        ID,
        "touch 512 MiB of huge pages (MADV_HUGEPAGE) where free memory is in pieces of one page",
        |bench| {
            let stalls = touch_huge(bench, true)?;
            Ok(Expected::about(Subject::Process("toucher".to_owned())).figure(
                "stall_count",
                stalls,
                "compact_stall in /proc/vmstat",
            ))
        },
    )
}

/// Memory that was given back whole.
pub fn memory_in_one_piece() -> Scenario {
    Scenario::look_alike(ID, "the same where free memory is in large blocks", |bench| {
        touch_huge(bench, false)?;
        Expected::silence()
    })
}
