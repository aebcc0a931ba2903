//! Types of a program, from DWARF.
//!
//! Nothing is read before it is asked for: a function leads by its address to its unit, and names of structures are found by
//! one pass over the units' outermost entries.

mod entry;
mod files;
mod index;

use std::cell::{OnceCell, RefCell};
use std::path::Path;
use std::sync::Arc;

use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, EndianArcSlice, Reader as _, RunTimeEndian,
    UnitOffset,
};
use rustc_hash::FxHashMap;

use self::files::Sections;
use self::index::Index;
use super::remembered::Remembered;
use super::{Prototype, Type, TypeId, TypeSource, TypesError, Variable, variant_of};

type Slice = EndianArcSlice<RunTimeEndian>;
type Unit = gimli::Unit<Slice>;
type Entry = DebuggingInformationEntry<Slice>;

/// Units whose tables are kept in memory.
const KEPT_UNITS: usize = 256;
/// Units of a file; large programs have some ten thousand.
const MAX_UNITS: usize = 1 << 20;
/// A type's id has the file (0: the program's, 1: what dwz moved out of it) above the offset in `.debug_info`.
const FILE_SHIFT: u32 = 40;

/// Types of a program.
pub struct DwarfTypes {
    files: Vec<File>,
    /// Addresses of functions and variables, by symbol.
    symbols: FxHashMap<String, u64>,
    index: OnceCell<Index>,
    records: RefCell<Remembered>,
}

struct File {
    dwarf: gimli::Dwarf<Slice>,
    /// Headers of the units by offset.
    headers: Vec<gimli::UnitHeader<Slice>>,
    units: RefCell<FxHashMap<usize, Arc<Unit>>>,
    /// Types that have units of their own, by signature.
    signatures: FxHashMap<u64, usize>,
}

/// Where an entry is: number of the file, offset in its `.debug_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    file: usize,
    offset: usize,
}

impl At {
    fn id(self) -> TypeId {
        TypeId((self.file as u64) << FILE_SHIFT | self.offset as u64)
    }

    fn of(id: TypeId) -> Self {
        let offset = id.0 & ((1 << FILE_SHIFT) - 1);
        Self { file: (id.0 >> FILE_SHIFT) as usize, offset: offset as usize }
    }
}

impl DwarfTypes {
    /// Those of a program or library, or of the file that holds its debug information: by build id or by name under
    /// /usr/lib/debug, or beside it.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or has no debug information.
    pub fn open(path: &Path) -> Result<Self, TypesError> {
        let found = files::find(path)?;
        let mut files = vec![File::new(&found.sections).map_err(|why| TypesError::file(path, why))?];
        if let Some(moved) = &found.moved {
            let sup = File::new(moved).map_err(|why| TypesError::file(path, why))?;
            files[0].dwarf.set_sup(moved.dwarf().map_err(|why| TypesError::file(path, why))?);
            files.push(sup);
        }
        let index = OnceCell::new();
        Ok(Self { files, symbols: found.symbols, index, records: RefCell::default() })
    }

    /// How the function at an address is called: the address as in the file, before it was loaded anywhere.
    pub fn prototype_at(&self, address: u64) -> Option<Prototype> {
        self.function_at(address).and_then(|at| self.prototype_of(at, false))
    }

    /// The entry of the function that begins at an address.
    fn function_at(&self, address: u64) -> Option<At> {
        let file = &self.files[0];
        (0..file.headers.len()).find_map(|number| {
            let unit = file.unit(number)?;
            let mut ranges = file.dwarf.unit_ranges(&unit).ok()?;
            let mut inside = false;
            let mut any = false;
            // As many as there are: each step reads on in its section.
            while let Ok(Some(range)) = ranges.next() {
                any = true;
                inside |= range.begin <= address && address < range.end;
            }
            if any && !inside {
                return None;
            }
            let mut entries = unit.entries();
            while let Ok(Some(entry)) = entries.next_dfs() {
                let begins = || match entry.attr_value(gimli::DW_AT_low_pc) {
                    Some(value) => file.dwarf.attr_address(&unit, value).ok().flatten() == Some(address),
                    None => false,
                };
                if entry.tag() == gimli::DW_TAG_subprogram && begins() {
                    return file.at(0, &unit, entry.offset());
                }
            }
            None
        })
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::new(&self.files))
    }

    /// An entry, with the unit that it is in.
    fn entry(&self, at: At) -> Option<(Arc<Unit>, Entry)> {
        let (unit, offset) = self.files.get(at.file)?.locate(at.offset)?;
        let entry = unit.entry(offset).ok()?;
        Some((unit, entry))
    }

    /// The entry that an attribute of an entry refers to.
    fn reference(&self, from: At, unit: &Unit, entry: &Entry, attribute: gimli::DwAt) -> Option<At> {
        let file = self.files.get(from.file)?;
        match entry.attr_value(attribute)? {
            AttributeValue::UnitRef(offset) => file.at(from.file, unit, offset),
            AttributeValue::DebugInfoRef(DebugInfoOffset(offset)) => Some(At { file: from.file, offset }),
            AttributeValue::DebugInfoRefSup(DebugInfoOffset(offset)) => Some(At { file: 1, offset }),
            AttributeValue::DebugTypesRef(signature) => {
                Some(At { file: from.file, offset: *file.signatures.get(&signature.0)? })
            }
            _ => None,
        }
    }

    fn text(&self, at: At, unit: &Unit, entry: &Entry, attribute: gimli::DwAt) -> Option<String> {
        let text = self.files.get(at.file)?.text(unit, entry, attribute)?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}

