//! Which slab object an address lies in.
//!
//! The kernel keeps a `struct page` for each page of memory, in an array (`vmemmap`), and maps all of
//! memory in a row (`page_offset`). So an address leads to its page by arithmetic, the page to its slab
//! cache, and the cache's name and object size to the object.

use super::btf::Btf;
use super::memory::KernelMemory;

/// Where x86-64 kernels have their pages mapped and described, `page_offset` and `vmemmap`, unless these
/// were moved at random: with four and with five levels of page tables (Documentation/arch/x86/x86_64/mm.rst).
const DEFAULTS: [(u64, u64); 2] =
    [(0xffff_8880_0000_0000, 0xffff_ea00_0000_0000), (0xff11_0000_0000_0000, 0xffd4_0000_0000_0000)];

const PAGE_SHIFT: u32 = 12;

/// An address as a place in a slab object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabPlace {
    /// Name of the cache, such as `files_cache`.
    pub cache: String,
    /// Bytes of an object, as those who allocate it see it.
    pub object_size: u32,
    /// Bytes from the start of the object.
    pub offset: u32,
}

/// Finds slab objects.
pub struct Slabs<'m> {
    memory: &'m dyn KernelMemory,
    offsets: Offsets,
    page_offset: u64,
    vmemmap: u64,
}

/// Byte offsets in structures, and the size of one.
#[derive(Clone, Copy)]
struct Offsets {
    page_size: u64,
    compound_head: u32,
    slab_cache: u32,
    cache_name: u32,
    cache_size: u32,
    cache_object_size: u32,
}

impl<'m> Slabs<'m> {
    /// For the running kernel. `symbol` gives the addresses of its variables.
    ///
    /// # Errors
    ///
    /// What is missing, a sentence.
    pub fn new(
        btf: &Btf,
        memory: &'m dyn KernelMemory,
        symbol: impl Fn(&str) -> Option<u64>,
    ) -> Result<Self, String> {
        if cfg!(not(target_arch = "x86_64")) {
            return Err("where its pages are described is known for x86-64 only".to_owned());
        }
        let offsets = Offsets::resolve(btf)?;
        let task = memory.current_task().ok_or("its memory cannot be read by an eBPF program")?;
        let base = |name: &str| symbol(name).and_then(|address| memory.u64(address));
        let told = base("page_offset_base").zip(base("vmemmap_base"));
        // Whether a guess is right, the caller's own task_struct tells: it lies in a cache of that name.
        told.into_iter()
            .chain(DEFAULTS)
            .map(|(page_offset, vmemmap)| Self { memory, offsets, page_offset, vmemmap })
            .find(|slabs| slabs.place_of(task).is_some_and(|place| place.cache == "task_struct"))
            .ok_or_else(|| "it does not say where its pages are described (vmemmap_base)".to_owned())
    }

    /// The object that holds `address`; `None` if it lies in no slab.
    pub fn place_of(&self, address: u64) -> Option<SlabPlace> {
        let page = self.page_of(address)?;
        let head = self.head_of(page)?;
        let start = self.address_of(head)?;
        let cache = self.memory.u64(head + u64::from(self.offsets.slab_cache))?;
        // Of other pages, the word means something else.
        if cache < self.page_offset || cache % 8 != 0 {
            return None;
        }
        let field = |offset: u32| cache + u64::from(offset);
        let size = self.memory.u32(field(self.offsets.cache_size))?;
        let object_size = self.memory.u32(field(self.offsets.cache_object_size))?;
        if size == 0 || object_size == 0 || object_size > size {
            return None;
        }
        let name = self.memory.name(self.memory.u64(field(self.offsets.cache_name))?)?;
        let offset = (address.checked_sub(start)? % u64::from(size)) as u32;
        (offset < object_size).then_some(SlabPlace { cache: name, object_size, offset })
    }

    fn page_of(&self, address: u64) -> Option<u64> {
        let number = address.checked_sub(self.page_offset)? >> PAGE_SHIFT;
        number.checked_mul(self.offsets.page_size)?.checked_add(self.vmemmap)
    }

    /// The address that a page is mapped at.
    fn address_of(&self, page: u64) -> Option<u64> {
        let number = page.checked_sub(self.vmemmap)? / self.offsets.page_size;
        (number << PAGE_SHIFT).checked_add(self.page_offset)
    }

    /// The first page of those that were allocated together.
    fn head_of(&self, page: u64) -> Option<u64> {
        let word = self.memory.u64(page + u64::from(self.offsets.compound_head))?;
        if word & 1 == 0 {
            return Some(page);
        }
        // A pointer to the head, or from 7.1 on a mask that leaves it: then all of the upper bits are set.
        const MASKS: u64 = 0xffff_ffff_0000_0000;
        Some(if word >= MASKS { page & word } else { word - 1 })
    }
}

impl Offsets {
    fn resolve(btf: &Btf) -> Result<Self, String> {
        let first = |members: &[(&str, &str)]| {
            members.iter().find_map(|(structure, member)| btf.offset_of(structure, member)).ok_or_else(|| {
                let (structure, member) = members[0];
                format!("its type information (BTF) lacks {structure}.{member}")
            })
        };
        Ok(Self {
            page_size: btf.size_of("page").map(u64::from).ok_or("its type information (BTF) lacks page")?,
            compound_head: first(&[("page", "compound_head"), ("page", "compound_info")])?,
            // Slabs have a structure of their own since 5.17.
            slab_cache: first(&[("slab", "slab_cache"), ("page", "slab_cache")])?,
            cache_name: first(&[("kmem_cache", "name")])?,
            cache_size: first(&[("kmem_cache", "size")])?,
            cache_object_size: first(&[("kmem_cache", "object_size")])?,
        })
    }
}
