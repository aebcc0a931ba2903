//! Names of control groups by id.

use std::collections::HashMap;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::sources::Sources;
use super::{Hierarchy, mounted};

/// Most groups that are looked at. The largest machines have some ten thousand.
const MAX_GROUPS: usize = 200_000;
/// Deepest nesting that is looked at.
const MAX_DEPTH: usize = 64;
/// How long an unknown id is not looked for again.
const PAUSE: Duration = Duration::from_secs(1);

/// Finds the paths of control groups by id, in one hierarchy.
///
/// The hierarchy is walked when an id is asked for that is not known, at most once a second. Groups stay known
/// after they are removed.
#[derive(Debug)]
pub struct CgroupNames {
    /// Where the hierarchy is mounted; `None` if it is not.
    point: Option<PathBuf>,
    names: HashMap<u64, Arc<str>>,
    walked: Option<Instant>,
}

impl CgroupNames {
    /// The names of `hierarchy`.
    pub fn new(sources: &Sources, hierarchy: &Hierarchy) -> Self {
        let point = mounted(sources)
            .into_iter()
            .find(|mounted| mounted.hierarchy.as_ref() == Some(hierarchy))
            .map(|mounted| mounted.point);
        Self { point, names: HashMap::new(), walked: None }
    }

    /// The path of the group with this id, relative to where the hierarchy is mounted, starting with `/`. `None`
    /// if the group is gone, or hidden in another cgroup namespace.
    pub fn name(&mut self, id: u64) -> Option<Arc<str>> {
        if !self.names.contains_key(&id) && self.walked.is_none_or(|walked| walked.elapsed() >= PAUSE) {
            self.walk();
        }
        self.names.get(&id).cloned()
    }

    /// Looks for new groups now.
    pub fn walk(&mut self) {
        self.walked = Some(Instant::now());
        let Some(point) = self.point.clone() else { return };
        let Ok(root) = point.metadata() else { return };
        self.names.insert(root.ino(), "/".into());

        let mut seen = 0;
        let mut folders = vec![(point, String::new(), 0)];
        while let Some((folder, path, depth)) = folders.pop() {
            // A group may go away meanwhile.
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries.filter_map(Result::ok) {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                seen += 1;
                if seen > MAX_GROUPS {
                    return;
                }
                let path = format!("{path}/{}", entry.file_name().to_string_lossy());
                self.names.insert(entry.ino(), path.as_str().into());
                if depth < MAX_DEPTH {
                    folders.push((folder.join(Path::new(&entry.file_name())), path, depth + 1));
                }
            }
        }
    }
}
