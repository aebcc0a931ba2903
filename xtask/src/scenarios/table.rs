//! The scenarios' results as a table.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::Value;

const HEAD: &str = "\
Real runs on real kernels, written by `cargo xtask test --write-docs`; `cargo xtask repro` runs single ones. Beside our \
figures stands what others counted in the same run: the kernel's own statistics, or the program that did the work. On emulated \
CPUs, which their host may stop at any time, a scenario has three attempts.
";

/// What came of a scenario on one kernel.
#[derive(Debug)]
pub struct Row {
    name: String,
    pathology: String,
    healthy: bool,
    kernel: String,
    cpus: u64,
    attempt: u64,
    what: String,
    found: Vec<String>,
    about: Vec<String>,
    figures: Vec<Figure>,
    wrong: Vec<String>,
}

#[derive(Debug)]
struct Figure {
    name: String,
    ours: Option<f64>,
    theirs: f64,
    source: String,
}

impl Row {
    /// Reads what a scenario has left.
    pub fn read(json: &str) -> anyhow::Result<Self> {
        let row: Value = serde_json::from_str(json).context("no JSON")?;
        let text = |name: &str| row[name].as_str().map(str::to_owned).with_context(|| format!("no `{name}`"));
        let figures = row["figures"].as_array().into_iter().flatten();
        Ok(Self {
            name: text("name")?,
            pathology: text("pathology")?,
            healthy: row["healthy"].as_bool().context("no `healthy`")?,
            kernel: text("kernel")?,
            cpus: row["cpus"].as_u64().unwrap_or(0),
            attempt: row["attempt"].as_u64().unwrap_or(1),
            what: text("what")?,
            found: texts(&row["found"]),
            about: texts(&row["about"]),
            figures: figures.map(Figure::read).collect::<anyhow::Result<_>>()?,
            wrong: texts(&row["wrong"]),
        })
    }

    fn order(&self) -> (bool, &str, bool, &str, &str) {
        // Ordinary work comes last.
        (self.pathology.is_empty(), &self.pathology, self.healthy, &self.name, &self.kernel)
    }

    fn cells(&self) -> [String; 7] {
        let lines = |parts: Vec<String>| if parts.is_empty() { "-".to_owned() } else { parts.join("<br>") };
        let ours = |figure: &Figure| match figure.ours {
            Some(ours) => format!("{} {}", figure.name, number(ours)),
            None => format!("{} missing", figure.name),
        };
        let expected = if self.healthy { "nothing".to_owned() } else { format!("`{}`", self.pathology) };
        let mut found: Vec<String> = self.found.iter().map(|text| escape(text)).collect();
        if self.attempt > 1 {
            found.push(format!("at attempt {}", self.attempt));
        }
        if !self.wrong.is_empty() {
            found.push("**not as expected**".to_owned());
        }
        [
            format!("{} (`{}`)", escape(&self.what), escape(&self.name)),
            format!("{}, {} CPUs", escape(&self.kernel), self.cpus),
            expected,
            lines(found),
            lines(self.about.iter().map(|text| escape(text)).collect()),
            lines(self.figures.iter().map(ours).collect()),
            lines(
                self.figures
                    .iter()
                    .map(|figure| format!("{} ({})", number(figure.theirs), escape(&figure.source)))
                    .collect(),
            ),
        ]
    }
}

impl Figure {
    fn read(figure: &Value) -> anyhow::Result<Self> {
        Ok(Self {
            name: figure["name"].as_str().context("a figure has no name")?.to_owned(),
            ours: figure["ours"].as_f64(),
            theirs: figure["theirs"].as_f64().context("a figure has no `theirs`")?,
            source: figure["source"].as_str().unwrap_or_default().to_owned(),
        })
    }
}

/// The table in Markdown.
pub fn markdown(mut rows: Vec<Row>) -> String {
    rows.sort_by(|a, b| a.order().cmp(&b.order()));
    let wrong = rows.iter().filter(|row| !row.wrong.is_empty()).count();
    let mut out = format!("## Scenarios\n\n{HEAD}\n");
    let _ = writeln!(out, "{} runs, {} of them as expected.\n", rows.len(), rows.len() - wrong);
    out.push_str("| what was done | kernel | expected | found | about | our figure | that of others |\n");
    out.push_str("| --- | --- | --- | --- | --- | ---: | ---: |\n");
    for row in &rows {
        let _ = writeln!(out, "| {} |", row.cells().join(" | "));
    }
    out
}

/// Four digits, which is more than the figures agree in.
fn number(value: f64) -> String {
    if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// What would end a cell or a line, or be taken for markup.
fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: &str = r#"{"name":"healthy::idle","what":"nothing","pathology":"","healthy":true,"kernel":"6.1","cpus":2,
        "found":[],"about":[],"figures":[],"wrong":[]}"#;
    const CUT: &str = r#"{"name":"a::b","what":"x|y","pathology":"readahead-disabled","healthy":false,"kernel":"6.18",
        "cpus":4,"attempt":3,"found":["readahead-disabled (confirmed, critical)"],"about":["device loop0"],
        "figures":[{"name":"request_bytes","ours":4096.0,"theirs":4097.5,"source":"stat"},
        {"name":"gone","ours":null,"theirs":1.0,"source":"s"}],"wrong":["no gone"]}"#;

    #[test]
    fn rows_are_sorted_and_escaped() {
        let rows = [IDLE, CUT].map(|json| Row::read(json).unwrap());
        let text = markdown(rows.into());
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
        assert_eq!(
            lines,
            [
                "| x\\|y (`a::b`) | 6.18, 4 CPUs | `readahead-disabled` | readahead-disabled (confirmed, critical)<br>\
                 at attempt 3<br>**not as expected** | device loop0 | request_bytes 4096<br>gone missing | 4098 (stat)<br>1.00 (s) |",
                "| nothing (`healthy::idle`) | 6.1, 2 CPUs | nothing | - | - | - | - |",
            ]
        );
        assert!(text.contains("2 runs, 1 of them as expected"), "{text}");
        assert!(Row::read("{}").is_err());
    }
}
