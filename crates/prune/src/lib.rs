//! forebay-prune.
