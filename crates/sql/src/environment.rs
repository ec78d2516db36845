//! DataFusion's share of the memory budget, and where it spills.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use forebay_base::Result;
use forebay_context::error::from_datafusion;

/// Consumers that an out-of-memory error names.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(2);

/// An environment whose operators take up to `memory_bytes` together and spill to temporary files beyond.
pub fn environment(memory_bytes: usize) -> Result<Arc<RuntimeEnv>> {
    let pool = TrackConsumersPool::new(FairSpillPool::new(memory_bytes), NAMED_CONSUMERS);
    let spill = DiskManagerBuilder::default().with_mode(DiskManagerMode::OsTmpDirectory);
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(pool))
        .with_disk_manager_builder(spill)
        .build_arc()
        .map_err(from_datafusion)
}
