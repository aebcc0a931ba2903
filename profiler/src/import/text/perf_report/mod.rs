//! `perf report --stdio`, its screen pasted into a mail, `perf top`, and lists of `share [k] function`.

mod entry;
mod graph;
mod table;

use self::entry::{Columns, parse};
use self::table::{Entry, Table};
use super::headers::{self, is_cpu_event};
use super::heading::Heading;
use super::lines::Head;
use super::{ImportError, Reader};
use crate::profile::{Loss, Session};

/// Most lines and nodes of all tables of a text.
const MAX_NODES: usize = 4 << 20;
/// Most tables of a text.
const MAX_TABLES: usize = 256;

pub(super) fn recognises(head: &Head<'_>) -> bool {
    let mut columns = Columns::default();
    head.lines.iter().any(|line| {
        let line = String::from_utf8_lossy(line);
        if let Some(found) = Columns::parse(&line) {
            columns = found;
            return false;
        }
        parse(without_marks(&line), &columns).is_some()
    })
}

/// Reads all tables, of one event.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<Session>, ImportError> {
    let mut text = Text { parts: vec![Part::default()], facts: reader.session(), ..Text::default() };
    while let Some(line) = reader.lines.next()? {
        let line = String::from_utf8_lossy(line);
        let number = text.nodes;
        if let Some(warning) = text.line(without_marks(&line)) {
            reader.warn(|| warning);
        }
        if text.nodes > MAX_NODES && text.nodes > number {
            return Err(reader.too_much("lines of tables and graphs", MAX_NODES as u64));
        }
        if text.parts.len() > MAX_TABLES {
            return Err(reader.too_much("tables", MAX_TABLES as u64));
        }
    }
    text.end_graph();
    let mut parts = text.parts;
    parts.retain(|part| !part.table.entries.is_empty());
    let skipped = keep_one_event(&mut parts, reader.options.event.as_deref());
    let several = parts.len() > 1;
    let mut sessions = Vec::new();
    for part in parts {
        let mut session = text.facts.clone();
        session.heading = part.heading.filter(|_| several);
        if let Some(lost) = part.lost {
            session.losses.push(Loss {
                probe: "perf".to_owned(),
                cause: "samples that perf lost".to_owned(),
                count: lost,
            });
        }
        if let Some(event) = &part.event {
            if !is_cpu_event(event) {
                session.blind_spots.push(format!(
                    "The samples are of the event {event}: what is called CPU time here is no time."
                ));
            } else if headers::event_name(event).ends_with("-clock") {
                session.blind_spots.push(format!(
                    "Sampling used {event}: code that runs with interrupts off is invisible, and its time lands on \
                     the instruction that enables them."
                ));
            }
        }
        if !skipped.is_empty() {
            session.blind_spots.push(format!("The tables of {} were left out.", skipped.join(", ")));
        }
        part.table.finish(&mut session).map_err(|full| reader.full(full))?;
        sessions.push(session);
    }
    Ok(sessions)
}

/// Of the tables of several events, leaves those of one. Returns the names of the others.
fn keep_one_event(parts: &mut Vec<Part>, wanted: Option<&str>) -> Vec<String> {
    let events: Vec<&str> = parts.iter().filter_map(|part| part.event.as_deref()).collect();
    let is_wanted = |event: &&&str| {
        wanted.is_some_and(|wanted| **event == wanted || headers::event_name(event) == wanted)
    };
    let chosen = match wanted {
        Some(wanted) => Some(events.iter().find(is_wanted).map_or(wanted, |event| *event)),
        None => events.iter().find(|event| is_cpu_event(event)).or_else(|| events.first()).copied(),
    };
    let Some(chosen) = chosen.map(str::to_owned) else { return Vec::new() };
    let mut others: Vec<String> = Vec::new();
    parts.retain(|part| {
        let keep = part.event.as_ref().is_none_or(|event| *event == chosen);
        if let Some(event) =
            part.event.as_ref().filter(|event| !keep && !others.contains(event) && others.len() < 16)
        {
            others.push(event.clone());
        }
        keep
    });
    others
}

