//! BTF, the kernel's description of its own types: which structures, members and functions the
//! running kernel has.
//!
//! A reader of our own, because start-up needs a dozen offsets out of 130 000 types: looking them
//! up in place takes a few milliseconds and no memory, where ready-made parsers build every
//! type first (160 ms and 60 MB measured on a 5.5 MB vmlinux). The format is documented in
//! Documentation/bpf/btf.rst of the kernel.

use std::path::Path;
use std::sync::Arc;

/// Why BTF could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The file cannot be read.
    #[error("cannot read the kernel's type information {path}: {source}")]
    Read {
        /// Path of the file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The contents are not BTF.
    #[error("the kernel's type information is damaged: {0}")]
    Format(&'static str),
}

mod member_at;
mod records;

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;

pub(crate) const KIND_ARRAY: u32 = 3;
pub(crate) const KIND_STRUCT: u32 = 4;
pub(crate) const KIND_UNION: u32 = 5;
pub(crate) const KIND_ENUM: u32 = 6;
pub(crate) const KIND_TYPEDEF: u32 = 8;
pub(crate) const KIND_VOLATILE: u32 = 9;
pub(crate) const KIND_CONST: u32 = 10;
pub(crate) const KIND_RESTRICT: u32 = 11;
pub(crate) const KIND_FUNC: u32 = 12;
pub(crate) const KIND_FUNC_PROTO: u32 = 13;
pub(crate) const KIND_VAR: u32 = 14;
pub(crate) const KIND_DATASEC: u32 = 15;
pub(crate) const KIND_TYPE_TAG: u32 = 18;
pub(crate) const KIND_ENUM64: u32 = 19;

/// Nested anonymous structures are followed this deep.
const MAX_DEPTH: u32 = 16;

/// Type information of the kernel or of one module (then on top of the kernel's).
pub struct Btf {
    data: Vec<u8>,
    /// Where the strings begin and how long they are, in `data`.
    strings: (usize, usize),
    /// Position of each type's record in `data`.
    types: Vec<u32>,
    /// Hashes of the names of types, with their index in `types`; sorted. Looking sixty names up
    /// one by one in 130 000 types took longer than everything else.
    names: Vec<(u64, u32)>,
    base: Option<Arc<Btf>>,
}

/// A type's record.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    name: u32,
    pub(crate) kind: u32,
    pub(crate) vlen: u32,
    /// The kind flag: members' offsets then hold bitfield sizes.
    pub(crate) flag: bool,
    /// Size or type id, by kind.
    pub(crate) size_or_type: u32,
    /// Position of what follows the record.
    tail: usize,
}

impl Btf {
    /// The running kernel's own, from /sys/kernel/btf/vmlinux.
    ///
    /// # Errors
    ///
    /// If the kernel was built without CONFIG_DEBUG_INFO_BTF, or the file is damaged.
    pub fn vmlinux() -> Result<Self, BtfError> {
        Self::from_file(Path::new("/sys/kernel/btf/vmlinux"), None)
    }

    /// From a file; a module's refers to the types of `base`, the kernel's.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is damaged.
    pub fn from_file(path: &Path, base: Option<Arc<Btf>>) -> Result<Self, BtfError> {
        let data = std::fs::read(path)
            .map_err(|source| BtfError::Read { path: path.display().to_string(), source })?;
        Self::parse(data, base)
    }

    /// From bytes.
    ///
    /// # Errors
    ///
    /// If the header or the type section is damaged.
    pub fn parse(data: Vec<u8>, base: Option<Arc<Btf>>) -> Result<Self, BtfError> {
        if data.len() < HEADER || u16::from_ne_bytes([data[0], data[1]]) != MAGIC {
            return Err(BtfError::Format("no BTF header of this machine's byte order"));
        }
        let field = |at| u32_at(&data, at).unwrap_or(0) as usize;
        let header = field(4);
        let section = |offset: usize, length: usize| {
            let start = header.checked_add(offset)?;
            let end = start.checked_add(length)?;
            (end <= data.len()).then_some((start, length))
        };
        let (start, length) =
            section(field(8), field(12)).ok_or(BtfError::Format("the type section is out of the file"))?;
        let strings =
            section(field(16), field(20)).ok_or(BtfError::Format("the string section is out of the file"))?;
        let mut btf = Self { data, strings, types: Vec::new(), names: Vec::new(), base };
        let mut at = start;
        while at < start + length {
            let record = btf.record_at(at).ok_or(BtfError::Format("a type is cut off"))?;
            btf.types.push(at as u32);
            at = record.tail + record.tail_len().ok_or(BtfError::Format("a type of an unknown kind"))?;
        }
        btf.names = btf.hashed_names();
        Ok(btf)
    }

