//! Functions of dates, times of day, timestamps and intervals.

use crate::function::Definition;

mod arithmetic;
mod bucket;
mod distance;
mod format;
mod making;
pub mod part;
mod read_format;
pub mod shift;
mod truncate;

/// All of them.
pub(crate) const DEFINITIONS: &[&[Definition]] = &[
    arithmetic::DEFINITIONS,
    part::DEFINITIONS,
    truncate::DEFINITIONS,
    bucket::DEFINITIONS,
    distance::DEFINITIONS,
    making::DEFINITIONS,
    format::DEFINITIONS,
    read_format::DEFINITIONS,
];
