//! Installing Debian packages.

use std::process::Command;

use anyhow::{Context as _, bail};

use crate::run::{as_root, output, run, say};

/// Installs these packages, refreshing apt's lists if they do not have them.
pub fn install(packages: &[&str]) -> anyhow::Result<()> {
    let mut fresh = false;
    if !candidates_exist(packages) {
        run(apt_get()?.arg("update"))?;
        fresh = true;
        if !candidates_exist(packages) {
            bail!(
                "apt has no package for some of {}: check that the release's main and security archives are in \
                 /etc/apt/sources.list",
                packages.join(", ")
            );
        }
    }
    let install = || -> anyhow::Result<()> {
        run(apt_get()?.args(["install", "-y", "--no-install-recommends"]).args(packages))
    };
    match install() {
        // Old lists name versions that the archive no longer has.
        Err(error) if !fresh => {
            say(format_args!("{error}; trying again with fresh package lists"));
            run(apt_get()?.arg("update"))?;
            install()
        }
        result => result,
    }
}

/// `apt-get` as root, which asks no questions.
fn apt_get() -> anyhow::Result<Command> {
    // Through env, since sudo drops variables.
    let mut command = as_root("env").context("installing packages needs root or sudo")?;
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    Ok(command)
}

/// Whether apt knows a version of each package that it could install.
fn candidates_exist(packages: &[&str]) -> bool {
    packages.iter().all(|package| {
        output(Command::new("apt-cache").env("LC_ALL", "C").args(["policy", package]))
            .is_some_and(|policy| has_candidate(&policy))
    })
}

fn has_candidate(policy: &str) -> bool {
    policy
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Candidate: "))
        .any(|candidate| candidate != "(none)")
}

#[cfg(test)]
mod tests {
    use super::has_candidate;

    #[test]
    fn packages_without_a_candidate_are_unknown() {
        assert!(has_candidate("fio:\n  Installed: (none)\n  Candidate: 3.33-3\n"));
        assert!(!has_candidate("gone:\n  Installed: 1.0\n  Candidate: (none)\n"));
        assert!(!has_candidate(""));
    }
}
