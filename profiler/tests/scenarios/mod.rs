//! The scenarios, a file for each pathology, and where they are run.
//!
//! Shared by the tests of this machine (main.rs) and those in virtual machines (tests/guest/scenarios.rs).

// Each of the two uses a part.
#![allow(dead_code)]

pub mod fio;
pub mod healthy;
pub mod memory;
pub mod mutex_spinning;
pub mod page_alloc_pressure;
pub mod read_amplification;
pub mod readahead_disabled;
pub mod readahead_waste;
pub mod scenario;
pub mod sleeping_lock_contention;
pub mod small_io;
pub mod spinlock_contention;
pub mod verdict;
pub mod work;

/// Hands those that are run on this machine to a macro.
#[allow(unused_macros)]
macro_rules! here {
    ($then:ident) => {
        $then! {
            readahead_disabled: sequential_read, with_readahead, told_random, direct, single_pages;
            readahead_waste: short_runs, sequential_read, random_pages, told_random, all_cached;
            read_amplification: compressed_btrfs, uncompressed_btrfs, direct_ext4;
            small_io: direct_reads, direct_writes, large_direct_reads, buffered_reads, random_direct_reads;
            spinlock_contention: one_file_table, own_file_tables;
            sleeping_lock_contention: one_directory, one_allocation_group, own_directories;
            mutex_spinning: one_file, own_files;
            page_alloc_pressure: small_limit, no_limit;
            healthy: idle, compile, tar, cached_reads, random_cached_reads, fdatasync, loopback, forks, sleepers,
                pipe_ping_pong, futex_ping_pong, mapped_reads, parallel_writes, gzip, sha256sum, random_writes;
        }
    };
}

/// Likewise those that are run in virtual machines, where all is slower and not every program is there.
///
/// sleeping_lock_contention::own_directories is not: where the host takes emulated CPUs away from holders of the journal's
/// spinlock, spinlock-contention is found, as it was on 6.12 (journal_s.j_state_lock).
macro_rules! in_guests {
    ($then:ident) => {
        $then! {
            readahead_disabled: sequential_read, with_readahead;
            read_amplification: bcachefs, rewritten_bcachefs;
            small_io: direct_reads, large_direct_reads;
            spinlock_contention: one_file_table, page_storm, unlink_storm, own_file_tables;
            sleeping_lock_contention: one_directory;
            mutex_spinning: one_file, own_files;
            page_alloc_pressure: full_machine, roomy_machine, memory_in_pieces, memory_in_one_piece;
            healthy: idle, random_cached_reads, pipe_ping_pong;
        }
    };
}

/// A test for each.
macro_rules! tests {
    ($($family:ident: $($name:ident),+;)+) => {
        $(mod $family {
            $(#[test]
            fn $name() {
                let name = concat!(stringify!($family), "::", stringify!($name));
                crate::scenarios::$family::$name().test(name);
            })+
        })+
    };
}

/// Each with its name.
#[allow(unused_macros)]
macro_rules! named {
    ($($family:ident: $($name:ident),+;)+) => {
        vec![$($((
            concat!(stringify!($family), "::", stringify!($name)),
            crate::scenarios::$family::$name(),
        )),+),+]
    };
}
