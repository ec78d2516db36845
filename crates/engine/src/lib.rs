//! Runs pipelines: prune → read → inflate → test on codes → collect; and the way in: plain rows → blocks → chunks.
//!
//! Reading order: [`run`] is the read flow on one screen, [`query`] runs programs of pipelines over it, [`load`] is the
//! write flow.
//! Invariants: synchronous; every byte and chunk that a query touches is counted in its [`Metrics`].
//! Must not know: SQL, DataFusion, expressions beyond [`RowFilter`].
#![forbid(unsafe_code)]

pub mod accelerator;
pub mod analyze;
pub mod ascending;
pub mod cancel;
pub mod chunks;
pub mod cluster;
pub mod collect;
pub mod column_shares;
pub mod compact;
pub mod copies;
mod described;
pub mod facts;
pub mod fetch;
pub mod floors;
pub mod follow;
pub mod goal;
pub mod inspect;
mod kept_keys;
mod key_zones;
pub mod keyed;
pub mod load;
pub mod memory;
pub mod metrics;
mod morsel;
mod places;
pub mod plain;
pub mod plans;
pub mod query;
pub mod query_log;
pub mod rates;
mod read_ahead;
pub mod run;
mod segment_row;
pub mod timeline;
pub mod traffic;
pub mod types;
pub mod unique;

pub use cancel::CancelToken;
pub use chunks::{Background, CacheForms, ChunkKey, DEFAULT_POLICY, Engine};
pub use column_shares::{ColumnFigures, ColumnShares, Model};
pub use copies::CopyUse;
pub use facts::FactUse;
pub use forebay_block::choose::{self, Objective};
pub use forebay_block::{Compression, EncodeOptions, Encoding, Scheme, SchemeSummary};
pub use forebay_cache::{ColumnKey, ColumnUse, Goal as ColumnGoal, PolicyKind};
pub use forebay_cpu::simd::SimdLevel;
pub use forebay_cpu::vector::VECTOR_ROWS;
pub use forebay_disk::ReadPath;
pub use forebay_gpu::device::Device;
pub use forebay_gpu::{DeviceChoice, doctor, selftest};
pub use goal::Goal;
pub use load::{LoadOptions, LoadTarget, Loader};
pub use memory::{MemoryShares, MemoryUse, ProcessCounter};
pub use metrics::Metrics;
pub use morsel::{Morsel, morsels};
pub use rates::{KeptRates, RateSource};
pub use run::{AdaptivePredicate, Direction, Foreseen, RowFilter, RuntimeFilter, Scan, ScanSettings};
pub use traffic::{ColumnTraffic, Traffic};
