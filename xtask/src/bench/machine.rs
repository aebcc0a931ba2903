//! What the numbers were measured on.

use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

use crate::run::output;

/// A line about the machine, the build and the day.
pub fn facts(profiler: &Path) -> String {
    let say = |command: &mut Command| output(command).map(|text| text.trim().to_owned());
    let cpu = read_to_string("/proc/cpuinfo").ok().and_then(|text| cpu_model(&text));
    let cpus = std::thread::available_parallelism().map_or(0, |cpus| cpus.get());
    let memory = read_to_string("/proc/meminfo").ok().and_then(|text| memory_gib(&text));
    let virtual_machine = say(&mut Command::new("systemd-detect-virt")).filter(|name| name != "none");
    let facts = [
        say(Command::new(profiler).arg("--version")),
        say(Command::new("uname").args(["-srm"])),
        cpu.map(|model| format!("{model}, {cpus} CPUs")),
        memory.map(|memory| format!("{memory:.0} GiB")),
        virtual_machine.map(|name| format!("under {name}")),
        say(Command::new("date").args(["-u", "+%Y-%m-%d"])),
    ];
    format!("Measured on: {}.", facts.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_gib(meminfo: &str) -> Option<f64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    #[test]
    fn files_of_proc_are_read() {
        assert_eq!(super::cpu_model("processor\t: 0\nmodel name\t: AMD EPYC\n").as_deref(), Some("AMD EPYC"));
        assert_eq!(super::memory_gib("MemTotal:       8388608 kB\n"), Some(8.0));
    }
}
