//! What the cache has let go of.
//!
//! Must not know: why.

use std::sync::Arc;

/// A value that went, whose memory is freed once no lock is held.
pub(crate) enum Gone<V, S> {
    Inflated(#[expect(dead_code, reason = "it is dropped")] Arc<V>, usize),
    Stored(#[expect(dead_code, reason = "it is dropped")] Arc<S>, usize),
}

impl<V, S> Gone<V, S> {
    /// Bytes of memory that it took.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Inflated(_, bytes) | Self::Stored(_, bytes) => *bytes,
        }
    }
}
