//! What lies at a place in a structure: the way back from an offset to a member's name.

use super::{Btf, KIND_ARRAY, KIND_STRUCT, KIND_TYPEDEF, KIND_UNION, MAX_DEPTH, Record, u32_at};

const KIND_INT: u32 = 1;
const KIND_PTR: u32 = 2;
const POINTER_SIZE: u32 = 8;

impl Btf {
    /// Size of a structure or union in bytes.
    pub fn size_of(&self, structure: &str) -> Option<u32> {
        let id = self.find(structure, &[KIND_STRUCT, KIND_UNION])?;
        Some(self.record(id)?.size_or_type)
    }

    /// Name of the member of `structure` that begins at the byte `offset` and has one of the types `wanted`,
    /// by the name of the type or of a typedef for it: `("files_struct", 64, ["spinlock"])` is
    /// `files_struct.file_lock`.
    ///
    /// Where structures are embedded in each other, it is a member of the innermost one that has a name:
    /// `inode.i_lock`, not `ext4_inode_info.vfs_inode.i_lock`. The structures in `within` do not count for
    /// this, so that a lock inside of a lock has the name of both: `inode.i_rwsem.wait_lock`.
    pub fn member_at(
        &self,
        structure: &str,
        offset: u32,
        wanted: &[&str],
        within: &[&str],
    ) -> Option<String> {
        let id = self.find(structure, &[KIND_STRUCT, KIND_UNION])?;
        let search = Search { btf: self, wanted, within };
        search.in_structure(id, offset, vec![structure.to_owned()], 0).map(|path| path.join("."))
    }

    /// Size of a type in bytes, as far as members can be of it.
    fn size_of_type(&self, id: u32, depth: u32) -> Option<u32> {
        if depth > MAX_DEPTH {
            return None;
        }
        let (btf, record) = self.resolve(self.strip(id)?)?;
        match record.kind {
            KIND_PTR => Some(POINTER_SIZE),
            KIND_ARRAY => {
                let element = self.size_of_type(u32_at(&btf.data, record.tail)?, depth + 1)?;
                element.checked_mul(u32_at(&btf.data, record.tail + 8)?)
            }
            KIND_INT | KIND_STRUCT | KIND_UNION => Some(record.size_or_type),
            _ => None,
        }
    }

    /// Whether a type, or a typedef on the way to it, has one of these names.
    fn is_named(&self, mut id: u32, names: &[&str]) -> bool {
        for _ in 0..MAX_DEPTH {
            let Some(record) = self.record(id) else { return false };
            if self.name_of(&record).is_some_and(|name| names.contains(&name)) {
                return true;
            }
            match (record.kind, self.strip(id)) {
                (KIND_TYPEDEF, _) => id = record.size_or_type,
                (_, Some(stripped)) if stripped != id => id = record.size_or_type,
                _ => return false,
            }
        }
        false
    }

    fn name_of(&self, record: &Record) -> Option<&str> {
        std::str::from_utf8(self.string(record.name)?).ok().filter(|name| !name.is_empty())
    }
}

struct Search<'b> {
    btf: &'b Btf,
    wanted: &'b [&'b str],
    within: &'b [&'b str],
}

impl Search<'_> {
    /// The path to the wanted member at `offset` of the structure `id`, which `path` leads to.
    fn in_structure(&self, id: u32, offset: u32, path: Vec<String>, depth: u32) -> Option<Vec<String>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let (btf, record) = self.btf.resolve(id)?;
        if !matches!(record.kind, KIND_STRUCT | KIND_UNION) {
            return None;
        }
        (0..record.vlen as usize).find_map(|i| {
            let at = record.tail + i * 12;
            let name = btf.string(u32_at(&btf.data, at)?)?;
            let member = u32_at(&btf.data, at + 4)?;
            let bits = u32_at(&btf.data, at + 8)?;
            // A bitfield is no structure.
            if record.flag && bits >> 24 != 0 || bits % 8 != 0 {
                return None;
            }
            let inside = offset.checked_sub(bits / 8)?;
            if inside >= self.btf.size_of_type(member, 0)? {
                return None;
            }
            let mut path = path.clone();
            if !name.is_empty() {
                path.push(String::from_utf8_lossy(name).into_owned());
            }
            self.in_member(member, inside, path, depth + 1)
        })
    }

    fn in_member(&self, id: u32, offset: u32, path: Vec<String>, depth: u32) -> Option<Vec<String>> {
        if offset == 0 && self.btf.is_named(id, self.wanted) {
            return Some(path);
        }
        let stripped = self.btf.strip(id)?;
        let (btf, record) = self.btf.resolve(stripped)?;
        if record.kind == KIND_ARRAY && depth <= MAX_DEPTH {
            let element = u32_at(&btf.data, record.tail)?;
            let size = self.btf.size_of_type(element, 0).filter(|size| *size > 0)?;
            return self.in_member(element, offset % size, path, depth + 1);
        }
        let named = self.btf.name_of(&record).filter(|_| record.kind == KIND_STRUCT);
        let path = match named {
            Some(name) if !self.btf.is_named(id, self.within) => vec![name.to_owned()],
            _ => path,
        };
        self.in_structure(stripped, offset, path, depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: [&str; 2] = ["spinlock", "raw_spinlock"];
    const LOCKS: [&str; 2] = ["rw_semaphore", "lockref"];

    #[test]
    fn a_lock_is_found_by_its_offset() {
        let Ok(btf) = Btf::vmlinux() else { return };
        let at = |structure: &str, path: &str| {
            let offset = btf.offset_of(structure, path).unwrap();
            btf.member_at(structure, offset, &SPIN, &LOCKS)
        };
        assert_eq!(at("files_struct", "file_lock").as_deref(), Some("files_struct.file_lock"));
        assert_eq!(at("inode", "i_lock").as_deref(), Some("inode.i_lock"));
        assert_eq!(at("dentry", "d_lockref.lock").as_deref(), Some("dentry.d_lockref.lock"));
        assert_eq!(at("inode", "i_rwsem.wait_lock").as_deref(), Some("inode.i_rwsem.wait_lock"));
        // Of another type, and between two members.
        assert_eq!(at("inode", "i_mode"), None);
        let offset = btf.offset_of("inode", "i_lock").unwrap();
        assert_eq!(btf.member_at("inode", offset + 1, &SPIN, &LOCKS), None);
        assert_eq!(btf.member_at("inode", 1 << 20, &SPIN, &LOCKS), None);
        assert_eq!(btf.member_at("no_such_struct", 0, &SPIN, &LOCKS), None);
        let rwsem = btf.offset_of("inode", "i_rwsem").unwrap();
        assert_eq!(
            btf.member_at("inode", rwsem, &["rw_semaphore"], &LOCKS).as_deref(),
            Some("inode.i_rwsem")
        );
    }

    #[test]
    fn a_member_of_an_embedded_structure_has_its_name() {
        let Ok(btf) = Btf::vmlinux() else { return };
        // Sockets' inodes are built in everywhere.
        let offset = btf.offset_of("socket_alloc", "vfs_inode.i_lock").unwrap();
        assert_eq!(btf.member_at("socket_alloc", offset, &SPIN, &LOCKS).as_deref(), Some("inode.i_lock"));
    }

    #[test]
    fn sizes() {
        let Ok(btf) = Btf::vmlinux() else { return };
        assert_eq!(btf.size_of("list_head"), Some(16));
        assert_eq!(btf.size_of("no_such_struct"), None);
    }
}
