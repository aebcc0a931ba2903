//! Makes names from outside safe to print.
//!
//! Thread names, symbols, paths and host names can hold any bytes: escape sequences that take over a
//! terminal, line breaks that forge report lines, bidirectional overrides that turn text around.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What replaces the middle of a name that is too long.
pub(super) const CUT: &str = "...";

/// Whether `c` shows as itself and takes up room: everything else would hide or disturb what is
/// around it.
pub(super) fn is_harmless(c: char) -> bool {
    let separator = matches!(c, '\u{2028}' | '\u{2029}');
    // The last two code points of each plane, and these 32, are never characters; XML forbids some.
    let noncharacter = matches!(c as u32 & 0xffff, 0xfffe | 0xffff) || ('\u{fdd0}'..='\u{fdef}').contains(&c);
    // Controls have no width; bidirectional controls, joiners, combining marks and tags have width 0.
    let visible = c.width().is_some_and(|width| width > 0);
    visible && !c.is_control() && !separator && !noncharacter
}

/// `name` with everything that is not plainly visible written out, such as `\x1b` or `\u{202e}`.
pub fn sanitize(name: &str) -> Cow<'_, str> {
    if name.chars().all(is_harmless) {
        return name.into();
    }
    let mut safe = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        match c {
            c if is_harmless(c) => safe.push(c),
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            c if c.is_ascii() => drop(write!(safe, "\\x{:02x}", c as u32)),
            c => drop(write!(safe, "\\u{{{:x}}}", c as u32)),
        }
    }
    safe.into()
}

/// [`sanitize`], at most `width` columns wide: the middle of longer names is cut out.
pub fn sanitize_to(name: &str, width: usize) -> String {
    shorten(&sanitize(name), width)
}

/// Columns that a sanitized text takes up.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// `text` with its middle cut out where it is wider than `limit` columns. The text must be sanitized.
pub fn shorten(text: &str, limit: usize) -> String {
    // Counted by characters, which is never less than the width of the whole.
    let char_width = |c: char| c.width().unwrap_or(0);
    if text.chars().map(char_width).sum::<usize>() <= limit {
        return text.to_owned();
    }
    let room = limit.saturating_sub(CUT.len());
    // The beginning of a name says more than its end.
    let head = take_width(text.chars(), room - room / 3);
    let tail: String = take_width(text.chars().rev(), room / 3).chars().rev().collect();
    let cut = &CUT[..CUT.len().min(limit)];
    format!("{head}{cut}{tail}")
}

fn take_width(chars: impl Iterator<Item = char>, limit: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= limit
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn harmless_names_stay() {
        for name in ["fio", "xfs_agino_range", "operator new(unsigned long)", "größe", "数据库", ""] {
            assert!(matches!(sanitize(name), Cow::Borrowed(same) if same == name));
        }
    }

    #[test]
    fn dangerous_characters_show() {
        assert_eq!(sanitize("\x1b[31mred\x07"), "\\x1b[31mred\\x07");
        assert_eq!(sanitize("a\nb\r\tc\x7f"), "a\\nb\\r\\tc\\x7f");
        assert_eq!(sanitize("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(sanitize("abc\u{202e}txt\u{2066}"), "abc\\u{202e}txt\\u{2066}");
        assert_eq!(sanitize("a\u{200b}b\u{feff}\u{200d}"), "a\\u{200b}b\\u{feff}\\u{200d}");
        assert_eq!(sanitize("a\u{301}\u{2028}\u{ffff}\u{1fffe}"), "a\\u{301}\\u{2028}\\u{ffff}\\u{1fffe}");
        assert_eq!(sanitize("\0"), "\\x00");
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(sanitize_to("abcdefghijklmnopqrstuvwxyz", 12), "abcdef...xyz");
        assert_eq!(sanitize_to("short", 12), "short");
        assert_eq!(sanitize_to("abcdef", 2), "..");
        assert_eq!(sanitize_to("abcdef", 0), "");
    }

    proptest! {
        #[test]
        fn always_printable_and_never_too_wide(name in any::<String>(), limit in 0usize..60) {
            let safe = sanitize_to(&name, limit);
            prop_assert!(safe.chars().all(is_harmless), "{safe:?}");
            prop_assert!(width(&safe) <= limit, "{safe:?} is wider than {limit}");
            let whole = sanitize(&name);
            prop_assert_eq!(sanitize(&whole), whole.clone());
        }
    }
}
