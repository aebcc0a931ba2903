//! Tracepoints as tracefs describes them: the layout of their records.

use std::io;
use std::path::PathBuf;

use nix::mount::{MsFlags, mount};

/// Where tracefs is mounted, if it is.
///
/// These are the places the kernel and systemd use, and the only ones that aya looks at.
pub fn mount_point() -> Option<PathBuf> {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.join("events").is_dir())
}

/// Mounts tracefs at its own mount point if it is mounted nowhere, as perf does: it stays there.
///
/// Systemd mounts it, so that this is for containers and small virtual machines.
///
/// # Errors
///
/// What mount(2) reports; the probes then do without.
pub fn provide() -> io::Result<()> {
    if mount_point().is_some() {
        return Ok(());
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RELATIME;
    mount(Some("tracefs"), "/sys/kernel/tracing", Some("tracefs"), flags, None::<&str>)?;
    tracing::info!("mounted tracefs at /sys/kernel/tracing");
    Ok(())
}

/// Whether tracefs has the tracepoint `category:name`.
pub fn has_tracepoint(category: &str, name: &str) -> bool {
    mount_point().is_some_and(|root| root.join("events").join(category).join(name).is_dir())
}

/// The fields of a tracepoint's record.
#[derive(Debug, Default)]
pub struct Format {
    fields: Vec<(String, u32)>,
}

impl Format {
    /// Reads the format of `category:name`.
    ///
    /// # Errors
    ///
    /// `NotFound` if tracefs is not mounted or has no such tracepoint.
    pub fn read(category: &str, name: &str) -> io::Result<Self> {
        let root = mount_point().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "tracefs is not mounted (mount -t tracefs nodev /sys/kernel/tracing)",
            )
        })?;
        let path = root.join("events").join(category).join(name).join("format");
        Ok(Self::parse(&std::fs::read_to_string(path)?))
    }

    /// From the text of a `format` file, whose lines read
    /// `field:unsigned int order; offset:16; size:4; signed:0;`.
    pub fn parse(text: &str) -> Self {
        let fields = text
            .lines()
            .filter_map(|line| {
                let mut parts = line.trim().strip_prefix("field:")?.split(';');
                let declaration = parts.next()?;
                let offset = parts.next()?.trim().strip_prefix("offset:")?.parse().ok()?;
                let name = declaration.split([' ', '*']).next_back()?;
                let name = name.split('[').next()?;
                Some((name.to_owned(), offset))
            })
            .collect();
        Self { fields }
    }

    /// Byte offset of a field.
    pub fn offset_of(&self, field: &str) -> Option<u32> {
        self.fields.iter().find(|(name, _)| name == field).map(|(_, offset)| *offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_fields() {
        let format = Format::parse(
            "name: contention_begin\nID: 408\nformat:\n\
             \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
             \tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
             \tfield:char rwbs[10];\toffset:28;\tsize:10;\tsigned:0;\n\
             print fmt: \"%p\", REC->lock_addr\n",
        );
        assert_eq!(format.offset_of("lock_addr"), Some(8));
        assert_eq!(format.offset_of("rwbs"), Some(28));
        assert_eq!(format.offset_of("flags"), None);
    }
}
