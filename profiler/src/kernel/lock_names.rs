//! Names of locks by their addresses: the symbol of a static lock, the structure and member of another.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::btf::Btf;
use super::kallsyms::DataSymbols;
use super::memory::KernelMemory;
use super::slab::{SlabPlace, Slabs};
use crate::profile::{LockKind, NamedBy};

/// How a structure's size goes with that of its cache's objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    /// The objects are the structure.
    Whole,
    /// What the kernel adds at boot comes after it, such as a mask of all possible CPUs, or comes short of
    /// it, such as the state of the FPU.
    Varies,
}

/// Slab caches with the structure that their objects are, and the module that has its type.
///
/// Caches of equal objects are merged under the name of the first, so that a name may mislead: sizes have to
/// agree, and the structure to have a lock of the right kind where the lock is.
const CACHES: &[(&str, &str, Option<&str>, Size)] = &[
    ("inode_cache", "inode", None, Size::Whole),
    ("dentry", "dentry", None, Size::Whole),
    ("filp", "file", None, Size::Whole),
    ("files_cache", "files_struct", None, Size::Whole),
    ("fs_cache", "fs_struct", None, Size::Whole),
    ("mm_struct", "mm_struct", None, Size::Varies),
    ("vm_area_struct", "vm_area_struct", None, Size::Whole),
    ("vma_lock", "vma_lock", None, Size::Whole),
    ("anon_vma", "anon_vma", None, Size::Whole),
    ("sighand_cache", "sighand_struct", None, Size::Whole),
    ("signal_cache", "signal_struct", None, Size::Whole),
    ("task_struct", "task_struct", None, Size::Varies),
    ("file_lock_ctx", "file_lock_context", None, Size::Whole),
    ("eventpoll_epi", "epitem", None, Size::Whole),
    ("mnt_cache", "mount", None, Size::Whole),
    ("kmem_cache_node", "kmem_cache_node", None, Size::Whole),
    ("buffer_head", "buffer_head", None, Size::Whole),
    ("blkdev_ioc", "io_context", None, Size::Whole),
    ("io_kiocb", "io_kiocb", None, Size::Whole),
    ("bdev_cache", "bdev_inode", None, Size::Whole),
    ("sock_inode_cache", "socket_alloc", None, Size::Whole),
    ("proc_inode_cache", "proc_inode", None, Size::Whole),
    ("shmem_inode_cache", "shmem_inode_info", None, Size::Whole),
    ("hugetlbfs_inode_cache", "hugetlbfs_inode_info", None, Size::Whole),
    ("jbd2_journal_head", "journal_head", Some("jbd2"), Size::Whole),
    ("jbd2_transaction_s", "transaction_s", Some("jbd2"), Size::Whole),
    ("ext4_inode_cache", "ext4_inode_info", Some("ext4"), Size::Whole),
    ("xfs_inode", "xfs_inode", Some("xfs"), Size::Whole),
    ("xfs_buf", "xfs_buf", Some("xfs"), Size::Whole),
    ("btrfs_inode", "btrfs_inode", Some("btrfs"), Size::Whole),
    ("btrfs_extent_buffer", "extent_buffer", Some("btrfs"), Size::Whole),
    ("f2fs_inode_cache", "f2fs_inode_info", Some("f2fs"), Size::Whole),
    ("fuse_inode", "fuse_inode", Some("fuse"), Size::Whole),
    ("ovl_inode", "ovl_inode", Some("overlay"), Size::Whole),
    ("nfs_inode_cache", "nfs_inode", Some("nfs"), Size::Whole),
    ("TCP", "tcp_sock", None, Size::Whole),
    ("TCPv6", "tcp6_sock", None, Size::Whole),
    ("UDP", "udp_sock", None, Size::Whole),
    ("UNIX", "unix_sock", None, Size::Whole),
    ("UNIX-STREAM", "unix_sock", None, Size::Whole),
];

