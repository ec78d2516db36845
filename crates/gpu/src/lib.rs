//! forebay-gpu.
