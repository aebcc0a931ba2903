//! Decides how the eBPF programs get built here: a pure function from facts to the next step.
//!
//! There are two recipes. rustup's nightly builds `core` for the bpf target from `rust-src`. Where that cannot be
//! had, Debian's `rustc-web` brings a `core` built for it. Both link with bpf-linker, which has to use the same
//! major version of LLVM as the compiler.

use std::collections::BTreeMap;

/// The toolchain of the first recipe.
pub const NIGHTLY: &str = "nightly";
/// The toolchain of the second recipe: a rustup link to Debian's compiler.
pub const DEBIAN: &str = "debian-bpf";
/// What the second recipe installs.
pub const DEBIAN_PACKAGES: [&str; 2] = ["rustc-web", "libstd-rust-web-dev-bpf"];
/// The oldest compiler that builds the workspace, as in `rust-version` of Cargo.toml.
pub const OLDEST_RUST: (u32, u32) = (1, 95);
/// The version of bpf-linker to install.
pub const LINKER_VERSION: &str = "0.13.0";
/// The major versions of LLVM that this version of bpf-linker has a feature for.
pub const LINKER_LLVM: std::ops::RangeInclusive<u32> = 21..=23;

/// What is known about the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether rustup runs.
    pub rustup: bool,
    /// `EBPF_TOOLCHAIN` from the environment.
    pub wanted: Option<String>,
    /// The toolchain of the last set-up.
    pub remembered: Option<String>,
    /// The toolchains that are installed, of those that matter.
    pub toolchains: BTreeMap<String, Toolchain>,
    /// Whether installing a nightly with its sources was tried in vain.
    pub nightly_failed: bool,
    /// Debian's compiler, whether or not rustup knows it.
    pub system: Toolchain,
    /// Whether there is apt-get.
    pub apt: bool,
    /// Whether commands can be run as root.
    pub root: bool,
    /// bpf-linker, if it runs.
    pub linker: Option<Linker>,
}

/// What is known about one compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolchain {
    /// Major and minor version of rustc.
    pub version: Option<(u32, u32)>,
    /// Major version of its LLVM.
    pub llvm: Option<u32>,
    /// Whether the sources of `core` are there and the compiler is one that may build them.
    pub can_build_core: bool,
    /// Whether a built `core` for the bpf target is there.
    pub has_bpf_core: bool,
    /// Whether rustup finds a cargo to run it with. Debian's compiler comes without one.
    pub has_cargo: bool,
}

/// What is known about bpf-linker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linker {
    /// Major version of the LLVM that it loads; `None` if it is linked in.
    pub llvm: Option<u32>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is missing.
    Done {
        /// The toolchain that builds the eBPF programs.
        toolchain: String,
    },
    /// Install nightly with `rust-src`.
    InstallNightly,
    /// Add `rust-src` to the nightly that is there.
    AddSources,
    /// Install Debian's compiler.
    InstallDebian,
    /// Make Debian's compiler known to rustup.
    LinkDebian,
    /// Build bpf-linker for the LLVM of this toolchain.
    InstallLinker {
        /// The toolchain.
        toolchain: String,
        /// The major version of its LLVM.
        llvm: u32,
    },
    /// The machine cannot be served; a sentence that says what to install.
    GiveUp(String),
}

impl Toolchain {
    /// Whether the eBPF programs can be built with it, given a linker.
    fn usable(&self) -> bool {
        self.version >= Some(OLDEST_RUST) && (self.can_build_core || self.has_bpf_core)
    }
}

