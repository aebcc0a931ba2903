//! Control groups: from the path that the user gives to the id that the kernel knows, and back.

mod memory;
mod names;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::sources::{Sources, unescape};
pub use memory::memory_limit;
pub use names::CgroupNames;

/// Controllers of cgroup v1 hierarchies, the likeliest first: name as in the mount options, and as in the kernel's
/// `enum cgroup_subsys_id` without `_cgrp_id` (include/linux/cgroup_subsys.h).
const CONTROLLERS: [(&str, &str); 14] = [
    ("cpu", "cpu"),
    ("cpuacct", "cpuacct"),
    ("memory", "memory"),
    ("pids", "pids"),
    ("blkio", "io"),
    ("cpuset", "cpuset"),
    ("freezer", "freezer"),
    ("devices", "devices"),
    ("perf_event", "perf_event"),
    ("net_cls", "net_cls"),
    ("net_prio", "net_prio"),
    ("hugetlb", "hugetlb"),
    ("rdma", "rdma"),
    ("misc", "misc"),
];

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Its id in the kernel (`cgrp->kn->id`), which is the inode number of its folder.
    pub id: u64,
    /// The hierarchy it belongs to.
    pub hierarchy: Hierarchy,
    /// Its path in the hierarchy, as in /proc/PID/cgroup: `/system.slice/foo.service`.
    pub path: String,
}

/// A cgroup hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hierarchy {
    /// The unified hierarchy.
    V2,
    /// One of the old ones.
    V1 {
        /// A controller of it, by its name in the kernel's `enum cgroup_subsys_id` (`io`, not `blkio`).
        controller: String,
    },
}

/// Why a control group cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// There is none at all.
    #[error("no cgroup file system is mounted, so there are no control groups to choose from")]
    NoHierarchy,
    /// It does not exist.
    #[error("there is no control group `{given}`; looked at {}", list(looked_at))]
    NotFound {
        /// What the user gave.
        given: String,
        /// The folders that do not exist.
        looked_at: Vec<PathBuf>,
    },
    /// It is not a group, but a file in one or a folder elsewhere.
    #[error("`{}` is not the folder of a control group", path.display())]
    NotAGroup {
        /// The path.
        path: PathBuf,
    },
    /// It is in a hierarchy that eBPF programs cannot look into.
    #[error(
        "`{}` is in a cgroup v1 hierarchy without a controller, which eBPF programs cannot see; \
         give the same group elsewhere, such as `{}`", path.display(), suggestion.display()
    )]
    NoController {
        /// The group.
        path: PathBuf,
        /// The same group elsewhere.
        suggestion: PathBuf,
    },
    /// It cannot be looked at.
    #[error("cannot look at the control group `{}`: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(", ")
}

/// A mounted hierarchy.
#[derive(Clone, Debug)]
struct Mounted {
    /// `None` for v1 without a controller.
    hierarchy: Option<Hierarchy>,
    /// Where it is mounted.
    point: PathBuf,
    /// Which group is the root of the mount; not `/` in containers.
    root: String,
}

/// The mounted hierarchies, v2 first, then the v1 controllers in the order of [`CONTROLLERS`], then v1 without
/// controllers.
fn mounted(sources: &Sources) -> Vec<Mounted> {
    let mut found: Vec<(usize, Mounted)> = sources
        .mounts()
        .iter()
        .filter_map(|info| {
            let (rank, hierarchy) = match info.fs_type.as_str() {
                "cgroup2" => (0, Some(Hierarchy::V2)),
                "cgroup" => {
                    let rank =
                        CONTROLLERS.iter().position(|(option, _)| info.super_options.contains_key(*option));
                    let hierarchy =
                        rank.map(|rank| Hierarchy::V1 { controller: CONTROLLERS[rank].1.to_owned() });
                    (1 + rank.unwrap_or(CONTROLLERS.len()), hierarchy)
                }
                _ => return None,
            };
            let point = unescape(&info.mount_point.to_string_lossy()).into();
            Some((rank, Mounted { hierarchy, point, root: unescape(&info.root) }))
        })
        .collect();
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, mounted)| mounted).collect()
}

