//! /proc/kallsyms: which functions and variables the kernel and its modules have, and where.

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

/// A lock this far behind a symbol (bytes) is not in its variable. The largest that have locks are hash
/// tables.
const LARGEST_VARIABLE: u64 = 1 << 20;

/// Variables, by address. Empty for kernels that list functions only (without CONFIG_KALLSYMS_ALL).
#[derive(Debug, Default)]
pub struct DataSymbols {
    /// Names, one after the other: there are tens of thousands.
    names: String,
    /// Address, and where the name begins and ends in `names`; sorted.
    symbols: Vec<(u64, u32, u32)>,
    /// Where the variables that each CPU has its own of begin and end.
    per_cpu: Option<(u64, u64)>,
    /// `kfree`, from which a reader of code can start.
    kfree: Option<u64>,
}

impl DataSymbols {
    /// Those of the running kernel; takes some 40 ms.
    pub fn read() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut data = Self::default();
        let mut end_of_code = None;
        for line in text.lines() {
            if line.ends_with(" kfree") {
                data.kfree = line.get(..16).and_then(|address| u64::from_str_radix(address, 16).ok());
            }
            // Sixteen digits, a space, the type. Most are functions, and quickly passed over.
            let is_function = match line.as_bytes().get(17) {
                Some(b'd' | b'D' | b'b' | b'B' | b'a' | b'A' | b'r' | b'R') => false,
                Some(b't' | b'T') => true,
                _ => continue,
            };
            if is_function && end_of_code.is_none() && !line.ends_with(" _etext") {
                continue;
            }
            let mut fields = line.split_ascii_whitespace();
            let (Some(address), Some(name)) = (fields.next(), fields.nth(1)) else { continue };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            // From 7.x on, some variables are called functions. They lie behind the kernel's code.
            if is_function && name == "_etext" {
                end_of_code = Some(address);
            }
            let is_module = fields.next().is_some();
            if is_function && (is_module || end_of_code.is_none_or(|end| address < end)) {
                continue;
            }
            let start = data.names.len() as u32;
            data.names.push_str(name);
            data.symbols.push((address, start, data.names.len() as u32));
        }
        data.symbols.sort_unstable();
        // Kernels list a few variables in any case; this one only if they list all. Addresses may be hidden.
        if data.address_of("init_task").is_none_or(|address| address == 0) {
            return Self { kfree: data.kfree, ..Self::default() };
        }
        data.per_cpu = data.address_of("__per_cpu_start").zip(data.address_of("__per_cpu_end"));
        data
    }

    /// The address of a variable, or of the function `kfree`.
    pub fn address_of(&self, name: &str) -> Option<u64> {
        if name == "kfree" {
            return self.kfree.filter(|address| *address != 0);
        }
        self.symbols.iter().find(|symbol| self.name(symbol) == name).map(|symbol| symbol.0)
    }

    /// The variable that holds `address`, and how far into it that is.
    pub fn at(&self, address: u64) -> Option<(&str, u64)> {
        // Those of a CPU's own have addresses from 0 on in some kernels: offsets.
        const KERNEL: u64 = 1 << 63;
        if address < KERNEL { None } else { self.before(address) }
    }

    /// The same for a variable that each CPU has its own of; `address` is that of its symbol.
    pub fn per_cpu(&self, address: u64) -> Option<(&str, u64)> {
        let (start, end) = self.per_cpu?;
        if (start..end).contains(&address) { self.before(address) } else { None }
    }

    fn before(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.symbols.partition_point(|symbol| symbol.0 <= address);
        let symbol = self.symbols.get(after.checked_sub(1)?)?;
        let offset = address - symbol.0;
        (offset < LARGEST_VARIABLE).then(|| (self.name(symbol), offset))
    }

    fn name(&self, symbol: &(u64, u32, u32)) -> &str {
        &self.names[symbol.1 as usize..symbol.2 as usize]
    }
}

/// Functions of the kernel and its modules, by address.
#[derive(Debug, Default)]
pub struct TextSymbols {
    /// Names, one after the other: there are a hundred thousand.
    names: String,
    /// Address, and where the name begins and ends in `names`; sorted.
    symbols: Vec<(u64, u32, u32)>,
}

