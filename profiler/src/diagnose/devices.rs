//! Which disks a file system lies on, and what is mounted from a disk.

use crate::profile::{BlockDevice, BlockStat, Device, IoOp, Mount, Session, Subject, Target};

/// Partitions of partitions do not go deeper.
const PARENTS: usize = 4;

/// The whole disk that `device` is or is a part of; requests are counted for it.
fn disk_of(session: &Session, device: &BlockDevice) -> Option<Device> {
    let mut device = device;
    for _ in 0..PARENTS {
        match &device.parent {
            None => return device.device,
            Some(parent) => device = named(session, parent)?,
        }
    }
    None
}

fn named<'s>(session: &'s Session, name: &str) -> Option<&'s BlockDevice> {
    session.host.devices.iter().find(|device| device.name == name)
}

/// The whole disks below a file system or block device: one, or several where it spans some. Empty where
/// that is not known (NFS, FUSE, device mapper targets of which the session does not say what is below).
pub fn disks_below(session: &Session, device: Device) -> Vec<Device> {
    let mut disks: Vec<Device> = match session.device(device) {
        Some(known) => disk_of(session, known).into_iter().collect(),
        // Anonymous, as with btrfs: by the source of the mount. bcachefs joins its devices with colons.
        None => mounts(session, device)
            .flat_map(|mount| mount.source.split(':'))
            .filter_map(|path| named(session, path.rsplit('/').next()?))
            .filter_map(|device| disk_of(session, device))
            .collect(),
    };
    disks.sort_unstable();
    disks.dedup();
    disks
}

fn mounts(session: &Session, device: Device) -> impl Iterator<Item = &Mount> {
    session.host.mounts.iter().filter(move |mount| mount.device == device)
}

/// What is mounted from this file system or block device; the first where there are several places.
pub fn mount_of(session: &Session, device: Device) -> Option<&Mount> {
    mounts(session, device).next()
}

