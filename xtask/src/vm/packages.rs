//! Kernels out of Debian's archive.
//!
//! The distribution's own tools fetch them, with lists and caches of their own, so that nothing is installed and the
//! system's apt is left as it is. Which package has a kernel is found through the distribution's meta package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::run::{output, run, say};

/// The package that depends on a suite's current kernel, in the flavour for virtual machines: smaller than the general
/// one, and with ext4 or what it takes to load it.
const META: &str = "linux-image-cloud-amd64";

/// Signs Debian's archive.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Suites that have kernels, with the series that each has for all its life.
const SUITES: [(&str, &str); 3] = [("5.10", "bullseye"), ("6.1", "bookworm"), ("6.12", "trixie")];

/// Where kernels come and go: a series has to be looked for.
const MOVING: [&str; 2] = ["trixie-backports", "sid"];

/// The name of whatever unstable has.
pub const UNSTABLE: &str = "7";

/// A kernel, unpacked.
pub struct Kernel {
    /// What was asked for.
    pub series: String,
    /// `uname -r`.
    pub release: String,
    /// The compressed kernel.
    pub vmlinuz: PathBuf,
    /// The folder that is /lib/modules/RELEASE, with modules.dep.
    pub modules: PathBuf,
}

/// Where kernels are kept: outside `target`, so that `cargo clean` costs no download and all checkouts share them.
pub fn cache() -> anyhow::Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = set("PROFILER_VM_CACHE") {
        return Ok(folder);
    }
    let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Ok(caches.context("neither HOME nor PROFILER_VM_CACHE is set")?.join("profiler-vm"))
}

/// The kernel of a series: out of the cache, or fetched if it is not there or `update` asks for the current one.
pub fn kernel(series: &str, update: bool) -> anyhow::Result<Kernel> {
    if series.is_empty() || !series.chars().all(|c| c.is_ascii_digit() || c == '.') {
        bail!("`{series}` is no series of kernels: name it like 6.1, or `{UNSTABLE}` for Debian unstable's");
    }
    let folder = cache()?.join("kernels").join(series);
    if update || !folder.join("release").is_file() {
        fetch(series, &folder)?;
    }
    let release = fs::read_to_string(folder.join("release"))
        .with_context(|| format!("cannot read {}", folder.join("release").display()))?;
    let release = release.trim().to_owned();
    Ok(Kernel {
        series: series.to_owned(),
        vmlinuz: folder.join("vmlinuz"),
        modules: folder.join("lib/modules").join(&release),
        release,
    })
}

fn fetch(series: &str, folder: &Path) -> anyhow::Result<()> {
    let mut reasons = Vec::new();
    for suite in suites(series) {
        let apt = Apt::new(suite)?;
        let Some(image) = apt.image(series)? else {
            reasons.push(format!("{suite} has none"));
            continue;
        };
        let packages = apt.parts(&image)?;
        say(format_args!("fetching {} from {suite}", packages.join(", ")));
        let new = folder.with_file_name(format!("{series}.new"));
        let _ = fs::remove_dir_all(&new);
        fs::create_dir_all(&new).with_context(|| format!("cannot create {}", new.display()))?;
        apt.unpack(&packages, &new)?;
        tidy(&new)?;
        let _ = fs::remove_dir_all(folder);
        return fs::rename(&new, folder).with_context(|| format!("cannot rename {}", new.display()));
    }
    bail!("no kernel of this series to be had: {}", reasons.join(", "))
}

/// Suites in which to look for a series, in this order.
fn suites(series: &str) -> Vec<&'static str> {
    match SUITES.iter().find(|(known, _)| *known == series) {
        Some((_, suite)) => vec![suite],
        None if series == UNSTABLE => vec!["sid"],
        None => MOVING.to_vec(),
    }
}

