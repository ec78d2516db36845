//! The functions that compiled code calls.

/// A function that compiled code calls. Parameters and results are words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// (context, operation, a, b) -> fault; the result is in the context.
    Arithmetic64,
    /// (context, operation, a low, a high, b low, b high) -> fault; the result is in the context.
    Arithmetic128,
    /// (part, days) -> number
    DatePart,
    /// (address, length) -> number of characters
    Length,
    /// (address, length, start, length in characters, whether that counts) -> (address, length)
    Substring,
    /// (address, length, address, length) -> negative, 0 or positive
    CompareBytes,
    /// (address, address, length) -> 0 or 1
    EqualBytes,
    /// (address, length) -> word
    HashBytes,
    /// (low, high) -> bits
    FloatOf,
    /// (pattern, address, length) -> 0 or 1
    Like,
    /// (list, low, high) -> 0 or 1
    Member,
    /// (context): room for at least one more row
    Grow,
    /// (context, address, length) -> address
    KeepBytes,
    /// (context, old address, old length, address, length) -> address
    ReplaceBytes,
    /// (context, hash, address of the key's words, number of them) -> address of the row
    NewGroup,
    /// (context, partition): room for at least one more row of it -> fault
    GrowPartition,
}

impl Function {
    /// Number of results.
    pub(super) fn results(self) -> usize {
        match self {
            Self::Grow => 0,
            Self::Substring => 2,
            _ => 1,
        }
    }
}
