//! What operators and functions make of bits: [`calls`] of one row, [`aggregates`] of many, and [`casts`] to other types.

pub mod aggregates;
pub mod calls;
pub mod casts;
mod huge_bits;
