//! Folders that are safe to fill as root where others can write.
//!
//! Paths go through `/proc/self/fd`, that is, they start at a folder that is held open: nobody can put a symbolic
//! link in its place.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use super::{PROFILE_FILE, SESSION_FILE};

/// Deepest nesting of folders in a session folder.
const MAX_DEPTH: usize = 8;

/// Who the files belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Owner {
    /// The user who called sudo, if this runs as root through sudo.
    pub fn invoking() -> Option<Self> {
        let id = |name| std::env::var(name).ok()?.parse().ok();
        nix::unistd::geteuid()
            .is_root()
            .then(|| Some(Self { uid: id("SUDO_UID")?, gid: id("SUDO_GID")? }))
            .flatten()
    }
}

/// A folder, held open.
pub struct Anchor(File);

impl Anchor {
    pub fn open(path: &Path) -> io::Result<Self> {
        File::options().read(true).custom_flags(libc::O_DIRECTORY).open(path).map(Self)
    }

    /// A path of this folder that stays right when it is renamed. For this process only.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// What is at a destination already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Nothing,
    EmptyFolder,
    Session,
    Other,
}

/// What is at `path`; symbolic links are not followed.
pub fn existing(path: &Path) -> io::Result<Existing> {
    let metadata = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Existing::Nothing),
        other => other?,
    };
    if !metadata.is_dir() {
        return Ok(Existing::Other);
    }
    let is_file = |name| std::fs::symlink_metadata(path.join(name)).is_ok_and(|found| found.is_file());
    if is_file(SESSION_FILE) && is_file(PROFILE_FILE) {
        Ok(Existing::Session)
    } else if std::fs::read_dir(path)?.next().is_none() {
        Ok(Existing::EmptyFolder)
    } else {
        Ok(Existing::Other)
    }
}

/// An error with the path it concerns, relative to the folder.
#[derive(Debug)]
pub struct FolderError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Gives all in `folder` to `owner` and to nobody else, and sees it written to disk. The folder itself comes last:
/// until then, nobody else can get into it.
pub fn finish(folder: &Anchor, owner: Option<Owner>) -> Result<(), FolderError> {
    finish_folder(folder, Path::new(""), owner, 0)
}

fn finish_folder(
    folder: &Anchor,
    path: &Path,
    owner: Option<Owner>,
    depth: usize,
) -> Result<(), FolderError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| FolderError { path, source }
    };
    if depth > MAX_DEPTH {
        return Err(at(path)(io::Error::other("folders are nested too deep")));
    }
    for entry in std::fs::read_dir(folder.path()).map_err(at(path))? {
        let name = entry.map_err(at(path))?.file_name();
        let path = path.join(&name);
        // Fails for a symbolic link; not blocking for the sake of named pipes.
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(folder.join(&name))
            .map_err(at(&path))?;
        let metadata = file.metadata().map_err(at(&path))?;
        if metadata.is_dir() {
            finish_folder(&Anchor(file), &path, owner, depth + 1)?;
        } else if metadata.is_file() {
            finish_one(&file, 0o600, owner).map_err(at(&path))?;
        } else {
            return Err(at(&path)(io::Error::other("it is neither a file nor a folder")));
        }
    }
    finish_one(&folder.0, 0o700, owner).map_err(at(path))
}

fn finish_one(file: &File, mode: u32, owner: Option<Owner>) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))?;
    if let Some(owner) = owner {
        fchown(file, Some(owner.uid), Some(owner.gid))?;
    }
    file.sync_all()
}
