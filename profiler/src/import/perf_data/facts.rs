//! What perf noted about the machine and the recording.

use std::collections::{BTreeSet, HashMap};

use super::bytes::{Bytes, string};
use super::header::{Header, feature};
use crate::profile::{Host, Target};

/// `PERF_RECORD_MISC_BUILD_ID_SIZE`: the record says how long the build id is.
const MISC_BUILD_ID_SIZE: u16 = 1 << 15;

/// The facts about the machine.
pub fn host(header: &Header) -> Host {
    let text =
        |number| header.feature(number).and_then(|mut bytes| bytes.header_string()).unwrap_or_default();
    let memory = header.feature(feature::TOTAL_MEM).and_then(|mut bytes| bytes.u64()).unwrap_or(0);
    let mut host = Host {
        hostname: text(feature::HOSTNAME),
        kernel: text(feature::OSRELEASE),
        arch: text(feature::ARCH),
        cpu_model: text(feature::CPUDESC),
        // In KiB, as in /proc/meminfo.
        memory: memory.saturating_mul(1024),
        ..Host::default()
    };
    if let Some(mut bytes) = header.feature(feature::NRCPUS) {
        // Available, then online.
        host.cpus = bytes.u32().and_then(|_| bytes.u32()).unwrap_or(0);
    }
    host.numa_nodes = header.feature(feature::NUMA_TOPOLOGY).and_then(|mut bytes| bytes.u32());
    if let Some((sockets, cores)) = header.feature(feature::CPU_TOPOLOGY).and_then(topology) {
        host.sockets = Some(sockets);
        host.cores_per_socket = Some(cores / sockets);
        host.threads_per_core = Some(host.cpus / cores).filter(|threads| *threads > 0);
    }
    host
}

/// Sockets and cores: the lists of CPUs that share one.
fn topology(mut bytes: Bytes<'_>) -> Option<(u32, u32)> {
    let mut distinct = || {
        let lists: BTreeSet<String> = bytes.header_strings()?.into_iter().collect();
        u32::try_from(lists.len()).ok().filter(|count| *count > 0)
    };
    Some((distinct()?, distinct()?))
}

/// Who was recorded, as far as perf's command line tells it.
pub fn target(header: &Header) -> Target {
    let command = header.feature(feature::CMDLINE).and_then(|mut bytes| bytes.header_strings());
    let command = command.unwrap_or_default();
    let (options, argv) = match command.iter().position(|word| word == "--") {
        Some(at) => (&command[..at], &command[at + 1..]),
        None => (&command[..], &command[..0]),
    };
    let is_all = |word: &String| {
        word == "--all-cpus" || word.starts_with('-') && !word.starts_with("--") && word.contains('a')
    };
    if options.iter().skip(1).any(is_all) {
        return Target::System;
    }
    if !argv.is_empty() {
        return Target::Command { argv: argv.to_vec(), status: None };
    }
    let pids = options.iter().zip(options.iter().skip(1)).find(|(word, _)| *word == "-p" || *word == "--pid");
    let pids: Vec<u32> = pids
        .map(|(_, list)| list.split(',').filter_map(|pid| pid.parse().ok()).collect())
        .unwrap_or_default();
    if pids.is_empty() { Target::System } else { Target::Processes { pids } }
}

/// What the clock of the samples showed when, in ns: their own time, and that since 1970.
pub fn clock(header: &Header) -> Option<(u64, u64)> {
    let mut bytes = header.feature(feature::CLOCK_DATA)?;
    let _version_and_clock = (bytes.u32()?, bytes.u32()?);
    let (wall, own) = (bytes.u64()?, bytes.u64()?);
    Some((own, wall))
}

/// The build ids of files that had samples, by path.
pub fn build_ids(header: &Header) -> HashMap<String, Vec<u8>> {
    let mut ids = HashMap::new();
    if let Some(mut bytes) = header.feature(feature::BUILD_ID) {
        while let Some((path, id)) = next_build_id(&mut bytes) {
            ids.insert(path, id);
        }
    }
    ids
}

