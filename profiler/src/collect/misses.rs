//! Events that the kernel itself kept from a program, since an eBPF program was running on the CPU already.
//!
//! A program never interrupts itself, and those of plain tracepoints and kprobes run only where no other program and
//! no bpf(2) call for a map is under way (trace_call_bpf in kernel/trace/bpf_trace.c): should the profiler be
//! preempted while it drains a map, they miss all that its CPU does meanwhile. The kernel counts what it leaves out
//! (since 5.12; for plain tracepoints since 6.7).

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd as _};

use aya::Ebpf;

use crate::kernel::probes::PROBES;

/// Events left out, by probe, of the programs that are loaded. Those of other processes than the measured ones
/// are among them: nobody has looked whose they were.
pub fn by_probe(ebpf: &Ebpf) -> BTreeMap<&'static str, u64> {
    let mut misses = BTreeMap::new();
    for probe in PROBES {
        let rungs = probe.parts.iter().flat_map(|part| part.rungs);
        // Rungs share programs.
        let mut programs: Vec<&str> =
            rungs.flat_map(|rung| rung.attach).map(|attach| attach.program()).collect();
        programs.sort_unstable();
        programs.dedup();
        let count: u64 = programs.into_iter().filter_map(|program| of_program(ebpf, program)).sum();
        if count > 0 {
            misses.insert(probe.name, count);
        }
    }
    misses
}

/// `None` if the program is not loaded or the kernel does not count.
fn of_program(ebpf: &Ebpf, program: &str) -> Option<u64> {
    let fd = ebpf.program(program)?.fd().ok()?.as_fd().as_raw_fd();
    parse(&std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?)
}

fn parse(fdinfo: &str) -> Option<u64> {
    fdinfo.lines().find_map(|line| line.strip_prefix("recursion_misses:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    #[test]
    fn misses_are_read_from_fdinfo() {
        let fdinfo = "pos:\t0\nprog_type:\t5\nprog_id:\t72\nrecursion_misses:\t17\nverified_insns:\t9\n";
        assert_eq!(super::parse(fdinfo), Some(17));
        assert_eq!(super::parse("prog_type:\t5\n"), None);
    }
}
