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

/// A function that looks up the page of an address, so that its code names the variables that hold where pages
/// are mapped and described.
const USES_BASES: &str = "kfree";

/// Bytes of it that are looked at.
const CODE: usize = 1024;

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
        let read = || symbol(USES_BASES).map_or(Vec::new(), |function| bases_in_code(memory, function));
        // Whether a guess is right, the caller's own task_struct tells: it lies in a cache of that name.
        told.into_iter()
            .chain(DEFAULTS)
            .chain(std::iter::once_with(read).flatten())
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

/// Pairs of what may be `page_offset_base` and `vmemmap_base`, for kernels that list no variables: values of
/// variables that a function uses, if they look like one. Nothing is decoded: every place in the code is taken
/// for an operand relative to the instruction pointer, and what is wrong leads nowhere.
fn bases_in_code(memory: &dyn KernelMemory, function: u64) -> Vec<(u64, u64)> {
    const KERNEL_IMAGE: u64 = 0xffff_ffff_8000_0000;
    // Both are moved by multiples of what an entry of the page tables' third level maps (arch/x86/mm/kaslr.c).
    const ALIGNMENT: u64 = 1 << 30;
    let mut code = [0; CODE];
    if !memory.read(function, &mut code) {
        return Vec::new();
    }
    let mut values: Vec<u64> = code
        .windows(5)
        .enumerate()
        // A ModR/M byte without a base register, and a displacement of 32 bits.
        .filter(|(_, window)| window[0] & 0xc7 == 0x05)
        .filter_map(|(at, window)| {
            let displacement = i32::from_le_bytes([window[1], window[2], window[3], window[4]]);
            let next = function + at as u64 + 5;
            let variable = next.checked_add_signed(i64::from(displacement))?;
            let value = if variable >= KERNEL_IMAGE { memory.u64(variable)? } else { return None };
            ((1 << 63..KERNEL_IMAGE).contains(&value) && value % ALIGNMENT == 0).then_some(value)
        })
        .collect();
    values.sort_unstable();
    values.dedup();
    let mut pairs = Vec::new();
    for (index, low) in values.iter().enumerate() {
        pairs.extend(values[index + 1..].iter().map(|high| (*low, *high)));
    }
    pairs
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that is made of a few pieces.
    struct Pieces(Vec<(u64, Vec<u8>)>);

    impl KernelMemory for Pieces {
        fn read(&self, address: u64, into: &mut [u8]) -> bool {
            self.0.iter().any(|(start, bytes)| {
                let Some(at) = address.checked_sub(*start).map(|at| at as usize) else { return false };
                let Some(bytes) = bytes.get(at..at + into.len()) else { return false };
                into.copy_from_slice(bytes);
                true
            })
        }

        fn current_task(&self) -> Option<u64> {
            None
        }
    }

    #[test]
    fn bases_are_read_from_code() {
        let (function, page_offset, vmemmap): (u64, u64, u64) =
            (0xffff_ffff_8110_0000, 0xffff_9a40_0000_0000, 0xffff_f0c0_8000_0000);
        let mut code = vec![0x90; CODE];
        // add 0x100000(%rip),%rax and sub 0xfffff(%rip),%rax: the variables are eight bytes apart.
        code[16..23].copy_from_slice(&[0x48, 0x03, 0x05, 0, 0, 0x10, 0]);
        code[23..30].copy_from_slice(&[0x48, 0x2b, 0x05, 1, 0, 0x10, 0]);
        let variables = [vmemmap.to_le_bytes(), page_offset.to_le_bytes()].concat();
        let memory = Pieces(vec![(function, code), (function + 23 + 0x10_0000, variables)]);
        assert_eq!(bases_in_code(&memory, function), [(page_offset, vmemmap)]);
        assert_eq!(bases_in_code(&memory, function + 1), []);
    }
}
