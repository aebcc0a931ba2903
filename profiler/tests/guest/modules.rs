//! Functions of modules have names, and the name of their module.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use profiler::kernel::btf::Btf;
use profiler::profile::Kind;

use crate::guest::{attach_around, scratch, sh, try_sh, weight_of};
use crate::skip::skip;

/// What this kernel may lack, or mkfs may have made too new for it.
const MOUNT: &str = "modprobe xfs; mkfs.xfs -q -f -m reflink=0,rmapbt=0 $disk; mount -t xfs $disk /mnt";

#[test]
fn functions_of_a_module_are_named() {
    let disk = scratch();
    if let Err(error) = try_sh(&MOUNT.replace("$disk", &disk)) {
        return skip("modules::functions_of_a_module_are_named", &format!("no XFS: {error}"));
    }
    let session = attach_around(&["--probes", "cpu,block"], || {
        let begin = Instant::now();
        let mut round = 0;
        while begin.elapsed() < Duration::from_secs(4) {
            for file in 0..200 {
                std::fs::write(format!("/mnt/{round}-{file}"), [b'x'; 5000]).unwrap();
            }
            for file in 0..200 {
                std::fs::remove_file(format!("/mnt/{round}-{file}")).unwrap();
            }
            round += 1;
        }
    });
    sh("umount /mnt");

    for (kind, at_least) in [(Kind::Cpu, 20), (Kind::BlockIo, 1)] {
        let of_xfs = weight_of(&session, |stack, _| {
            stack.kind == kind
                && stack.frames.iter().any(|frame| {
                    let name = session.profile.frame_of(*frame).qualified();
                    name.starts_with("xfs_") && name.ends_with(" [xfs]")
                })
        });
        assert!(
            of_xfs >= at_least,
            "{of_xfs} {} in XFS, of {}",
            kind.unit().name(),
            session.profile.total(kind)
        );
    }
}

#[test]
fn structures_of_a_module_are_known() {
    const NAME: &str = "modules::structures_of_a_module_are_known";
    if let Err(error) = try_sh("modprobe xfs") {
        return skip(NAME, &format!("no XFS: {error}"));
    }
    let path = Path::new("/sys/kernel/btf/xfs");
    if !path.exists() {
        return skip(NAME, "this kernel has no type information of modules (5.11 brought it)");
    }
    let kernel = Arc::new(Btf::vmlinux().unwrap());
    let xfs = Btf::from_file(path, Some(Arc::clone(&kernel))).unwrap();
    // The superblock has been the first member for as long as there is XFS in the kernel.
    assert_eq!(xfs.offset_of("xfs_mount", "m_sb"), Some(0));
    // A structure of the kernel inside one of the module.
    let vnode = xfs.offset_of("xfs_inode", "i_vnode").unwrap();
    let number = kernel.offset_of("inode", "i_ino").unwrap();
    assert_eq!(xfs.offset_of("xfs_inode", "i_vnode.i_ino"), Some(vnode + number));
    assert!(xfs.has_function("xfs_file_read_iter") && !kernel.has_function("xfs_file_read_iter"));
    assert_eq!(xfs.offset_of("xfs_mount", "no_such_member"), None);
}
