//! forebay-cpu.
