//! Sorts that keep within the memory: strings are copied out of the chunks that they lie in, batches of wide rows have few of
//! them, and ORDER BY with LIMIT sorts on disk where more rows are asked for than memory holds. DataFusion's top-k keeps its
//! rows in memory and fails; its sort on disk wants memory for two batches of any size.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions, reset_plan_states};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, PlanProperties};
use forebay_context::lock::lock;
use futures::{StreamExt, TryStreamExt};

use crate::compact_strings::compact;

/// The part of a query's memory that the top rows of all partitions may take.
const TOP_SHARE: usize = 8;

/// Rows that a heap takes longer to hold than a sort of all takes.
const MOST_TOP_ROWS: usize = 1 << 19;

/// Rows of a heap that keeps few chunks in memory, whichever rows it has.
const FEW_ROWS: usize = 100;

/// Bytes for each row beside its values: its key in the heap, and what the heap keeps of it.
const ROW_BYTES: usize = 64;

/// Bytes of a batch: a sort holds one of each of its runs when it merges them.
const BATCH_BYTES: usize = 1 << 20;

/// Has sorts keep within the memory. Behind the rules that know limits and sorts.
#[derive(Debug)]
pub struct LargeLimits;

impl PhysicalOptimizerRule for LargeLimits {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if node.schema().fields().is_empty()
                && let Some(limited) = without_order(&node)
            {
                return Ok(Transformed::yes(limited));
            }
            match node.downcast_ref::<SortExec>() {
                Some(sort) => Ok(Transformed::yes(Sorting::new(sort, true) as Arc<dyn ExecutionPlan>)),
                None => Ok(Transformed::no(node)),
            }
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

/// A sort or merge of rows without columns as the limit that it has: they are all equal, and the sort would ask for a column.
fn without_order(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let (input, fetch, keeps_partitions) = match node.downcast_ref::<SortExec>() {
        Some(sort) => (sort.input(), sort.fetch(), sort.preserve_partitioning()),
        None => {
            let merge = node.downcast_ref::<SortPreservingMergeExec>()?;
            (merge.input(), merge.fetch(), false)
        }
    };
    let input = Arc::clone(input);
    Some(match (fetch, keeps_partitions) {
        (Some(fetch), true) => Arc::new(LocalLimitExec::new(input, fetch)),
        (None, true) => input,
        (fetch, false) => {
            let all: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(input));
            match fetch {
                Some(fetch) => Arc::new(GlobalLimitExec::new(all, 0, Some(fetch))),
                None => all,
            }
        }
    })
}

/// The plan with every row sorted, where a top-k did not find the memory for its rows; `None` where it has none.
///
/// # Errors
/// If DataFusion cannot make the plan anew.
pub fn without_top_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let changed = Arc::clone(plan).transform_up(|node| match node.downcast_ref::<Sorting>() {
        Some(sorting) if sorting.sort.fetch().is_some() && sorting.may_hold => {
            Ok(Transformed::yes(Sorting::new(&sorting.sort, false) as Arc<dyn ExecutionPlan>))
        }
        _ => Ok(Transformed::no(node)),
    })?;
    match changed.transformed {
        true => reset_plan_states(changed.data).map(Some),
        false => Ok(None),
    }
}

/// A sort, or its first rows: from a heap that holds them, or from all rows sorted, which goes to disk.
#[derive(Debug)]
struct Sorting {
    sort: Arc<SortExec>,
    /// Its first rows may come from a heap.
    may_hold: bool,
    sorts_all: Arc<AtomicBool>,
}

impl Sorting {
    fn new(sort: &SortExec, may_hold: bool) -> Arc<Self> {
        Arc::new(Self { sort: Arc::new(sort.clone()), may_hold, sorts_all: Arc::default() })
    }

    /// Another sort in the place of this one.
    fn with(&self, sort: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        match sort.downcast_ref::<SortExec>() {
            Some(sort) => Self::new(sort, self.may_hold),
            None => sort,
        }
    }

    /// Whether a heap has room for the first rows, which are so wide.
    fn fits(&self, row_bytes: usize, context: &TaskContext) -> bool {
        let rows = self.sort.fetch().unwrap_or(usize::MAX);
        if rows > MOST_TOP_ROWS || !self.may_hold {
            return false;
        }
        let MemoryLimit::Finite(bytes) = context.memory_pool().memory_limit() else { return true };
        let partitions = self.properties().partitioning.partition_count().max(1);
        rows.saturating_mul(partitions).saturating_mul(row_bytes) <= bytes / TOP_SHARE
    }

