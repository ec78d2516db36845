//! Taking the parts of a stored frame in order.
//!
//! Invariant: nothing behind the end is reached, whatever lengths the bytes name.

/// What is wrong with a frame, for messages.
pub(crate) type Wrong = &'static str;

/// The bytes of a stored frame that were not taken yet.
pub(crate) struct Parts<'a>(pub(crate) &'a [u8]);

impl<'a> Parts<'a> {
    /// The next `bytes` bytes.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8], Wrong> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or("it is cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next 8 bytes as a number.
    pub(crate) fn number(&mut self) -> Result<u64, Wrong> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or("it is cut off")?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// The next 8 bytes as two numbers.
    pub(crate) fn halves(&mut self) -> Result<[u32; 2], Wrong> {
        let both = self.number()?;
        Ok([both as u32, (both >> 32) as u32])
    }

    /// Nothing may be left.
    pub(crate) fn finish(self) -> Result<(), Wrong> {
        if self.0.is_empty() { Ok(()) } else { Err("it is longer than its content") }
    }
}

/// Ends a part with zeros up to a multiple of 8 bytes, counted from `start`.
pub(crate) fn pad(start: usize, out: &mut Vec<u8>) {
    let bytes = (out.len() - start).next_multiple_of(8);
    out.resize(start + bytes, 0);
}
