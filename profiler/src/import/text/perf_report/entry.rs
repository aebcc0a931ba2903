//! The lines of `perf report` that have a share: `  25.83%  fio  [kernel.kallsyms]  [k] xfs_agino_range`.

/// What a column of the table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// Share of the samples in the function and what it calls.
    Children,
    /// Share of the samples in the function.
    Own,
    /// Number of samples.
    Samples,
    /// Sum of the samples' periods.
    Period,
    Comm,
    Binary,
    Symbol,
    /// Something that is of no use here.
    Other,
}

/// The columns of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Columns {
    columns: Vec<Column>,
    /// Where each column begins, if a line of dots said so.
    starts: Vec<usize>,
    /// What separates the columns, with `-t`.
    separator: Option<char>,
}

impl Columns {
    /// From the line with their names.
    pub fn parse(line: &str) -> Option<Self> {
        let names = line.trim_start_matches('#').trim();
        if !(names.starts_with("Overhead") || names.starts_with("Children")) || names.contains('%') {
            return None;
        }
        let after =
            names.trim_start_matches("Overhead").trim_start_matches("Children").trim_start_matches(' ');
        let separator = after.chars().next().filter(|c| matches!(c, ',' | ';' | '|' | ':' | '\t'));
        let names: Vec<&str> = match separator {
            Some(separator) => names.split(separator).map(str::trim).collect(),
            None => words(names),
        };
        let column = |name: &&str| match *name {
            "Overhead" | "Self" => Column::Own,
            "Children" => Column::Children,
            "Samples" => Column::Samples,
            "Period" => Column::Period,
            "Command" => Column::Comm,
            "Shared Object" => Column::Binary,
            "Symbol" => Column::Symbol,
            _ => Column::Other,
        };
        Some(Self { columns: names.iter().map(column).collect(), starts: Vec::new(), separator })
    }

    /// Takes the places of the columns from `# ........  .......`. Returns whether this is such a line.
    pub fn dots(&mut self, line: &str) -> bool {
        let text = line.trim_start_matches('#').trim();
        if text.is_empty() || !text.bytes().all(|byte| byte == b'.' || byte == b' ') {
            return false;
        }
        let bytes = line.as_bytes();
        self.starts =
            (0..bytes.len()).filter(|at| bytes[*at] == b'.' && (*at == 0 || bytes[at - 1] != b'.')).collect();
        if self.starts.len() != self.columns.len() {
            self.starts.clear();
        }
        true
    }

    fn has(&self, column: Column) -> bool {
        self.columns.contains(&column)
    }
}

/// Splits where there are two spaces or more.
fn words(text: &str) -> Vec<&str> {
    text.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect()
}

/// A line with a share.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fields<'a> {
    /// Share with what it calls, in percent.
    pub children: Option<f64>,
    /// Share of its own, in percent.
    pub own: f64,
    pub samples: Option<u64>,
    pub period: Option<u64>,
    pub comm: Option<&'a str>,
    pub binary: Option<&'a str>,
    /// Empty where functions are not told apart.
    pub symbol: &'a str,
    /// Which side it is on, where there is a mark.
    pub kernel: Option<bool>,
}

/// The line, if it is one. Whoever pasted it may have cut spaces, so that the marks `[k]` and `[.]` are what is relied
/// on where there are any.
pub(super) fn parse<'a>(line: &'a str, columns: &Columns) -> Option<Fields<'a>> {
    if let Some(separator) = columns.separator {
        let values: Vec<&str> = line.splitn(columns.columns.len(), separator).map(str::trim).collect();
        return from_columns(&values, columns);
    }
    let text = line.trim_start();
    let text = match text.strip_prefix(['-', '+']) {
        // `--12.3%--name` is a branch of a call graph.
        Some(rest) if rest.starts_with('-') => return None,
        Some(rest) => rest.trim_start(),
        None => text,
    };
    let mut fields = Fields::default();
    let (first, mut rest) = percent(text)?;
    fields.own = first;
    if let Some((second, after)) = percent(rest.trim_start()) {
        fields.children = Some(first);
        fields.own = second;
        rest = after;
    }
    // Further shares, such as those of `--showcpuutilization`.
    while let Some((_, after)) = percent(rest.trim_start()) {
        rest = after;
    }
    let known = !columns.columns.is_empty();
    for (column, value) in [(Column::Samples, &mut fields.samples), (Column::Period, &mut fields.period)] {
        if known && !columns.has(column) {
            continue;
        }
        if let Some((number, after)) = number(rest.trim_start()) {
            *value = Some(number);
            rest = after;
        }
    }
    // Of a cut graph, `0.51% name` has no mark, no binary and one space.
    let (before, kernel, symbol) = match mark(rest) {
        Some((at, kernel)) => (&rest[..at], Some(kernel), &rest[at + 4..]),
        None if known && !columns.has(Column::Symbol) => (rest, None, ""),
        None => return None,
    };
    fields.kernel = kernel;
    // What follows two spaces is a further column.
    fields.symbol = words(symbol).first().copied().unwrap_or("[unknown]");
    if kernel.is_none() {
        fields.symbol = "";
    }
    names(before, line, columns, &mut fields);
    Some(fields)
}

