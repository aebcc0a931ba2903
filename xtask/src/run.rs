//! Running other programs: every command that changes something is shown first.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// Says what is going on, in the form of cargo's own status lines.
pub fn say(text: impl std::fmt::Display) {
    // A closed stderr is no reason to stop.
    let _ = writeln!(std::io::stderr(), "xtask: {text}");
}

/// A `cargo` that builds in this workspace.
///
/// The toolchain is the one that built xtask itself: cargo names its own path in `CARGO`.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// The folder into which cargo builds, with profiles as its subfolders.
///
/// xtask was built into it by the same `cargo`, so that `CARGO_TARGET_DIR` and every other way to move it
/// are taken into account.
pub fn target_dir() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find out where xtask itself lies")?;
    let target = own.parent().and_then(Path::parent).context("xtask does not lie in a target folder")?;
    Ok(target.to_owned())
}

/// Whether this process is root.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// The first program of this name in `PATH`, or in the folders that only root's `PATH` has.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// `program` with root rights: as it is for root, through sudo for others. `None` where there is no way.
pub fn as_root(program: &str) -> Option<Command> {
    if is_root() {
        return Some(Command::new(program));
    }
    find_program("sudo").map(|sudo| {
        let mut command = Command::new(sudo);
        command.arg(program);
        command
    })
}

/// The command as one would type it.
pub fn show(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}={}", name.to_string_lossy(), quote(&value?.to_string_lossy())))
    });
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    variables.chain(words.map(|word| quote(&word.to_string_lossy()))).collect::<Vec<_>>().join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Shows and runs a command, which must succeed. It gets no standard input, so that nothing waits for a person.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    say(format_args!("$ {}", show(command)));
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot run `{}`", show(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", show(command));
    }
    Ok(())
}

/// What a command that only looks prints, or `None` if it cannot be run or fails.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_typed() {
        let mut command = Command::new("env");
        command.env("A", "b c").args(["-x", "it's", ""]);
        assert_eq!(show(&command), r"A='b c' env -x 'it'\''s' ''");
    }

    #[test]
    fn failures_name_the_command() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c 'exit 3'` failed (exit status: 3)");
        assert_eq!(output(Command::new("sh").args(["-c", "echo no; exit 3"])), None);
        assert_eq!(output(&mut Command::new("/nonexistent")), None);
    }
}