    /// The sort of a partition whose first batch is known.
    fn start(
        &self,
        partition: usize,
        first: RecordBatch,
        rest: SendableRecordBatchStream,
        context: &TaskContext,
    ) -> Result<SendableRecordBatchStream> {
        let row_bytes = compact(&first)?.get_array_memory_size() / first.num_rows().max(1) + ROW_BYTES;
        let config = context.session_config();
        let rows = (BATCH_BYTES / row_bytes).clamp(1, config.batch_size());
        let schema = self.sort.input().schema();
        let batches = futures::stream::iter([Ok(first)]).chain(rest);
        let from_heap = self.sort.fetch().is_some() && self.fits(row_bytes, context);
        // A small heap passes over nearly all rows that it sees: copies of them would be for nothing.
        let batches = match from_heap && self.sort.fetch().is_some_and(|rows| rows <= FEW_ROWS) {
            true => batches.left_stream(),
            false => {
                batches.map_ok(move |batch| futures::stream::iter(pieces(batch, rows))).try_flatten().right_stream()
            }
        };
        let input = OnePartition {
            properties: Arc::clone(self.sort.input().properties()),
            stream: Mutex::new(Some(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))),
        };
        let sort = Arc::clone(&self.sort);
        let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        let mut sort = sort.replace_children(vec![Arc::new(input)], keep)?;
        if let Some(fetch) = self.sort.fetch()
            && !from_heap
            && let Some(all) = sort.downcast_ref::<SortExec>().map(|sort| sort.with_fetch(None))
        {
            self.sorts_all.store(true, Ordering::Relaxed);
            sort = Arc::new(LocalLimitExec::new(Arc::new(all), fetch));
        }
        // A sort calls no functions by their names.
        let config = config.clone().with_batch_size(rows);
        let context = TaskContext::default().with_session_config(config).with_runtime(context.runtime_env());
        sort.execute(partition, Arc::new(context))
    }
}

/// A batch as several of so many rows, whose strings hold little memory beside themselves.
fn pieces(batch: RecordBatch, rows: usize) -> impl Iterator<Item = Result<RecordBatch>> {
    (0..batch.num_rows())
        .step_by(rows)
        .map(move |start| compact(&batch.slice(start, rows.min(batch.num_rows() - start))))
}

/// A stream that is there already, for whichever partition is asked for.
struct OnePartition {
    properties: Arc<PlanProperties>,
    stream: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for OnePartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnePartition")
    }
}

impl DisplayAs for OnePartition {
    fn fmt_as(&self, _style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnePartition")
    }
}

impl ExecutionPlan for OnePartition {
    fn name(&self) -> &str {
        "OnePartition"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let stream = lock(&self.stream).take();
        stream.ok_or_else(|| DataFusionError::Internal("a stream is read twice".to_owned()))
    }
}

impl DisplayAs for Sorting {
    fn fmt_as(&self, style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sort.fmt_as(style, f)?;
        if self.sorts_all.load(Ordering::Relaxed) { f.write_str(", all rows sorted") } else { Ok(()) }
    }
}

impl ExecutionPlan for Sorting {
    fn name(&self) -> &str {
        self.sort.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.sort.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.sort.children()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.sort.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.sort.benefits_from_input_partitioning()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let sort = Arc::clone(&self.sort).replace_children(children, options)?;
        Ok(self.with(sort))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.sort.apply_expressions(f)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let sort = Arc::clone(&self.sort).reset_state()?;
        Ok(self.with(sort))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut input = self.sort.input().execute(partition, Arc::clone(&context))?;
        let sorting =
            Self { sort: Arc::clone(&self.sort), may_hold: self.may_hold, sorts_all: Arc::clone(&self.sorts_all) };
        let schema = self.schema();
        let rows = futures::stream::once(async move {
            match input.try_next().await? {
                Some(first) => sorting.start(partition, first, input, &context),
                None => Ok(Box::pin(EmptyRecordBatchStream::new(sorting.schema())) as SendableRecordBatchStream),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.try_flatten())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.sort.metrics()
    }

    #[expect(deprecated)]
    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.sort.partition_statistics(partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array};

    #[test]
    fn wide_batches_are_cut_into_pieces_of_all_their_rows() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).expect("a batch");
        let rows: Vec<usize> = pieces(batch.clone(), 4).map(|piece| piece.expect("a piece").num_rows()).collect();
        assert_eq!(rows, [4, 4, 2]);
        assert_eq!(pieces(batch.slice(0, 0), 4).count(), 0);
    }
}
