//! Files with types in them: raw BTF, and sections of ELF files. They are hostile until read.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use object::read::{ReadCache, ReadRef};
use object::{Object as _, ObjectKind, ObjectSection as _};

use super::TypesError;

/// Bytes of a section, uncompressed, that are read at most. The largest of a kernel has 300 MB; a file with holes can claim
/// anything.
const MAX_SECTION: u64 = 1 << 30;
/// A compressed section that claims to grow by more than this was made to fill the memory; real ones grow by 5.
const MAX_GROWTH: u64 = 200;

/// BTF of a file.
pub(super) struct Found {
    pub btf: Vec<u8>,
    /// What its types are on top of; `None` if they stand alone.
    pub base: Option<Base>,
}

/// The kernel's types that a module's are on top of.
pub(super) enum Base {
    /// Those of the running kernel.
    Running,
    /// Those few that the module brings along.
    Own(Vec<u8>),
}

/// Opens a file; anything but a regular file (a pipe would block) is refused.
pub(super) fn open(path: &Path) -> Result<File, TypesError> {
    let error = |why: &dyn std::fmt::Display| TypesError::file(path, why);
    let is_file = std::fs::metadata(path).map_err(|why| error(&why))?.is_file();
    if !is_file {
        return Err(error(&"it is no regular file"));
    }
    File::open(path).map_err(|why| error(&why))
}

/// The BTF of a file, raw or in an ELF file.
pub(super) fn btf(path: &Path) -> Result<Found, TypesError> {
    let error = |why: &dyn std::fmt::Display| TypesError::file(path, why);
    let mut file = open(path)?;
    let mut magic = [0; 4];
    file.read_exact(&mut magic).map_err(|why| error(&why))?;
    if magic != *b"\x7fELF" {
        let compressed = [&b"\x1f\x8b"[..], b"\xfd7zX", b"\x28\xb5\x2f\xfd", b"BZh"];
        if compressed.iter().any(|start| magic.starts_with(start)) {
            return Err(error(&"it is compressed; unpack it first"));
        }
        // Kernel images (bzImage) and anything else end up here, too, and are told that they are no BTF.
        let length = file.metadata().map_err(|why| error(&why))?.len();
        if length > MAX_SECTION {
            return Err(error(&"it is too large for BTF"));
        }
        let btf = std::fs::read(path).map_err(|why| error(&why))?;
        return Ok(Found { btf, base: None });
    }
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).map_err(|why| error(&why))?;
    let section = |name: &str| section(&elf, name).map_err(|why| error(&why));
    let Some(btf) = section(".BTF")? else {
        return Err(error(&"it has no section .BTF (for DWARF, as programs have it, use --binary)"));
    };
    let base = match section(".BTF.base")? {
        Some(own) => Some(Base::Own(own)),
        // Modules are relocatable. Their types continue those of the kernel.
        None => (elf.kind() == ObjectKind::Relocatable).then_some(Base::Running),
    };
    Ok(Found { btf, base })
}

/// A section, unpacked; `None` if the file has none of this name.
///
/// # Errors
///
/// If it lies outside of the file, or is not packed as it claims.
pub(super) fn section<'d>(
    elf: &object::File<'d, impl ReadRef<'d>>,
    name: &str,
) -> Result<Option<Vec<u8>>, String> {
    let Some(section) = elf.section_by_name(name) else { return Ok(None) };
    let packed = section.compressed_data().map_err(|error| format!("section {name}: {error}"))?;
    let length = packed.uncompressed_size;
    if length > MAX_SECTION || length / MAX_GROWTH > packed.data.len() as u64 {
        return Err(format!("section {name} claims to have {length} bytes"));
    }
    let data = packed.decompress().map_err(|error| format!("section {name}: {error}"))?;
    Ok(Some(data.into_owned()))
}
