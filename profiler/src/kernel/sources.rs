//! Where facts about the machine are read from.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use procfs::process::MountInfo;

/// Most bytes of a file in /proc or /sys that are looked at.
const MAX_BYTES: u64 = 16 << 20;

/// The roots of /proc and /sys; others in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Instead of `/proc`.
    pub proc: PathBuf,
    /// Instead of `/sys`.
    pub sys: PathBuf,
}

impl Default for Sources {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

impl Sources {
    /// The mounts that this process sees. Lines that make no sense are left out.
    pub(super) fn mounts(&self) -> Vec<MountInfo> {
        let text = read(&self.proc.join("self/mountinfo")).unwrap_or_default();
        text.lines().filter_map(|line| MountInfo::from_line(line).ok()).collect()
    }
}

/// The text of a file without white space around it; `None` if it cannot be read. Bytes that are not UTF-8 are
/// replaced.
pub(super) fn read(path: &Path) -> Option<String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The number, or other simple value, that a file consists of.
pub(super) fn parse<T: FromStr>(path: &Path) -> Option<T> {
    read(path)?.parse().ok()
}

/// Undoes the escapes of paths in /proc files: a backslash and three octal digits (`mangle_path` in
/// fs/seq_file.c).
pub(super) fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\').and_then(octal);
        match escaped {
            Some(byte) => {
                plain.push(byte);
                at += 4;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn octal(digits: &[u8]) -> Option<u8> {
    if !digits.iter().all(|digit| (b'0'..=b'7').contains(digit)) {
        return None;
    }
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

/// Numbers of a list such as `0-2,5` (`%*pbl` of the kernel). Parts that make no sense are left out.
pub(super) fn number_list(text: &str) -> Vec<u32> {
    const MOST: u32 = 1 << 16;
    text.split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (last < MOST).then_some(first..=last)
        })
        .flatten()
        .collect()
}

#[cfg(test)]
pub(super) mod fixture {
    //! Trees of files that stand for /proc and /sys.

    use std::path::Path;

    use super::Sources;

    /// A temporary folder with `proc` and `sys` in it.
    pub struct Fixture {
        pub dir: tempfile::TempDir,
        pub sources: Sources,
    }

    impl Fixture {
        pub fn new(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let sources = Sources { proc: dir.path().join("proc"), sys: dir.path().join("sys") };
            let fixture = Self { dir, sources };
            for (path, text) in files {
                fixture.file(path, text);
            }
            fixture
        }

        pub fn path(&self, path: &str) -> std::path::PathBuf {
            self.dir.path().join(path)
        }

        pub fn file(&self, path: &str, text: &str) {
            let path = self.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        pub fn link(&self, path: &str, to: &str) {
            let path = self.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(Path::new(to), path).unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        assert_eq!(unescape(r"/mnt/my\040disk\134\011x"), "/mnt/my disk\\\tx");
        assert_eq!(unescape(r"/mnt/b\303\244r"), "/mnt/bär");
        assert_eq!(unescape(r"a\04"), r"a\04");
        assert_eq!(unescape(r"a\049\777"), r"a\049\777");
        assert_eq!(unescape("\\"), "\\");
    }

    #[test]
    fn lists_of_numbers() {
        assert_eq!(number_list("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(number_list("7"), [7]);
        assert!(number_list("").is_empty());
        assert!(number_list("0-4294967295,x,3-1").is_empty());
    }
}
