//! Reading numbers and strings out of untrusted bytes, in the byte order of the file.

/// A view of bytes that shrinks as they are taken; every step fails with `None` where too few are left.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'d> {
    data: &'d [u8],
    big_endian: bool,
}

impl<'d> Bytes<'d> {
    /// A view of all of `data`.
    pub fn new(data: &'d [u8], big_endian: bool) -> Self {
        Self { data, big_endian }
    }

    /// Whether numbers have their most significant byte first.
    pub fn is_big_endian(&self) -> bool {
        self.big_endian
    }

    /// Bytes left.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// What is left.
    pub fn rest(&self) -> &'d [u8] {
        self.data
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: usize) -> Option<&'d [u8]> {
        let (taken, rest) = self.data.split_at_checked(length)?;
        self.data = rest;
        Some(taken)
    }

    /// The next `length` bytes, as a view of their own.
    pub fn part(&mut self, length: usize) -> Option<Bytes<'d>> {
        Some(Bytes { data: self.take(length)?, big_endian: self.big_endian })
    }

    /// A number of 16 bits.
    pub fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?.try_into().ok()?;
        Some(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    /// A number of 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.try_into().ok()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// A number of 64 bits.
    pub fn u64(&mut self) -> Option<u64> {
        let bytes = self.take(8)?.try_into().ok()?;
        Some(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// Skips `count` numbers of 64 bits.
    pub fn skip_u64s(&mut self, count: u64) -> Option<()> {
        self.take(usize::try_from(count).ok()?.checked_mul(8)?).map(drop)
    }

    /// Everything up to a zero byte, which is taken too; all that is left where there is none.
    pub fn text(&mut self) -> &'d [u8] {
        let end = self.data.iter().position(|byte| *byte == 0);
        let text = &self.data[..end.unwrap_or(self.data.len())];
        self.data = &self.data[end.map_or(self.data.len(), |end| end + 1)..];
        text
    }

    /// `perf_header_string`: a length of 32 bits, then so many bytes with a string that ends in zeroes.
    pub fn header_string(&mut self) -> Option<String> {
        let length = usize::try_from(self.u32()?).ok()?;
        Some(string(self.part(length)?.text()))
    }

    /// `perf_header_string_list`: how many, then the strings.
    pub fn header_strings(&mut self) -> Option<Vec<String>> {
        let count = self.u32()?;
        // Nothing is allocated for the count as such: it is only a claim.
        (0..count).map(|_| self.header_string()).collect()
    }
}

/// Text of any bytes.
pub fn string(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_both_orders() {
        let data = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
        let mut little = Bytes::new(&data, false);
        assert_eq!((little.u16(), little.u32()), (Some(0x0201), Some(0x0605_0403)));
        assert_eq!((little.u64(), little.u16()), (Some(0x0e0d_0c0b_0a09_0807), None));
        let mut big = Bytes::new(&data, true);
        assert_eq!((big.u16(), big.u32()), (Some(0x0102), Some(0x0304_0506)));
    }

    #[test]
    fn strings_end_where_they_say() {
        let mut bytes = Bytes::new(b"\x06\0\0\0ab\0xyz!", false);
        assert_eq!(bytes.header_string().as_deref(), Some("ab"));
        assert_eq!(bytes.rest(), b"!");
        assert_eq!(bytes.header_string(), None);
        assert_eq!(Bytes::new(b"\xff\xff\xff\xff\x01\0\0\0a", false).header_strings(), None);
        let mut open = Bytes::new(b"no end", false);
        assert_eq!((open.text(), open.len()), (&b"no end"[..], 0));
        assert_eq!(open.skip_u64s(u64::MAX), None);
    }
}