/// apt with one suite and nothing else, in a folder of its own.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(suite: &str) -> anyhow::Result<Self> {
        let apt = Self { folder: cache()?.join("apt").join(suite) };
        for folder in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(apt.folder.join(folder))
                .with_context(|| format!("cannot create {}", apt.folder.display()))?;
        }
        if !Path::new(KEYRING).is_file() {
            bail!("{KEYRING} is missing: install debian-archive-keyring");
        }
        let sources = apt.folder.join("sources.list");
        let line = format!("deb [arch=amd64 signed-by={KEYRING}] {} {suite} main\n", mirror()?);
        fs::write(&sources, line).with_context(|| format!("cannot write {}", sources.display()))?;
        run(apt.command("apt-get").args(["-q", "update"]))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let mut set = |name: &str, value: &dyn std::fmt::Display| {
            command.arg("-o").arg(format!("{name}={value}"));
        };
        set("Dir::Etc::SourceList", &self.folder.join("sources.list").display());
        set("Dir::Etc::SourceParts", &"/dev/null");
        set("Dir::State::Lists", &self.folder.join("lists").display());
        set("Dir::State::Status", &"/dev/null");
        set("Dir::Cache", &self.folder.join("cache").display());
        set("APT::Architecture", &"amd64");
        set("APT::Architectures", &"amd64");
        // Only the package lists are wanted, not what graphical shops show.
        set("Acquire::Languages", &"none");
        set("Acquire::IndexTargets::deb::DEP-11::DefaultEnabled", &"false");
        // The folders belong to whoever runs this.
        set("APT::Sandbox::User", &"root");
        command
    }

    /// The package with the newest kernel of a series: the meta package's if that is of this series.
    fn image(&self, series: &str) -> anyhow::Result<Option<String>> {
        let depends = output(self.command("apt-cache").args(["depends", META]))
            .with_context(|| format!("apt knows no package {META}"))?;
        let dependencies = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        let wanted = |name: &&str| is_of_series(name, series);
        if let Some(current) = dependencies.into_iter().find(wanted) {
            return Ok(Some(current.to_owned()));
        }
        let all = output(self.command("apt-cache").args(["pkgnames", "linux-image-"]))
            .context("`apt-cache pkgnames` failed")?;
        Ok(all.lines().filter(wanted).max_by_key(|name| numbers(name)).map(str::to_owned))
    }

    /// The packages that together have the kernel and its modules: newer ones split them.
    fn parts(&self, image: &str) -> anyhow::Result<Vec<String>> {
        const NO: [&str; 6] = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"];
        let mut command = self.command("apt-cache");
        command.args(["depends", "--recurse"]).args(NO.map(|kind| format!("--no-{kind}"))).arg(image);
        let all =
            output(&mut command).with_context(|| format!("apt does not know what {image} depends on"))?;
        Ok(parts_in(&all, image))
    }

    /// Downloads packages and unpacks them into a folder.
    fn unpack(&self, packages: &[String], into: &Path) -> anyhow::Result<()> {
        let downloads = into.join("packages");
        fs::create_dir_all(&downloads).with_context(|| format!("cannot create {}", downloads.display()))?;
        run(self.command("apt-get").args(["-q", "download"]).args(packages).current_dir(&downloads))?;
        for file in entries(&downloads)? {
            run(Command::new("dpkg").arg("-x").arg(file).arg(into))?;
        }
        fs::remove_dir_all(&downloads).with_context(|| format!("cannot remove {}", downloads.display()))
    }
}

/// Debian's archive as this machine reaches it.
fn mirror() -> anyhow::Result<String> {
    if let Ok(mirror) = std::env::var("PROFILER_VM_MIRROR")
        && !mirror.is_empty()
    {
        return Ok(mirror);
    }
    let targets = output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(SITE) $(COMPONENT)",
        "Created-By: Packages",
    ]))
    .context("`apt-get indextargets` failed")?;
    mirror_in(&targets)
        .context("apt is configured with no mirror of Debian's: set PROFILER_VM_MIRROR to the address of one")
}

fn mirror_in(targets: &str) -> Option<String> {
    let sites =
        targets.lines().filter_map(|line| line.strip_suffix(" main")).map(|site| site.trim_end_matches('/'));
    sites.into_iter().find(|site| site.ends_with("/debian")).map(str::to_owned)
}