/// A `perf_record_header_build_id`, with its header.
fn next_build_id(bytes: &mut Bytes<'_>) -> Option<(String, Vec<u8>)> {
    let _kind = bytes.u32()?;
    let (misc, size) = (bytes.u16()?, bytes.u16()?);
    build_id(misc, bytes.part(usize::from(size).checked_sub(8)?)?)
}

/// What follows the header: process, id in 24 bytes, path.
pub fn build_id(misc: u16, mut bytes: Bytes<'_>) -> Option<(String, Vec<u8>)> {
    let _pid = bytes.u32()?;
    let id = bytes.take(24)?;
    let length = if misc & MISC_BUILD_ID_SIZE != 0 {
        usize::from(id[20]).min(20)
    } else {
        // Older ones are filled up with zeroes, and were of 20 bytes.
        20
    };
    Some((string(bytes.text()), id[..length].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        let mut bytes = (text.len() as u32 + 1).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.push(0);
        bytes
    }

    fn texts(list: &[&str]) -> Vec<u8> {
        let mut bytes = (list.len() as u32).to_le_bytes().to_vec();
        list.iter().for_each(|word| bytes.extend(text(word)));
        bytes
    }

    fn with_command(command: &[&str]) -> Header {
        Header { features: [(feature::CMDLINE, texts(command))].into(), ..Header::default() }
    }

    #[test]
    fn the_machine() {
        let features = [
            (feature::HOSTNAME, text("box")),
            (feature::CPUDESC, text("Some CPU")),
            (feature::NRCPUS, [16u32.to_le_bytes(), 8u32.to_le_bytes()].concat()),
            (feature::TOTAL_MEM, 1000u64.to_le_bytes().to_vec()),
            (feature::CPU_TOPOLOGY, [texts(&["0-3", "4-7"]), texts(&["0-1", "2-3", "4-5", "6-7"])].concat()),
            (feature::NUMA_TOPOLOGY, 2u32.to_le_bytes().to_vec()),
            (feature::ARCH, vec![0xff; 4]),
        ];
        let host = host(&Header { features: features.into(), ..Header::default() });
        assert_eq!((&*host.hostname, &*host.cpu_model, &*host.arch), ("box", "Some CPU", ""));
        assert_eq!((host.cpus, host.memory, host.numa_nodes), (8, 1_024_000, Some(2)));
        let topology = (host.sockets, host.cores_per_socket, host.threads_per_core);
        assert_eq!(topology, (Some(2), Some(2), Some(2)));
    }

    #[test]
    fn who_was_recorded() {
        let of = |command: &[&str]| target(&with_command(command));
        assert_eq!(of(&["/usr/bin/perf", "record", "-ag", "--", "sleep", "1"]), Target::System);
        assert_eq!(of(&["perf", "record", "-p", "7,8"]), Target::Processes { pids: vec![7, 8] });
        let argv = vec!["sleep".to_owned(), "1".to_owned()];
        let command = Target::Command { argv, status: None };
        assert_eq!(of(&["perf", "record", "-g", "--", "sleep", "1"]), command);
        assert_eq!(target(&Header::default()), Target::System);
    }

    #[test]
    fn build_ids_by_path() {
        let mut record = 67u32.to_le_bytes().to_vec();
        record.extend(MISC_BUILD_ID_SIZE.to_le_bytes());
        record.extend(44u16.to_le_bytes());
        record.extend([0xff; 4]);
        record.extend([7; 20]);
        record.extend([8, 0, 0, 0]);
        record.extend(b"/bin/x\0\0");
        let features = [(feature::BUILD_ID, [record.clone(), record[..20].to_vec()].concat())];
        let ids = build_ids(&Header { features: features.into(), ..Header::default() });
        assert_eq!(ids, [("/bin/x".to_owned(), vec![7; 8])].into());
    }
}