/// Variables whose structure says more than their own name: the lock of a CPU's run queue is `rq.__lock`.
const VARIABLES: &[(&str, &str)] =
    &[("runqueues", "rq"), ("contig_page_data", "pglist_data"), ("softnet_data", "softnet_data")];

/// Structures that are part of a lock, or a lock with what it protects: they do not name what they are in.
const PARTS: &[&str] = &[
    "lockref",
    "mutex",
    "rw_semaphore",
    "semaphore",
    "percpu_rw_semaphore",
    "rt_mutex",
    "rt_mutex_base",
    "wait_queue_head",
    "swait_queue_head",
    "completion",
    "xarray",
    "percpu_counter",
    "list_lru",
    "spinlock",
];

/// Bytes of slack between a structure and its cache's objects: alignment.
const SLACK: u32 = 64;

/// Names locks of the running kernel.
pub struct LockNames<'m> {
    symbols: DataSymbols,
    btf: Option<Arc<Btf>>,
    slabs: Result<Slabs<'m>, String>,
    /// Where the variables of each CPU begin, relative to their symbols.
    per_cpu: Vec<u64>,
    modules: HashMap<&'static str, Option<Btf>>,
}

impl<'m> LockNames<'m> {
    /// Reads the symbols, which takes some 40 ms, and finds out how slabs can be told.
    pub fn new(memory: Result<&'m dyn KernelMemory, String>) -> Self {
        let symbols = DataSymbols::read();
        let btf = Btf::vmlinux().map_err(|error| error.to_string());
        let slabs = match (&btf, &memory) {
            (Ok(btf), Ok(memory)) => Slabs::new(btf, *memory, |name| symbols.address_of(name)),
            (Err(reason), _) | (_, Err(reason)) => Err(reason.clone()),
        };
        let per_cpu = memory.map_or(Vec::new(), |memory| per_cpu_offsets(memory, &symbols));
        Self { symbols, btf: btf.ok().map(Arc::new), slabs, per_cpu, modules: HashMap::new() }
    }

    /// Why locks in structures cannot be named, if they cannot.
    pub fn no_structures(&self) -> Option<&str> {
        self.slabs.as_ref().err().map(String::as_str)
    }

    /// The name of the lock of this kind at an address, and how it was found.
    pub fn name(&mut self, address: u64, kind: LockKind) -> Option<(String, NamedBy)> {
        if let Some(name) = self.variable(address, kind) {
            return Some((name, NamedBy::Symbol));
        }
        let place = self.slabs.as_ref().ok()?.place_of(address)?;
        self.member(&place, kind).map(|name| (name, NamedBy::SlabMember))
    }

    /// A static lock, or one of a CPU's own.
    fn variable(&self, address: u64, kind: LockKind) -> Option<String> {
        let (name, offset) = self.symbols.at(address).or_else(|| {
            self.per_cpu.iter().find_map(|start| self.symbols.per_cpu(address.checked_sub(*start)?))
        })?;
        let structure = VARIABLES.iter().find(|(variable, _)| *variable == name);
        let member = structure.zip(self.btf.as_ref()).and_then(|((_, structure), btf)| {
            btf.member_at(structure, u32::try_from(offset).ok()?, types_of(kind), PARTS)
        });
        Some(member.unwrap_or_else(|| match offset {
            0 => name.to_owned(),
            _ => format!("{name}+{offset:#x}"),
        }))
    }

    /// The member of a slab object's structure.
    fn member(&mut self, place: &SlabPlace, kind: LockKind) -> Option<String> {
        let (_, structure, module, size) = CACHES.iter().find(|(cache, ..)| *cache == place.cache)?;
        let btf = match module {
            // Built in, or else a module.
            Some(module) if self.btf.as_ref()?.size_of(structure).is_none() => self.module(module)?,
            _ => self.btf.as_ref()?,
        };
        let expected = btf.size_of(structure)?;
        if *size == Size::Whole && place.object_size.abs_diff(expected) >= SLACK {
            return None;
        }
        btf.member_at(structure, place.offset, types_of(kind), PARTS)
    }

