//! forebay-store.
