//! A control group with a memory limit.

use std::path::{Path, PathBuf};

/// A group that is removed when dropped.
pub struct MemoryGroup {
    folder: PathBuf,
    /// Its path in the hierarchy, as in the labels of stacks.
    pub path: String,
    /// The file with the limit.
    pub limit_file: PathBuf,
}

impl MemoryGroup {
    /// Makes a group that may use `mib` MiB, in the hierarchy that has the memory controller.
    ///
    /// # Errors
    ///
    /// What this machine lacks.
    pub fn new(name: &str, mib: u64) -> Result<Self, String> {
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (root, file) = if v1.join("memory.limit_in_bytes").exists() {
            (v1, "memory.limit_in_bytes")
        } else {
            let root = Path::new("/sys/fs/cgroup");
            std::fs::write(root.join("cgroup.subtree_control"), "+memory")
                .map_err(|error| format!("no memory controller in {}: {error}", root.display()))?;
            (root, "memory.max")
        };
        let name = format!("profiler-{name}-{}", std::process::id());
        let folder = root.join(&name);
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let group = Self { limit_file: folder.join(file), path: format!("/{name}"), folder };
        std::fs::write(&group.limit_file, (mib << 20).to_string())
            .map_err(|error| format!("{}: {error}", group.limit_file.display()))?;
        Ok(group)
    }

    /// `command` as a shell runs it within the group.
    pub fn script(&self, command: &str) -> String {
        format!("echo $$ > {}/cgroup.procs\n{command}", self.folder.display())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The last process may not be gone entirely yet.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
