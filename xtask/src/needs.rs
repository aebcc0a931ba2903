//! The programs that tests drive, beyond what the build needs.

use crate::run::{as_root, find_program, say};

/// A program that tests run.
pub struct Need {
    /// Its name in `PATH`.
    pub program: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// What tests do with it.
    pub reason: &'static str,
}

const NEEDS: [Need; 7] = [
    Need { program: "fio", package: "fio", reason: "makes the I/O that the profiler has to see" },
    Need { program: "losetup", package: "mount", reason: "makes block devices out of files" },
    Need { program: "mkfs.ext4", package: "e2fsprogs", reason: "readahead on ext4" },
    Need { program: "mkfs.xfs", package: "xfsprogs", reason: "readahead on XFS" },
    Need { program: "mkfs.btrfs", package: "btrfs-progs", reason: "checksummed extents on btrfs" },
    Need { program: "go", package: "golang-go", reason: "`go tool pprof` reads the written profiles" },
    Need { program: "setpriv", package: "util-linux", reason: "runs the profiler without root rights" },
];

/// Installs what `cargo test` needs. Tests skip themselves where their program is still missing.
pub fn provide(may_install: bool) {
    provide_all(may_install, &NEEDS);
}

/// Installs what is missing of `needs`, if it may and can, and says what is missing still.
pub fn provide_all(may_install: bool, needs: &[Need]) {
    let missing = || needs.iter().filter(|need| find_program(need.program).is_none());
    let can_install = may_install && find_program("apt-get").is_some() && as_root("true").is_some();
    for need in missing().filter(|_| can_install) {
        // One by one, so that a package that the release lacks does not hold up the others.
        say(format_args!("installing {} for the tests: {}", need.package, need.reason));
        if let Err(error) = crate::apt::install(&[need.package]) {
            say(format_args!("{error:#}"));
        }
    }
    for need in missing() {
        say(format_args!(
            "`{}` is missing (package {}), tests that need it will be skipped: {}",
            need.program, need.package, need.reason
        ));
    }
}
