//! forebay-workload.