    /// Byte offset of a member, such as `("bio", "bi_iter.bi_size")`; members of anonymous structures
    /// and unions are found as in C. `None` if there is no such member, or if it is a bitfield.
    pub fn offset_of(&self, structure: &str, path: &str) -> Option<u32> {
        let mut id = self.find(structure, &[KIND_STRUCT, KIND_UNION])?;
        let mut offset = 0;
        for name in path.split('.') {
            let (bits, member) = self.member(id, name, 0)?;
            if bits % 8 != 0 {
                return None;
            }
            offset += bits / 8;
            id = self.strip(member)?;
        }
        Some(offset)
    }

    /// Whether the kernel has a function of this name (that was not inlined everywhere).
    pub fn has_function(&self, name: &str) -> bool {
        self.find(name, &[KIND_FUNC]).is_some()
    }

    /// Number of arguments of a tracepoint, or `None` if there is no such tracepoint.
    pub fn tracepoint_args(&self, name: &str) -> Option<u32> {
        let id = self.find(&format!("btf_trace_{name}"), &[KIND_TYPEDEF])?;
        // typedef void (*btf_trace_X)(void *, args...): a typedef of a pointer to a prototype.
        let pointer = self.record(self.record(id)?.size_or_type)?;
        let proto = self.record(pointer.size_or_type)?;
        (proto.kind == KIND_FUNC_PROTO).then(|| proto.vlen.saturating_sub(1))
    }

    /// Which argument of a function has one of these names, counted from 0. `None` if there is no such
    /// function or argument.
    pub fn argument_index(&self, function: &str, names: &[&str]) -> Option<u32> {
        let id = self.find(function, &[KIND_FUNC])?;
        let (btf, proto) = self.resolve(self.record(id)?.size_or_type)?;
        (0..proto.vlen).find(|i| {
            let name = u32_at(&btf.data, proto.tail + *i as usize * 8).and_then(|name| self.string(name));
            names.iter().any(|wanted| name == Some(wanted.as_bytes()))
        })
    }

    /// Value of an enumerator, such as `("cgroup_subsys_id", "cpu_cgrp_id")`.
    pub fn enum_value(&self, enumeration: &str, name: &str) -> Option<i64> {
        let record = self.record(self.find(enumeration, &[KIND_ENUM, KIND_ENUM64])?)?;
        let size = if record.kind == KIND_ENUM { 8 } else { 12 };
        (0..record.vlen as usize).find_map(|i| {
            let at = record.tail + i * size;
            if self.string(u32_at(&self.data, at)?) != Some(name.as_bytes()) {
                return None;
            }
            Some(i64::from(u32_at(&self.data, at + 4)? as i32))
        })
    }

    /// The member `name` of a structure: its offset in bits and its type.
    fn member(&self, id: u32, name: &str, depth: u32) -> Option<(u32, u32)> {
        if depth > MAX_DEPTH {
            return None;
        }
        let (btf, record) = self.resolve(id)?;
        if !matches!(record.kind, KIND_STRUCT | KIND_UNION) {
            return None;
        }
        let members = (0..record.vlen as usize).filter_map(|i| {
            let at = record.tail + i * 12;
            let offset = u32_at(&btf.data, at + 8)?;
            let bits = if record.flag { offset & 0xff_ffff } else { offset };
            Some((u32_at(&btf.data, at)?, u32_at(&btf.data, at + 4)?, bits))
        });
        let mut anonymous = Vec::new();
        for (member_name, type_id, bits) in members {
            match btf.string(member_name) {
                Some(b"") => anonymous.push((type_id, bits)),
                Some(known) if known == name.as_bytes() => return Some((bits, type_id)),
                _ => {}
            }
        }
        anonymous.into_iter().find_map(|(type_id, bits)| {
            let (inner, found) = self.member(self.strip(type_id)?, name, depth + 1)?;
            Some((bits + inner, found))
        })
    }

    /// The type behind typedefs and qualifiers.
    fn strip(&self, mut id: u32) -> Option<u32> {
        for _ in 0..MAX_DEPTH {
            let record = self.record(id)?;
            match record.kind {
                KIND_TYPEDEF | KIND_VOLATILE | KIND_CONST | KIND_RESTRICT | KIND_TYPE_TAG => {
                    id = record.size_or_type;
                }
                _ => return Some(id),
            }
        }
        None
    }

    /// The first type with this name and one of these kinds: the module's own, else the kernel's.
    fn find(&self, name: &str, kinds: &[u32]) -> Option<u32> {
        let hash = hash(name.as_bytes());
        let start = self.names.partition_point(|(known, _)| *known < hash);
        let same = self.names[start..].iter().take_while(|(known, _)| *known == hash);
        let own = same.map(|(_, index)| *index).find_map(|index| {
            let record = self.record_at(self.types[index as usize] as usize)?;
            (kinds.contains(&record.kind) && self.string(record.name) == Some(name.as_bytes()))
                .then_some(self.first_id() + index)
        });
        own.or_else(|| self.base.as_ref()?.find(name, kinds))
    }

