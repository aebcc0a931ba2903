//! What runs in the guests: the profiler and its guest tests, linked statically so that a guest needs no libraries.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::run::{cargo, say, show, target_dir};

/// Not the default target, so that flags for it leave build scripts and the eBPF programs alone.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The static programs.
pub struct Programs {
    /// The profiler.
    pub profiler: PathBuf,
    /// profiler/tests/guest.
    pub tests: PathBuf,
}

/// The kernel that has bcachefs, on which the scenarios run when not all kernels have to run all of them: emulated CPUs
/// take minutes for them.
const SCENARIOS_ON: &str = "6.12";

/// The modules of the guest tests that are scenarios (profiler/tests/scenarios).
const SCENARIOS: [&str; 8] = [
    "healthy",
    "mutex_spinning",
    "page_alloc_pressure",
    "read_amplification",
    "readahead_disabled",
    "sleeping_lock_contention",
    "small_io",
    "spinlock_contention",
];

/// What a guest runs if it is given no other command: the guest tests, with the scenarios everywhere or on one kernel only.
pub fn tests(scenarios_everywhere: bool) -> String {
    let skip: Vec<String> = SCENARIOS.iter().map(|module| format!("--skip {module}::")).collect();
    let skip = if scenarios_everywhere { String::new() } else { skip.join(" ") };
    format!(
        "\
#!/bin/sh
export PROFILER_BIN=/usr/bin/profiler GUEST_OUT=/out GUEST_SCRATCH=/dev/vdc
export PROFILER_SKIPPED_LOG=/out/skipped PROFILER_SCENARIOS_DIR=/out/scenarios RUST_BACKTRACE=1
read release < /proc/sys/kernel/osrelease
case $release in
    {SCENARIOS_ON}.*) skip= ;;
    *) skip='{skip}' ;;
esac
# One at a time: each measures the whole machine. How tests are skipped is tested elsewhere.
exec guest-tests --test-threads=1 --skip skip:: $skip
"
    )
}

/// A command that runs the tests of these names, with these variables.
pub fn chosen_tests(variables: &[String], names: &[String]) -> Vec<String> {
    let fixed = ["PROFILER_BIN=/usr/bin/profiler", "GUEST_OUT=/out", "GUEST_SCRATCH=/dev/vdc"];
    let mut command = vec!["env".to_owned()];
    command.extend(fixed.map(str::to_owned));
    command.extend(variables.iter().cloned());
    command.extend(["guest-tests", "--test-threads=1", "--nocapture", "--exact"].map(str::to_owned));
    command.extend(names.iter().cloned());
    command
}

/// Builds the programs into a folder of their own, since other flags would have cargo build everything anew.
pub fn build() -> anyhow::Result<Programs> {
    let mut command = cargo();
    command.args(["test", "--no-run", "--release", "--package", "profiler", "--test", "guest"]);
    command.args(["--target", TARGET, "--message-format", "json-render-diagnostics"]);
    let target = target_dir()?.join("vm/build");
    command.arg("--target-dir").arg(&target);
    command.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-Ctarget-feature=+crt-static");
    // These would take the place of the flags for the target, and would apply to the eBPF programs as well.
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    say(format_args!("$ {}", show(&command)));
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run `{}`", show(&command)))?;
    if !output.status.success() {
        bail!("building the programs for the guests failed ({})", output.status);
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let find = |name| {
        executable(&messages, name).with_context(|| format!("cargo does not say where it put `{name}`"))
    };
    Ok(Programs { profiler: find("profiler")?, tests: find("guest")? })
}

/// The executable of a target in cargo's JSON messages.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// A script that runs these words as a command.
pub fn script(words: &[String]) -> String {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    format!("#!/bin/sh\nexec {}\n", show(&command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_found_in_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"profiler","kind":["lib"]},"executable":null}
            {"reason":"compiler-artifact","target":{"name":"profiler","kind":["bin"]},"executable":"/t/profiler"}
            not json"#;
        assert_eq!(executable(messages, "profiler"), Some(PathBuf::from("/t/profiler")));
        assert_eq!(executable(messages, "guest"), None);
    }

    #[test]
    fn commands_are_quoted() {
        let words = ["sh", "-c", "echo 'a  b'"].map(str::to_owned);
        assert_eq!(script(&words), "#!/bin/sh\nexec sh -c 'echo '\\''a  b'\\'''\n");
    }

    #[test]
    fn all_modules_of_scenarios_are_known() {
        let source = include_str!("../../../profiler/tests/scenarios/mod.rs");
        let list = source.split("macro_rules! in_guests").nth(1).unwrap().split("};").next().unwrap();
        let modules = list.lines().filter_map(|line| line.trim().split_once(": ")).map(|(module, _)| module);
        let mut modules: Vec<&str> =
            modules.filter(|module| module.chars().all(|c| c.is_ascii_lowercase() || c == '_')).collect();
        modules.sort_unstable();
        assert_eq!(modules, SCENARIOS);
    }
}
