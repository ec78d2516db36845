//! forebay-cache.
