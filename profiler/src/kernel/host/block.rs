//! Block devices and their queue settings.

use std::path::Path;

use super::super::sources::{Sources, parse, read};
use crate::profile::{BlockDevice, Device};

/// Most devices that are looked at.
const MAX_DEVICES: usize = 4096;
/// Unit of `size` in sysfs, whatever the device's own sector size is.
const SECTOR_BYTES: u64 = 512;

/// All block devices, partitions included, by device number. A partition has the queue settings of its disk.
pub fn devices(sources: &Sources) -> Vec<BlockDevice> {
    let Ok(entries) = std::fs::read_dir(sources.sys.join("class/block")) else { return Vec::new() };
    let mut devices: Vec<BlockDevice> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            // The entries link to the device, which lies in the folder of its disk if it is a partition.
            let folder = entry.path().canonicalize().ok()?;
            Some(block_device(&entry.file_name().to_string_lossy(), &folder))
        })
        .take(MAX_DEVICES)
        .collect();
    devices.sort_by(|a, b| (a.device, &a.name).cmp(&(b.device, &b.name)));
    devices
}

fn block_device(name: &str, folder: &Path) -> BlockDevice {
    let disk = if folder.join("partition").exists() { folder.parent() } else { None };
    let queue = disk.unwrap_or(folder).join("queue");
    BlockDevice {
        name: kernel_name(name),
        device: read(&folder.join("dev")).as_deref().and_then(device_number),
        size: parse::<u64>(&folder.join("size")).unwrap_or(0).saturating_mul(SECTOR_BYTES),
        scheduler: read(&queue.join("scheduler")).as_deref().and_then(active_scheduler),
        read_ahead_kb: parse(&queue.join("read_ahead_kb")),
        max_sectors_kb: parse(&queue.join("max_sectors_kb")),
        nr_requests: parse(&queue.join("nr_requests")),
        nomerges: parse(&queue.join("nomerges")),
        optimal_io_size: parse(&queue.join("optimal_io_size")).filter(|bytes| *bytes > 0),
        rotational: parse::<u8>(&queue.join("rotational")).map(|rotational| rotational != 0),
        parent: disk.and_then(Path::file_name).map(|name| kernel_name(&name.to_string_lossy())),
        backing_file: read(&folder.join("loop/backing_file")).filter(|file| !file.is_empty()),
    }
}

/// sysfs writes `!` for the `/` in names such as `cciss/c0d0`.
fn kernel_name(name: &str) -> String {
    name.replace('!', "/")
}

/// `MAJOR:MINOR`.
pub fn device_number(text: &str) -> Option<Device> {
    let (major, minor) = text.split_once(':')?;
    Some(Device { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// The one in brackets, or the only one there is.
fn active_scheduler(text: &str) -> Option<String> {
    let active = text.split_whitespace().find_map(|name| name.strip_prefix('[')?.strip_suffix(']'));
    active.or(Some(text)).filter(|name| !name.is_empty() && !name.contains(' ')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::super::sources::fixture::Fixture;
    use super::*;

    #[test]
    fn disks_partitions_and_loop_devices() {
        let disk = "sys/devices/pci0000:00/host0/block/sda";
        let fixture = Fixture::new(&[
            (&format!("{disk}/dev"), "8:0\n"),
            (&format!("{disk}/size"), "2048\n"),
            (&format!("{disk}/queue/scheduler"), "none [mq-deadline] kyber\n"),
            (&format!("{disk}/queue/read_ahead_kb"), "128\n"),
            (&format!("{disk}/queue/max_sectors_kb"), "1280\n"),
            (&format!("{disk}/queue/nr_requests"), "256\n"),
            (&format!("{disk}/queue/nomerges"), "2\n"),
            (&format!("{disk}/queue/optimal_io_size"), "0\n"),
            (&format!("{disk}/queue/rotational"), "1\n"),
            (&format!("{disk}/sda1/dev"), "8:1\n"),
            (&format!("{disk}/sda1/partition"), "1\n"),
            (&format!("{disk}/sda1/size"), "1024\n"),
            ("sys/devices/virtual/block/loop0/dev", "7:0\n"),
            ("sys/devices/virtual/block/loop0/loop/backing_file", "/var/tmp/image\n"),
            ("sys/devices/virtual/block/cciss!c0d0/size", "what\n"),
        ]);
        fixture.link("sys/class/block/sda", "../../devices/pci0000:00/host0/block/sda");
        fixture.link("sys/class/block/sda1", "../../devices/pci0000:00/host0/block/sda/sda1");
        fixture.link("sys/class/block/loop0", "../../devices/virtual/block/loop0");
        fixture.link("sys/class/block/cciss!c0d0", "../../devices/virtual/block/cciss!c0d0");
        fixture.link("sys/class/block/gone", "../../devices/gone");

        let sda = BlockDevice {
            name: "sda".into(),
            device: Some(Device { major: 8, minor: 0 }),
            size: 1 << 20,
            scheduler: Some("mq-deadline".into()),
            read_ahead_kb: Some(128),
            max_sectors_kb: Some(1280),
            nr_requests: Some(256),
            nomerges: Some(2),
            optimal_io_size: None,
            rotational: Some(true),
            parent: None,
            backing_file: None,
        };
        let sda1 = BlockDevice {
            name: "sda1".into(),
            device: Some(Device { major: 8, minor: 1 }),
            size: 1 << 19,
            parent: Some("sda".into()),
            ..sda.clone()
        };
        let loop0 = BlockDevice {
            name: "loop0".into(),
            device: Some(Device { major: 7, minor: 0 }),
            backing_file: Some("/var/tmp/image".into()),
            ..BlockDevice::default()
        };
        let raid = BlockDevice { name: "cciss/c0d0".into(), ..BlockDevice::default() };
        assert_eq!(devices(&fixture.sources), [raid, loop0, sda, sda1]);
    }

    #[test]
    fn the_scheduler_is_the_one_in_brackets() {
        assert_eq!(active_scheduler("[none] mq-deadline").as_deref(), Some("none"));
        assert_eq!(active_scheduler("none").as_deref(), Some("none"));
        assert_eq!(active_scheduler("none bfq"), None);
        assert_eq!(active_scheduler(""), None);
    }
}