/// The next step towards a working build.
pub fn next_step(facts: &Facts) -> Step {
    if !facts.rustup {
        return Step::GiveUp("rustup is missing: install it as https://rustup.rs says".to_owned());
    }
    if let Some(wanted) = &facts.wanted {
        return match facts.toolchains.get(wanted) {
            Some(toolchain) if toolchain.usable() => link_with(facts, wanted, toolchain),
            Some(_) => Step::GiveUp(format!(
                "EBPF_TOOLCHAIN is `{wanted}`, which is older than {}.{} or has neither rust-src nor a core library \
                 for bpfel-unknown-none: unset the variable, or name another toolchain",
                OLDEST_RUST.0, OLDEST_RUST.1
            )),
            None => Step::GiveUp(format!(
                "EBPF_TOOLCHAIN is `{wanted}`, which rustup does not know: unset the variable, or name a \
                 toolchain that `rustup toolchain list` shows"
            )),
        };
    }
    // The remembered one comes first: changing over would build everything again for nothing.
    let order = [facts.remembered.as_deref(), Some(NIGHTLY), Some(DEBIAN)];
    for name in order.into_iter().flatten() {
        if let Some(toolchain) = facts.toolchains.get(name)
            && toolchain.usable()
        {
            return link_with(facts, name, toolchain);
        }
    }
    if facts.system.usable() {
        return Step::LinkDebian;
    }
    if !facts.nightly_failed {
        return if facts.toolchains.contains_key(NIGHTLY) { Step::AddSources } else { Step::InstallNightly };
    }
    if !facts.apt {
        return Step::GiveUp(format!(
            "building the eBPF programs needs `rustup toolchain install {NIGHTLY} --component rust-src`, which \
             failed, or Debian 12 or later with its packages {}",
            DEBIAN_PACKAGES.join(" and ")
        ));
    }
    if !facts.root {
        return Step::GiveUp(format!(
            "there is neither sudo nor root to install packages with: run `apt-get install {}` as root",
            DEBIAN_PACKAGES.join(" ")
        ));
    }
    Step::InstallDebian
}