impl File {
    fn new(sections: &Sections) -> Result<Self, String> {
        let mut dwarf = sections.dwarf()?;
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let mut headers = Vec::new();
        let mut signatures = FxHashMap::default();
        let mut units = dwarf.units();
        // What comes after a damaged header is lost, what came before it is not.
        while let Ok(Some(header)) = units.next() {
            if headers.len() == MAX_UNITS {
                break;
            }
            let gimli::UnitSectionOffset(start) = header.offset();
            if let gimli::UnitType::Type { type_signature, type_offset } = header.type_() {
                signatures.insert(type_signature.0, start.saturating_add(type_offset.0));
            }
            headers.push(header);
        }
        if headers.is_empty() {
            return Err("its debug information is damaged".to_owned());
        }
        Ok(Self { dwarf, headers, units: RefCell::default(), signatures })
    }

    fn unit(&self, number: usize) -> Option<Arc<Unit>> {
        if let Some(known) = self.units.borrow().get(&number) {
            return Some(known.clone());
        }
        let unit = Arc::new(self.dwarf.unit(self.headers.get(number)?.clone()).ok()?);
        let mut units = self.units.borrow_mut();
        if units.len() >= KEPT_UNITS {
            units.clear();
        }
        units.insert(number, unit.clone());
        Some(unit)
    }

    /// The unit that an offset in `.debug_info` lies in, and the offset in the unit.
    fn locate(&self, offset: usize) -> Option<(Arc<Unit>, UnitOffset)> {
        let start = |header: &gimli::UnitHeader<Slice>| header.offset().0;
        let number = self.headers.partition_point(|header| start(header) <= offset).checked_sub(1)?;
        let unit = self.unit(number)?;
        let inside = UnitOffset(offset - start(&self.headers[number]));
        inside.is_in_bounds(&unit.header).then_some((unit, inside))
    }

    fn at(&self, file: usize, unit: &Unit, offset: UnitOffset) -> Option<At> {
        Some(At { file, offset: unit.header.offset().0.checked_add(offset.0)? })
    }

    fn text(&self, unit: &Unit, entry: &Entry, attribute: gimli::DwAt) -> Option<Vec<u8>> {
        let text = self.dwarf.attr_string(unit, entry.attr_value(attribute)?).ok()?;
        Some(text.to_slice().ok()?.into_owned()).filter(|text| !text.is_empty())
    }
}

impl TypeSource for DwarfTypes {
    fn get(&self, id: TypeId) -> Option<Type> {
        if id == TypeId::VOID { Some(Type::Void) } else { self.decode(At::of(id)) }
    }

    fn named(&self, name: &str) -> Vec<TypeId> {
        let mut found: Vec<TypeId> = Vec::new();
        for at in self.index().records(name) {
            // Names are found by their hash.
            let (same, target) = match self.decode(at) {
                Some(Type::Record(record)) => (record.name.as_deref() == Some(name), Some(at.id())),
                Some(Type::Alias { name: alias, .. }) => (alias == name, self.strip(at.id())),
                _ => (false, None),
            };
            let is_new = |target: &TypeId| {
                !found.contains(target) && matches!(self.get(*target), Some(Type::Record(_)))
            };
            if same && target.filter(is_new).is_some() {
                found.push(at.id());
            }
        }
        found
    }

    fn tagged(&self, tag: &str) -> Option<TypeId> {
        self.index().records(tag).map(At::id).find(|id| match self.get(*id) {
            Some(Type::Record(record)) => record.name.as_deref() == Some(tag),
            _ => false,
        })
    }

    fn prototype(&self, symbol: &str) -> Option<Prototype> {
        if let Some(at) = self.symbols.get(symbol).and_then(|address| self.function_at(*address)) {
            return self.prototype_of(at, variant_of(symbol).is_some());
        }
        let named = |name: &str| self.index().functions(name).find(|at| self.is_named(*at, name));
        named(symbol)
            .and_then(|at| self.prototype_of(at, false))
            .or_else(|| self.prototype_of(named(variant_of(symbol)?)?, true))
    }

    fn variable(&self, name: &str) -> Option<Variable> {
        let at = self.index().variables(name).find(|at| self.is_named(*at, name))?;
        let (unit, entry) = self.entry(at)?;
        let ty = self.reference(at, &unit, &entry, gimli::DW_AT_type)?.id();
        let offset = self.symbols.get(name).copied();
        Some(Variable { name: name.to_owned(), ty, per_cpu: false, offset, size: self.size(ty) })
    }

    fn names(&self) -> Vec<String> {
        self.index()
            .all_records()
            .filter_map(|at| match self.decode(at)? {
                Type::Record(record) => record.name,
                Type::Alias { name, .. } => Some(name),
                _ => None,
            })
            .collect()
    }
}
