//! forebay.