/// The hierarchy that tells processes apart: that of the v1 memory or CPU controller where there is
/// one, since containers then have their groups there, else v2. `None` if no hierarchy is mounted.
pub fn main_hierarchy(sources: &Sources) -> Option<Hierarchy> {
    let hierarchies: Vec<Hierarchy> =
        mounted(sources).into_iter().filter_map(|mounted| mounted.hierarchy).collect();
    let of = |controller: &str| {
        let wanted = Hierarchy::V1 { controller: controller.to_owned() };
        hierarchies.iter().find(|hierarchy| **hierarchy == wanted)
    };
    of("memory").or_else(|| of("cpu")).or_else(|| hierarchies.first()).cloned()
}

/// The control group that `given` means: the path of its folder, or its path in the v2 hierarchy or in that of a
/// v1 controller, with or without a `/` in front.
pub fn resolve(sources: &Sources, given: &str) -> Result<Cgroup, CgroupError> {
    let mounts = mounted(sources);
    if mounts.is_empty() {
        return Err(CgroupError::NoHierarchy);
    }
    if given.is_empty() {
        return Err(CgroupError::NotAGroup { path: PathBuf::new() }); // not the root: that is `/`
    }
    let mut looked_at = Vec::new();
    let path = Path::new(given);
    if path.is_absolute() {
        match path.canonicalize() {
            Ok(folder) => {
                // The innermost mount: v1 and v2 are often mounted below each other.
                let within = mounts.iter().filter(|mounted| folder.starts_with(&mounted.point));
                if let Some(mounted) = within.max_by_key(|mounted| mounted.point.components().count()) {
                    return group(&mounts, mounted, folder);
                }
            }
            Err(error) if is_missing(&error) => looked_at.push(path.to_owned()),
            Err(source) => return Err(CgroupError::Io { path: path.to_owned(), source }),
        }
    }
    let relative = relative(path);
    for mounted in &mounts {
        let folder = mounted.point.join(&relative);
        match folder.canonicalize() {
            Ok(folder) if folder.starts_with(&mounted.point) => return group(&mounts, mounted, folder),
            Ok(folder) => return Err(CgroupError::NotAGroup { path: folder }),
            Err(error) if is_missing(&error) => looked_at.push(folder),
            Err(source) => return Err(CgroupError::Io { path: folder, source }),
        }
    }
    // An existing path outside of every hierarchy.
    if path.is_absolute() && path.exists() {
        return Err(CgroupError::NotAGroup { path: path.to_owned() });
    }
    Err(CgroupError::NotFound { given: given.to_owned(), looked_at })
}

/// `path` without anything that leads up or to the root.
fn relative(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// The group whose folder is `folder`, which lies in `mounted`.
fn group(mounts: &[Mounted], mounted: &Mounted, folder: PathBuf) -> Result<Cgroup, CgroupError> {
    let metadata = folder.metadata().map_err(|source| CgroupError::Io { path: folder.clone(), source })?;
    if !metadata.is_dir() {
        return Err(CgroupError::NotAGroup { path: folder });
    }
    let below = folder.strip_prefix(&mounted.point).unwrap_or(Path::new(""));
    let Some(hierarchy) = mounted.hierarchy.clone() else {
        let elsewhere = mounts.iter().filter(|other| other.hierarchy.is_some());
        let suggestions: Vec<PathBuf> =
            elsewhere.map(|other| other.point.components().chain(below.components()).collect()).collect();
        let suggestion = suggestions
            .iter()
            .find(|path| path.is_dir())
            .or(suggestions.first())
            .cloned()
            .unwrap_or_else(|| Path::new("/sys/fs/cgroup/cpu").join(below));
        return Err(CgroupError::NoController { path: folder, suggestion });
    };
    let path = Path::new("/").join(relative(Path::new(&mounted.root))).join(below);
    Ok(Cgroup { id: metadata.ino(), hierarchy, path: path.to_string_lossy().into_owned() })
}

#[cfg(test)]
mod tests;
