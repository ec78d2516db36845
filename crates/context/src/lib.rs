//! What every step of a statement has at hand: the statement itself, the settings of its session, and DataFusion's errors as
//! ours; and moments and times as texts ([`moments`], [`clock`]). The lowest of the crates that know DataFusion.
//!
//! Must not know: SQL text, plans, tables.
#![forbid(unsafe_code)]

pub mod clock;
pub mod error;
mod inert_settings;
pub mod lock;
pub mod moments;
pub mod own_types;
pub mod panics;
pub mod settings;
pub mod statement;
pub mod words;