    fn module(&mut self, name: &'static str) -> Option<&Btf> {
        let base = self.btf.clone();
        let module = self.modules.entry(name);
        module.or_insert_with(|| Btf::from_file(&Path::new("/sys/kernel/btf").join(name), base).ok()).as_ref()
    }
}

/// What a CPU's number is added to: `__per_cpu_offset`.
fn per_cpu_offsets(memory: &dyn KernelMemory, symbols: &DataSymbols) -> Vec<u64> {
    const MOST: usize = 8192;
    let Some(table) = symbols.address_of("__per_cpu_offset") else { return Vec::new() };
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = cpus.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<usize>().ok());
    let mut bytes = vec![0; (last.unwrap_or(0) + 1).min(MOST) * 8];
    if !memory.read(table, &mut bytes) {
        return Vec::new();
    }
    bytes.as_chunks::<8>().0.iter().map(|number| u64::from_ne_bytes(*number)).collect()
}

/// Names of the types, or typedefs, that a lock of this kind has.
fn types_of(kind: LockKind) -> &'static [&'static str] {
    match kind {
        LockKind::Spin => &["spinlock", "raw_spinlock", "qspinlock"],
        LockKind::RwlockRead | LockKind::RwlockWrite => &["rwlock_t", "qrwlock"],
        LockKind::Mutex | LockKind::MutexSpin => &["mutex"],
        LockKind::RwsemRead | LockKind::RwsemWrite => &["rw_semaphore"],
        LockKind::Semaphore => &["semaphore"],
        LockKind::PercpuRwsem => &["percpu_rw_semaphore"],
        LockKind::RtMutex => &["rt_mutex", "rt_mutex_base", "mutex", "spinlock", "rw_semaphore", "rwlock_t"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Option<LockNames<'static>> {
        let btf = Arc::new(Btf::vmlinux().ok()?);
        Some(LockNames {
            symbols: DataSymbols::default(),
            btf: Some(btf),
            slabs: Err(String::new()),
            per_cpu: Vec::new(),
            modules: HashMap::new(),
        })
    }

    #[test]
    fn a_place_in_a_slab_is_named_if_all_agrees() {
        let Some(mut names) = names() else { return };
        let btf = names.btf.clone().unwrap();
        let offset = btf.offset_of("files_struct", "file_lock").unwrap();
        let object_size = btf.size_of("files_struct").unwrap();
        let place = SlabPlace { cache: "files_cache".to_owned(), object_size, offset };
        assert_eq!(names.member(&place, LockKind::Spin).as_deref(), Some("files_struct.file_lock"));
        // Another kind of lock, a cache that was merged with one of larger objects, one that is not known.
        assert_eq!(names.member(&place, LockKind::Mutex), None);
        let merged = SlabPlace { object_size: object_size + SLACK, ..place.clone() };
        assert_eq!(names.member(&merged, LockKind::Spin), None);
        let unknown = SlabPlace { cache: "kmalloc-512".to_owned(), ..place };
        assert_eq!(names.member(&unknown, LockKind::Spin), None);
    }

    #[test]
    fn a_task_and_a_memory_map_vary_in_size() {
        let Some(mut names) = names() else { return };
        let btf = names.btf.clone().unwrap();
        let offset = btf.offset_of("task_struct", "pi_lock").unwrap();
        let place = SlabPlace { cache: "task_struct".to_owned(), object_size: 20_000, offset };
        assert_eq!(names.member(&place, LockKind::Spin).as_deref(), Some("task_struct.pi_lock"));
        let offset = btf.offset_of("mm_struct", "mmap_lock").unwrap();
        let place = SlabPlace { cache: "mm_struct".to_owned(), object_size: 9000, offset };
        assert_eq!(names.member(&place, LockKind::RwsemWrite).as_deref(), Some("mm_struct.mmap_lock"));
    }
}
