//! Memory limits of control groups.

use std::path::Path;

use super::super::sources::{Sources, parse};
use super::{Hierarchy, mounted, relative};
use crate::profile::MemoryLimit;

/// Limits from here on are none: v1 writes the largest number of pages that fits.
const UNLIMITED: u64 = 1 << 62;

/// Deepest nesting that is looked at.
const MAX_DEPTH: usize = 64;

/// The limit that stops the tasks of the group at `path` first: the lowest of its own and those of the groups
/// above it. `None` if there is none, or it cannot be read.
pub fn memory_limit(sources: &Sources, path: &str) -> Option<MemoryLimit> {
    let memory = Hierarchy::V1 { controller: "memory".to_owned() };
    let mounts = mounted(sources);
    let of = |wanted: &Hierarchy| mounts.iter().find(|mounted| mounted.hierarchy.as_ref() == Some(wanted));
    // The controller is in one hierarchy only.
    let (mounted, files): (_, &[&str]) = match of(&memory) {
        Some(mounted) => (mounted, &["memory.limit_in_bytes"]),
        None => (of(&Hierarchy::V2)?, &["memory.max", "memory.high"]),
    };
    let group = relative(Path::new(path));
    let limits = group.ancestors().take(MAX_DEPTH).flat_map(|group| {
        files.iter().filter_map(move |file| {
            let folder = mounted.point.join(group);
            // `max` is no number.
            let bytes = parse::<u64>(&folder.join(file)).filter(|bytes| *bytes < UNLIMITED)?;
            Some(MemoryLimit {
                cgroup: path.to_owned(),
                limited: Path::new("/").join(group).to_string_lossy().into_owned(),
                file: folder.join(file).to_string_lossy().into_owned(),
                bytes,
            })
        })
    });
    limits.min_by_key(|limit| limit.bytes)
}

#[cfg(test)]
mod tests {
    use super::super::super::sources::fixture::Fixture;
    use super::*;

    fn machine(kind: &str, files: &[(&str, &str)]) -> Fixture {
        let fixture = Fixture::new(&[]);
        let root = fixture.dir.path().canonicalize().unwrap();
        let root = root.to_str().unwrap();
        fixture.file("proc/self/mountinfo", &format!("41 31 0:38 / {root}/cg rw - {kind}\n"));
        for (name, text) in files {
            fixture.file(&format!("cg/{name}"), text);
        }
        fixture
    }

    #[test]
    fn the_lowest_limit_counts_wherever_it_is() {
        let files = [
            ("a/memory.max", "1000000\n"),
            ("a/memory.high", "max\n"),
            ("a/b/memory.max", "max\n"),
            ("a/b/memory.high", "2000000\n"),
        ];
        let fixture = machine("cgroup2 cgroup2 rw", &files);
        let limit = memory_limit(&fixture.sources, "/a/b").unwrap();
        assert_eq!((limit.cgroup.as_str(), limit.limited.as_str(), limit.bytes), ("/a/b", "/a", 1_000_000));
        assert!(limit.file.ends_with("/cg/a/memory.max"), "{}", limit.file);
        assert_eq!(memory_limit(&fixture.sources, "/elsewhere/../.."), None);
    }

    #[test]
    fn the_largest_number_of_v1_is_no_limit() {
        let files = [
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("a/memory.limit_in_bytes", "67108864\n"),
            ("b/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        let fixture = machine("cgroup cgroup rw,memory", &files);
        assert_eq!(memory_limit(&fixture.sources, "/a").unwrap().bytes, 64 << 20);
        assert_eq!(memory_limit(&fixture.sources, "/b"), None);
    }
}
