//! Reading the running kernel's memory: what it takes, without saying how it is done.

/// Something that can read kernel memory.
pub trait KernelMemory {
    /// Fills `into` with what is at `address`; `false` if any of it cannot be read.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;

    /// Address of the `task_struct` of the calling thread.
    fn current_task(&self) -> Option<u64>;

    /// The 64-bit number at `address`.
    fn u64(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
    }

    /// The 32-bit number at `address`.
    fn u32(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes).then(|| u32::from_ne_bytes(bytes))
    }

    /// The text at `address`, of at most 63 printable ASCII characters; `None` for anything else.
    fn name(&self, address: u64) -> Option<String> {
        let mut bytes = [0; 64];
        // It may end just before memory that cannot be read.
        let read = [64, 32, 16, 8].into_iter().find(|length| self.read(address, &mut bytes[..*length]))?;
        let length = bytes[..read].iter().position(|byte| *byte == 0).filter(|length| *length > 0)?;
        let text = &bytes[..length];
        text.iter().all(u8::is_ascii_graphic).then(|| String::from_utf8_lossy(text).into_owned())
    }
}