/// The device numbers of the file systems that lie on a whole disk.
pub fn file_systems_on(session: &Session, disk: Device) -> Vec<Device> {
    let mut found: Vec<Device> = session
        .host
        .mounts
        .iter()
        .map(|mount| mount.device)
        .filter(|device| disks_below(session, *device).contains(&disk))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// What a finding about a file system or block device is about: its disk, mount point and type.
pub fn subjects(session: &Session, device: Device) -> Vec<Subject> {
    let mut subjects: Vec<Subject> = disks_below(session, device)
        .into_iter()
        .map(|disk| Subject::Device(session.device_name(disk)))
        .collect();
    if subjects.is_empty() {
        subjects.push(Subject::Device(session.device_name(device)));
    }
    if let Some(mount) = mount_of(session, device) {
        subjects.push(Subject::Mount(mount.mount_point.clone()));
        subjects.push(Subject::FileSystem(mount.fs_type.clone()));
    }
    subjects
}

/// For a title: `vdb (/mnt, ext4)`, or `vdb`.
pub fn place(session: &Session, device: Device) -> String {
    let disks: Vec<String> =
        disks_below(session, device).into_iter().map(|disk| session.device_name(disk)).collect();
    let disks = if disks.is_empty() { session.device_name(device) } else { disks.join("+") };
    match mount_of(session, device) {
        Some(mount) => format!("{disks} ({}, {})", mount.mount_point, mount.fs_type),
        None => disks,
    }
}

/// Sums of the block I/O of these disks in one direction.
///
/// Requests belong to no process. Where only some processes are measured, they would be held against what these
/// asked for, so that a neighbour's I/O would look like theirs: then the bios, which are sent by the reader, stand
/// for the requests as well, unless there are fewer requests.
pub fn block_io(session: &Session, disks: &[Device], op: IoOp) -> Option<BlockStat> {
    let of_disk = |stat: &&BlockStat| {
        let disk = session.device(stat.device).and_then(|device| disk_of(session, device));
        stat.op == op && disks.contains(&disk.unwrap_or(stat.device))
    };
    let mut sum: Option<BlockStat> = None;
    for stat in session.block.iter().filter(of_disk) {
        let sum = sum.get_or_insert_with(|| BlockStat { device: stat.device, op, ..BlockStat::default() });
        sum.bios += stat.bios;
        sum.bio_bytes += stat.bio_bytes;
        sum.requests += stat.requests;
        sum.request_bytes += stat.request_bytes;
        sum.completed += stat.completed;
        sum.completed_bytes += stat.completed_bytes;
        sum.contiguous += stat.contiguous;
        sum.contiguous_bytes += stat.contiguous_bytes;
        sum.fua += stat.fua;
    }
    let mut sum = sum?;
    if session.target != Target::System && sum.request_bytes > sum.bio_bytes {
        (sum.requests, sum.request_bytes) = (sum.bios, sum.bio_bytes);
        (sum.completed, sum.completed_bytes) = (sum.bios, sum.bio_bytes);
    }
    Some(sum)
}

/// The directory of a whole disk's queue settings in sysfs: `/sys/block/vdb/queue`.
pub fn queue_directory(session: &Session, disk: Device) -> String {
    // Slashes in names of block devices are exclamation marks in sysfs.
    format!("/sys/block/{}/queue", session.device_name(disk).replace('/', "!"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        let device = |name: &str, major, minor, parent: Option<&str>| BlockDevice {
            name: name.to_owned(),
            device: Some(Device { major, minor }),
            parent: parent.map(str::to_owned),
            ..BlockDevice::default()
        };
        let mount = |major, minor, source: &str, mount_point: &str, fs_type: &str| Mount {
            device: Device { major, minor },
            source: source.to_owned(),
            mount_point: mount_point.to_owned(),
            fs_type: fs_type.to_owned(),
            options: String::new(),
            read_ahead_kb: None,
        };
        let mut session = Session::default();
        session.host.devices = vec![
            device("sda", 8, 0, None),
            device("sda1", 8, 1, Some("sda")),
            device("sdb", 8, 16, None),
            device("loop", 7, 0, Some("loop")),
        ];
        session.host.mounts = vec![
            mount(8, 1, "/dev/sda1", "/", "ext4"),
            mount(0, 50, "/dev/sda:/dev/sdb", "/pool", "bcachefs"),
            mount(0, 51, "server:/export", "/nfs", "nfs"),
        ];
        session
    }

    #[test]
    fn a_neighbours_requests_are_not_the_targets() {
        let mut session = session();
        let stat = |minor, bios, requests| BlockStat {
            device: Device { major: 8, minor },
            op: IoOp::Read,
            bios,
            bio_bytes: bios * 4096,
            requests,
            request_bytes: requests * 4096,
            ..BlockStat::default()
        };
        // Bios go to the partition, requests to the disk.
        session.block = vec![stat(0, 0, 1000), stat(1, 10, 0), stat(16, 7, 7)];
        let sum = |session: &Session| {
            let sum = block_io(session, &[Device { major: 8, minor: 0 }], IoOp::Read).unwrap();
            (sum.bios, sum.requests, sum.request_bytes)
        };
        assert_eq!(sum(&session), (10, 1000, 4_096_000));
        session.target = Target::Processes { pids: vec![1] };
        assert_eq!(sum(&session), (10, 10, 40_960));
        assert!(block_io(&session, &[Device { major: 8, minor: 0 }], IoOp::Write).is_none());
    }

    #[test]
    fn a_file_system_leads_to_its_disks_and_back() {
        let session = session();
        let (sda, sdb) = (Device { major: 8, minor: 0 }, Device { major: 8, minor: 16 });
        assert_eq!(disks_below(&session, Device { major: 8, minor: 1 }), [sda]);
        assert_eq!(disks_below(&session, Device { major: 0, minor: 50 }), [sda, sdb]);
        assert_eq!(disks_below(&session, Device { major: 0, minor: 51 }), []);
        // A parent that is its own: no end, but for the bound.
        assert_eq!(disks_below(&session, Device { major: 7, minor: 0 }), []);
        assert_eq!(file_systems_on(&session, sdb), [Device { major: 0, minor: 50 }]);
        assert_eq!(place(&session, Device { major: 8, minor: 1 }), "sda (/, ext4)");
        assert_eq!(place(&session, sdb), "sdb");
    }
}
