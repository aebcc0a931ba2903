//! What the guests boot: a root file system for all of them, and an initramfs and a disk of modules for each kernel.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::run::{find_program, output, run};

use super::packages::Kernel;

/// Programs of the host's that guests have, with the libraries they need; each where the host has it.
const TOOLS: [&str; 8] =
    ["kmod", "fio", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "losetup", "blockdev", "setpriv"];

/// Modules without which the root cannot be mounted. Many kernels have most of them built in.
const BOOT_MODULES: [&str; 6] =
    ["virtio_pci", "virtio_blk", "crc32c_generic", "crc32c-generic", "ext4", "libcrc32c"];

/// MiB that a root file system has free, for what is written to it in the guest.
const FREE: u64 = 256;

/// Makes the root file system out of these programs, each with its name in /usr/bin, and the command that is run.
pub fn root(folder: &Path, programs: &[(&Path, &str)], command: &str) -> anyhow::Result<PathBuf> {
    let tree = folder.join("root");
    let _ = fs::remove_dir_all(&tree);
    for dir in
        ["bin", "dev", "etc", "lib/modules", "mnt", "out", "proc", "root", "sys", "tmp", "usr/bin", "var"]
    {
        create_dir(&tree.join(dir))?;
    }
    // One folder for programs and one for libraries, as distributions have it now.
    for (link, to) in [("sbin", "bin"), ("usr/sbin", "bin"), ("lib64", "lib")] {
        symlink(to, tree.join(link)).with_context(|| format!("cannot make the link {link}"))?;
    }
    busybox(&tree)?;
    for tool in TOOLS {
        if let Some(program) = find_program(tool) {
            copy_with_libraries(&program, &tree)?;
        }
    }
    // In place of busybox's, which cannot read every kernel's modules.
    for alias in ["modprobe", "insmod", "lsmod", "rmmod"] {
        let link = tree.join("bin").join(alias);
        let _ = fs::remove_file(&link);
        symlink("../usr/bin/kmod", &link)
            .with_context(|| format!("cannot make the link {}", link.display()))?;
    }
    for (program, name) in programs {
        copy(program, &tree.join("usr/bin").join(name))?;
    }
    write(&tree.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n", 0o644)?;
    write(&tree.join("etc/group"), "root:x:0:\n", 0o644)?;
    write(&tree.join("init"), include_str!("init.sh"), 0o755)?;
    write(&tree.join("command"), command, 0o755)?;
    file_system(&tree, &folder.join("root.img"), FREE)
}

/// Makes a kernel's initramfs: busybox, what it takes to mount the root, and a script that does so.
pub fn initramfs(folder: &Path, kernel: &Kernel) -> anyhow::Result<PathBuf> {
    let tree = folder.join("initramfs");
    let _ = fs::remove_dir_all(&tree);
    for dir in ["bin", "dev", "modules", "root"] {
        create_dir(&tree.join(dir))?;
    }
    busybox(&tree)?;
    let dep = kernel.modules.join("modules.dep");
    let dep = fs::read_to_string(&dep).with_context(|| format!("cannot read {}", dep.display()))?;
    let mut order = String::new();
    for (number, module) in boot_modules(&dep).into_iter().enumerate() {
        let name = format!("{number:02}.ko");
        decompress(&kernel.modules.join(module), &tree.join("modules").join(&name))?;
        order.push_str(&format!("{name}\n"));
    }
    write(&tree.join("modules/order"), &order, 0o644)?;
    write(&tree.join("init"), include_str!("initramfs.sh"), 0o755)?;
    let image = folder.join(format!("initramfs-{}.cpio", kernel.series));
    let script = "find . -print0 | cpio --null --create --format=newc --quiet --owner=0:0 > \"$0\"";
    run(Command::new("sh").args(["-c", script]).arg(&image).current_dir(&tree))?;
    Ok(image)
}

/// Makes the disk of a kernel's modules, beside the kernel in the cache, once.
pub fn modules(kernel: &Kernel) -> anyhow::Result<PathBuf> {
    let tree = kernel.modules.parent().context("the modules lie in a folder")?;
    let image = kernel.vmlinuz.with_file_name("modules.img");
    if image.is_file() {
        return Ok(image);
    }
    let new = image.with_extension("new");
    file_system(tree, &new, 8)?;
    fs::rename(&new, &image).with_context(|| format!("cannot rename {}", new.display()))?;
    Ok(image)
}

/// An empty disk of this many MiB.
pub fn empty_disk(image: &Path, mib: u64) -> anyhow::Result<()> {
    let _ = fs::remove_file(image);
    fs::File::create(image)
        .and_then(|file| file.set_len(mib << 20))
        .with_context(|| format!("cannot create {}", image.display()))
}

/// The modules to load before the root can be mounted, in this order, as paths in the folder of modules.
fn boot_modules(dep: &str) -> Vec<&str> {
    let mut order: Vec<&str> = Vec::new();
    for wanted in BOOT_MODULES {
        // "kernel/fs/ext4/ext4.ko.xz: NEEDED.ko.xz NEEDED-BY-THAT.ko.xz"
        let line = dep.lines().find_map(|line| {
            let (path, needs) = line.split_once(':')?;
            let name = path.rsplit('/').next()?.split('.').next()?;
            (name == wanted).then_some((path, needs))
        });
        let Some((path, needs)) = line else { continue };
        for path in needs.split_whitespace().rev().chain([path]) {
            if !order.contains(&path) {
                order.push(path);
            }
        }
    }
    order
}

fn decompress(from: &Path, to: &Path) -> anyhow::Result<()> {
    let tool = match from.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return copy(from, to),
    };
    let file = fs::File::create(to).with_context(|| format!("cannot create {}", to.display()))?;
    let status = Command::new(tool).arg("-dcq").arg(from).stdout(file).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("`{tool} -dcq {}` failed ({status})", from.display()),
        Err(error) => Err(error).with_context(|| format!("cannot run {tool}")),
    }
}

