//! What the database tells of itself, as tables of schemas that nobody made: `information_schema`.
//!
//! Invariant: nothing here changes anything. Must not know: sessions, statements other than what they see.
#![forbid(unsafe_code)]

pub mod information_schema;
mod seen;

pub use seen::Seen;

/// The name of the one catalog.
pub const CATALOG: &str = "forebay";
