//! Rules that operators go through, in addition to DataFusion's or around them: what these get wrong, what they may keep in memory, and
//! work that is spared.
//!
//! Start with [`list`]: all rules in their order. Must not know: logical plans, tables, pipelines.
#![forbid(unsafe_code)]

pub mod around;
pub mod build_sides;
pub mod cancel;
pub mod compact_strings;
pub mod guarded_scans;
pub mod hidden_facts;
pub mod large_limits;
pub mod light;
pub mod list;
pub mod lone_partitions;
pub mod pushdown;
pub mod settled;
pub mod streamed;
pub mod whole_partitions;
