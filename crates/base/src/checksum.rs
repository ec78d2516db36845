//! The checksum of everything on disk: CRC-32C, which every current processor computes in hardware and which detects
//! every single-bit, double-bit and burst error up to 32 bits in a frame.

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn matches_the_published_check_value() {
        assert_eq!(super::crc32c(b"123456789"), 0xE306_9283);
    }
}
