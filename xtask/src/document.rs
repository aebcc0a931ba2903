//! Documents that are written in part: what stands between two lines of comments.

use anyhow::Context as _;

/// The document with this text between `<!-- NAME -->` and `<!-- /NAME -->`, which are added to its end if it has none.
///
/// # Errors
///
/// If only one of the two is there.
pub fn with_section(document: &str, name: &str, text: &str) -> anyhow::Result<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n"));
    let section = format!("{begin}\n{}\n\n{end}", text.trim());
    let Some((before, rest)) = document.split_once(&begin) else {
        anyhow::ensure!(!document.contains(&end), "there is `{}` without its beginning", end.trim());
        let space = if document.is_empty() { "" } else { "\n" };
        return Ok(format!("{document}{space}{section}"));
    };
    let (_, after) = rest.split_once(&end).with_context(|| format!("`{}` has no end", begin.trim()))?;
    Ok(format!("{before}{section}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_added_and_replaced() {
        let first = with_section("# Title\n", "a", "one\n").unwrap();
        assert_eq!(first, "# Title\n\n<!-- a -->\n\none\n\n<!-- /a -->\n");
        let more = format!("{first}\nMore.\n");
        let second = with_section(&more, "a", "two").unwrap();
        assert_eq!(second, more.replace("one", "two"));
        assert!(with_section("<!-- a -->\n", "a", "").is_err());
        assert!(with_section("<!-- /a -->\n", "a", "").is_err());
    }
}
