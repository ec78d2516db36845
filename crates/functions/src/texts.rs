//! Functions of texts.

use crate::function::Definition;

pub use pads::repeated;
pub use splits::{characters, lists_of, slices, text_list};

mod case;
mod encodings;
mod format;
mod graphemes;
mod lengths;
mod like;
mod pads;
mod printf;
mod regular;
mod splits;

/// All of them.
pub(crate) const DEFINITIONS: &[&[Definition]] = &[
    case::DEFINITIONS,
    encodings::DEFINITIONS,
    format::DEFINITIONS,
    graphemes::DEFINITIONS,
    lengths::DEFINITIONS,
    like::DEFINITIONS,
    pads::DEFINITIONS,
    printf::DEFINITIONS,
    regular::DEFINITIONS,
    splits::DEFINITIONS,
];