impl TextSymbols {
    /// Those of the running kernel; takes some 40 ms. Empty if addresses are hidden.
    pub fn read() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let mut fields = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            let start = found.names.len() as u32;
            found.names.push_str(name);
            found.symbols.push((address, start, found.names.len() as u32));
        }
        found.symbols.sort_unstable();
        found
    }

    /// The function that holds `address`: its first byte, and that of the next symbol, which padding may come before.
    pub fn range_of(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.symbols.partition_point(|symbol| symbol.0 <= address);
        let start = self.symbols.get(after.checked_sub(1)?)?.0;
        Some((start, self.symbols.get(after)?.0))
    }

    /// The function that begins at `address`; the first of its names.
    pub fn name_at(&self, address: u64) -> Option<&str> {
        let first = self.symbols.partition_point(|symbol| symbol.0 < address);
        let (found, start, end) = *self.symbols.get(first)?;
        (found == address).then(|| &self.names[start as usize..end as usize])
    }

    /// The address of a function.
    pub fn address_of(&self, name: &str) -> Option<u64> {
        let found =
            self.symbols.iter().find(|symbol| &self.names[symbol.1 as usize..symbol.2 as usize] == name);
        found.map(|symbol| symbol.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_by_address() {
        let text = "0000000000000000 A __per_cpu_start\n0000000000021000 A runqueues\n\
                    0000000000030000 A __per_cpu_end\nffffffff82000000 D init_task\n\
                    ffffffff82600000 b inode_hash_lock\nffffffffc0000000 t a_function\t[xfs]\n";
        let data = DataSymbols::parse(text);
        assert_eq!(data.at(0xffff_ffff_8260_0000), Some(("inode_hash_lock", 0)));
        assert_eq!(data.at(0xffff_ffff_8260_0044), Some(("inode_hash_lock", 0x44)));
        assert_eq!(data.at(0xffff_8880_0000_1000), None);
        assert_eq!(data.at(0x21010), None);
        assert_eq!(data.per_cpu(0x21010), Some(("runqueues", 0x10)));
        assert_eq!(data.per_cpu(0x40000), None);
        // Some variables are called functions.
        let late = "ffffffff81000000 T kfree\nffffffff81f00000 T _etext\nffffffff82000000 T init_task\n\
                    ffffffff82600000 t input_pool\nffffffffc0000000 t a_function\t[xfs]\n";
        let data = DataSymbols::parse(late);
        assert_eq!(data.at(0xffff_ffff_8260_0078), Some(("input_pool", 0x78)));
        assert_eq!(data.at(0xffff_ffff_8100_0010), None);
        assert_eq!(data.at(0xffff_ffff_c000_0010), None);
        assert_eq!(data.address_of("kfree"), Some(0xffff_ffff_8100_0000));
        // Functions only: then the variables that are listed say nothing about those that are not.
        let few = DataSymbols::parse("ffffffff82600000 b inode_hash_lock\n");
        assert_eq!(few.at(0xffff_ffff_8260_0000), None);
    }

    #[test]
    fn functions_end_where_the_next_begins() {
        let text = "ffffffff81000000 T first\nffffffff81000000 t alias\nffffffff81000040 t __pfx_second\n\
                    ffffffff81000050 t second\nffffffff81000048 d data\nffffffff81000090 T third\n";
        let symbols = TextSymbols::parse(text);
        assert_eq!(
            symbols.range_of(0xffff_ffff_8100_003f),
            Some((0xffff_ffff_8100_0000, 0xffff_ffff_8100_0040))
        );
        assert_eq!(
            symbols.range_of(0xffff_ffff_8100_0055),
            Some((0xffff_ffff_8100_0050, 0xffff_ffff_8100_0090))
        );
        // Where the last ends is not known.
        assert_eq!(symbols.range_of(0xffff_ffff_8100_0091), None);
        assert_eq!(symbols.range_of(0x1000), None);
        assert_eq!(symbols.name_at(0xffff_ffff_8100_0000), Some("first"));
        assert_eq!(symbols.name_at(0xffff_ffff_8100_0001), None);
        assert_eq!(symbols.address_of("third"), Some(0xffff_ffff_8100_0090));
    }

    #[test]
    fn parses_functions_and_nothing_else() {
        let text =
            "ffffffff81000000 T one\nffffffff82000000 D data\nffffffffc0000000 t two\t[xfs]\nrubbish\n";
        let functions = parse(text, |_| true);
        assert_eq!(functions.len(), 2);
        assert_eq!(functions["two"], 0xffff_ffff_c000_0000);
    }
}