/// The step that remains once there is a compiler.
fn link_with(facts: &Facts, name: &str, toolchain: &Toolchain) -> Step {
    if !toolchain.has_cargo {
        return Step::GiveUp(format!(
            "rustup has no cargo to run with `{name}`: it lends only that of `stable`, `beta` or `nightly`, so run \
             `rustup toolchain install stable`"
        ));
    }
    let fits = |linker: &Linker| linker.llvm.is_none() || linker.llvm == toolchain.llvm;
    if facts.linker.as_ref().is_some_and(fits) {
        return Step::Done { toolchain: name.to_owned() };
    }
    match toolchain.llvm {
        Some(llvm) if LINKER_LLVM.contains(&llvm) => Step::InstallLinker { toolchain: name.to_owned(), llvm },
        Some(llvm) => Step::GiveUp(format!(
            "the toolchain `{name}` uses LLVM {llvm}, but bpf-linker {LINKER_VERSION} knows only {} to {}: install a \
             bpf-linker for LLVM {llvm}, or set EBPF_TOOLCHAIN to a toolchain with one of these",
            LINKER_LLVM.start(),
            LINKER_LLVM.end()
        )),
        None => Step::GiveUp(format!(
            "`rustup run {name} rustc -vV` does not say which LLVM it uses: install bpf-linker for it by hand"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nightly(with_sources: bool) -> Toolchain {
        Toolchain {
            version: Some((1, 97)),
            llvm: Some(22),
            can_build_core: with_sources,
            has_bpf_core: false,
            has_cargo: true,
        }
    }

    fn debian() -> Toolchain {
        Toolchain {
            version: Some((1, 96)),
            llvm: Some(22),
            can_build_core: false,
            has_bpf_core: true,
            has_cargo: true,
        }
    }

    fn facts(toolchains: &[(&str, Toolchain)]) -> Facts {
        Facts {
            rustup: true,
            apt: true,
            root: true,
            toolchains: toolchains.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect(),
            linker: Some(Linker { llvm: Some(22) }),
            ..Facts::default()
        }
    }

    fn done(toolchain: &str) -> Step {
        Step::Done { toolchain: toolchain.to_owned() }
    }

    fn sentence(facts: &Facts) -> String {
        match next_step(facts) {
            Step::GiveUp(sentence) => sentence,
            step => panic!("expected to give up, got {step:?}"),
        }
    }

    #[test]
    fn a_complete_machine_needs_nothing() {
        assert_eq!(next_step(&facts(&[(NIGHTLY, nightly(true))])), done(NIGHTLY));
        assert_eq!(next_step(&facts(&[(NIGHTLY, nightly(false)), (DEBIAN, debian())])), done(DEBIAN));
    }

    #[test]
    fn the_remembered_toolchain_stays_while_it_is_usable() {
        let both = [(NIGHTLY, nightly(true)), (DEBIAN, debian())];
        assert_eq!(next_step(&facts(&both)), done(NIGHTLY));
        let remembered = Facts { remembered: Some(DEBIAN.to_owned()), ..facts(&both) };
        assert_eq!(next_step(&remembered), done(DEBIAN));
        let gone = Facts { remembered: Some(DEBIAN.to_owned()), ..facts(&[(NIGHTLY, nightly(true))]) };
        assert_eq!(next_step(&gone), done(NIGHTLY));
    }

    #[test]
    fn nightly_is_tried_before_debian() {
        assert_eq!(next_step(&facts(&[])), Step::InstallNightly);
        assert_eq!(next_step(&facts(&[(NIGHTLY, nightly(false))])), Step::AddSources);
        let failed = Facts { nightly_failed: true, ..facts(&[(NIGHTLY, nightly(false))]) };
        assert_eq!(next_step(&failed), Step::InstallDebian);
    }

    #[test]
    fn debian_is_installed_and_linked_one_after_the_other() {
        let installed = Facts { nightly_failed: true, system: debian(), ..facts(&[]) };
        assert_eq!(next_step(&installed), Step::LinkDebian);
        assert_eq!(next_step(&facts(&[(DEBIAN, debian())])), done(DEBIAN));
    }

    #[test]
    fn a_compiler_that_is_too_old_is_replaced() {
        let old = Toolchain { version: Some((1, 94)), ..debian() };
        let facts = Facts { nightly_failed: true, system: old.clone(), ..facts(&[(DEBIAN, old)]) };
        assert_eq!(next_step(&facts), Step::InstallDebian);
    }

    #[test]
    fn the_linker_must_run_and_have_the_compilers_llvm() {
        let install = Step::InstallLinker { toolchain: DEBIAN.to_owned(), llvm: 22 };
        let base = facts(&[(DEBIAN, debian())]);
        assert_eq!(next_step(&Facts { linker: None, ..base.clone() }), install);
        assert_eq!(next_step(&Facts { linker: Some(Linker { llvm: Some(21) }), ..base.clone() }), install);
        let with_llvm_linked_in = Facts { linker: Some(Linker { llvm: None }), ..base };
        assert_eq!(next_step(&with_llvm_linked_in), done(DEBIAN));
    }

    #[test]
    fn an_unknown_llvm_is_a_sentence_with_its_number() {
        let future = Toolchain { llvm: Some(31), ..debian() };
        assert!(sentence(&facts(&[(DEBIAN, future)])).contains("LLVM 31"));
    }

    #[test]
    fn a_compiler_without_cargo_is_of_no_use() {
        let lonely = Toolchain { has_cargo: false, ..debian() };
        assert!(sentence(&facts(&[(DEBIAN, lonely)])).contains("rustup toolchain install stable"));
    }

    #[test]
    fn the_environment_decides_alone() {
        let all = facts(&[(NIGHTLY, nightly(true)), (DEBIAN, debian())]);
        let wanted = |name: &str| Facts { wanted: Some(name.to_owned()), ..all.clone() };
        assert_eq!(next_step(&wanted(DEBIAN)), done(DEBIAN));
        assert!(sentence(&wanted("mine")).contains("`mine`, which rustup does not know"));
        let unusable = Facts {
            wanted: Some("stable".to_owned()),
            ..facts(&[("stable", nightly(false)), (DEBIAN, debian())])
        };
        assert!(sentence(&unusable).contains("neither rust-src nor a core library"));
    }

    #[test]
    fn what_cannot_be_served_says_what_to_install() {
        let bare = Facts { nightly_failed: true, ..facts(&[]) };
        assert!(sentence(&Facts { rustup: false, ..bare.clone() }).contains("rustup.rs"));
        assert!(sentence(&Facts { apt: false, ..bare.clone() }).contains("--component rust-src"));
        assert!(sentence(&Facts { root: false, ..bare }).contains("apt-get install rustc-web"));
    }
}
