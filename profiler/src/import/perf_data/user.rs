//! Names of user addresses, from the files that were mapped, where these are still the same.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::processes::Object;
use crate::profile::{Frame, Host};
use crate::symbolize::file_frames;

/// Files of which one is told by name that they could not be read.
const NAMED: usize = 3;

/// Gives places in files names.
pub struct UserNames {
    /// Build ids by path, where mappings did not have them.
    build_ids: HashMap<String, Vec<u8>>,
    /// Whether the recording is of this machine.
    is_here: bool,
    /// Files that are gone or changed.
    missing: BTreeSet<String>,
}

impl UserNames {
    /// For a recording on `host`.
    pub fn new(build_ids: HashMap<String, Vec<u8>>, host: &Host) -> Self {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let is_here = !host.hostname.is_empty() && host.hostname == own.trim();
        Self { build_ids, is_here, missing: BTreeSet::new() }
    }

    /// The functions at these offsets in a file.
    pub fn resolve(&mut self, object: &Object, offsets: &[u64]) -> Vec<Frame> {
        let path = &*object.path;
        if path == "[vdso]" {
            return vec![Frame::user("[vdso]", "[vdso]"); offsets.len()];
        }
        if !path.starts_with('/') || path.starts_with("//anon") {
            return vec![Frame::user("[generated code]", "[generated]"); offsets.len()];
        }
        let binary = path.rsplit('/').next().unwrap_or(path);
        if self.is_same(object) {
            return file_frames(Path::new(path), binary, offsets);
        }
        // Those were never on a disk.
        if !path.starts_with("/memfd:") {
            self.missing.insert(binary.to_owned());
        }
        // The place in the file is what addr2line wants where the file is.
        offsets.iter().map(|offset| Frame::user(&format!("{binary}+{offset:#x}"), binary)).collect()
    }

    /// Whether the file with this path is the one that was recorded.
    fn is_same(&self, object: &Object) -> bool {
        let path = Path::new(&*object.path);
        // Devices and pipes are not to be opened, whatever a recording says.
        let Some(metadata) = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file) else {
            return false;
        };
        let recorded = match &*object.build_id {
            [] => self.build_ids.get(&*object.path).map_or(&[][..], Vec::as_slice),
            id => id,
        };
        if recorded.is_empty() {
            return self.is_here && object.inode.is_none_or(|inode| inode == metadata.ino());
        }
        let own = blazesym::helper::read_elf_build_id(path).ok().flatten();
        // Some are shorter than the room for them, which zeroes fill.
        own.is_some_and(|own| {
            recorded.starts_with(&own) && recorded[own.len()..].iter().all(|byte| *byte == 0)
        })
    }

    /// A sentence about what has no names, if there is something.
    pub fn missing(&self) -> Option<String> {
        let count = self.missing.len();
        let named: Vec<&str> = self.missing.iter().take(NAMED).map(String::as_str).collect();
        let others = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
        let are = if count == 1 { "is" } else { "are" };
        (count > 0).then(|| {
            format!("Functions of {}{others} have no names: the files {are} not those that were recorded, or gone.", named.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(path: &str, build_id: &[u8], inode: Option<u64>) -> Object {
        Object { path: path.into(), build_id: build_id.into(), inode }
    }

    #[test]
    fn only_the_same_file_gives_names() {
        let exe = std::env::current_exe().unwrap();
        let inode = std::fs::metadata(&exe).unwrap().ino();
        let path = exe.to_str().unwrap();
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let here = Host { hostname: hostname.trim().to_owned(), ..Host::default() };
        let names = UserNames::new(HashMap::new(), &here);
        assert!(names.is_same(&object(path, &[], Some(inode))));
        assert!(!names.is_same(&object(path, &[], Some(inode + 1))));
        assert!(!names.is_same(&object(path, &[1; 20], Some(inode))));
        assert!(!names.is_same(&object("/dev/zero", &[], None)));
        let elsewhere = UserNames::new(HashMap::new(), &Host::default());
        assert!(!elsewhere.is_same(&object(path, &[], Some(inode))));
        if let Some(id) = blazesym::helper::read_elf_build_id(&exe).unwrap() {
            assert!(elsewhere.is_same(&object(path, &id, None)));
            let by_path = [(path.to_owned(), [&*id, &[0, 0]].concat())].into();
            assert!(UserNames::new(by_path, &Host::default()).is_same(&object(path, &[], None)));
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut names = UserNames::new(HashMap::new(), &Host::default());
        assert_eq!(names.missing(), None);
        let frame = &names.resolve(&object("/no/such/file", &[1; 20], None), &[0x10])[0];
        assert_eq!(frame.qualified(), "file+0x10 [file]");
        assert!(names.missing().unwrap().contains("Functions of file have"));
        assert_eq!(&*names.resolve(&object("[vdso]", &[], None), &[1])[0].name, "[vdso]");
        assert_eq!(&*names.resolve(&object("//anon", &[], None), &[1])[0].name, "[generated code]");
    }
}
