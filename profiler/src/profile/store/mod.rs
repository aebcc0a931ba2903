//! Sessions on disk: a folder with `session.json`, `profile.pb.gz` and the rendered reports.
//!
//! docs/recording-format.md describes the folder. It appears at once and complete, or not at all: everything is
//! written into a temporary folder beside it, which is renamed at the end. Kernel addresses and command lines
//! are in it, so nobody but its owner may read it.

mod folder;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::code::FunctionText;
use super::pprof::{self, PprofError};
use super::session::{SCHEMA, Session};
pub use folder::Owner;
use folder::{Anchor, Existing};

/// Everything but the stacks.
pub const SESSION_FILE: &str = "session.json";
/// The stacks.
pub const PROFILE_FILE: &str = "profile.pb.gz";
/// Machine code of the functions that most samples fall on, if it was recorded.
pub const CODE_FILE: &str = "code.json.gz";

/// Most bytes of any file that are read.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Most bytes of machine code that are read, as JSON: a hundred functions of 64 KiB are 13 MiB.
const MAX_CODE_BYTES: u64 = 64 << 20;

/// Why a session cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The destination has no name of its own.
    #[error("`{}` cannot be the folder of a session: give it a name of its own", path.display())]
    NoName {
        /// The destination.
        path: PathBuf,
    },
    /// The folder that the session should be written to is missing.
    #[error("cannot write the session: the folder `{}` does not exist; create it first", path.display())]
    NoParent {
        /// The missing folder.
        path: PathBuf,
    },
    /// There is something else already.
    #[error(
        "cannot write the session to `{}`: it exists and is not a session folder; \
         choose another name, or remove it", path.display()
    )]
    Occupied {
        /// What is there.
        path: PathBuf,
    },
    /// A file or folder cannot be accessed.
    #[error("cannot {doing} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The reports cannot be written.
    #[error("cannot write the reports of the session `{}`: {cause}", path.display())]
    Reports {
        /// The destination.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// The folder is no session.
    #[error("`{}` is not a session folder: it has no {SESSION_FILE}", path.display())]
    NotASession {
        /// The folder.
        path: PathBuf,
    },
    /// A file is too large to be what it should be.
    #[error("`{}` is larger than {} MiB, the most that is read", path.display(), MAX_FILE_BYTES >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// `session.json` is damaged.
    #[error("`{}` cannot be understood: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A later version of this program wrote the session.
    #[error(
        "`{}` has schema version {found}, this program knows versions up to {SCHEMA}: \
         use the version of profiler that wrote it, or a later one", path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: u64,
    },
    /// `profile.pb.gz` is damaged.
    #[error("`{}` cannot be read: {source}", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: PprofError,
    },
}

impl StoreError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

/// Whether a session could be written to `dir`: to be asked before the measurement, not after it.
///
/// The parent folder has to exist and to be writable (a folder is made in it and removed again), and `dir` has
/// to be free, an empty folder, or an earlier session. Changes nothing.
pub fn check_destination(dir: &Path) -> Result<(), StoreError> {
    let destination = Destination::open(dir)?;
    destination
        .temporary_folder()?
        .close()
        .map_err(StoreError::io("remove a test folder from", &destination.parent))
}

/// Writes `session` to the folder `dir`, atomically, and readable for its owner only.
///
/// `rendered` gets the path of the folder in the making and writes the reports into it. With sudo,
/// everything is given to the user who called it. An earlier session at `dir` is moved to `dir.old`, where it
/// replaces a still earlier one. On errors, also of `rendered`, nothing is left behind.
pub fn save(
    session: &Session,
    dir: &Path,
    rendered: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> Result<(), StoreError> {
    save_for(Owner::invoking(), session, dir, rendered)
}

/// Like [`save`], but gives the files to `owner` (to nobody else if `None`).
pub fn save_for(
    owner: Option<Owner>,
    session: &Session,
    dir: &Path,
    rendered: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> Result<(), StoreError> {
    let destination = Destination::open(dir)?;
    let temporary = destination.temporary_folder()?;
    // Held open, so that what is written below lands in this very folder, whoever renames it meanwhile.
    let inside =
        Anchor::open(temporary.path()).map_err(StoreError::io("open a folder in", &destination.parent))?;

    write_file(&inside, dir, SESSION_FILE, |file| {
        serde_json::to_writer_pretty(&mut *file, session)?;
        file.write_all(b"\n")
    })?;
    write_file(&inside, dir, PROFILE_FILE, |file| file.write_all(&pprof::encode(session)))?;
    if !session.text.is_empty() {
        write_file(&inside, dir, CODE_FILE, |file| {
            let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::default());
            serde_json::to_writer(&mut file, &session.text)?;
            file.finish().map(drop)
        })?;
    }
    rendered(&inside.path()).map_err(|error| StoreError::Reports {
        path: dir.to_owned(),
        cause: format!("{error:#}").replace(&*inside.path().to_string_lossy(), &dir.to_string_lossy()),
    })?;

    folder::finish(&inside, owner).map_err(|error| StoreError::Io {
        doing: "write to disk",
        path: dir.join(error.path),
        source: error.source,
    })?;
    destination.put(temporary.path())?;
    // It has another name now: there is nothing left to remove.
    let _ = temporary.keep();
    Ok(())
}

/// Reads the session in the folder `dir`.
pub fn load(dir: &Path) -> Result<Session, StoreError> {
    let path = dir.join(SESSION_FILE);
    let json = match read_file(&path) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound && dir.is_dir() => {
            return Err(StoreError::NotASession { path: dir.to_owned() });
        }
        other => other?,
    };
    // The version first: a later one may have changed anything else.
    let damaged = |source| StoreError::Json { path: path.clone(), source };
    let header: Header = serde_json::from_slice(&json).map_err(damaged)?;
    if header.schema > u64::from(SCHEMA) {
        return Err(StoreError::Newer { path, found: header.schema });
    }
    let mut session: Session = serde_json::from_slice(&json).map_err(damaged)?;

    let path = dir.join(PROFILE_FILE);
    session.profile =
        pprof::decode(&read_file(&path)?).map_err(|source| StoreError::Profile { path, source })?;
    Ok(session)
}

