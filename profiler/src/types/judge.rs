//! Whether a member is written often, as far as its type and its name tell.
//!
//! The type of an atomic counter or of a lock is proof enough that it is there to be written. A name is a hint. Who really
//! writes, and how often, only measurements tell.

use super::{MAX_DEPTH, Qualifier, RecordKind, Type, TypeId, TypeSource};

/// Whether a member is written often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// By nature: each use of such a type writes it.
    Written {
        /// What it is, in a word or two: `lock`.
        what: &'static str,
        /// Each use of it writes (locks, counters); else each change of what it links or times (lists, timers).
        each_use: bool,
    },
    /// Its name says so, or it is set again and again in most structures.
    Maybe(&'static str),
    /// It is set up once and then read.
    ReadMostly(&'static str),
    /// Neither type nor name says anything.
    Unknown,
}

impl Judgement {
    /// How suspect it is that others write it, from 0 (not at all) to 4 (a lock, a counter).
    pub fn rank(self) -> u8 {
        match self {
            Self::ReadMostly(_) => 0,
            Self::Unknown => 1,
            Self::Maybe(_) => 2,
            Self::Written { each_use: false, .. } => 3,
            Self::Written { each_use: true, .. } => 4,
        }
    }

    /// Written by nature.
    pub fn is_written(self) -> bool {
        matches!(self, Self::Written { .. })
    }
}

impl std::fmt::Display for Judgement {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Written { what, .. } => write!(out, "written: {what}"),
            Self::Maybe(why) => write!(out, "maybe: {why}"),
            Self::ReadMostly(why) => write!(out, "read-mostly: {why}"),
            Self::Unknown => Ok(()),
        }
    }
}

/// Types that each use writes, by typedef or tag.
const EACH_USE: &[(&str, &[&str])] = &[
    ("atomic counter", &["atomic_t", "atomic64_t", "atomic_long_t", "local_t", "local64_t"]),
    // Of C's <stdatomic.h>; debug information before DWARF 5 has no other trace of them.
    (
        "atomic counter",
        &["atomic_int", "atomic_uint", "atomic_long", "atomic_ulong", "atomic_llong", "atomic_ullong"],
    ),
    (
        "atomic counter",
        &["atomic_size_t", "atomic_uintptr_t", "atomic_intptr_t", "atomic_bool", "atomic_flag"],
    ),
    ("reference count", &["refcount_t", "refcount_struct", "kref", "rcuref_t", "folio_ref", "file_ref_t"]),
    ("count and lock", &["percpu_counter", "lockref"]),
    (
        "lock",
        &[
            "spinlock_t",
            "spinlock",
            "raw_spinlock_t",
            "raw_spinlock",
            "arch_spinlock_t",
            "qspinlock",
            "rwlock_t",
            "qrwlock",
            "rw_semaphore",
            "mutex",
            "rt_mutex",
            "rt_mutex_base",
            "ww_mutex",
            "semaphore",
            "seqlock_t",
            "optimistic_spin_queue",
            "hlist_bl_head",
            "bit_spinlock",
            "pthread_mutex_t",
            "pthread_spinlock_t",
            "pthread_rwlock_t",
            "sem_t",
        ],
    ),
    ("sequence count", &["u64_stats_sync"]),
];

/// Types that are written when what they link, time or wake changes.
const EACH_CHANGE: &[(&str, &[&str])] = &[
    (
        "list",
        &["list_head", "hlist_head", "hlist_node", "hlist_nulls_head", "hlist_nulls_node", "hlist_bl_node"],
    ),
    ("list", &["llist_head", "llist_node", "plist_head", "plist_node", "klist", "list_lru", "bio_list"]),
    (
        "tree",
        &["rb_root", "rb_root_cached", "rb_node", "maple_tree", "xarray", "radix_tree_root", "idr", "ida"],
    ),
    (
        "wait queue",
        &[
            "wait_queue_head_t",
            "wait_queue_head",
            "swait_queue_head",
            "completion",
            "rcuwait",
            "pthread_cond_t",
        ],
    ),
    ("timer", &["timer_list", "hrtimer", "delayed_work"]),
    ("work item", &["work_struct", "kthread_work", "irq_work", "tasklet_struct"]),
];