    fn hashed_names(&self) -> Vec<(u64, u32)> {
        const FOUND_BY_NAME: [u32; 8] = [
            KIND_STRUCT,
            KIND_UNION,
            KIND_ENUM,
            KIND_ENUM64,
            KIND_TYPEDEF,
            KIND_FUNC,
            KIND_VAR,
            KIND_DATASEC,
        ];
        let named = self.types.iter().enumerate().filter_map(|(index, at)| {
            let record = self.record_at(*at as usize)?;
            let name = self.string(record.name).filter(|name| !name.is_empty())?;
            FOUND_BY_NAME.contains(&record.kind).then(|| (hash(name), index as u32))
        });
        let mut names: Vec<(u64, u32)> = named.collect();
        names.sort_unstable();
        names
    }

    /// Type ids below this are the base's; id 0 is `void`.
    fn first_id(&self) -> u32 {
        self.base.as_ref().map_or(1, |base| base.first_id() + base.types.len() as u32)
    }

    /// The BTF that holds type `id`, and its record.
    fn resolve(&self, id: u32) -> Option<(&Btf, Record)> {
        match id.checked_sub(self.first_id()) {
            Some(index) => Some((self, self.record_at(*self.types.get(index as usize)? as usize)?)),
            None => self.base.as_ref()?.resolve(id),
        }
    }

    fn record(&self, id: u32) -> Option<Record> {
        self.resolve(id).map(|(_, record)| record)
    }

    fn record_at(&self, at: usize) -> Option<Record> {
        let info = u32_at(&self.data, at + 4)?;
        Some(Record {
            name: u32_at(&self.data, at)?,
            kind: info >> 24 & 0x1f,
            vlen: info & 0xffff,
            flag: info >> 31 != 0,
            size_or_type: u32_at(&self.data, at + 8)?,
            tail: at + 12,
        })
    }

    /// The string at an offset: strings of a module follow those of the kernel.
    fn string(&self, offset: u32) -> Option<&[u8]> {
        let base_len = self.base.as_ref().map_or(0, |base| base.strings_end());
        match (offset as usize).checked_sub(base_len) {
            Some(own) => {
                let (start, length) = self.strings;
                let bytes = self.data.get(start + own..start + length)?;
                bytes.split(|byte| *byte == 0).next()
            }
            None => self.base.as_ref()?.string(offset),
        }
    }

    fn strings_end(&self) -> usize {
        self.base.as_ref().map_or(0, |base| base.strings_end()) + self.strings.1
    }
}

impl Record {
    /// Length of what follows the record, by kind; `None` for kinds not known.
    fn tail_len(&self) -> Option<usize> {
        let vlen = self.vlen as usize;
        Some(match self.kind {
            // Integers, variables and declaration tags hold one word.
            1 | KIND_VAR | 17 => 4,
            // Pointers, forward declarations, typedefs, qualifiers, functions, floats, type tags.
            2 | 7..=12 | 16 | 18 => 0,
            KIND_ARRAY => 12,
            KIND_STRUCT | KIND_UNION => 12 * vlen,
            KIND_ENUM => 8 * vlen,
            KIND_FUNC_PROTO => 8 * vlen,
            KIND_DATASEC => 12 * vlen,
            KIND_ENUM64 => 12 * vlen,
            _ => return None,
        })
    }
}

fn hash(name: &[u8]) -> u64 {
    use std::hash::Hasher as _;
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(name);
    hasher.finish()
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rubbish_is_an_error() {
        for bytes in [&b""[..], b"\x9f\xeb", &[0; 64], &[0xff; 200]] {
            assert!(Btf::parse(bytes.to_vec(), None).is_err());
        }
    }

    #[test]
    fn truncation_is_an_error_or_reads_nothing_wrong() {
        let Ok(whole) = std::fs::read("/sys/kernel/btf/vmlinux") else { return };
        for length in [24, 100, 5000, whole.len() / 2, whole.len() - 1] {
            assert!(Btf::parse(whole[..length].to_vec(), None).is_err());
        }
    }

    #[test]
    fn finds_members_of_the_running_kernel() {
        let Ok(btf) = Btf::vmlinux() else { return };
        // Both have been the first members for as long as they exist.
        assert_eq!(btf.offset_of("css_set", "subsys"), Some(0));
        assert_eq!(btf.offset_of("list_head", "next"), Some(0));
        assert_eq!(btf.offset_of("list_head", "prev"), Some(8));
        let iter = btf.offset_of("bio", "bi_iter").unwrap();
        let size = btf.offset_of("bvec_iter", "bi_size").unwrap();
        assert_eq!(btf.offset_of("bio", "bi_iter.bi_size"), Some(iter + size));
        assert_eq!(btf.offset_of("bio", "no_such_member"), None);
        assert_eq!(btf.offset_of("no_such_struct", "x"), None);
        assert!(btf.has_function("vfs_read"));
        assert!(!btf.has_function("no_such_function"));
        assert_eq!(btf.argument_index("vfs_read", &["count"]), Some(2));
        assert_eq!(btf.argument_index("vfs_read", &["no_such_argument"]), None);
        assert_eq!(btf.tracepoint_args("sched_switch").map(|args| args >= 3), Some(true));
        assert_eq!(btf.tracepoint_args("no_such_tracepoint"), None);
    }
}
