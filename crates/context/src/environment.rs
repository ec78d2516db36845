//! What DataFusion's operators take memory of, and where they spill.

use std::sync::Arc;

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use forebay_base::Result;
use forebay_base::budget::Tier;
use forebay_engine::Engine;

use crate::error::from_datafusion;
use crate::operator_memory::OperatorMemory;

/// An environment for planning, of which each statement has one of its own account made; operators spill to temporary files.
///
/// # Errors
/// Those of DataFusion.
pub fn environment(engine: &Engine) -> Result<Arc<RuntimeEnv>> {
    let planning = engine.open_account("planning").part(Tier::Operator, "planning");
    let spill = DiskManagerBuilder::default().with_mode(DiskManagerMode::OsTmpDirectory);
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(OperatorMemory::new(planning)))
        .with_disk_manager_builder(spill)
        .build_arc()
        .map_err(from_datafusion)
}