/// Whether a package is a kernel image of a series: linux-image-6.1.0-47-cloud-amd64 is of 6.1 and of 6.
fn is_of_series(package: &str, series: &str) -> bool {
    package
        .strip_prefix("linux-image-")
        .and_then(|rest| rest.strip_suffix("-cloud-amd64"))
        .and_then(|version| version.strip_prefix(series))
        .is_some_and(|rest| rest.starts_with(['.', '-', '+']))
}

/// The numbers in a name, for finding the newest.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// Of the packages in the output of `apt-cache depends --recurse`, those with the kernel itself.
fn parts_in(depends: &str, image: &str) -> Vec<String> {
    let kernel = image.strip_prefix("linux-image-").unwrap_or(image);
    let wanted = ["linux-image-", "linux-binary-", "linux-modules-"].map(|kind| format!("{kind}{kernel}"));
    let mut found: Vec<String> =
        depends.lines().filter(|line| wanted.iter().any(|name| name == line)).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    found
}

/// Brings what packages unpack to into one form: release, vmlinuz, lib/modules/RELEASE.
fn tidy(folder: &Path) -> anyhow::Result<()> {
    // Where /lib is a link to /usr/lib, packages say usr/lib.
    if folder.join("usr/lib/modules").is_dir() {
        fs::create_dir_all(folder.join("lib"))?;
        fs::rename(folder.join("usr/lib/modules"), folder.join("lib/modules"))
            .context("cannot move the modules")?;
    }
    let modules = entries(&folder.join("lib/modules"))?;
    let [modules] = modules.as_slice() else {
        bail!("the packages have {} folders of modules", modules.len())
    };
    let release = modules.file_name().context("the modules lie in a folder")?.to_string_lossy().into_owned();
    let vmlinuz = folder.join(format!("boot/vmlinuz-{release}"));
    let vmlinuz = if vmlinuz.is_file() { vmlinuz } else { modules.join("vmlinuz") };
    fs::rename(&vmlinuz, folder.join("vmlinuz"))
        .with_context(|| format!("the packages have no {}", vmlinuz.display()))?;
    for rest in ["boot", "usr"] {
        let _ = fs::remove_dir_all(folder.join(rest));
    }
    let depmod = crate::run::find_program("depmod").context("depmod is missing (package kmod)")?;
    run(Command::new(depmod).arg("-b").arg(folder).arg(&release))?;
    fs::write(folder.join("release"), release).context("cannot note the kernel's release")
}

/// What is in a folder.
fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_told_apart() {
        assert!(is_of_series("linux-image-6.1.0-47-cloud-amd64", "6.1"));
        assert!(is_of_series("linux-image-7.2.13+deb14-cloud-amd64", "7"));
        assert!(!is_of_series("linux-image-6.12.107+deb13-cloud-amd64", "6.1"));
        assert!(!is_of_series("linux-image-6.1.0-47-cloud-amd64-dbg", "6.1"));
        assert!(!is_of_series("linux-image-cloud-amd64", "6.1"));
    }

    #[test]
    fn the_newest_is_found_by_its_numbers() {
        assert!(numbers("linux-image-6.17.13+deb13") > numbers("linux-image-6.17.8+deb13"));
        assert!(numbers("linux-image-6.1.0-50") > numbers("linux-image-6.1.0-47"));
    }

    #[test]
    fn split_packages_are_found() {
        let depends = "linux-image-7.2-cloud-amd64\n  Depends: linux-base\nlinux-base-7.2-cloud-amd64\nlinux-base\n\
                       linux-modules-7.2-cloud-amd64\nlinux-binary-7.2-cloud-amd64\n";
        assert_eq!(
            parts_in(depends, "linux-image-7.2-cloud-amd64"),
            ["linux-binary-7.2-cloud-amd64", "linux-image-7.2-cloud-amd64", "linux-modules-7.2-cloud-amd64"]
        );
    }

    #[test]
    fn the_mirror_is_debians_own_archive() {
        let targets = "http://mirror.example/debian-security main\nhttp://other.example/x main\n\
                       http://mirror.example/debian/ main\n";
        assert_eq!(mirror_in(targets).as_deref(), Some("http://mirror.example/debian"));
        assert_eq!(mirror_in("http://mirror.example/ubuntu main\n"), None);
    }
}
