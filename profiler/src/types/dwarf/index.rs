//! Which entries have a name: structures, functions and variables outside of any function.

use std::hash::Hasher as _;

use rustc_hash::{FxHashMap, FxHasher};

use super::{At, Entry, File, Unit};

/// Entries by the hash of their name.
#[derive(Default)]
pub(super) struct Index {
    records: FxHashMap<u64, Vec<Known>>,
    functions: FxHashMap<u64, At>,
    variables: FxHashMap<u64, At>,
}

/// A structure. Every unit describes it anew; those of one size are taken for the same.
struct Known {
    size: u64,
    alias: bool,
    at: At,
}

/// Different structures of one name that are told apart.
const MAX_SAME_NAME: usize = 16;
/// Namespaces of C++ and Rust within namespaces.
const MAX_NAMESPACES: isize = 16;

impl Index {
    pub fn new(files: &[File]) -> Self {
        let mut index = Self::default();
        for (number, file) in files.iter().enumerate() {
            for unit in (0..file.headers.len()).filter_map(|unit| file.unit(unit)) {
                // A damaged unit ends early.
                let _ = index.add_unit(number, file, &unit);
            }
        }
        index
    }

    pub fn records(&self, name: &str) -> impl Iterator<Item = At> {
        self.records.get(&hash(name.as_bytes())).into_iter().flatten().map(|known| known.at)
    }

    pub fn all_records(&self) -> impl Iterator<Item = At> {
        self.records.values().flatten().map(|known| known.at)
    }

    pub fn functions(&self, name: &str) -> impl Iterator<Item = At> {
        self.functions.get(&hash(name.as_bytes())).copied().into_iter()
    }

    pub fn variables(&self, name: &str) -> impl Iterator<Item = At> {
        self.variables.get(&hash(name.as_bytes())).copied().into_iter()
    }

    fn add_unit(&mut self, number: usize, file: &File, unit: &Unit) -> gimli::Result<()> {
        let mut entries = unit.entries();
        // The unit itself, then its children.
        if !entries.next_entry()? || !entries.next_entry()? {
            return Ok(());
        }
        loop {
            let Some(entry) = entries.current() else {
                // The end of a namespace; that of the unit is the end of everything.
                if !entries.next_entry()? {
                    return Ok(());
                }
                continue;
            };
            let descend = entry.tag() == gimli::DW_TAG_namespace && entry.depth() <= MAX_NAMESPACES;
            self.add(number, file, unit, entry);
            if descend && entry.has_children() {
                entries.next_entry()?;
            } else {
                entries.next_sibling()?;
            }
        }
    }

    fn add(&mut self, number: usize, file: &File, unit: &Unit, entry: &Entry) {
        let alias = entry.tag() == gimli::DW_TAG_typedef;
        let is_record = matches!(
            entry.tag(),
            gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type | gimli::DW_TAG_class_type
        );
        let (function, variable) =
            (entry.tag() == gimli::DW_TAG_subprogram, entry.tag() == gimli::DW_TAG_variable);
        if !(alias || is_record || function || variable) {
            return;
        }
        let Some(at) = file.at(number, unit, entry.offset()) else { return };
        // What is only declared is of no use, but a function's declaration has its parameters.
        let declared = entry.attr_value(gimli::DW_AT_declaration).is_some();
        let name = |attribute| file.text(unit, entry, attribute).map(|name| hash(&name));
        let Some(hash) = name(gimli::DW_AT_name) else { return };
        if function {
            self.functions.entry(hash).or_insert(at);
            if let Some(linkage) = name(gimli::DW_AT_linkage_name) {
                self.functions.entry(linkage).or_insert(at);
            }
        } else if variable && !declared {
            self.variables.entry(hash).or_insert(at);
        } else if is_record && !declared || alias {
            let size = entry.attr(gimli::DW_AT_byte_size).and_then(|size| size.udata_value()).unwrap_or(0);
            let known = self.records.entry(hash).or_default();
            let same = |other: &Known| other.size == size && other.alias == alias;
            if known.len() < MAX_SAME_NAME && !known.iter().any(same) {
                known.push(Known { size, alias, at });
            }
        }
    }
}

fn hash(name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name);
    hasher.finish()
}
