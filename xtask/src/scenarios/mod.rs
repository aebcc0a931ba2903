//! profiler/tests/scenarios: running single ones, and the table of what all of them found.

mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::Value;

use crate::document::with_section;
use crate::run::{cargo, run, say, target_dir, workspace};
use crate::test::run_as_root;
use table::Row;

/// Names the folder in which scenarios leave their results.
const DIR: &str = "PROFILER_SCENARIOS_DIR";
/// Has scenarios print the profiler's report.
const SHOW: &str = "PROFILER_SCENARIOS_SHOW";
/// Names the file to write a line for each scenario to.
const LIST: &str = "PROFILER_SCENARIOS_LIST";

/// The kernel on which those are run that this machine cannot run: it has bcachefs.
const GUEST_KERNEL: &str = "6.12";

/// Arguments of `cargo xtask repro`.
#[derive(Args)]
pub struct Options {
    /// Pathology to reproduce, as `profiler pathologies` lists them; without one, list the scenarios
    id: Option<String>,
    /// Only scenarios with this in their names
    name: Option<String>,
    /// Run what looks like it and is not instead; without an ID, ordinary work
    #[arg(long)]
    healthy: bool,
    /// Run them in virtual machines with this kernel, such as 6.1
    #[arg(long, value_name = "KERNEL")]
    vm: Option<String>,
    /// Run nothing: write what the last runs found into docs/pathologies.md
    #[arg(long, conflicts_with_all = ["id", "healthy", "vm"])]
    write_docs: bool,
}

/// A line that profiler/tests/scenarios/main.rs lists.
#[derive(Debug, PartialEq, Eq)]
struct Scenario {
    name: String,
    pathology: String,
    healthy: bool,
    what: String,
    guest: bool,
}

impl Scenario {
    fn read(line: &str) -> anyhow::Result<Self> {
        let line: Value = serde_json::from_str(line).context("no JSON")?;
        let text =
            |name: &str| line[name].as_str().map(str::to_owned).with_context(|| format!("no `{name}`"));
        let flag = |name: &str| line[name].as_bool().with_context(|| format!("no `{name}`"));
        Ok(Self {
            name: text("name")?,
            pathology: text("pathology")?,
            healthy: flag("healthy")?,
            what: text("what")?,
            guest: flag("guest")?,
        })
    }
}

/// Where results are collected, those of virtual machines included.
pub fn folder() -> anyhow::Result<PathBuf> {
    Ok(target_dir()?.join("scenarios"))
}

