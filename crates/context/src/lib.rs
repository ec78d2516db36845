//! What every step of a statement has at hand: the statement itself, the settings of its session, the functions that it may call
//! ([`functions`]), and DataFusion's errors as ours; moments, times and intervals as texts
//! ([`moments`], [`clock`], [`intervals`]), and the threads that operators run on ([`workers`]). The lowest of the crates that know DataFusion.
//!
//! Must not know: SQL text, plans, tables.
#![forbid(unsafe_code)]

pub mod clock;
pub mod durability;
pub mod environment;
pub mod error;
pub mod functions;
pub mod identifier_case;
pub mod inert_settings;
pub mod intervals;
pub mod late_rows;
pub mod lock;
pub mod logged;
pub mod moments;
pub mod operator_memory;
pub mod own_types;
pub mod panics;
pub mod point_settings;
pub mod row_changes;
pub mod settings;
pub mod statement;
pub mod switches;
pub mod told_settings;
pub mod waiting;
pub mod words;
pub mod workers;

/// The name of the operator that runs pipelines, which tell line by line what they did.
pub const PIPELINES: &str = "ForebayPipelines";
