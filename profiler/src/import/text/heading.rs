//! What a text calls the profile that comes next.

/// Longest heading that is kept, in bytes.
const MAX: usize = 200;

/// The last line of prose.
#[derive(Default)]
pub(super) struct Heading(Option<String>);

impl Heading {
    /// Takes note of a line that is no data: `Machine A:`, or `# A: the first run`.
    pub fn line(&mut self, text: &str) {
        let text = text.trim().trim_start_matches('#').trim();
        let text = text.strip_suffix(':').unwrap_or(text).trim_end();
        // Rules and underlines are no words.
        if !text.chars().any(char::is_alphanumeric) {
            return;
        }
        let mut end = text.len().min(MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.0 = Some(text[..end].to_owned());
    }

    /// The heading of the profile that begins now, if there was a line since the last one.
    pub fn take(&mut self) -> Option<String> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_with_words_is_the_heading() {
        let mut heading = Heading::default();
        for line in ["# Two machines.", "Machine A:", "==========", "#"] {
            heading.line(line);
        }
        assert_eq!(heading.take().as_deref(), Some("Machine A"));
        assert_eq!(heading.take(), None);
        heading.line(&"ü".repeat(500));
        assert_eq!(heading.take().unwrap().len(), MAX);
    }
}
