//! The lines of a call tree as text.

/// A line `name(72.933% 956297/1311194)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TreeLine<'a> {
    /// Columns before the name; tabs go to multiples of 8.
    pub column: usize,
    /// The function.
    pub name: &'a str,
    /// Share of the parent, in percent.
    pub percent: f64,
    /// Its weight.
    pub count: u64,
    /// Its parent's weight.
    pub parent: u64,
    /// The part of the report in which its callees are.
    pub section: Option<u32>,
}

impl<'a> TreeLine<'a> {
    pub fn parse(line: &'a str) -> Option<Self> {
        let (column, text) = indentation(line);
        let mut text = without_arrow(text).trim_end();
        let mut section = None;
        if let Some((before, number)) = text.strip_suffix(']').and_then(|text| text.rsplit_once(" [")) {
            section = number.parse().ok();
            if section.is_some() {
                text = before.trim_end();
            }
        }
        let (name, numbers) = text.strip_suffix(')')?.rsplit_once('(')?;
        let (percent, counts) = numbers.split_once("% ")?;
        let (count, parent) = counts.trim().split_once('/')?;
        let line = Self {
            column,
            name: name.trim_end(),
            // Some locales have a comma.
            percent: percent
                .trim()
                .replace(',', ".")
                .parse()
                .ok()
                .filter(|percent: &f64| percent.is_finite())?,
            count: count.parse().ok()?,
            parent: parent.parse().ok()?,
            section,
        };
        (!line.name.is_empty()).then_some(line)
    }

    /// Whether share and counts say the same, as far as the share's digits go.
    pub fn adds_up(&self) -> bool {
        let percent = if self.parent == 0 { 0.0 } else { self.count as f64 * 100.0 / self.parent as f64 };
        self.count <= self.parent && (percent - self.percent).abs() < 0.06
    }
}

/// Columns before the text of a line, and the text.
pub(super) fn indentation(line: &str) -> (usize, &str) {
    let mut column = 0usize;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b' ' => column += 1,
            b'\t' => column = column / 8 * 8 + 8,
            _ => return (column, &line[at..]),
        }
    }
    (column, "")
}

/// A line without ` <----- what stands out`.
fn without_arrow(text: &str) -> &str {
    match text.find("<--") {
        Some(at) if at == 0 || text[..at].ends_with([' ', '\t']) => &text[..at],
        _ => text,
    }
}

/// `[1] continued from depth 8:`: the number.
pub(super) fn continued(line: &str) -> Option<u32> {
    let (number, rest) = line.strip_prefix('[')?.split_once(']')?;
    rest.trim_start().starts_with("continued").then(|| number.parse().ok())?
}

/// Whether the line only points at the line before it.
pub(super) fn is_arrow(text: &str) -> bool {
    text.starts_with("<--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_all_their_forms() {
        let line = TreeLine::parse("\t    f(unsigned long) [xfs](72.933% 956297/1311194)  <----- a, b  [3]")
            .unwrap();
        assert_eq!((line.column, line.name, line.section), (12, "f(unsigned long) [xfs]", None));
        let line = TreeLine::parse("  \tf(72,933% 956297/1311194)  [3]").unwrap();
        assert_eq!((line.column, line.percent, line.section), (8, 72.933, Some(3)));
        assert!(line.adds_up());
        for text in
            ["f(72% 5)", "f(x% 1/2)", "(1% 1/100)", "f(1% 1/100", "f(1% -1/100)", "...", "f(nan% 1/2)"]
        {
            assert_eq!(TreeLine::parse(text), None, "{text}");
        }
        assert!(!TreeLine::parse("f(50.000% 3/4)").unwrap().adds_up());
        assert!(!TreeLine::parse("f(133.333% 4/3)").unwrap().adds_up());
        assert_eq!(continued("[12] continued from depth 8:"), Some(12));
        assert_eq!(continued("[x] continued"), None);
    }
}
