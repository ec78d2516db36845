//! Types that users name, and those whose values are texts: ENUM, UUID, BIT, TIME WITH TIME
//! ZONE and JSON.
//!
//! Reading order: [`definition`] is CREATE TYPE, [`names`] replaces names by what they stand for, [`values`] gives rows of VALUES one type, [`planned`] tells the planner what
//! types in SQL are, [`enumeration`] and [`own`] are the types, and [`rule`] gives plans their meaning, with [`functions`],
//! [`marks`], [`json_values`], [`bit_functions`], [`zoned_functions`] and [`extrema`]; [`collated`] are columns with a collation, [`type_of`] is `typeof`, and [`sums`] what it says of sums; [`supertypes`] says which type values of
//! several types have in common. Must not know: where types are kept, tables, other rules.
#![forbid(unsafe_code)]

pub mod bit_functions;
pub mod bits;
pub mod collated;
pub mod definition;
pub mod enumeration;
pub mod extrema;
pub mod functions;
mod json_values;
pub mod marks;
pub mod names;
pub mod operands;
pub mod own;
pub mod planned;
pub mod rule;
pub mod sums;
pub mod supertypes;
pub mod type_of;
pub mod values;
pub mod zoned_functions;
pub mod zoned_times;

pub use rule::{OwnTypes, applied};
