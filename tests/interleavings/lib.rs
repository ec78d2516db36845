//! The cache's source, compiled once more with locks and atomics that `shuttle` schedules: the tests beside this file run threads
//! over it under many interleavings.

pub use forebay_cache::policy;

/// What threads meet at.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
}

#[path = "../../crates/cache/src/cache.rs"]
pub mod cache;
#[path = "../../crates/cache/src/gone.rs"]
mod gone;
#[path = "../../crates/cache/src/key_hasher.rs"]
mod key_hasher;
#[path = "../../crates/cache/src/uses.rs"]
mod uses;
