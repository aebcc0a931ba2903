//! /proc/kallsyms: which functions the kernel and its modules have, and where.

use std::collections::HashMap;
use std::sync::OnceLock;

/// Functions that anything may ask for, with their addresses (0 where these are hidden).
///
/// Reading kallsyms takes some 40 ms, so it is read once, when first asked, and only what the ladder
/// may want is kept.
static FUNCTIONS: OnceLock<HashMap<String, u64>> = OnceLock::new();

/// Whether the kernel or a module has a function of this name that the ladder names.
pub fn has_function(name: &str) -> bool {
    functions().contains_key(name)
}

/// The address of a function that the ladder names; `None` if there is none or it is hidden.
pub fn address_of(name: &str) -> Option<u64> {
    functions().get(name).copied().filter(|address| *address != 0)
}

fn functions() -> &'static HashMap<String, u64> {
    FUNCTIONS.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let wanted: std::collections::HashSet<&str> = super::probes::PROBES
            .iter()
            .flat_map(|probe| probe.parts)
            .flat_map(|part| part.rungs)
            .flat_map(|rung| rung.attach)
            .flat_map(super::ladder::Attach::names)
            .copied()
            .collect();
        parse(&text, |name| wanted.contains(name))
    })
}

/// Lines read `ffffffff81000000 T name`, or end with the module in brackets.
fn parse(text: &str, wanted: impl Fn(&str) -> bool) -> HashMap<String, u64> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let address = u64::from_str_radix(fields.next()?, 16).ok()?;
            let kind = fields.next()?;
            let name = fields.next()?;
            (matches!(kind, "t" | "T" | "w" | "W") && wanted(name)).then(|| (name.to_owned(), address))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_functions_and_nothing_else() {
        let text =
            "ffffffff81000000 T one\nffffffff82000000 D data\nffffffffc0000000 t two\t[xfs]\nrubbish\n";
        let functions = parse(text, |_| true);
        assert_eq!(functions.len(), 2);
        assert_eq!(functions["two"], 0xffff_ffff_c000_0000);
    }
}
