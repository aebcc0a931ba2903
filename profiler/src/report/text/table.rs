//! Plain tables: columns two spaces apart, or one where it is narrow, numbers to the right.

use std::io::{self, Write};

use super::style::Style;
use crate::report::escape::{shorten, width};

/// Where a column's text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table that fits the width: when it would not, its names (the left-aligned columns) are cut.
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

const INDENT: usize = 2;
/// Columns between two columns, the better first.
const GAPS: [usize; 2] = [2, 1];
/// A name is not cut below this.
const NAME_MIN: usize = 8;

impl Table {
    /// A table with these headings.
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: one sanitized cell a column.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Writes the table.
    pub fn write(&self, style: &Style, out: &mut dyn Write) -> io::Result<()> {
        let (gap, widths) = self.layout(style.columns());
        let headings: Vec<String> = self.columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
        writeln!(out, "{}", style.heading(self.line(&headings, &widths, gap)))?;
        for row in &self.rows {
            writeln!(out, "{}", self.line(row, &widths, gap))?;
        }
        Ok(())
    }

    /// The gap between the columns, and their widths.
    fn layout(&self, columns: usize) -> (usize, Vec<usize>) {
        let mut widths: Vec<usize> = self.columns.iter().map(|(heading, _)| heading.len()).collect();
        for row in &self.rows {
            for (known, cell) in widths.iter_mut().zip(row) {
                *known = width(cell).max(*known);
            }
        }
        let needed = |gap: usize, widths: &[usize]| {
            INDENT + gap * widths.len().saturating_sub(1) + widths.iter().sum::<usize>()
        };
        // Closer together is better than without their ends, but does not help against long names.
        if let Some(gap) = GAPS.into_iter().find(|gap| needed(*gap, &widths) <= columns) {
            return (gap, widths);
        }
        let whole = widths.clone();
        for gap in GAPS {
            widths.clone_from(&whole);
            self.cut(&mut widths, needed(gap, &whole).saturating_sub(columns));
            if needed(gap, &widths) <= columns {
                return (gap, widths);
            }
        }
        (GAPS[1], widths)
    }

    /// Takes `over` columns from the names, always from the widest.
    fn cut(&self, widths: &mut [usize], over: usize) {
        for _ in 0..over {
            let names = widths.iter_mut().zip(&self.columns).filter(|(_, (_, align))| *align == Align::Left);
            match names.map(|(width, _)| width).max() {
                Some(widest) if *widest > NAME_MIN => *widest -= 1,
                _ => break,
            }
        }
    }

    fn line(&self, cells: &[String], widths: &[usize], gap: usize) -> String {
        let mut line = " ".repeat(INDENT);
        for (index, ((cell, limit), (_, align))) in cells.iter().zip(widths).zip(&self.columns).enumerate() {
            if index > 0 {
                line.push_str(&" ".repeat(gap));
            }
            let cell = shorten(cell, *limit);
            let padding = " ".repeat(limit.saturating_sub(width(&cell)));
            match align {
                Align::Left => line.extend([cell, padding]),
                Align::Right => line.extend([padding, cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(table: &Table, columns: usize) -> String {
        let mut out = Vec::new();
        table.write(&Style { color: false, width: columns }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn aligns_columns() {
        let mut table = Table::new(&[("lock", Align::Left), ("waits", Align::Right)]);
        table.row(vec!["数据".to_owned(), "1".to_owned()]);
        table.row(vec!["zone".to_owned(), "1234567".to_owned()]);
        assert_eq!(written(&table, 100), "  lock    waits\n  数据        1\n  zone  1234567\n");
    }

    #[test]
    fn columns_move_together_before_names_are_cut() {
        let mut table = Table::new(&[("lock", Align::Left), ("waits", Align::Right)]);
        table.row(vec!["zone->lock of a node".to_owned(), "9".repeat(37)]);
        assert!(written(&table, 61).contains("node  9"));
        assert!(written(&table, 60).contains("node 9"));
    }

    #[test]
    fn cuts_names_only() {
        let mut table = Table::new(&[("lock", Align::Left), ("waits", Align::Right)]);
        table.row(vec!["x".repeat(200), "1234567".to_owned()]);
        let text = written(&table, 70);
        assert!(text.lines().all(|line| width(line) <= 70), "{text}");
        assert!(text.contains("1234567"));
        assert!(text.contains("xxx...xxx"));
    }
}
