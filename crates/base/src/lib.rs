//! forebay-base.
