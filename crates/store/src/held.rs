//! Who works for longer with the database as it was: rows that are only laid out anew should not conflict with what they change.

use std::sync::Arc;

use crate::store::Store;

/// A transaction of several statements is open, until it is dropped.
#[derive(Debug)]
pub struct Held {
    _counted: Arc<()>,
}

impl Store {
    /// Notes that a transaction of several statements is open.
    pub fn hold(&self) -> Held {
        Held { _counted: Arc::clone(&self.inner.held) }
    }

    /// Whether one is.
    pub fn is_held(&self) -> bool {
        Arc::strong_count(&self.inner.held) > 1
    }
}
