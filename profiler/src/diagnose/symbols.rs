//! Function names as compilers, tracers and kernel releases write them, made comparable.
//!
//! For matching only: what is shown stays as its source had it.

/// Today's name of functions that were called otherwise in other kernels, the old name first.
const RENAMED: &[(&str, &str)] = &[
    // 5.13 and 6.14 renamed the page allocator's entry.
    ("__alloc_pages_nodemask", "__alloc_pages"),
    ("__alloc_frozen_pages", "__alloc_pages"),
    // 6.3 and later: alloc_pages_mpol, the mempolicy-aware entry.
    ("alloc_pages_current", "alloc_pages_mpol"),
    ("alloc_pages_vma", "alloc_pages_mpol"),
    ("vma_alloc_folio", "alloc_pages_mpol"),
    // 5.15 renamed the direct reclaim and compaction entries no more than their arguments; 5.9 the reader's.
    ("generic_file_buffered_read", "filemap_read"),
    ("__do_page_cache_readahead", "page_cache_ra_unbounded"),
    ("do_page_cache_ra", "page_cache_ra_unbounded"),
    ("ondemand_readahead", "page_cache_ra_order"),
    // Clearing pages: by instruction set, until 6.x made them alternatives of one.
    ("clear_page_rep", "clear_page"),
    ("clear_page_orig", "clear_page"),
    ("clear_page_erms", "clear_page"),
    ("clear_pages_erms", "clear_page"),
    ("clear_highpages_kasan_tagged", "kernel_init_pages"),
    ("kernel_init_free_pages", "kernel_init_pages"),
];

/// Suffixes that the compiler or the linker appends, each followed by more: `.constprop.0`.
const SUFFIXES: [&str; 7] = [".constprop.", ".isra.", ".part.", ".cold", ".llvm.", ".__uniq.", ".lto_priv."];

/// `name` without what says nothing about the function: clones of the compiler's, a module in brackets,
/// offsets, the allocation-profiling suffix, the callee-saving thunk; and by its name of today.
///
/// ```
/// use profiler::diagnose::normalize;
/// assert_eq!(normalize("xfs_dabuf_map.constprop.0 [xfs]"), "xfs_dabuf_map");
/// assert_eq!(normalize("alloc_pages_mpol_noprof"), "alloc_pages_mpol");
/// assert_eq!(normalize("__raw_callee_save___pv_queued_spin_unlock"), "__pv_queued_spin_unlock");
/// ```
pub fn normalize(name: &str) -> &str {
    let mut name = name.trim();
    if let Some((before, _)) = name.split_once(" [").or_else(|| name.split_once("\t[")) {
        name = before.trim_end();
    }
    // `+0x1a` and `+0x1a/0x200`.
    if let Some((before, _)) = name.rsplit_once("+0x") {
        name = before;
    }
    for suffix in SUFFIXES {
        if let Some((before, _)) = name.split_once(suffix)
            && !before.is_empty()
        {
            name = before;
        }
    }
    for prefix in ["__raw_callee_save_", "__pfx_"] {
        name = name.strip_prefix(prefix).filter(|rest| !rest.is_empty()).unwrap_or(name);
    }
    name = name.strip_suffix("_noprof").unwrap_or(name);
    RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_is_not_theirs() {
        for (name, plain) in [
            ("bch2_read.isra.0", "bch2_read"),
            ("xfs_buf_find.part.1.cold", "xfs_buf_find"),
            ("foo.llvm.1234567890", "foo"),
            ("__alloc_frozen_pages_noprof", "__alloc_pages"),
            ("xfs_agino_range [xfs]", "xfs_agino_range"),
            ("vfs_read+0x1a/0x200", "vfs_read"),
            ("__pfx_vfs_read", "vfs_read"),
            ("__pv_queued_spin_lock_slowpath", "__pv_queued_spin_lock_slowpath"),
            (".cold", ".cold"),
            ("", ""),
        ] {
            assert_eq!(normalize(name), plain, "{name}");
        }
    }
}
