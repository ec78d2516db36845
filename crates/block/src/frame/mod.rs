//! Schemes that frames are stored by: up to 64 KiB of one section of a block, each on its own. Checksums are the caller's.
//!
//! Invariants: a scheme gives back exactly the bytes that it was given, or says what is wrong with the stored ones. Must
//! not know: chunks, blocks, files.

#[cfg_attr(not(test), expect(dead_code, reason = "chunks do not choose it yet"))]
mod alp;
#[cfg(test)]
mod distributions;
#[cfg_attr(not(test), expect(dead_code, reason = "chunks do not choose it yet"))]
mod fsst;
#[cfg_attr(not(test), expect(dead_code, reason = "chunks do not choose it yet"))]
mod rans;
