//! Time zones: which moment of the world a local date and time is in one, and the other way round; and the time zone of a session, in
//! which its instants are read and shown, taken apart and cut.
//!
//! Reading order: [`zone`], a time zone; [`functions`], what expressions compute in one; [`rule`], which puts them in where a
//! statement means the session's; [`shown`]. Invariant: a TIMESTAMP WITH TIME ZONE is an instant, and the zone in its type is UTC,
//! but in rows that leave a statement. Must not know: tables, where settings are kept.
#![forbid(unsafe_code)]

pub mod functions;
pub mod rule;
pub mod shown;
pub mod zone;

pub use rule::at_zone;
