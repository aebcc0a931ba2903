//! CPU samples: a perf event on each CPU that runs the sampling program.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _};

use perf_event_open_sys as sys;
use sys::bindings;

/// The perf events of all CPUs.
pub struct CpuEvents {
    clock: Clock,
    frequency: u32,
    events: Vec<(u32, File)>,
    /// CPUs that could not be sampled, with the reason.
    failed: Vec<String>,
}

/// What triggers the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Hardware cycles: samples come as non-maskable interrupts and see everything.
    Cycles,
    /// A timer: code that runs with interrupts off is not seen.
    CpuClock,
}

impl Clock {
    /// perf's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Cycles => "cycles",
            Clock::CpuClock => "cpu-clock",
        }
    }
}

impl CpuEvents {
    /// Opens an event on each of `cpus`, not yet running: hardware cycles where there is a PMU, else
    /// cpu-clock. A CPU that is refused is left out and [`failed`](Self::failed).
    ///
    /// # Errors
    ///
    /// If not one CPU can be sampled.
    pub fn open(cpus: &[u32], frequency: u32, program: BorrowedFd<'_>) -> io::Result<Self> {
        let clock = match cpus.first().map(|cpu| open_event(Clock::Cycles, *cpu, frequency)) {
            Some(Ok(_)) => Clock::Cycles,
            _ => Clock::CpuClock,
        };
        let mut opened = Self { clock, frequency, events: Vec::new(), failed: Vec::new() };
        let mut last_error = io::Error::new(io::ErrorKind::NotFound, "no CPU is online");
        for cpu in cpus {
            match open_event(clock, *cpu, frequency)
                .and_then(|event| set_program(&event, program).map(|()| event))
            {
                Ok(event) => opened.events.push((*cpu, event)),
                Err(error) => {
                    opened.failed.push(format!("CPU {cpu}: {error}"));
                    last_error = error;
                }
            }
        }
        if opened.events.is_empty() { Err(last_error) } else { Ok(opened) }
    }

    /// Starts all of them.
    ///
    /// # Errors
    ///
    /// What ioctl(2) reports.
    pub fn enable(&self) -> io::Result<()> {
        for (_, event) in &self.events {
            // SAFETY: an open perf event; no argument.
            check(unsafe { sys::ioctls::ENABLE(event.as_raw_fd(), 0) })?;
        }
        Ok(())
    }

    /// Stops all of them. An event whose CPU is gone has stopped already.
    pub fn disable(&self) {
        for (cpu, event) in &self.events {
            // SAFETY: an open perf event; no argument.
            if let Err(error) = check(unsafe { sys::ioctls::DISABLE(event.as_raw_fd(), 0) }) {
                tracing::debug!("cannot stop the samples of CPU {cpu}: {error}");
            }
        }
    }

    /// What triggers the samples.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// CPUs that could not be sampled, with the reason.
    pub fn failed(&self) -> &[String] {
        &self.failed
    }

    /// Samples that were due until now. With cpu-clock the events count nanoseconds and a sample is
    /// due each period, exactly; with cycles the kernel steers the period, and it is `None`.
    pub fn due(&self) -> Option<u64> {
        if self.clock != Clock::CpuClock {
            return None;
        }
        let mut due = 0;
        for (_, event) in &self.events {
            let mut count = [0; 8];
            let mut event: &File = event;
            if event.read_exact(&mut count).is_ok() {
                due += u64::from_ne_bytes(count) / period_ns(self.frequency);
            }
        }
        Some(due)
    }
}

/// Period of cpu-clock, ns.
fn period_ns(frequency: u32) -> u64 {
    1_000_000_000 / u64::from(frequency.max(1))
}

fn open_event(clock: Clock, cpu: u32, frequency: u32) -> io::Result<File> {
    let mut attr = bindings::perf_event_attr::default();
    attr.size = size_of::<bindings::perf_event_attr>() as u32;
    attr.set_disabled(1);
    match clock {
        Clock::Cycles => {
            attr.type_ = bindings::PERF_TYPE_HARDWARE;
            attr.config = u64::from(bindings::PERF_COUNT_HW_CPU_CYCLES);
            attr.set_freq(1);
            attr.__bindgen_anon_1.sample_freq = u64::from(frequency);
        }
        Clock::CpuClock => {
            attr.type_ = bindings::PERF_TYPE_SOFTWARE;
            attr.config = u64::from(bindings::PERF_COUNT_SW_CPU_CLOCK);
            attr.__bindgen_anon_1.sample_period = period_ns(frequency);
        }
    }
    // SAFETY: `attr` is valid; pid -1 with a CPU means every task on it.
    let fd = check(unsafe {
        sys::perf_event_open(&raw mut attr, -1, cpu as i32, -1, u64::from(bindings::PERF_FLAG_FD_CLOEXEC))
    })?;
    // SAFETY: a new file descriptor that nobody else owns.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn set_program(event: &File, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: an open perf event and an open eBPF program.
    check(unsafe { sys::ioctls::SET_BPF(event.as_raw_fd(), program.as_raw_fd() as u32) }).map(drop)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
