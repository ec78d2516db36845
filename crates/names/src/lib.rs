//! Names of objects: their parts, the schemas in which a session looks for them, and what they mean in a catalog, or errors that suggest others.
//!
//! Must not know: sessions, plans.
#![forbid(unsafe_code)]

pub mod named;
pub mod qualified_name;
pub mod search_path;
