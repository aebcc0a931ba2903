//! docs/kernels.md: which rung of its ladder each probe took on each kernel, from the sessions that guests recorded.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::Value;

const HEAD: &str = "\
# Kernels

Written by `cargo xtask vm --write-docs`, from sessions that the profiler recorded on these kernels; not to be edited.

How each probe is attached: the rung of its ladder, and the tracepoints or functions. `-` stands for a probe that
cannot be attached there; the reason is below.

";

/// What a kernel's session says about the probes.
pub struct Column {
    release: String,
    probes: Vec<Probe>,
}

struct Probe {
    name: String,
    /// Rung and places, or why there is none.
    state: Result<(String, Vec<String>), String>,
    notes: Vec<String>,
}

impl Column {
    /// Reads a session.json.
    pub fn read(session: &str) -> anyhow::Result<Self> {
        let session: Value = serde_json::from_str(session).context("session.json is no JSON")?;
        let release = session["host"]["kernel"].as_str().context("session.json names no kernel")?.to_owned();
        let probes = session["probes"].as_array().context("session.json has no probes")?;
        Ok(Self { release, probes: probes.iter().map(Probe::read).collect() })
    }
}

/// A line for each probe.
impl std::fmt::Display for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for probe in &self.probes {
            match &probe.state {
                Ok((rung, to)) => writeln!(f, "  {}: {rung} {}", probe.name, to.join(", "))?,
                Err(reason) => writeln!(f, "  {}: {reason}", probe.name)?,
            }
        }
        Ok(())
    }
}

impl Probe {
    fn read(probe: &Value) -> Self {
        let state = &probe["state"];
        let attached = state["is"] == "attached";
        Self {
            name: text(&probe["name"]),
            state: if attached {
                Ok((text(&state["rung"]), texts(&state["to"])))
            } else {
                Err(state["reason"].as_str().unwrap_or("not asked for").to_owned())
            },
            notes: texts(&state["notes"]),
        }
    }
}

/// The whole file.
pub fn markdown(columns: &[Column]) -> String {
    let names: Vec<&str> = {
        let mut seen = BTreeSet::new();
        let all = columns.iter().flat_map(|column| &column.probes);
        all.map(|probe| probe.name.as_str()).filter(|name| seen.insert(*name)).collect()
    };
    let mut out = HEAD.to_owned();
    let _ = writeln!(out, "| kernel | {} |", names.join(" | "));
    let _ = writeln!(out, "| --- |{}", " --- |".repeat(names.len()));
    for column in columns {
        let _ = write!(out, "| {} |", escape(&column.release));
        for name in &names {
            let cell = match column.probes.iter().find(|probe| probe.name == *name).map(|probe| &probe.state)
            {
                Some(Ok((rung, to))) => {
                    let to: Vec<String> = to.iter().map(|name| format!("`{}`", escape(name))).collect();
                    format!("{}: {}", escape(rung), to.join(", "))
                }
                _ => "-".to_owned(),
            };
            let _ = write!(out, " {cell} |");
        }
        out.push('\n');
    }
    for column in columns {
        let mut lines = Vec::new();
        for probe in &column.probes {
            let reason = probe.state.as_ref().err().into_iter();
            lines
                .extend(reason.chain(&probe.notes).map(|text| format!("- {}: {}", probe.name, escape(text))));
        }
        if !lines.is_empty() {
            let _ = write!(out, "\n## {}\n\n{}\n", escape(&column.release), lines.join("\n"));
        }
    }
    out
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

/// What would end a cell or a line.
fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_and_reasons_are_shown() {
        let session = |kernel: &str, state: &str| {
            format!(
                r#"{{"host": {{"kernel": "{kernel}"}}, "probes": [{{"name": "lock", "state": {state}}}]}}"#
            )
        };
        let columns = [
            session("5.10", r#"{"is": "failed", "reason": "no a|b"}"#),
            session(
                "6.1",
                r#"{"is": "attached", "rung": "tp_btf", "to": ["contention_begin", "contention_end"]}"#,
            ),
        ];
        let columns: Vec<Column> = columns.iter().map(|session| Column::read(session).unwrap()).collect();
        let text = markdown(&columns);
        let table = text.strip_prefix(HEAD).unwrap();
        assert_eq!(
            table,
            "| kernel | lock |\n| --- | --- |\n| 5.10 | - |\n\
             | 6.1 | tp_btf: `contention_begin`, `contention_end` |\n\n## 5.10\n\n- lock: no a\\|b\n"
        );
        assert!(Column::read("{}").is_err());
    }
}
