//! Memory mappings, and the kernel's counters of memory.

use std::fs::File;
use std::os::fd::AsRawFd as _;

const PAGE: usize = 4096;

/// The sum of the counters in /proc/vmstat whose names begin with this.
pub fn vmstat(prefix: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap();
    let values = text.lines().filter(|line| line.starts_with(prefix));
    values.filter_map(|line| line.split_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// Mapped memory of this process.
pub struct Mapping {
    start: *mut u8,
    size: usize,
    writable: bool,
}

impl Mapping {
    /// Memory of nobody else.
    pub fn anonymous(size: usize) -> Self {
        Self::map(size, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    /// The beginning of a file, to be read.
    pub fn of(file: &File, size: usize) -> Self {
        Self::map(size, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map(size: usize, prot: i32, flags: i32, fd: i32) -> Self {
        // SAFETY: no address is given, so that nothing that is mapped goes.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), size, prot, flags, fd, 0) };
        assert_ne!(start, libc::MAP_FAILED, "no memory for {size} bytes");
        Self { start: start.cast(), size, writable: prot & libc::PROT_WRITE != 0 }
    }

    /// Touches each page: writes to it if that is allowed, since reading takes no memory where nothing was written.
    pub fn touch(&self) {
        for offset in (0..self.size).step_by(PAGE) {
            // SAFETY: within the mapping, whose contents nobody relies on.
            unsafe {
                let page = self.start.add(offset);
                if self.writable {
                    page.write_volatile(1);
                } else {
                    page.read_volatile();
                }
            }
        }
    }

    /// Asks for huge pages.
    pub fn rather_huge(&self) {
        self.advise(0, self.size, libc::MADV_HUGEPAGE);
    }

    /// Asks for pages of the usual size.
    pub fn never_huge(&self) {
        self.advise(0, self.size, libc::MADV_NOHUGEPAGE);
    }

    /// Gives every other page back.
    pub fn forget_every_other_page(&self) {
        for offset in (0..self.size).step_by(2 * PAGE) {
            self.advise(offset, PAGE, libc::MADV_DONTNEED);
        }
    }

    fn advise(&self, offset: usize, size: usize, advice: i32) {
        // SAFETY: within the mapping, whose contents nobody relies on.
        let answer = unsafe { libc::madvise(self.start.add(offset).cast(), size, advice) };
        // Kernels without huge pages refuse to be asked for them.
        assert!(answer == 0 || advice != libc::MADV_DONTNEED);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`, and nothing borrows from it.
        unsafe { libc::munmap(self.start.cast(), self.size) };
    }
}
