//! What was measured, on what, and what was lost: the part to read before any number.

use std::io::{self, Write};

use super::style::{Style, percent};
use crate::profile::units;
use crate::profile::{Host, Probe, ProbeState, Session, Source, Target};
use crate::report::escape::{sanitize, sanitize_to, width};

/// Columns that a probe's name takes.
const PROBE: usize = 12;
/// Columns after which a command line is cut: three lines.
const COMMAND: usize = 240;
/// Processes that are named.
const PIDS: usize = 30;

/// Writes the header.
pub(crate) fn write(session: &Session, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut header = Header { style, out };
    header.origin(session)?;
    header.host(&session.host)?;
    header.target(session)?;
    header.probes(&session.probes)?;
    header.losses(session)?;
    header.samples(session)?;
    if !session.blind_spots.is_empty() {
        header.line("not visible:", "")?;
        for spot in &session.blind_spots {
            header.item("- ", spot)?;
        }
    }
    Ok(())
}

struct Header<'a> {
    style: &'a Style,
    out: &'a mut dyn Write,
}

impl Header<'_> {
    /// `key value`, the value wrapped under itself.
    fn line(&mut self, key: &str, value: &str) -> io::Result<()> {
        let indent = " ".repeat(key.len() + 1);
        for (index, part) in self.wrap(value, indent.len()).iter().enumerate() {
            let line = if index == 0 {
                format!("{} {part}", self.style.heading(key))
            } else {
                format!("{indent}{part}")
            };
            writeln!(self.out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// An indented line, wrapped under itself. `lead` comes before the text of the first line.
    fn item(&mut self, lead: &str, text: &str) -> io::Result<()> {
        let indent = width(lead) + 2;
        for (index, part) in self.wrap(&sanitize(text), indent).iter().enumerate() {
            let lead = if index == 0 { lead } else { "" };
            let padding = indent - 2 - width(lead);
            writeln!(self.out, "  {lead}{:padding$}{part}", "")?;
        }
        Ok(())
    }

    fn wrap(&self, text: &str, indent: usize) -> Vec<String> {
        self.style.wrap(text, indent)
    }

    fn origin(&mut self, session: &Session) -> io::Result<()> {
        let tool = sanitize_to(&session.tool, 40);
        match &session.source {
            Source::Live => self.line("profiler:", &tool),
            Source::Imported { format } => {
                self.line("profiler:", &format!("{tool}, imported from {}", sanitize_to(format, 60)))
            }
        }
    }

    fn host(&mut self, host: &Host) -> io::Result<()> {
        if !host.hostname.is_empty() {
            self.line("host:", &sanitize(&host.hostname))?;
        }
        let kernel = [&host.kernel, &host.kernel_version, &host.arch];
        let kernel: Vec<_> =
            kernel.iter().filter(|part| !part.is_empty()).map(|part| sanitize(part)).collect();
        if !kernel.is_empty() {
            self.line("kernel:", &kernel.join(" "))?;
        }
        let cpu = cpu_facts(host);
        if !cpu.is_empty() {
            self.line("cpu:", &cpu.join(", "))?;
        }
        if host.memory > 0 {
            self.line("memory:", &units::bytes(host.memory as f64))?;
        }
        Ok(())
    }

    fn target(&mut self, session: &Session) -> io::Result<()> {
        if session.duration_ns > 0 {
            let mut text = units::duration(session.duration_ns as f64);
            if let Some(started) = session.started {
                text.push_str(&format!(" from {started:.0}"));
            }
            self.line("duration:", &text)?;
        }
        if matches!(session.source, Source::Live) || session.target != Target::System {
            self.line("target:", &target_text(&session.target))?;
        }
        Ok(())
    }

    /// How each probe was attached, in short, and what is wrong with it.
    fn probes(&mut self, probes: &[Probe]) -> io::Result<()> {
        if probes.is_empty() {
            return Ok(());
        }
        let mut by_rung: Vec<(String, Vec<String>)> = Vec::new();
        for probe in probes {
            let how = match &probe.state {
                // Its events are of interest by themselves: what the samples are taken by, how often.
                ProbeState::Attached { rung, to, .. } if rung == "perf_event" => to.join(", "),
                ProbeState::Attached { rung, .. } => rung.clone(),
                ProbeState::Failed { .. } => continue,
                ProbeState::Off => "off".to_owned(),
            };
            let name = sanitize_to(&probe.name, PROBE);
            match by_rung.iter_mut().find(|(known, _)| *known == how) {
                Some((_, names)) => names.push(name),
                None => by_rung.push((how, vec![name])),
            }
        }
        let groups: Vec<String> =
            by_rung.iter().map(|(how, names)| format!("{} ({})", names.join(", "), sanitize(how))).collect();
        self.line("probes:", &groups.join("; "))?;
        for probe in probes {
            if let ProbeState::Failed { reason } = &probe.state {
                let lead = format!("{:<PROBE$}", sanitize_to(&probe.name, PROBE - 1));
                self.item(&lead, &format!("FAILED: {reason}"))?;
            }
        }
        let has_notes =
            |probe: &&Probe| matches!(&probe.state, ProbeState::Attached { notes, .. } if !notes.is_empty());
        let noted: Vec<String> =
            probes.iter().filter(has_notes).map(|probe| sanitize_to(&probe.name, PROBE)).collect();
        if noted.is_empty() {
            return Ok(());
        }
        self.line(
            "notes:",
            &format!("on what {} cannot measure here, under Probes at the end", noted.join(", ")),
        )
    }

    /// What was lost, each cause once, with the probes that it hit.
    fn losses(&mut self, session: &Session) -> io::Result<()> {
        if session.losses.is_empty() {
            // Few of the tools whose profiles are imported say so.
            let live = session.source == Source::Live;
            return self.line("lost:", if live { "nothing" } else { "not known" });
        }
        writeln!(self.out, "{}", self.style.alarm("lost:"))?;
        let mut by_cause: Vec<(&str, Vec<String>)> = Vec::new();
        for loss in &session.losses {
            // Only where a probe says how much there was can a loss be put in proportion.
            let all = session.probe(&loss.probe).map_or(0, |probe| probe.due.max(probe.events));
            let share = match percent(loss.count, all) {
                share if all > 0 => format!(" ({share:.3}%)"),
                _ => String::new(),
            };
            let count = format!("{} {}{share}", sanitize_to(&loss.probe, PROBE), units::grouped(loss.count));
            match by_cause.iter_mut().find(|(cause, _)| *cause == loss.cause) {
                Some((_, counts)) => counts.push(count),
                None => by_cause.push((&loss.cause, vec![count])),
            }
        }
        for (cause, counts) in by_cause {
            self.item("- ", &format!("{}: {}", counts.join(", "), cause))?;
        }
        Ok(())
    }

    fn samples(&mut self, session: &Session) -> io::Result<()> {
        let mut left_out = Vec::new();
        if session.idle_samples > 0 {
            left_out.push(format!("{} samples of idle CPUs", units::grouped(session.idle_samples)));
        }
        if session.own_samples > 0 {
            left_out.push(format!("{} of the profiler itself", units::grouped(session.own_samples)));
        }
        if left_out.is_empty() { Ok(()) } else { self.line("left out:", &left_out.join(", ")) }
    }
}

/// Writes what each probe is attached to, and what it cannot measure there.
pub(crate) fn write_probes(probes: &[Probe], style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut header = Header { style, out };
    for probe in probes {
        let lead = format!("{:<PROBE$}", sanitize_to(&probe.name, PROBE - 1));
        if let ProbeState::Attached { rung, to, notes } = &probe.state {
            header.item(&lead, &format!("{rung}: {}", to.join(", ")))?;
            for note in notes {
                header.item(&" ".repeat(PROBE), &format!("note: {note}"))?;
            }
        }
    }
    Ok(())
}

fn cpu_facts(host: &Host) -> Vec<String> {
    let mut facts = Vec::new();
    if !host.cpu_model.is_empty() {
        facts.push(sanitize(&host.cpu_model).into_owned());
    }
    if host.cpus > 0 {
        let counted =
            [(host.sockets, "socket"), (host.cores_per_socket, "core"), (host.threads_per_core, "thread")];
        let parts: Vec<String> =
            counted.iter().filter_map(|(count, what)| count.map(|count| plural(count, what))).collect();
        let topology = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(" x ")) };
        facts.push(format!("{}{topology}", plural(host.cpus, "CPU")));
    }
    if let Some(nodes) = host.numa_nodes {
        facts.push(plural(nodes, "NUMA node"));
    }
    if let Some(hypervisor) = &host.hypervisor {
        facts.push(format!("under {}", sanitize(hypervisor)));
    }
    if let Some(steal) = host.steal {
        facts.push(format!("steal {:.2}%", steal * 100.0));
    }
    facts
}

fn plural(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn target_text(target: &Target) -> String {
    match target {
        Target::System => "every process".to_owned(),
        Target::Processes { pids } => {
            let shown: Vec<String> = pids.iter().take(PIDS).map(u32::to_string).collect();
            let more = match pids.len().saturating_sub(PIDS) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("process {}{more}", shown.join(", "))
        }
        Target::Cgroup { path } => format!("cgroup {}", sanitize(path)),
        Target::Command { argv, status } => {
            let command = sanitize_to(&argv.join(" "), COMMAND);
            match status {
                Some(status) => format!("command `{command}`, exit status {status}"),
                None => format!("command `{command}`"),
            }
        }
    }
}
