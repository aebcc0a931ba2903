//! Writes BTF for tests.

use crate::kernel::btf::{
    Btf, KIND_ARRAY, KIND_CONST, KIND_DATASEC, KIND_FUNC, KIND_FUNC_PROTO, KIND_STRUCT, KIND_TYPEDEF,
    KIND_UNION, KIND_VAR,
};
use crate::types::btf::BtfTypes;

/// BTF under construction. Ids begin at 1; 0 is `void`.
pub struct Encoder {
    types: Vec<u32>,
    strings: Vec<u8>,
    next: u32,
}

/// A member: name, type, offset in bits, width of a bitfield or 0.
pub type Field<'n> = (&'n str, u32, u32, u32);

impl Encoder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { types: Vec::new(), strings: vec![0], next: 1 }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(text.bytes().chain([0]));
        at
    }

    fn add(&mut self, name: &str, kind: u32, vlen: usize, size_or_type: u32, tail: &[u32]) -> u32 {
        let name = self.string(name);
        self.types.extend([name, kind << 24 | vlen as u32, size_or_type]);
        self.types.extend(tail);
        self.next += 1;
        self.next - 1
    }

    /// An integer of so many bytes.
    pub fn int(&mut self, name: &str, bytes: u32) -> u32 {
        self.add(name, 1, 0, bytes, &[bytes * 8])
    }

    /// A pointer.
    pub fn pointer(&mut self, to: u32) -> u32 {
        self.add("", 2, 0, to, &[])
    }

    /// An array; the type of its index does not matter.
    pub fn array(&mut self, of: u32, count: u32) -> u32 {
        self.add("", KIND_ARRAY, 0, 0, &[of, 1, count])
    }

    /// A typedef.
    pub fn typedef(&mut self, name: &str, of: u32) -> u32 {
        self.add(name, KIND_TYPEDEF, 0, of, &[])
    }

    /// A constant.
    pub fn constant(&mut self, of: u32) -> u32 {
        self.add("", KIND_CONST, 0, of, &[])
    }

    /// A structure that is only declared.
    pub fn forward(&mut self, name: &str) -> u32 {
        self.add(name, 7, 0, 0, &[])
    }

    /// A structure.
    pub fn structure(&mut self, name: &str, bytes: u32, fields: &[Field<'_>]) -> u32 {
        self.record(KIND_STRUCT, name, bytes, fields)
    }

    /// A union.
    pub fn union(&mut self, name: &str, bytes: u32, fields: &[Field<'_>]) -> u32 {
        self.record(KIND_UNION, name, bytes, fields)
    }

    fn record(&mut self, kind: u32, name: &str, bytes: u32, fields: &[Field<'_>]) -> u32 {
        let tail: Vec<u32> = fields
            .iter()
            .flat_map(|(name, ty, offset, bits)| [self.string(name), *ty, bits << 24 | offset])
            .collect();
        // With the kind flag, offsets hold the widths of bitfields.
        self.add(name, kind | 0x80, fields.len(), bytes, &tail)
    }

    /// A function of these parameters that returns nothing.
    pub fn function(&mut self, name: &str, parameters: &[(&str, u32)]) -> u32 {
        let tail: Vec<u32> = parameters.iter().flat_map(|(name, ty)| [self.string(name), *ty]).collect();
        let proto = self.add("", KIND_FUNC_PROTO, parameters.len(), 0, &tail);
        self.add(name, KIND_FUNC, 0, proto, &[])
    }

    /// A per-CPU variable at an offset of its section.
    pub fn per_cpu(&mut self, name: &str, ty: u32, offset: u32, bytes: u32) -> u32 {
        let variable = self.add(name, KIND_VAR, 0, ty, &[1]);
        self.add(".data..percpu", KIND_DATASEC, 1, bytes, &[variable, offset, bytes]);
        variable
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let types: Vec<u8> = self.types.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let (length, strings) = (types.len() as u32, self.strings.len() as u32);
        let mut data = 0xeb9fu16.to_ne_bytes().to_vec();
        data.extend([1, 0]);
        for word in [24, 0, length, length, strings] {
            data.extend(u32::to_ne_bytes(word));
        }
        data.extend(types);
        data.extend(&self.strings);
        data
    }

    /// What a reader makes of it.
    pub fn types(&self) -> BtfTypes {
        BtfTypes::from_btf(Btf::parse(self.bytes(), None).unwrap())
    }
}

/// The founding case in small: a field that is only read in the line of a counter that everybody writes, and around
/// them whatever else a structure can have.
///
/// Functions: `agino_range(struct mount *, unsigned int)`. The structure `mount` has 320 bytes:
///
/// | bytes | member |
/// | --- | --- |
/// | 0 | `const struct operations *m_ops` |
/// | 8 | `spinlock_t m_lock` |
/// | 16 | `struct list_head m_list` |
/// | 32 | `char m_name[16]` |
/// | 48 | nameless union of `m_flags` and nameless structure of `m_low`, `m_high` |
/// | 64 | `struct sb m_sb` of `sb_blocklog`, `sb_inopblog`, and the bitfields `sb_a:3`, `sb_b:5` |
/// | 72 | `unsigned int m_agino_log`, `unsigned int m_maxicount` |
/// | 80 | `atomic64_t m_active_trans` |
/// | 128 | `struct pool m_pools[2]`, 24 bytes each: `lock`, `nr_free`, `next` |
/// | 192 | (a hole, then) `u64 m_growlock`, `void (*m_done)(void)`, `struct unknown *m_quota` |
/// | 320 | `u64 m_table[]` |
pub fn mount() -> Encoder {
    let mut btf = Encoder::new();
    let uint = btf.int("unsigned int", 4);
    let ulong = btf.int("unsigned long", 8);
    let char = btf.int("char", 1);
    let u64 = btf.typedef("u64", ulong);
    let operations = btf.forward("operations");
    let operations = btf.constant(operations);
    let operations = btf.pointer(operations);
    let spinlock = btf.structure("spinlock", 4, &[("rlock", uint, 0, 0)]);
    let spinlock_t = btf.typedef("spinlock_t", spinlock);
    let list = btf.next;
    let list_pointer = list + 1;
    btf.structure("list_head", 16, &[("next", list_pointer, 0, 0), ("prev", list_pointer, 64, 0)]);
    btf.pointer(list);
    let name = btf.array(char, 16);
    let halves = btf.structure("", 8, &[("m_low", uint, 0, 0), ("m_high", uint, 32, 0)]);
    let either = btf.union("", 8, &[("m_flags", ulong, 0, 0), ("", halves, 0, 0)]);
    let sb = btf.structure(
        "sb",
        8,
        &[
            ("sb_blocklog", char, 0, 0),
            ("sb_inopblog", char, 8, 0),
            ("sb_a", uint, 32, 3),
            ("sb_b", uint, 35, 5),
        ],
    );
    let atomic = btf.structure("", 8, &[("counter", ulong, 0, 0)]);
    let atomic64_t = btf.typedef("atomic64_t", atomic);
    let pool = btf.structure(
        "pool",
        24,
        &[("lock", spinlock_t, 0, 0), ("nr_free", ulong, 64, 0), ("next", list_pointer, 128, 0)],
    );
    let pools = btf.array(pool, 2);
    let done = btf.add("", KIND_FUNC_PROTO, 0, 0, &[]);
    let done = btf.pointer(done);
    let unknown = btf.forward("unknown");
    let unknown = btf.pointer(unknown);
    let table = btf.array(u64, 0);
    let byte = |bytes: u32| bytes * 8;
    let mount = btf.structure(
        "mount",
        320,
        &[
            ("m_ops", operations, 0, 0),
            ("m_lock", spinlock_t, byte(8), 0),
            ("m_list", list, byte(16), 0),
            ("m_name", name, byte(32), 0),
            ("", either, byte(48), 0),
            ("m_sb", sb, byte(64), 0),
            ("m_agino_log", uint, byte(72), 0),
            ("m_maxicount", uint, byte(76), 0),
            ("m_active_trans", atomic64_t, byte(80), 0),
            ("m_pools", pools, byte(128), 0),
            ("m_growlock", u64, byte(192), 0),
            ("m_done", done, byte(200), 0),
            ("m_quota", unknown, byte(208), 0),
            ("m_table", table, byte(320), 0),
        ],
    );
    let mount_t = btf.typedef("mount_t", mount);
    let mount_pointer = btf.pointer(mount_t);
    btf.function("agino_range", &[("mp", mount_pointer), ("agno", uint)]);
    btf.per_cpu("mount_stats", pool, 4096, 24);
    btf
}
