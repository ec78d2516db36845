//! forebay-disk.
