//! Where bytes stay: chunks kept in memory within a budget of bytes, inflated or as they are stored, so that a warm query reads
//! little or nothing.
//!
//! Reading order: [`cache`] holds chunks; [`policy`] has what decides which of them go, in pure modules; [`seen`] remembers what was
//! read once.
//! Invariants: never takes more than its budget; values are shared, so eviction never takes bytes from a running scan, and bytes
//! that are in use do not count as freed.
//! Must not know: what the bytes mean.
#![forbid(unsafe_code)]

pub mod cache;
mod gone;
mod key_hasher;
pub mod policy;
pub mod seen;
mod uses;

/// What threads meet at: tests put others in its place, which try out interleavings.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use std::sync::{Mutex, MutexGuard};
}

pub use cache::{ChunkCache, ColumnUse};
pub use policy::{ColumnKey, Facts, Form, Goal, Goals, PolicyKind, ScanProgress, UnitKey};
pub use seen::Seen;
