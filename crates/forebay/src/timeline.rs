//! When a statement read, waited, inflated and computed: what [`crate::Session::timeline`] gives.

pub use forebay_engine::timeline::{SourceTimes, Span, SpanKind, Timeline};
