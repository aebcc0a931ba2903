//! Where a program's debug information is: in itself, or in a file apart.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimli::RunTimeEndian;
use object::read::{ReadCache, ReadRef};
use object::{Object as _, ObjectKind, ObjectSymbol as _, SymbolKind};
use rustc_hash::FxHashMap;

use super::Slice;
use crate::types::TypesError;
use crate::types::file::{open, section};

/// Where distributions put debug information.
const DEBUG: &str = "/usr/lib/debug";
/// Bytes of debug information that are kept in memory at most.
const MAX_BYTES: usize = 2 << 30;
/// Symbols that are read at most.
const MAX_SYMBOLS: usize = 1 << 22;

/// What was found.
pub(super) struct Found {
    pub sections: Sections,
    /// What dwz moved out of the files of a package into one that they share.
    pub moved: Option<Sections>,
    pub symbols: FxHashMap<String, u64>,
}

/// Sections with debug information.
pub(super) struct Sections {
    endian: RunTimeEndian,
    sections: FxHashMap<&'static str, Arc<[u8]>>,
}

/// Those that types are in. The line table is not needed, but units cannot be read without it.
const WANTED: [gimli::SectionId; 10] = [
    gimli::SectionId::DebugAbbrev,
    gimli::SectionId::DebugAddr,
    gimli::SectionId::DebugInfo,
    gimli::SectionId::DebugLine,
    gimli::SectionId::DebugLineStr,
    gimli::SectionId::DebugRanges,
    gimli::SectionId::DebugRngLists,
    gimli::SectionId::DebugStr,
    gimli::SectionId::DebugStrOffsets,
    gimli::SectionId::DebugTypes,
];

impl Sections {
    /// `None` if the file has no debug information.
    fn read<'d>(elf: &object::File<'d, impl ReadRef<'d>>) -> Result<Option<Self>, String> {
        let endian = if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let mut sections = FxHashMap::default();
        let mut bytes = 0;
        for id in WANTED {
            if let Some(data) = section(elf, id.name())? {
                bytes += data.len();
                if bytes > MAX_BYTES {
                    return Err(format!("its debug information has more than {MAX_BYTES} bytes"));
                }
                sections.insert(id.name(), Arc::from(data));
            }
        }
        let has_types = sections.get(".debug_info").is_some_and(|info: &Arc<[u8]>| !info.is_empty());
        Ok(has_types.then_some(Self { endian, sections }))
    }

    /// A reader of them.
    pub fn dwarf(&self) -> Result<gimli::Dwarf<Slice>, String> {
        gimli::Dwarf::load(|id| {
            let data = self.sections.get(id.name()).cloned().unwrap_or_else(|| Arc::from([]));
            Ok::<_, String>(Slice::new(data, self.endian))
        })
    }
}

/// The debug information of a program.
pub(super) fn find(path: &Path) -> Result<Found, TypesError> {
    let error = |why: &dyn std::fmt::Display| TypesError::file(path, why);
    let cache = ReadCache::new(open(path)?);
    let elf = object::File::parse(&cache).map_err(|why| error(&why))?;
    if elf.kind() == ObjectKind::Relocatable {
        return Err(error(
            &"it is not linked; its debug information is not in place yet (for a kernel module, use --btf)",
        ));
    }
    let mut symbols = symbols(&elf);
    if let Some(sections) = Sections::read(&elf).map_err(|why| error(&why))? {
        let moved = moved(path, &elf);
        return Ok(Found { sections, moved, symbols });
    }
    let build_id = elf.build_id().ok().flatten();
    for candidate in candidates(path, &elf) {
        let Ok(file) = open(&candidate) else { continue };
        let cache = ReadCache::new(file);
        let Ok(debug) = object::File::parse(&cache) else { continue };
        // Left over from another version, it would tell lies.
        if debug.build_id().ok().flatten() != build_id {
            continue;
        }
        if let Ok(Some(sections)) = Sections::read(&debug) {
            symbols.extend(self::symbols(&debug));
            return Ok(Found { sections, moved: moved(&candidate, &debug), symbols });
        }
    }
    Err(error(&format!(
        "it has no debug information (DWARF), and there is none under {DEBUG} that belongs to it"
    )))
}

/// Where the debug information of a stripped program may be.
fn candidates<'d>(path: &Path, elf: &object::File<'d, impl ReadRef<'d>>) -> Vec<PathBuf> {
    let mut candidates = Vec::new();
    if let Ok(Some(id)) = elf.build_id() {
        candidates.extend(by_build_id(id));
    }
    let Ok(Some((name, _crc))) = elf.gnu_debuglink() else { return candidates };
    // A name, not a path: a hostile program has no say in which file is read.
    let Some(name) = Path::new(OsStr::from_bytes(name)).file_name() else { return candidates };
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = real.parent().unwrap_or(Path::new("/"));
    candidates.push(folder.join(".debug").join(name));
    candidates.push(folder.join(name));
    candidates.push(Path::new(DEBUG).join(folder.strip_prefix("/").unwrap_or(folder)).join(name));
    candidates
}

fn by_build_id(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first().filter(|(_, rest)| (1..64).contains(&rest.len()))?;
    let mut name = format!("{first:02x}/");
    for byte in rest {
        write!(name, "{byte:02x}").ok()?;
    }
    Some(Path::new(DEBUG).join(".build-id").join(name + ".debug"))
}

/// What dwz moved out of a file. It is found by build id, or by a path that the file names: only under [`DEBUG`].
fn moved<'d>(path: &Path, elf: &object::File<'d, impl ReadRef<'d>>) -> Option<Sections> {
    let (name, id) = elf.gnu_debugaltlink().ok()??;
    let folder = path.parent()?;
    let named = folder.join(Path::new(OsStr::from_bytes(name))).canonicalize().ok();
    let named = named.filter(|named| named.starts_with(DEBUG));
    by_build_id(id).into_iter().chain(named).find_map(|candidate| {
        let cache = ReadCache::new(open(&candidate).ok()?);
        let file = object::File::parse(&cache).ok()?;
        (file.build_id().ok()? == Some(id)).then(|| Sections::read(&file).ok().flatten())?
    })
}

/// Addresses of functions and variables.
fn symbols<'d>(elf: &object::File<'d, impl ReadRef<'d>>) -> FxHashMap<String, u64> {
    elf.symbols()
        .chain(elf.dynamic_symbols())
        .take(MAX_SYMBOLS)
        .filter(|symbol| {
            symbol.is_definition() && matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data)
        })
        .filter_map(|symbol| Some((String::from_utf8_lossy(symbol.name_bytes().ok()?), symbol.address())))
        .map(|(name, address): (Cow<'_, str>, u64)| (name.into_owned(), address))
        .collect()
}
