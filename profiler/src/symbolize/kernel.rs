//! Kernel addresses: names by blazesym from kallsyms, modules by their place in memory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use rustc_hash::FxBuildHasher;

use crate::profile::{Frame, Origin};

/// kallsyms knows where symbols begin, not where they end. No function of the kernel is as long as
/// this (bytes), so an address this far behind a symbol is not in it.
const LONGEST_FUNCTION: usize = 1 << 20;

/// Names of kernel addresses.
pub struct KernelSymbols {
    symbolizer: Symbolizer,
    /// A file with the form of /proc/kallsyms in place of that.
    kallsyms: Option<PathBuf>,
    modules: Vec<Module>,
    known: HashMap<u64, Frame, FxBuildHasher>,
}

/// A kernel module's code.
struct Module {
    start: u64,
    end: u64,
    name: Arc<str>,
}

impl KernelSymbols {
    /// For the running kernel, with the modules that are loaded now.
    pub fn new() -> Self {
        let text = std::fs::read_to_string("/proc/modules").unwrap_or_default();
        let modules = parse_modules(&text);
        Self { symbolizer: super::names_only(), kallsyms: None, modules, known: HashMap::default() }
    }

    /// For another kernel, or another boot, with a copy of its /proc/kallsyms. No address is then known to
    /// lie in a module.
    pub fn from_file(kallsyms: &Path) -> Self {
        let kallsyms = Some(kallsyms.to_owned());
        Self { symbolizer: super::names_only(), kallsyms, modules: Vec::new(), known: HashMap::default() }
    }

    /// Looks many addresses up at once.
    ///
    /// The address of a caller is where it will go on after the call; that may lie behind its end,
    /// in another function or in padding (`__pfx_` symbols), so callers must be looked up by the
    /// byte before it. This is up to whoever knows which frame is which: see [`lookup_address`].
    pub fn resolve(&mut self, addresses: &[u64]) {
        let new: Vec<u64> =
            addresses.iter().copied().filter(|address| !self.known.contains_key(address)).collect();
        if new.is_empty() {
            return;
        }
        let kallsyms = self.kallsyms.clone().map_or(MaybeDefault::Default, MaybeDefault::Some);
        let kernel = Kernel { kallsyms, vmlinux: MaybeDefault::None, ..Kernel::default() };
        let symbols = self.symbolizer.symbolize(&Source::Kernel(kernel), Input::AbsAddr(&new));
        let symbols = symbols.unwrap_or_else(|error| {
            tracing::debug!("kernel symbols: {error}");
            Vec::new()
        });
        for (i, address) in new.into_iter().enumerate() {
            let module = self.module_of(address);
            let frame = match symbols.get(i) {
                Some(Symbolized::Sym(symbol)) if symbol.offset < LONGEST_FUNCTION => {
                    Frame { name: symbol.name.as_ref().into(), module, origin: Origin::Kernel }
                }
                _ => Frame { name: hex(address).into(), module, origin: Origin::Kernel },
            };
            self.known.insert(address, frame);
        }
    }

    /// The name of an address that was resolved before.
    pub fn get(&self, address: u64) -> Frame {
        match self.known.get(&address) {
            Some(frame) => frame.clone(),
            None => Frame { name: hex(address).into(), module: None, origin: Origin::Kernel },
        }
    }

    /// The name of an address that was resolved before; `None` if it lies in no function.
    pub fn name(&self, address: u64) -> Option<Arc<str>> {
        let name = &self.known.get(&address)?.name;
        (**name != *hex(address)).then(|| name.clone())
    }

    /// Where a module's code begins.
    pub fn module_start(&self, name: &str) -> Option<u64> {
        self.modules.iter().find(|module| *module.name == *name).map(|module| module.start)
    }

    fn module_of(&self, address: u64) -> Option<Arc<str>> {
        let index = self.modules.partition_point(|module| module.start <= address);
        let module = self.modules.get(index.checked_sub(1)?)?;
        (address < module.end).then(|| module.name.clone())
    }
}

/// What stands in for the name of an address that has none.
fn hex(address: u64) -> String {
    format!("{address:#018x}")
}

impl Default for KernelSymbols {
    fn default() -> Self {
        Self::new()
    }
}

/// The address by which a frame is looked up: its own for the innermost frame, where the CPU was,
/// and the byte before for its callers.
pub fn lookup_address(ip: u64, innermost: bool) -> u64 {
    if innermost { ip } else { ip.saturating_sub(1) }
}

/// /proc/modules: name, size, references, users, state, address, a module a line.
fn parse_modules(text: &str) -> Vec<Module> {
    let mut modules: Vec<Module> = text
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let name = fields.next()?;
            let size: u64 = fields.next()?.parse().ok()?;
            let start = u64::from_str_radix(fields.nth(3)?.strip_prefix("0x")?, 16).ok()?;
            (start != 0).then(|| Module { start, end: start.saturating_add(size), name: name.into() })
        })
        .collect();
    modules.sort_by_key(|module| module.start);
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_module_of_an_address() {
        let symbols = KernelSymbols {
            symbolizer: super::super::names_only(),
            kallsyms: None,
            modules: parse_modules(
                "xfs 1000 1 - Live 0xffffffffc0300000\nlibcrc32c 4096 2 xfs,nf_nat, Live 0xffffffffc0200000 (O)\n\
                 hidden 10 0 - Live 0x0000000000000000\nrubbish\n",
            ),
            known: HashMap::default(),
        };
        assert_eq!(symbols.module_of(0xffff_ffff_c030_0010).as_deref(), Some("xfs"));
        assert_eq!(symbols.module_of(0xffff_ffff_c020_0fff).as_deref(), Some("libcrc32c"));
        assert_eq!(symbols.module_of(0xffff_ffff_c020_1000), None);
        assert_eq!(symbols.module_of(0xffff_ffff_8100_0000), None);
    }

    /// Every function with padding in front, checked by its own first byte and the padding's.
    #[test]
    fn a_function_is_never_named_after_its_padding() {
        let Ok(kallsyms) = std::fs::read_to_string("/proc/kallsyms") else { return };
        let mut addresses = HashMap::new();
        for line in kallsyms.lines() {
            let mut fields = line.split_whitespace();
            let (Some(address), Some(_), Some(name)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            addresses.insert(name.to_owned(), address);
        }
        let functions: Vec<u64> = addresses
            .keys()
            .filter_map(|name| addresses.get(name.strip_prefix("__pfx_")?).copied())
            .filter(|address| *address != 0)
            .take(2000)
            .collect();
        let mut symbols = KernelSymbols::new();
        symbols.resolve(&functions);
        for address in functions {
            let frame = symbols.get(address);
            assert!(!frame.name.starts_with("__pfx_"), "{address:#x} is named {}", frame.name);
        }
    }
}
