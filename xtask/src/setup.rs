//! `cargo xtask setup`: makes the eBPF programs buildable, step by step.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::facts::{gather, rustup_run, toolchain_file};
use crate::plan::{DEBIAN, DEBIAN_PACKAGES, LINKER_VERSION, NIGHTLY, Step, next_step};
use crate::run::{cargo, output, run, say, target_dir};

/// Installs what is missing and returns the toolchain that builds the eBPF programs.
///
/// Looks at the machine afresh before each step, so that an interrupted set-up goes on where it was.
pub fn setup() -> anyhow::Result<String> {
    let mut nightly_failed = false;
    let mut done: Vec<Step> = Vec::new();
    loop {
        let step = next_step(&gather(nightly_failed));
        if done.contains(&step) {
            bail!("{}", without_effect(&step));
        }
        match &step {
            Step::Done { toolchain } => {
                remember(toolchain)?;
                let outcome = if done.is_empty() { "nothing to install" } else { "set up" };
                say(format_args!("{outcome}: the eBPF programs are built with `{toolchain}` and bpf-linker"));
                return Ok(toolchain.clone());
            }
            Step::GiveUp(sentence) => bail!("{sentence}"),
            Step::InstallNightly | Step::AddSources => {
                say("installing rustup's nightly with rust-src, from which `core` is built for eBPF");
                if let Err(error) = install_nightly(step == Step::InstallNightly) {
                    say(format_args!("{error:#}; trying Debian's compiler instead"));
                    nightly_failed = true;
                }
            }
            Step::InstallDebian => {
                say("installing Debian's rustc-web, which brings a `core` built for eBPF (about 530 MB)");
                crate::apt::install(&DEBIAN_PACKAGES)?;
            }
            Step::LinkDebian => {
                say(format_args!("making Debian's compiler known to rustup as `{DEBIAN}`"));
                run(Command::new("rustup").args(["toolchain", "link", DEBIAN, "/usr"]))?;
            }
            Step::InstallLinker { toolchain, llvm } => {
                say(format_args!(
                    "building bpf-linker for LLVM {llvm}, that of `{toolchain}` (a minute or two)"
                ));
                install_linker(toolchain, *llvm)?;
            }
        }
        done.push(step);
    }
}

/// A sentence for a step that was taken and is still the next one.
fn without_effect(step: &Step) -> String {
    match step {
        Step::InstallLinker { .. } => {
            "bpf-linker was installed, but the one found in PATH does not run or belongs to \
                                       another LLVM: put the folder that cargo installs to (by default \
                                       ~/.cargo/bin) first in PATH"
                .to_owned()
        }
        Step::InstallDebian | Step::LinkDebian => format!(
            "Debian's {} are installed, but too old or incomplete: enable the release's security archive and run \
             `apt-get update` and `apt-get upgrade`",
            DEBIAN_PACKAGES.join(" and ")
        ),
        _ => format!(
            "the toolchain `{NIGHTLY}` was installed but is too old or incomplete: run `rustup update {NIGHTLY}`"
        ),
    }
}

fn install_nightly(whole: bool) -> anyhow::Result<()> {
    let mut rustup = Command::new("rustup");
    // Without a network this should fail soon, since there is another way.
    rustup.env("RUSTUP_MAX_RETRIES", "1");
    if whole {
        let args = ["toolchain", "install", NIGHTLY, "--profile", "minimal", "--component", "rust-src"];
        run(rustup.args(args).arg("--no-self-update"))
    } else {
        run(rustup.args(["component", "add", "rust-src", "--toolchain", NIGHTLY]))
    }
}

/// Builds bpf-linker against the LLVM that the toolchain itself uses.
fn install_linker(toolchain: &str, llvm: u32) -> anyhow::Result<()> {
    let library = find_llvm(toolchain, llvm)?;
    // bpf-linker looks for PREFIX/lib/libLLVM.so and for no other name.
    let prefix = target_dir()?.join("xtask/llvm");
    let link = prefix.join("lib/libLLVM.so");
    std::fs::create_dir_all(prefix.join("lib"))
        .and_then(|()| match std::fs::remove_file(&link) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => std::os::unix::fs::symlink(&library, &link),
        })
        .with_context(|| format!("cannot make the link {}", link.display()))?;
    let mut install = cargo();
    install.args(["install", "bpf-linker", "--version", LINKER_VERSION, "--locked", "--force"]);
    install.args(["--no-default-features", "--features", &format!("llvm-{llvm}")]);
    install.env("LLVM_PREFIX", &prefix);
    // So that the loader finds a library outside the system's folders, such as rustup's.
    let folder = library.parent().context("libLLVM lies in no folder")?;
    install.env("CARGO_ENCODED_RUSTFLAGS", format!("-Clink-arg=-Wl,-rpath,{}", folder.display()));
    run(&mut install)
}

/// The shared library libLLVM of a toolchain.
fn find_llvm(toolchain: &str, llvm: u32) -> anyhow::Result<PathBuf> {
    let sysroot = output(&mut rustup_run(toolchain, &["rustc", "--print=sysroot"]))
        .with_context(|| format!("`rustup run {toolchain} rustc --print sysroot` failed"))?;
    let lib = Path::new(sysroot.trim()).join("lib");
    let mut folders = vec![lib.clone()];
    // Debian keeps libraries in a folder for the architecture.
    folders.extend(
        std::fs::read_dir(&lib)
            .with_context(|| format!("cannot read {}", lib.display()))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().ends_with("-linux-gnu")),
    );
    let name = format!("libLLVM.so.{llvm}.");
    folders
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|entries| entries.flatten())
        .find(|entry| entry.file_name().to_string_lossy().starts_with(&name))
        .map(|entry| entry.path())
        .with_context(|| {
            format!(
                "the toolchain `{toolchain}` has no {name}* in {}: install bpf-linker by hand",
                lib.display()
            )
        })
}

/// Leaves the toolchain's name for profiler/build.rs, unless it is there already: a new file makes cargo build again.
fn remember(toolchain: &str) -> anyhow::Result<()> {
    let file = toolchain_file();
    let text = format!("{toolchain}\n");
    if std::fs::read_to_string(&file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let folder = file.parent().context("the file lies in a folder")?;
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&file, text))
        .with_context(|| format!("cannot write {}", file.display()))
}