/// Finds command and binary in `before`, a part of `line`.
fn names<'a>(before: &'a str, line: &'a str, columns: &Columns, fields: &mut Fields<'a>) {
    let wanted: Vec<(usize, Column)> = columns
        .columns
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, column)| matches!(column, Column::Comm | Column::Binary))
        .collect();
    let at_column = |index: usize| {
        let start = *columns.starts.get(index)?;
        let end = columns.starts.get(index + 1).copied().unwrap_or(line.len()).min(line.len());
        // Where the columns are not where they should be, there is text between them.
        let between = line.get(start.checked_sub(2)?..start)?;
        (between == "  ").then(|| line.get(start..end).map(str::trim))?
    };
    let parts = words(before);
    for (nth, (index, column)) in wanted.iter().enumerate() {
        let value = at_column(*index)
            .or_else(|| if parts.len() == wanted.len() { parts.get(nth).copied() } else { None });
        match column {
            Column::Comm => fields.comm = value.filter(|value| !value.is_empty()),
            _ => fields.binary = value.filter(|value| !value.is_empty()),
        }
    }
    if wanted.is_empty() && columns.columns.is_empty() {
        match parts[..] {
            [comm, binary, ..] => (fields.comm, fields.binary) = (Some(comm), Some(binary)),
            [one] if one.starts_with('[') || one.contains(".so") || fields.kernel == Some(false) => {
                fields.binary = Some(one);
            }
            [one] => fields.comm = Some(one),
            [] => {}
        }
    }
}

fn from_columns<'a>(values: &[&'a str], columns: &Columns) -> Option<Fields<'a>> {
    let mut fields = Fields::default();
    let mut shares = 0;
    for (value, column) in values.iter().zip(&columns.columns) {
        match column {
            Column::Children => fields.children = Some(percent(value)?.0),
            Column::Own => fields.own = percent(value)?.0,
            Column::Samples => fields.samples = value.parse().ok(),
            Column::Period => fields.period = value.parse().ok(),
            Column::Comm => fields.comm = Some(value),
            Column::Binary => fields.binary = Some(value),
            Column::Symbol => {
                fields.symbol = value;
                if let Some((0, kernel)) = mark(value) {
                    fields.kernel = Some(kernel);
                    fields.symbol = value[4.min(value.len())..].trim();
                }
            }
            Column::Other => {}
        }
        shares += u32::from(matches!(column, Column::Children | Column::Own));
    }
    (shares > 0).then_some(fields)
}

/// `25.83%` or `25,83%` at the beginning of a text, and what follows.
pub(super) fn percent(text: &str) -> Option<(f64, &str)> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b',')).count();
    let rest = text[digits..].strip_prefix('%')?;
    let value: f64 = text[..digits].replace(',', ".").parse().ok()?;
    (0.0..=1000.0).contains(&value).then_some((value, rest))
}

fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let ends = text[end..].is_empty() || text[end..].starts_with(' ');
    Some((text[..end].parse().ok().filter(|_| ends)?, &text[end..]))
}

/// Where `[k] ` or the like is, and whether it means the kernel.
fn mark(text: &str) -> Option<(usize, bool)> {
    let bytes = text.as_bytes();
    (0..bytes.len().saturating_sub(3)).find_map(|at| {
        let [b'[', mark, b']', b' '] = bytes[at..at + 4] else { return None };
        let first = at == 0 || bytes[at - 1] == b' ';
        match mark {
            // The kernel, a guest's kernel, and the hypervisor.
            b'k' | b'g' | b'H' if first => Some((at, true)),
            b'.' | b'u' | b'!' if first => Some((at, false)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(
        line: &str,
        columns: &str,
    ) -> Option<(Option<f64>, f64, Option<String>, Option<String>, String)> {
        let columns = Columns::parse(columns).unwrap_or_default();
        let fields = parse(line, &columns)?;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Some((
            fields.children,
            fields.own,
            owned(fields.comm),
            owned(fields.binary),
            fields.symbol.to_owned(),
        ))
    }

    #[test]
    fn lines_in_all_their_forms() {
        let text = |text: &str| Some(text.to_owned());
        for (line, columns, expected) in [
            ("  25.83%  [k] xfs_agino_range", "", (None, 25.83, None, None, "xfs_agino_range".to_owned())),
            (
                "   9,77%  [kernel]  [k] f.constprop.0",
                "",
                (None, 9.77, None, text("[kernel]"), "f.constprop.0".to_owned()),
            ),
            (
                "-   98.34%     0.00%  opt cgu.0  [kernel.kallsyms]  [k] do_syscall_64",
                "  Children      Self  Command  Shared Object      Symbol",
                (Some(98.34), 0.0, text("opt cgu.0"), text("[kernel.kallsyms]"), "do_syscall_64".to_owned()),
            ),
            (
                " 9.17% 253 507014024 swapper          [kernel.kallsyms]  [k] f(int, long)  -      -",
                "# Overhead       Samples        Period  Command  Shared Object  Symbol",
                (None, 9.17, text("swapper"), text("[kernel.kallsyms]"), "f(int, long)".to_owned()),
            ),
            (
                "    44.02%  opt cgu.0      ",
                "# Overhead  Command",
                (None, 44.02, text("opt cgu.0"), None, String::new()),
            ),
            (
                " 9.17%  ,swapper  ,[kernel.kallsyms] ,[k] f",
                "# Overhead,Command ,Shared Object ,Symbol",
                (None, 9.17, text("swapper"), text("[kernel.kallsyms]"), "f".to_owned()),
            ),
        ] {
            assert_eq!(symbols(line, columns), Some(expected), "{line}");
        }
        for line in
            ["--7.32%--do_statx", "   - 98.30% do_syscall_64", "text", "12% of it", "", "%", "1.2.3%  [k] f"]
        {
            assert_eq!(symbols(line, ""), None, "{line}");
        }
    }

    #[test]
    fn dots_say_where_columns_are() {
        let mut columns = Columns::parse("# Overhead  Command          Shared Object").unwrap();
        assert!(columns.dots("# ........  ...............  ................."));
        let fields = parse("    40.94%  a  b             c  d", &columns).unwrap();
        assert_eq!((fields.comm, fields.binary), (Some("a  b"), Some("c  d")));
    }
}
