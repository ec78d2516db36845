//! forebay-block.
