//! A disk of one's own: a loop device with a file system, or the scratch disk of a virtual machine.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use profiler::profile::{BlockStat, Device, IoOp, Session};
use tempfile::TempDir;

/// A block device that nothing else uses, with a file system that is mounted or not. All of it goes when dropped.
///
/// It is a loop device, unless `GUEST_SCRATCH` names a disk that may be overwritten.
pub struct Disk {
    /// `/dev/loopN`.
    pub path: String,
    folder: TempDir,
}

/// The kernel's own counts of a device, as in /sys/block/NAME/stat (Documentation/admin-guide/iostats.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Reads completed.
    pub reads: u64,
    /// Bytes of these.
    pub read_bytes: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes of these.
    pub written_bytes: u64,
    /// Discards completed.
    pub discards: u64,
    /// Bytes of these.
    pub discarded_bytes: u64,
    /// Flushes completed.
    pub flushes: u64,
}

impl Stat {
    /// What has happened since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            read_bytes: self.read_bytes - before.read_bytes,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
            discards: self.discards - before.discards,
            discarded_bytes: self.discarded_bytes - before.discarded_bytes,
            flushes: self.flushes - before.flushes,
        }
    }
}

impl Disk {
    /// Makes a disk of `mib` MiB, formatted by `mkfs` (such as `mkfs.ext4 -q`).
    ///
    /// # Errors
    ///
    /// What this machine lacks, in a few words.
    pub fn format(mib: u64, mkfs: &str) -> Result<Self, String> {
        let disk = Self::empty(mib)?;
        output(Command::new("sh").args(["-c", &format!("{mkfs} {}", disk.path)]))?;
        Ok(disk)
    }

    /// Makes a disk out of an image that zstd has compressed.
    ///
    /// # Errors
    ///
    /// What this machine lacks.
    pub fn unpack(image: &[u8]) -> Result<Self, String> {
        let mut image = ruzstd::decoding::StreamingDecoder::new(image).map_err(|error| error.to_string())?;
        let size = image.decoder.content_size();
        let disk = Self::empty(size >> 20)?;
        let file = std::fs::OpenOptions::new().write(true).open(&disk.path);
        let mut file = std::io::BufWriter::with_capacity(1 << 20, file.map_err(|error| error.to_string())?);
        std::io::copy(&mut image, &mut file)
            .and_then(|_| file.flush())
            .and_then(|()| file.get_ref().sync_all())
            .map_err(|error| format!("{}: {error}", disk.path))?;
        Ok(disk)
    }

    /// A disk with nothing of use on it.
    fn empty(mib: u64) -> Result<Self, String> {
        // Not /tmp, which may be a tmpfs, but in a virtual machine is all that can be written to.
        let scratch = std::env::var("GUEST_SCRATCH").ok();
        let folder = tempfile::tempdir_in(if scratch.is_some() { "/tmp" } else { "/var/tmp" })
            .map_err(|error| error.to_string())?;
        std::fs::create_dir(folder.path().join("mnt")).map_err(|error| error.to_string())?;
        if let Some(path) = scratch {
            return Ok(Self { path, folder });
        }
        let image = folder.path().join("image");
        let file = std::fs::File::create(&image).map_err(|error| error.to_string())?;
        file.set_len(mib << 20).map_err(|error| error.to_string())?;
        let path = output(Command::new("losetup").args(["-f", "--show"]).arg(&image))?;
        Ok(Self { path: path.trim().to_owned(), folder })
    }

    /// Its kernel name: `loop0`.
    pub fn name(&self) -> &str {
        self.path.trim_start_matches("/dev/")
    }

    /// Mounts a file system of a type that mount(8) cannot tell, with no helper program.
    ///
    /// # Errors
    ///
    /// What this machine lacks.
    pub fn mount_as(&self, fs_type: &str) -> Result<(), String> {
        // Modules are loaded by the kernel itself where it can.
        let _ = output(Command::new("modprobe").arg(fs_type));
        output(Command::new("mount").args(["-i", "-t", fs_type, &self.path]).arg(self.mount_point()))
            .map(drop)
    }

    /// Mounts the file system.
    ///
    /// # Errors
    ///
    /// What this machine lacks.
    pub fn mount(&self, options: &str) -> Result<(), String> {
        output(Command::new("mount").args(["-o", options, &self.path]).arg(self.mount_point())).map(drop)
    }

    /// Unmounts it.
    pub fn unmount(&self) {
        output(Command::new("umount").arg(self.mount_point())).unwrap();
    }

    /// Where it is mounted.
    pub fn mount_point(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    /// Path of a file on it, as an argument.
    pub fn file(&self, name: &str) -> String {
        self.mount_point().join(name).into_os_string().into_string().unwrap()
    }

    /// Sets the readahead window, in sectors of 512 bytes.
    pub fn set_readahead(&self, sectors: u32) {
        output(Command::new("blockdev").args(["--setra", &sectors.to_string(), &self.path])).unwrap();
    }

    /// Writes everything to disk and forgets what is cached of any disk.
    pub fn drop_caches() {
        nix::unistd::sync();
        std::fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
    }

    /// Its device number.
    pub fn device(&self) -> Device {
        let number = std::fs::metadata(&self.path).unwrap().rdev();
        device(number)
    }

    /// What the kernel has counted.
    pub fn stat(&self) -> Stat {
        let text = std::fs::read_to_string(Path::new("/sys/block").join(self.name()).join("stat")).unwrap();
        let field: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        Stat {
            reads: field[0],
            read_bytes: field[2] * 512,
            writes: field[4],
            written_bytes: field[6] * 512,
            // Discards are there since 4.18, flushes since 5.5.
            discards: field.get(11).copied().unwrap_or(0),
            discarded_bytes: field.get(13).copied().unwrap_or(0) * 512,
            flushes: field.get(15).copied().unwrap_or(0),
        }
    }

    /// What the profiler has counted for this disk in one direction.
    pub fn measured(&self, session: &Session, op: IoOp) -> Option<BlockStat> {
        let device = self.device();
        session.block.iter().find(|stat| stat.device == device && stat.op == op).cloned()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It may be mounted or not.
        let _ = output(Command::new("umount").arg(self.mount_point()));
        if self.path.starts_with("/dev/loop") {
            let _ = output(Command::new("losetup").args(["-d", &self.path]));
        }
    }
}

/// A device number of stat(2).
pub fn device(number: u64) -> Device {
    Device { major: nix::sys::stat::major(number) as u32, minor: nix::sys::stat::minor(number) as u32 }
}

/// What a command prints; an error if it cannot be run or fails.
fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}
