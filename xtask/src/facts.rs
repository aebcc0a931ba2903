//! Finds out what [`plan`](crate::plan) decides on. Only looks, changes nothing, takes a few tenths of a second.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::plan::{DEBIAN, Facts, Linker, NIGHTLY, Toolchain};
use crate::run::{as_root, find_program, output, workspace};

/// The file in which the set-up leaves the name of the toolchain, for profiler/build.rs to read.
pub fn toolchain_file() -> PathBuf {
    workspace().join("target/ebpf-toolchain")
}

/// The facts as they are now.
pub fn gather(nightly_failed: bool) -> Facts {
    let wanted = std::env::var("EBPF_TOOLCHAIN").ok().filter(|name| !name.is_empty());
    let remembered = std::fs::read_to_string(toolchain_file()).ok().map(|name| name.trim().to_owned());
    let known = output(Command::new("rustup").args(["toolchain", "list"]));
    let names = [wanted.as_deref(), remembered.as_deref(), Some(NIGHTLY), Some(DEBIAN)];
    let toolchains = names
        .into_iter()
        .flatten()
        // A name that rustup does not list would make `rustup run` download it.
        .filter(|name| known.as_deref().is_some_and(|known| lists(known, name)))
        .map(|name| {
            let has_cargo = output(&mut rustup_run(name, &["cargo", "--version"])).is_some();
            (name.to_owned(), Toolchain { has_cargo, ..toolchain(|arg| rustup_run(name, &["rustc", arg])) })
        })
        .collect();
    Facts {
        rustup: known.is_some(),
        wanted,
        remembered,
        toolchains,
        nightly_failed,
        system: toolchain(|arg| {
            let mut rustc = Command::new("/usr/bin/rustc");
            rustc.arg(arg);
            rustc
        }),
        apt: find_program("apt-get").is_some(),
        root: as_root("true").is_some(),
        linker: linker(),
    }
}

/// Whether a line of `rustup toolchain list` is the toolchain `name`, with or without the host appended.
fn lists(list: &str, name: &str) -> bool {
    let is_host = |rest: &str| {
        // The date of another nightly starts with a digit.
        rest.contains("-linux-") && !rest.starts_with(|c: char| c.is_ascii_digit())
    };
    list.lines()
        .filter_map(|line| line.split_whitespace().next()?.strip_prefix(name))
        .any(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_host))
}

/// A command of a toolchain.
pub fn rustup_run(toolchain: &str, words: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", toolchain]).args(words);
    command
}

/// The facts about the compiler that `rustc` makes a command of, given an argument.
fn toolchain(rustc: impl Fn(&str) -> Command) -> Toolchain {
    let Some(verbose) = output(&mut rustc("-vV")) else { return Toolchain::default() };
    let Some(sysroot) = output(&mut rustc("--print=sysroot")) else { return Toolchain::default() };
    let sysroot = Path::new(sysroot.trim());
    let release = field(&verbose, "release");
    Toolchain {
        version: release.and_then(major_minor),
        llvm: field(&verbose, "LLVM version").and_then(|version| version.split('.').next()?.parse().ok()),
        can_build_core: release
            .is_some_and(|release| release.contains("-nightly") || release.contains("-dev"))
            && sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs").is_file(),
        has_cargo: false,
        has_bpf_core: has_core(&sysroot.join("lib/rustlib/bpfel-unknown-none/lib")),
    }
}

/// The value of `name: value` in the output of `rustc -vV`.
fn field<'a>(verbose: &'a str, name: &str) -> Option<&'a str> {
    verbose.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn has_core(dir: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
}

/// The facts about bpf-linker, or `None` if it is missing or does not run.
fn linker() -> Option<Linker> {
    let path = find_program("bpf-linker")?;
    output(Command::new(&path).arg("--version"))?;
    let libraries = output(Command::new("ldd").arg(&path)).unwrap_or_default();
    Some(Linker { llvm: loaded_llvm(&libraries) })
}

/// The major version of the libLLVM in the output of ldd.
fn loaded_llvm(libraries: &str) -> Option<u32> {
    let name = libraries.lines().find_map(|line| line.trim().strip_prefix("libLLVM"))?;
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolchains_are_found_by_their_short_names() {
        let list = "stable-x86_64-unknown-linux-gnu (active, default)\nnightly-2026-01-01-x86_64-unknown-linux-gnu\n\
                    debian-bpf\n";
        assert!(lists(list, "stable"));
        assert!(lists(list, "debian-bpf"));
        assert!(!lists(list, "debian"));
        assert!(lists(list, "nightly-2026-01-01"));
        assert!(!lists("", "nightly"));
    }

    #[test]
    fn a_dated_nightly_is_not_nightly() {
        assert!(!lists("nightly-2026-01-01-x86_64-unknown-linux-gnu\n", "nightly"));
    }

    #[test]
    fn versions_are_read() {
        let verbose = "rustc 1.96.0 (ac68faa20)\nrelease: 1.97.0-nightly\nLLVM version: 22.1.8\n";
        assert_eq!(field(verbose, "release").and_then(major_minor), Some((1, 97)));
        assert_eq!(field(verbose, "LLVM version"), Some("22.1.8"));
        assert_eq!(field(verbose, "host"), None);
        assert_eq!(major_minor("x"), None);
    }

    #[test]
    fn the_linkers_llvm_is_read_from_its_libraries() {
        let of = |line: &str| loaded_llvm(&format!("\tlinux-vdso.so.1 (0x1)\n\t{line} => /lib/x (0x2)\n"));
        assert_eq!(of("libLLVM.so.22.1"), Some(22));
        assert_eq!(of("libLLVM.so.23.0-rust-1.99.0-nightly"), Some(23));
        assert_eq!(of("libLLVM-21.so"), Some(21));
        assert_eq!(of("libc.so.6"), None);
    }
}
