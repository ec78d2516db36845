//! Values of Arrow arrays as text, and Arrow's types by SQL's names: what a prompt and a server write alike.
//!
//! Start with [`value`]. Must not know: layouts, terminals, statements, wire protocols.
#![forbid(unsafe_code)]

pub mod temporal;
pub mod types;
pub mod value;