/// What ends the name of a number that counts. Limits (`max_count`) do not.
const COUNTING: &[&str] = &[
    "count",
    "counter",
    "counts",
    "cnt",
    "refs",
    "refcnt",
    "users",
    "nr",
    "seq",
    "seqno",
    "stat",
    "stats",
    "hits",
    "misses",
    "errors",
    "drops",
    "dropped",
    "packets",
    "inflight",
    "pending",
    "used",
    "free",
    "avail",
    "total",
    "jiffies",
    "timestamp",
    "stamp",
];
/// What ends the name of a number that is computed once, when the object is set up.
const GEOMETRY: &[&str] = &["shift", "mask", "log", "log2", "bits", "blkbits", "blocksize", "sectsize"];

/// Judges a member by its type and the last part of its name.
pub fn judge<S: TypeSource + ?Sized>(source: &S, ty: TypeId, name: &str) -> Judgement {
    let mut id = ty;
    for _ in 0..MAX_DEPTH {
        match source.get(id) {
            Some(Type::Alias { name: alias, of }) => match by_type(&alias) {
                Some(judgement) => return judgement,
                None => id = of,
            },
            Some(Type::Qualified { qualifier: Qualifier::Const, .. }) => {
                return Judgement::ReadMostly("const");
            }
            Some(Type::Qualified { qualifier: Qualifier::Atomic, .. }) => return atomic(),
            Some(Type::Qualified { of, .. } | Type::Array { of, .. }) => id = of,
            Some(Type::Record(record)) => {
                return record.name.as_deref().and_then(by_type).unwrap_or(Judgement::Unknown);
            }
            Some(Type::Base { name: base, .. }) => {
                return by_type(&base).unwrap_or_else(|| by_name(name, &base));
            }
            Some(Type::Enumeration { .. }) => return by_name(name, "int"),
            Some(Type::Pointer { to, .. }) => return pointer(source, to, name),
            _ => return Judgement::Unknown,
        }
    }
    Judgement::Unknown
}

fn atomic() -> Judgement {
    Judgement::Written { what: EACH_USE[0].0, each_use: true }
}

