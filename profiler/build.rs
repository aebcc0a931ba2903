//! Builds the eBPF programs and leaves them in `OUT_DIR` for the library to embed.

use std::path::Path;

use anyhow::Context as _;
use aya_build::{Package, Toolchain};

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-env-changed=EBPF_TOOLCHAIN");
    println!("cargo:rerun-if-env-changed=RUSTC_BOOTSTRAP");
    // aya-build watches the eBPF crate itself, but not what that depends on.
    println!("cargo:rerun-if-changed=../profiler-common");

    let toolchain = toolchain();
    if std::env::var_os("RUSTC_BOOTSTRAP").is_none() {
        // aya-ebpf and the programs (crate `profiler`) use unstable features. A value other than "1" also keeps aya-build from adding
        // `-Z build-std`, so that a prebuilt `core` is used where there is one.
        // SAFETY: the build script has a single thread.
        unsafe { std::env::set_var("RUSTC_BOOTSTRAP", "aya_ebpf,profiler") };
    }

    let root_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profiler-ebpf");
    let root_dir = root_dir.to_str().context("the path of profiler-ebpf is not UTF-8")?;
    aya_build::build_ebpf(
        [Package { name: "profiler-ebpf", root_dir, no_default_features: false, features: &[] }],
        Toolchain::Custom(&toolchain),
    )
    .with_context(|| {
        format!(
            "cannot build the eBPF programs with the toolchain `{toolchain}`: run `cargo xtask setup` once"
        )
    })
}

/// The rustup toolchain that compiles for eBPF: `EBPF_TOOLCHAIN`, else what `cargo xtask setup` chose.
///
/// `nightly` builds `core` from rust-src; any other toolchain has to bring a `core` for the bpf target.
fn toolchain() -> String {
    if let Some(name) = std::env::var("EBPF_TOOLCHAIN").ok().filter(|name| !name.is_empty()) {
        return name;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/ebpf-toolchain");
    // Not watched while missing: cargo would then run this script for every build.
    let Ok(name) = std::fs::read_to_string(&file) else { return "nightly".to_owned() };
    println!("cargo:rerun-if-changed={}", file.display());
    name.trim().to_owned()
}