/// Forgets what earlier runs have left.
pub fn forget() -> anyhow::Result<()> {
    let folder = folder()?;
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Has the scenarios that a command runs leave their results.
pub fn collect(command: &mut std::process::Command) -> anyhow::Result<()> {
    command.env(DIR, folder()?);
    Ok(())
}

/// Takes over what a virtual machine has left in a folder, if anything.
pub fn take_over(left: &Path) -> anyhow::Result<()> {
    let Ok(results) = fs::read_dir(left) else { return Ok(()) };
    let to = folder()?;
    fs::create_dir_all(&to).with_context(|| format!("cannot create {}", to.display()))?;
    for result in results {
        let result = result.with_context(|| format!("cannot read {}", left.display()))?;
        fs::copy(result.path(), to.join(result.file_name()))
            .with_context(|| format!("cannot copy {}", result.path().display()))?;
    }
    Ok(())
}

/// Writes the table of the results into docs/pathologies.md.
pub fn write_docs() -> anyhow::Result<()> {
    let from = folder()?;
    let mut rows = Vec::new();
    for result in fs::read_dir(&from).with_context(|| format!("no results in {}", from.display()))? {
        let path = result.with_context(|| format!("cannot read {}", from.display()))?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        rows.push(Row::read(&text).with_context(|| format!("cannot read {}", path.display()))?);
    }
    let file = workspace().join("docs/pathologies.md");
    say(format_args!("writing {}", file.display()));
    let document = match fs::read_to_string(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.with_context(|| format!("cannot read {}", file.display()))?,
    };
    let document = with_section(&document, "scenarios", &table::markdown(rows))
        .with_context(|| format!("cannot write into {}", file.display()))?;
    fs::write(&file, document).with_context(|| format!("cannot write {}", file.display()))
}

/// Lists the scenarios, or runs some and shows the profiler's reports.
pub fn repro(options: &Options) -> anyhow::Result<()> {
    if options.write_docs {
        return write_docs();
    }
    crate::setup::setup()?;
    let all = list()?;
    if options.id.is_none() && !options.healthy {
        print!("{}", listing(&all));
        return Ok(());
    }
    let id = options.id.as_deref().unwrap_or("");
    let name = options.name.as_deref().unwrap_or("");
    let chosen: Vec<&Scenario> = all
        .iter()
        .filter(|scenario| scenario.pathology == id && scenario.healthy == options.healthy)
        .filter(|scenario| scenario.name.contains(name))
        .collect();
    if chosen.is_empty() {
        bail!("there is no such scenario; `cargo xtask repro` lists them");
    }
    let (guests, here): (Vec<_>, Vec<_>) = chosen
        .iter()
        .map(|scenario| (scenario.name.as_str(), scenario.guest))
        .partition(|(_, guest)| *guest || options.vm.is_some());
    crate::needs::provide(true);
    let mut failed = Vec::new();
    if !here.is_empty() {
        let mut command = tests();
        command.args(["--exact", "--test-threads=1", "--nocapture"]);
        command.args(here.iter().map(|(name, _)| name)).env(SHOW, "1");
        collect(&mut command)?;
        run_as_root(&mut command)?;
        failed.extend(run(&mut command).err());
    }
    if !guests.is_empty() {
        let kernel = options.vm.as_deref().unwrap_or(GUEST_KERNEL);
        let names = guests.iter().map(|(name, _)| (*name).to_owned());
        let variables = [SHOW.to_owned() + "=1", DIR.to_owned() + "=/out/scenarios"];
        failed.extend(crate::vm::run_tests(kernel, &variables, &names.collect::<Vec<_>>()).err());
    }
    match failed.pop() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// `cargo test` of the scenarios; what follows goes to them.
fn tests() -> std::process::Command {
    let mut command = cargo();
    command.args(["test", "--quiet", "--package", "profiler", "--test", "scenarios", "--"]);
    command
}

/// Asks the tests which scenarios there are.
fn list() -> anyhow::Result<Vec<Scenario>> {
    let file = target_dir()?.join("scenarios.list");
    let mut command = tests();
    command.args(["--exact", "every_pathology_has_a_reproducer_and_a_look_alike"]).env(LIST, &file);
    run(command.stdout(std::process::Stdio::null()))?;
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    text.lines()
        .map(Scenario::read)
        .collect::<anyhow::Result<_>>()
        .with_context(|| file.display().to_string())
}

fn listing(all: &[Scenario]) -> String {
    let mut sorted: Vec<&Scenario> = all.iter().collect();
    sorted.sort_by_key(|scenario| {
        (scenario.pathology.is_empty(), &scenario.pathology, scenario.healthy, &scenario.name)
    });
    let mut text = String::new();
    for scenario in sorted {
        let which = match (scenario.pathology.as_str(), scenario.healthy) {
            ("", _) => "--healthy".to_owned(),
            (id, true) => format!("--healthy {id}"),
            (id, false) => id.to_owned(),
        };
        let short = scenario.name.rsplit("::").next().unwrap_or(&scenario.name);
        let place = if scenario.guest { " (in a virtual machine)" } else { "" };
        text.push_str(&format!("{which:<36} {short:<20} {}{place}\n", scenario.what));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_listed_by_pathology() {
        let line = |name: &str, pathology: &str, healthy: bool, guest: bool| {
            format!(
                r#"{{"name":"{name}","pathology":"{pathology}","healthy":{healthy},"what":"w","guest":{guest}}}"#
            )
        };
        let lines = [
            line("healthy::idle", "", true, false),
            line("x::b", "x", true, false),
            line("x::a", "x", false, true),
        ];
        let all: Vec<Scenario> = lines.iter().map(|line| Scenario::read(line).unwrap()).collect();
        let text = listing(&all);
        let words: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
        assert_eq!(words, [vec!["x", "a", "w"], vec!["--healthy", "x", "b"], vec!["--healthy", "idle", "w"]]);
        assert!(text.lines().next().unwrap().ends_with("(in a virtual machine)"));
        assert!(Scenario::read("{}").is_err());
    }
}
