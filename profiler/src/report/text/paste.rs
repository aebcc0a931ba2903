//! Commands and settings to be copied: never wrapped as text is, since that would change them.

use std::io::{self, Write};

use super::style::Style;
use crate::report::escape::{sanitize, width};

/// Columns before it, so that it stands apart from the text of advice.
const INDENT: usize = 7;
/// Columns before the continuation of a line.
const CONTINUED: usize = INDENT + 4;
/// Bytes that are shown: half a command would be worse than none.
const LONGEST: usize = 4000;

/// Writes what is to be pasted, indented. Lines that are too long are continued behind a backslash where a
/// shell (or udev, or a C compiler) lets them; a line that has no such place is left as it is.
pub(crate) fn write(text: &str, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    if text.len() > LONGEST {
        return writeln!(out, "{:INDENT$}(too long to be shown; session.json has it)", "");
    }
    for line in text.lines() {
        for (index, part) in continued(&sanitize(line), style.columns()).iter().enumerate() {
            let indent = if index == 0 { INDENT } else { CONTINUED };
            writeln!(out, "{:indent$}{part}", "")?;
        }
    }
    Ok(())
}

/// `line` in parts, all but the last with a backslash at its end.
fn continued(line: &str, columns: usize) -> Vec<String> {
    // What a part needs of a line: its indent, and ` \`.
    let room = |parts: usize| columns - if parts == 0 { INDENT } else { CONTINUED } - 2;
    let mut parts: Vec<String> = Vec::new();
    let mut part = String::new();
    for word in words(line) {
        if !part.is_empty() && width(&part) + 1 + width(word) > room(parts.len()) {
            parts.push(format!("{part} \\"));
            part.clear();
        }
        if !part.is_empty() {
            part.push(' ');
        }
        part.push_str(word);
    }
    parts.push(part);
    // If it fits as it is, it stays as it is, spaces and all.
    if parts.len() == 1 || width(line) + INDENT <= columns { vec![line.to_owned()] } else { parts }
}

/// The parts of a shell's line that a continuation may stand between: separated by spaces that are neither
/// quoted, nor escaped, nor in a comment.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut quote = None;
    let mut escaped = false;
    let mut before = ' ';
    for (index, c) in line.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (None, '#') if before == ' ' => break,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, ' ') => {
                words.push(&line[start..index]);
                start = index + 1;
            }
            _ => {}
        }
        before = c;
    }
    words.push(&line[start..]);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_lines_are_continued_between_words() {
        let line = "echo 'a quoted text stays' | tee /etc/udev/rules.d/60-readahead.rules";
        assert_eq!(
            continued(line, 60),
            ["echo 'a quoted text stays' | tee \\", "/etc/udev/rules.d/60-readahead.rules"]
        );
        assert_eq!(continued(line, 100), [line]);
        let long = format!("echo '{}'", "x y ".repeat(40));
        assert_eq!(continued(&long, 100), ["echo \\".to_owned(), long[5..].to_owned()]);
        let comment = format!("sync  # {}", "comments cannot be continued ".repeat(4));
        assert_eq!(continued(&comment, 100).len(), 2);
        assert_eq!(continued("a  b", 100), ["a  b"]);
    }

    proptest! {
        #[test]
        fn a_shell_reads_the_same(line in "([ab#]{1,9}|\"[ab ']{0,20}\"|'[ab \"]{0,20}'|\\\\ |[ ]|-){0,60}") {
            let parts = continued(&line, 60);
            // The first thing that a shell does, outside of single quotes.
            let joined = parts.join("\n    ").replace("\\\n", "");
            prop_assert_eq!(shlex::split(&joined), shlex::split(&line), "{:?}", parts);
        }
    }
}