fn by_type(name: &str) -> Option<Judgement> {
    let of = |table: &[(&'static str, &[&str])]| {
        table.iter().find(|(_, names)| names.contains(&name)).map(|(what, _)| *what)
    };
    if let Some(what) = of(EACH_USE) {
        return Some(Judgement::Written { what, each_use: true });
    }
    if let Some(what) = of(EACH_CHANGE) {
        return Some(Judgement::Written { what, each_use: false });
    }
    // `seqcount_t`, and one for each kind of lock that may protect it.
    if name.starts_with("seqcount") {
        return Some(Judgement::Written { what: "sequence count", each_use: true });
    }
    // Of C++ and Rust: `atomic<int>`, `AtomicU64`.
    if name.starts_with("atomic<") || name.starts_with("__atomic_base<") || is_rust_atomic(name) {
        return Some(atomic());
    }
    // Its counts are per CPU; here are two pointers, which are written when it is killed.
    if name == "percpu_ref" {
        return Some(Judgement::ReadMostly("per-CPU count elsewhere"));
    }
    None
}

fn is_rust_atomic(name: &str) -> bool {
    name.strip_prefix("Atomic").is_some_and(|rest| {
        let widths = ["8", "16", "32", "64", "size", "128"];
        rest == "Bool" || rest.starts_with('<') || rest.starts_with("Ptr") || {
            rest.strip_prefix(['U', 'I', 'u', 'i']).is_some_and(|width| widths.contains(&width))
        }
    })
}

fn pointer<S: TypeSource + ?Sized>(source: &S, to: TypeId, name: &str) -> Judgement {
    if matches!(source.strip(to).and_then(|to| source.get(to)), Some(Type::Function { .. })) {
        return Judgement::ReadMostly("function");
    }
    let mut id = to;
    for _ in 0..MAX_DEPTH {
        let tag = match source.get(id) {
            Some(Type::Alias { of, .. } | Type::Qualified { of, .. }) => {
                id = of;
                continue;
            }
            Some(Type::Record(record)) => record.name.unwrap_or_default(),
            Some(Type::Forward { kind: RecordKind::Structure, name }) => name,
            _ => break,
        };
        if tag.ends_with("operations") || tag.ends_with("_ops") || tag == "ops" {
            return Judgement::ReadMostly("operations");
        }
        break;
    }
    if name == "ops" || name.ends_with("_ops") || name.ends_with("_op") {
        return Judgement::ReadMostly("operations");
    }
    Judgement::Unknown
}

/// A number is judged by the words of its name.
fn by_name(name: &str, base: &str) -> Judgement {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    let Some(last) = words.last() else { return Judgement::Unknown };
    if base == "char" && *last == "name" {
        return Judgement::ReadMostly("name");
    }
    if GEOMETRY.contains(last) || last.ends_with("shift") || last.ends_with("mask") || last.ends_with("log") {
        return Judgement::ReadMostly("geometry");
    }
    // `maxicount` is one as well.
    if words.iter().any(|word| word.starts_with("max") || matches!(*word, "min" | "limit")) {
        return Judgement::ReadMostly("limit");
    }
    if COUNTING.contains(last) || words.contains(&"nr") || last.ends_with("count") {
        return Judgement::Maybe("counts, by name");
    }
    if matches!(*last, "flags" | "state") {
        return Judgement::Maybe("flags, by name");
    }
    Judgement::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::encoder::Encoder;

    #[test]
    fn names_are_hints() {
        let of = |name| by_name(name, "unsigned int");
        assert_eq!(of("m_agino_log"), Judgement::ReadMostly("geometry"));
        assert_eq!(of("s_blocksize_bits"), Judgement::ReadMostly("geometry"));
        assert_eq!(of("max_nr_of_things"), Judgement::ReadMostly("limit"));
        assert_eq!(of("m_maxicount"), Judgement::ReadMostly("limit"));
        assert_eq!(of("nr_free"), Judgement::Maybe("counts, by name"));
        assert_eq!(of("m_fdblocks_count"), Judgement::Maybe("counts, by name"));
        assert_eq!(of("i_state"), Judgement::Maybe("flags, by name"));
        // Not at any price: `account` and `discount` count nothing, and most names say nothing.
        assert_eq!(of("m_bsize"), Judgement::Unknown);
        assert_eq!(of("_"), Judgement::Unknown);
        assert_eq!(by_name("m_name", "char"), Judgement::ReadMostly("name"));
    }

    #[test]
    fn types_are_proof() {
        let mut btf = Encoder::new();
        let int = btf.int("int", 4);
        let counter = btf.structure("", 4, &[("counter", int, 0, 0)]);
        let atomic = btf.typedef("atomic_t", counter);
        let mine = btf.typedef("my_counter", atomic);
        let array = btf.array(mine, 4);
        let constant = btf.constant(int);
        let seqcount = btf.structure("seqcount_spinlock", 4, &[("sequence", int, 0, 0)]);
        let list = btf.structure("list_head", 16, &[]);
        let ops = btf.forward("super_operations");
        let ops = btf.constant(ops);
        let ops = btf.pointer(ops);
        let other = btf.pointer(list);
        let types = btf.types();
        let of = |id: u32| judge(&types, TypeId(u64::from(id)), "x");
        for id in [atomic, mine, array] {
            assert_eq!(of(id), Judgement::Written { what: "atomic counter", each_use: true });
        }
        assert_eq!(of(seqcount).rank(), 4);
        assert_eq!(of(list), Judgement::Written { what: "list", each_use: false });
        assert_eq!(of(constant), Judgement::ReadMostly("const"));
        assert_eq!(of(ops), Judgement::ReadMostly("operations"));
        // A pointer to a list is none.
        assert_eq!(of(other), Judgement::Unknown);
        assert_eq!(of(int), Judgement::Unknown);
        assert!(by_type("AtomicU64").is_some() && by_type("Atomic<u32>").is_some());
        assert!(by_type("AtomicWaker").is_none());
    }
}
