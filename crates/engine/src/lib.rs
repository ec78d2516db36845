//! forebay-engine.
