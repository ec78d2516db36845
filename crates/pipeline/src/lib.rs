//! forebay-pipeline.
