//! BIT: texts of the digits 0 and 1, whose order is that of texts.
//!
//! [`digits`] computes with one text, [`numbers`] makes bits of columns of numbers.

pub mod digits;
pub mod numbers;
