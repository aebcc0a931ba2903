//! `page-alloc-pressure`: reading a mapped file in a control group that has room for a part of it, or for all.

use std::path::{Path, PathBuf};
use std::process::Command;

use profiler::profile::Subject;

use super::scenario::{Bench, EXT4, Expected, Scenario};
use super::work::{needs, write_file};

const ID: &str = "page-alloc-pressure";
const MIB: u64 = 192;
const LIMIT_MIB: u64 = 16;

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
            Ok(Expected::about(Subject::Cgroup(name)).figure("limit", group.limit(), "the control group"))
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
