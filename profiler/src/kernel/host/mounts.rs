//! Mounted file systems that have a device.

use std::collections::{HashMap, HashSet};

use procfs::process::MountInfo;

use super::super::sources::{Sources, parse, unescape};
use super::block::device_number;
use crate::profile::{BlockDevice, Device, Mount};

/// Most mounts that are kept.
const MAX_MOUNTS: usize = 4096;

/// The mounts that do I/O: those of a block device, and those that have readahead settings of their own
/// (a backing device info, `bdi`), such as btrfs with its anonymous device numbers, NFS or FUSE.
pub fn mounts(sources: &Sources, devices: &[BlockDevice]) -> Vec<Mount> {
    let mut seen = HashSet::new();
    sources
        .mounts()
        .iter()
        .filter_map(|info| mount(sources, devices, info))
        .filter(|mount| seen.insert((mount.device, mount.mount_point.clone())))
        .take(MAX_MOUNTS)
        .collect()
}

fn mount(sources: &Sources, devices: &[BlockDevice], info: &MountInfo) -> Option<Mount> {
    let device = device_number(&info.majmin)?;
    let own_bdi = bdi_read_ahead(sources, device);
    let source = unescape(info.mount_source.as_deref().unwrap_or("none"));
    // bcachefs writes all its devices, separated by colons; ZFS the name of the pool.
    let has_device = device.major != 0 || source.starts_with("/dev/") || info.fs_type == "zfs";
    if !has_device && own_bdi.is_none() {
        return None;
    }
    // A partition shares the bdi of its disk.
    let of_device = || devices.iter().find(|known| known.device == Some(device))?.read_ahead_kb;
    Some(Mount {
        device,
        source,
        mount_point: unescape(&info.mount_point.to_string_lossy()),
        fs_type: unescape(&info.fs_type),
        options: options(info),
        read_ahead_kb: own_bdi.or_else(of_device),
    })
}

fn bdi_read_ahead(sources: &Sources, device: Device) -> Option<u64> {
    parse(&sources.sys.join(format!("class/bdi/{device}/read_ahead_kb")))
}

/// Options of the mount and of the file system, each once, `rw` or `ro` first, the others sorted.
fn options(info: &MountInfo) -> String {
    let mut all: HashMap<&str, Option<&str>> = HashMap::new();
    for (name, value) in info.super_options.iter().chain(&info.mount_options) {
        all.insert(name, value.as_deref());
    }
    // Read-only wins: a mount may be so though its file system is not.
    if all.contains_key("ro") {
        all.remove("rw");
    }
    let mut texts: Vec<String> = all
        .into_iter()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| match value {
            Some(value) => unescape(&format!("{name}={value}")),
            None => unescape(name),
        })
        .collect();
    texts.sort_by_key(|text| (text != "rw" && text != "ro", text.clone()));
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::super::super::sources::fixture::Fixture;
    use super::*;

    const MOUNTINFO: &str = r"22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw,discard
nonsense
28 27 0:45 /@home /home rw,noatime shared:1 - btrfs /dev/sdb rw,subvol=/@home,compress=zstd:3
29 27 0:50 / /mnt/my\040disk ro - bcachefs /dev/sdc:/dev/sdd rw,metadata_replicas=2
30 27 0:51 / /net rw - nfs4 server:/export rw
31 27 0:52 / /tmp rw - tmpfs tmpfs rw
32 27 0:53 / /tank rw - zfs tank rw
33 27 8:1 / / rw,relatime - ext4 /dev/sda1 rw,discard
";

    #[test]
    fn mounts_with_a_device_are_known() {
        let fixture = Fixture::new(&[
            ("proc/self/mountinfo", MOUNTINFO),
            ("sys/class/bdi/0:45/read_ahead_kb", "4096\n"),
            ("sys/class/bdi/0:51/read_ahead_kb", "0\n"),
        ]);
        let disk = BlockDevice {
            device: Some(Device { major: 8, minor: 1 }),
            read_ahead_kb: Some(128),
            ..BlockDevice::default()
        };
        let shown: Vec<String> = mounts(&fixture.sources, &[disk])
            .iter()
            .map(|mount| {
                format!(
                    "{} {} on {} type {} ({}) ra {:?}",
                    mount.device,
                    mount.source,
                    mount.mount_point,
                    mount.fs_type,
                    mount.options,
                    mount.read_ahead_kb
                )
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn without_mountinfo_there_are_none() {
        assert!(mounts(&Fixture::new(&[]).sources, &[]).is_empty());
    }
}