/// A line without what the screen has at its right end: the scroll bar.
fn without_marks(line: &str) -> &str {
    line.trim_end_matches([' ', '◆', '▒', '█', '░', '▮', '\u{a0}', '\t'])
}

#[derive(Default)]
struct Text {
    parts: Vec<Part>,
    heading: Heading,
    facts: Session,
    columns: Columns,
    nodes: usize,
    in_graph: bool,
}

/// A table of shares.
#[derive(Default)]
struct Part {
    heading: Option<String>,
    event: Option<String>,
    lost: Option<u64>,
    table: Table,
}

impl Text {
    fn part(&mut self) -> &mut Part {
        self.parts.last_mut().expect("there is always one")
    }

    /// A new table, unless the last one is still empty.
    fn begin(&mut self) {
        self.end_graph();
        if !self.part().table.entries.is_empty() {
            self.parts.push(Part::default());
        }
    }

    fn end_graph(&mut self) {
        self.in_graph = false;
    }

    fn line(&mut self, line: &str) -> Option<String> {
        if line.is_empty() {
            return None;
        }
        if let Some(columns) = Columns::parse(line) {
            self.begin();
            self.columns = columns;
            return None;
        }
        if self.columns.dots(line) {
            return None;
        }
        if let Some(fields) = parse(line, &self.columns) {
            if let Some(heading) = self.heading.take() {
                self.begin();
                self.part().heading = Some(heading);
            }
            self.nodes += 1;
            self.in_graph = true;
            let warning = fields.children.filter(|children| *children < fields.own).map(|children| {
                format!(
                    "`{}` has {}% of its own, but {children}% with its callees",
                    fields.symbol, fields.own
                )
            });
            self.part().table.entries.push(Entry::new(&fields));
            return warning;
        }
        if line.starts_with('#') {
            self.comment(line);
            return None;
        }
        if let Some(samples) = line.trim_start().strip_prefix("Samples: ") {
            self.samples(samples);
            return None;
        }
        if line.trim_start().starts_with("PerfTop:") {
            self.begin();
            return None;
        }
        if self.in_graph
            && let Some(entry) = self.part().table.entries.last_mut()
        {
            let before = entry.graph.nodes.len();
            if entry.graph.line(line) {
                let added = entry.graph.nodes.len() - before;
                self.nodes += added;
                return None;
            }
        }
        self.heading.line(line);
        None
    }

    fn comment(&mut self, line: &str) {
        let text = line.trim_start_matches('#').trim();
        if let Some(samples) = text.strip_prefix("Samples: ") {
            self.samples(samples);
        } else if let Some(lost) = text.strip_prefix("Total Lost Samples: ") {
            self.begin();
            self.part().lost = lost.trim().parse().ok().filter(|lost| *lost > 0);
        } else if !headers::read(line, &mut self.facts) && !is_of_perf(text) {
            self.heading.line(text);
        }
    }

    /// `2K of event 'cpu-clock:ppp'`, perhaps with more behind it.
    fn samples(&mut self, text: &str) {
        let lost = self.part().lost.filter(|_| self.part().table.entries.is_empty());
        self.begin();
        self.part().lost = lost;
        let event = text.split_once("of event").and_then(|(_, event)| event.split('\'').nth(1));
        self.part().event = event.map(str::to_owned);
        // What perf itself says is no heading.
    }
}

/// Whether a comment is one that perf writes.
fn is_of_perf(text: &str) -> bool {
    const BEGINNINGS: [&str; 8] = [
        "To display the perf.data",
        "Event count",
        "(",
        "captured on",
        "header version",
        "missing features",
        "perf version",
        "cpuid",
    ];
    // `key : value` has the facts, `CPU_TOPOLOGY info available` the rest.
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
        || text.contains(" : ")
        || text.contains(" info available")
        || text.contains("sibling")
}

#[cfg(test)]
mod tests;