/// Reads the machine code that was saved with the session in the folder `dir`; none if there is none. [`load`] leaves it
/// out, as few need it.
pub fn load_text(dir: &Path) -> Result<Vec<FunctionText>, StoreError> {
    let path = dir.join(CODE_FILE);
    let data = match read_file(&path) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        other => other?,
    };
    let mut json = Vec::new();
    flate2::read::MultiGzDecoder::new(&*data)
        .take(MAX_CODE_BYTES + 1)
        .read_to_end(&mut json)
        .map_err(StoreError::io("unpack", &path))?;
    if json.len() as u64 > MAX_CODE_BYTES {
        return Err(StoreError::TooLarge { path });
    }
    serde_json::from_slice(&json).map_err(|source| StoreError::Json { path, source })
}

/// What every version of `session.json` has.
#[derive(Deserialize)]
struct Header {
    schema: u64,
}

fn write_file(
    inside: &Anchor,
    dir: &Path,
    name: &str,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), StoreError> {
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(inside.join(name))
        .map(BufWriter::new)
        .and_then(|mut file| {
            write(&mut file)?;
            file.flush()
        })
        .map_err(StoreError::io("write", &dir.join(name)))
}

fn read_file(path: &Path) -> Result<Vec<u8>, StoreError> {
    // Not blocking: opening a named pipe would wait for its writer.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(StoreError::io("open", path))?;
    let mut data = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut data).map_err(StoreError::io("read", path))?;
    if data.len() as u64 > MAX_FILE_BYTES {
        return Err(StoreError::TooLarge { path: path.to_owned() });
    }
    Ok(data)
}

/// The place where a session goes.
struct Destination {
    /// The parent folder as the user wrote it, for messages.
    parent: PathBuf,
    /// The same folder, held open.
    anchor: Anchor,
    /// Name of the session's folder in it.
    name: OsString,
    /// What has this name now.
    existing: Existing,
}

impl Destination {
    /// Checks everything about `dir` but whether its parent is writable.
    fn open(dir: &Path) -> Result<Self, StoreError> {
        let name = dir.file_name().ok_or_else(|| StoreError::NoName { path: dir.to_owned() })?.to_owned();
        let parent = match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let anchor = Anchor::open(&parent).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StoreError::NoParent { path: parent.clone() },
            _ => StoreError::io("open the folder", &parent)(source),
        })?;
        let mut destination = Self { parent, anchor, name, existing: Existing::Nothing };
        destination.existing = destination.check(&destination.name)?;
        if destination.existing == Existing::Session {
            destination.check(&destination.old_name())?;
        }
        Ok(destination)
    }

    fn check(&self, name: &OsString) -> Result<Existing, StoreError> {
        let path = self.parent.join(name);
        match folder::existing(&self.anchor.join(name)).map_err(StoreError::io("look at", &path))? {
            Existing::Other => Err(StoreError::Occupied { path }),
            existing => Ok(existing),
        }
    }

    fn old_name(&self) -> OsString {
        let mut name = self.name.clone();
        name.push(".old");
        name
    }

    /// A new folder beside the destination, removed again when dropped.
    fn temporary_folder(&self) -> Result<tempfile::TempDir, StoreError> {
        tempfile::Builder::new()
            .prefix(".profiler-session-")
            .tempdir_in(self.anchor.path())
            // Only the kind: the message has a path that the user does not know.
            .map_err(|error| StoreError::io("create a folder in", &self.parent)(error.kind().into()))
    }

    /// Gives the finished folder its name.
    fn put(&self, finished: &Path) -> Result<(), StoreError> {
        let (path, old) = (self.anchor.join(&self.name), self.anchor.join(self.old_name()));
        let shown = self.parent.join(&self.name);
        let shown_old = self.parent.join(self.old_name());
        let replaces = self.existing == Existing::Session;
        if replaces {
            match std::fs::remove_dir_all(&old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io("remove", &shown_old)(error));
                }
                _ => {}
            }
            std::fs::rename(&path, &old)
                .map_err(StoreError::io("rename the earlier session to", &shown_old))?;
        }
        if let Err(error) = std::fs::rename(finished, &path) {
            if replaces {
                let _ = std::fs::rename(&old, &path); // the first error is the one to report
            }
            return Err(StoreError::io("create", &shown)(error));
        }
        self.anchor.sync().map_err(StoreError::io("write to disk", &self.parent))
    }
}

#[cfg(test)]
mod tests;
