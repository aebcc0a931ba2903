//! The probes: one file a family. What they share is in `config` (what user space tells them),
//! `maps`, `who` (whose event is this, and is it wanted) and `record` (count, sample, take stacks).
//!
//! Rules that hold for all of them: nothing is sent to user space per event; every loss is
//! counted; they may run in any context up to NMI, nest in each other, and never sleep.

#![no_std]
#![no_main]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

mod bio;
mod block;
mod config;
mod contiguous;
mod cpu;
mod kernel;
mod lock;
mod maps;
mod memory;
mod page_alloc;
mod read;
mod read_syscalls;
mod readahead;
mod readahead_functions;
mod reclaim;
mod record;
mod spin;
mod target;
mod who;

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// bpf_get_stack, bpf_probe_read_kernel and others are for GPL-compatible programs only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
