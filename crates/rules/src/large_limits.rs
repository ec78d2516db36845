//! ORDER BY with LIMIT, where more rows are asked for than memory holds: they are sorted on disk. DataFusion's top-k keeps
//! its rows in memory and fails.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// The part of a query's memory that the top rows of all partitions may take.
const TOP_SHARE: usize = 8;

/// Bytes that a value of no fixed width is taken for.
const VALUE_BYTES: usize = 64;

/// Rows that a heap takes longer to hold than a sort of all takes.
const MOST_TOP_ROWS: usize = 1 << 19;

/// Bytes for each row beside its values: its key in the heap, and what the heap keeps of it.
const ROW_BYTES: usize = 64;

/// Has top-k operators choose by the memory there is. Behind the rules that know limits and sorts.
#[derive(Debug)]
pub struct LargeLimits;

impl PhysicalOptimizerRule for LargeLimits {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match node.downcast_ref::<SortExec>() {
            Some(sort) if sort.fetch().is_some() => Ok(Transformed::yes(TopRows::new(sort) as Arc<dyn ExecutionPlan>)),
            _ => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "large_limits"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with every row sorted, where a top-k did not find the memory for its rows; `None` where it has none.
///
/// # Errors
/// If DataFusion cannot make the plan anew.
pub fn without_top_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let changed = Arc::clone(plan).transform_up(|node| match node.downcast_ref::<TopRows>() {
        Some(top) if !top.sorts_all() => Ok(Transformed::yes(Arc::clone(&top.all))),
        _ => Ok(Transformed::no(node)),
    })?;
    match changed.transformed {
        true => datafusion::physical_plan::execution_plan::reset_plan_states(changed.data).map(Some),
        false => Ok(None),
    }
}

/// The first rows of a sort: from a heap that holds them, or from all rows sorted, which goes to disk.
#[derive(Debug)]
struct TopRows {
    top: Arc<SortExec>,
    /// Sorts all rows.
    all: Arc<dyn ExecutionPlan>,
    sorts_all: AtomicBool,
}

impl TopRows {
    fn new(sort: &SortExec) -> Arc<Self> {
        let all = Arc::new(sort.with_fetch(None));
        let all = Arc::new(LocalLimitExec::new(all, sort.fetch().unwrap_or(usize::MAX)));
        Arc::new(Self { top: Arc::new(sort.clone()), all, sorts_all: AtomicBool::new(false) })
    }

    fn sorts_all(&self) -> bool {
        self.sorts_all.load(Ordering::Relaxed)
    }

    /// Whether the rows find room in memory.
    fn fits(&self, context: &TaskContext) -> bool {
        let rows = self.top.fetch().unwrap_or(usize::MAX);
        if rows > MOST_TOP_ROWS {
            return false;
        }
        let MemoryLimit::Finite(bytes) = context.memory_pool().memory_limit() else { return true };
        let partitions = self.properties().partitioning.partition_count().max(1);
        rows.saturating_mul(partitions).saturating_mul(row_bytes(&self.top.schema())) <= bytes / TOP_SHARE
    }
}

fn row_bytes(schema: &Schema) -> usize {
    let width = |data_type: &DataType| data_type.primitive_width().unwrap_or(VALUE_BYTES);
    ROW_BYTES + schema.fields().iter().map(|field| width(field.data_type())).sum::<usize>()
}

impl DisplayAs for TopRows {
    fn fmt_as(&self, style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.top.fmt_as(style, f)?;
        if self.sorts_all() { f.write_str(", all rows sorted") } else { Ok(()) }
    }
}

impl ExecutionPlan for TopRows {
    fn name(&self) -> &str {
        self.top.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.top.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.top.children()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.top.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.top.benefits_from_input_partitioning()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let top = Arc::clone(&self.top).replace_children(children, options)?;
        Ok(match top.downcast_ref::<SortExec>() {
            Some(sort) => Self::new(sort),
            None => top,
        })
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode::Recompute;
        self.replace_children(children, ReplaceChildrenOptions::new(Recompute))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.top.apply_expressions(f)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let top = Arc::clone(&self.top).reset_state()?;
        Ok(match top.downcast_ref::<SortExec>() {
            Some(sort) => Self::new(sort),
            None => top,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match self.fits(&context) {
            true => self.top.execute(partition, context),
            false => {
                self.sorts_all.store(true, Ordering::Relaxed);
                self.all.execute(partition, context)
            }
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        match self.sorts_all() {
            true => self.all.children().first().and_then(|sort| sort.metrics()),
            false => self.top.metrics(),
        }
    }

    #[expect(deprecated)]
    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.top.partition_statistics(partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::Field;

    #[test]
    fn rows_are_as_wide_as_their_types() {
        let field = |data_type: DataType| Field::new("x", data_type, true);
        assert_eq!(row_bytes(&Schema::new(vec![field(DataType::Int64), field(DataType::Utf8View)])), 64 + 8 + 64);
    }
}