/// Puts busybox into /bin, and a link for each of its commands.
fn busybox(tree: &Path) -> anyhow::Result<()> {
    let program = find_program("busybox").context("busybox is missing (package busybox-static)")?;
    if output(Command::new("ldd").arg(&program)).is_some_and(|libraries| libraries.contains("=>")) {
        bail!("{} is not static: install busybox-static", program.display());
    }
    copy(&program, &tree.join("bin/busybox"))?;
    let commands = output(Command::new(&program).arg("--list")).context("`busybox --list` failed")?;
    for command in commands.lines().filter(|command| *command != "busybox") {
        let link = tree.join("bin").join(command);
        symlink("busybox", &link).with_context(|| format!("cannot make the link {}", link.display()))?;
    }
    Ok(())
}

/// Copies a program into /usr/bin and what ldd says it needs to where it is on the host.
fn copy_with_libraries(program: &Path, tree: &Path) -> anyhow::Result<()> {
    let name = program.file_name().context("a program has a name")?;
    copy(program, &tree.join("usr/bin").join(name))?;
    let libraries = output(Command::new("ldd").arg(program)).unwrap_or_default();
    for library in libraries_in(&libraries) {
        let to = tree.join(library.trim_start_matches('/'));
        if let Some(folder) = to.parent() {
            create_dir(folder)?;
        }
        copy(Path::new(library), &to)?;
    }
    Ok(())
}

/// The files in the output of ldd.
fn libraries_in(ldd: &str) -> impl Iterator<Item = &str> {
    ldd.lines().filter_map(|line| {
        let line = line.trim();
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        path.starts_with('/').then(|| path.split_whitespace().next())?
    })
}

/// Makes an ext4 file system with what is in `tree` and this many MiB more.
fn file_system(tree: &Path, image: &Path, free: u64) -> anyhow::Result<PathBuf> {
    let size = output(Command::new("du").args(["-sm", "--apparent-size"]).arg(tree))
        .and_then(|size| size.split_whitespace().next()?.parse::<u64>().ok())
        .with_context(|| format!("cannot tell the size of {}", tree.display()))?;
    let mkfs = find_program("mkfs.ext4").context("mkfs.ext4 is missing (package e2fsprogs)")?;
    // A quarter more: small files take whole blocks, and the file system itself takes some.
    empty_disk(image, size + size / 4 + free)?;
    // Plain enough for every kernel.
    let features = "^metadata_csum_seed,^orphan_file,^has_journal";
    run(Command::new(mkfs)
        .args(["-q", "-F", "-O", features, "-E", "root_owner=0:0", "-d"])
        .arg(tree)
        .arg(image))?;
    Ok(image.to_owned())
}

fn create_dir(path: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))
}

fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Copies a file, in place of what may be there.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    // Not through a link, which is what is there for busybox.
    let _ = fs::remove_file(to);
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_what_they_need() {
        let dep = "kernel/fs/ext4/ext4.ko.xz: kernel/lib/b.ko.xz kernel/lib/a.ko.xz\nkernel/lib/a.ko.xz:\n\
                   kernel/drivers/block/virtio_blk.ko:\nkernel/fs/ext4/ext4_test.ko.xz:\n";
        assert_eq!(
            boot_modules(dep),
            [
                "kernel/drivers/block/virtio_blk.ko",
                "kernel/lib/a.ko.xz",
                "kernel/lib/b.ko.xz",
                "kernel/fs/ext4/ext4.ko.xz"
            ]
        );
        assert!(boot_modules("").is_empty());
    }

    #[test]
    fn libraries_are_read() {
        let ldd =
            "\tlinux-vdso.so.1 (0x1)\n\tlibz.so.1 => /lib/x/libz.so.1 (0x2)\n\t/lib64/ld-linux.so.2 (0x3)\n";
        assert_eq!(libraries_in(ldd).collect::<Vec<_>>(), ["/lib/x/libz.so.1", "/lib64/ld-linux.so.2"]);
        assert_eq!(libraries_in("\tnot a dynamic executable\n").count(), 0);
    }
}
