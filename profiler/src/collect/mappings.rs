//! The kernel's own reports of what processes map and fork, from perf events without samples: an
//! exec makes half a dozen of them, some 100 bytes each.

use std::io;

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, Sampler};

use crate::symbolize::{Processes, Reported};

/// Bytes of each CPU's buffer: some 500 execs between two drains.
const BUFFER: usize = 512 * 1024;

/// The buffers of all CPUs.
pub struct MappingEvents {
    buffers: Vec<Sampler>,
    /// Reports that found their buffer full.
    pub lost: u64,
}

impl MappingEvents {
    /// Starts the reports on each of `cpus`.
    ///
    /// # Errors
    ///
    /// What perf_event_open(2) or mmap(2) says; with less memory that may be locked, for example.
    pub fn start(cpus: &[u32]) -> io::Result<Self> {
        let mut buffers = Vec::new();
        for cpu in cpus {
            let mut counter = Builder::new(Software::DUMMY)
                .any_pid()
                .one_cpu(*cpu as usize)
                .mmap(true)
                .mmap2(true)
                .task(true)
                .build()?
                .sampled(BUFFER)?;
            counter.enable()?;
            buffers.push(counter);
        }
        Ok(Self { buffers, lost: 0 })
    }

    /// Passes on what was reported since the last time.
    pub fn drain(&mut self, processes: &mut Processes) {
        for buffer in &mut self.buffers {
            while let Some(record) = buffer.next_record() {
                match record.parse_record() {
                    Ok(Record::Mmap2(map)) => processes.mapped(
                        map.pid,
                        Reported {
                            start: map.addr,
                            end: map.addr.saturating_add(map.len),
                            offset: map.pgoff,
                            path: map.filename_os().into(),
                            identity: (
                                u64::from(map.maj().unwrap_or(0)) << 32 | u64::from(map.min().unwrap_or(0)),
                                map.ino().unwrap_or(0),
                            ),
                        },
                    ),
                    Ok(Record::Fork(fork)) => processes.forked(fork.ppid, fork.pid),
                    Ok(Record::Lost(lost)) => self.lost += lost.lost,
                    Ok(_) => {}
                    Err(error) => tracing::debug!("a perf record makes no sense: {error}"),
                }
            }
        }
    }
}
