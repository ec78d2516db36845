//! Functions of texts.

use crate::function::Definition;

pub use pads::repeated;
pub use splits::{characters, slices};

mod case;
mod distances;
mod encodings;
mod format;
mod graphemes;
mod lengths;
mod like;
mod pads;
mod paths;
mod printf;
mod regular;
mod splits;

/// All of them.
pub(crate) const DEFINITIONS: &[&[Definition]] = &[
    case::DEFINITIONS,
    distances::DEFINITIONS,
    encodings::DEFINITIONS,
    format::DEFINITIONS,
    graphemes::DEFINITIONS,
    lengths::DEFINITIONS,
    like::DEFINITIONS,
    pads::DEFINITIONS,
    paths::DEFINITIONS,
    printf::DEFINITIONS,
    regular::DEFINITIONS,
    splits::DEFINITIONS,
];
