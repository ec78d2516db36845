//! Strings in front of operators that keep their rows. Scans hand out views into whole chunks: who keeps a few rows of one
//! keeps all of it in memory, and counts it again with every batch. What is kept is copied, and nothing else.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch};
use datafusion::arrow::datatypes::{ByteViewType, DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use crate::streamed::Streamed;

/// Has the sides of joins that are held copy their strings. Behind the rules that know joins. Sorts copy by themselves.
#[derive(Debug)]
pub struct CompactStrings;

impl PhysicalOptimizerRule for CompactStrings {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            // Joins hold their left side.
            let keeps = node.is::<HashJoinExec>() || node.is::<CrossJoinExec>() || node.is::<NestedLoopJoinExec>();
            let mut children: Vec<_> = node.children().into_iter().cloned().collect();
            match children.first_mut() {
                Some(kept) if keeps && has_views(&kept.schema()) => {
                    *kept = Streamed::over(Arc::clone(kept), "CompactStrings", compacted);
                    replace_children_if_necessary(node, children).map(Transformed::yes)
                }
                _ => Ok(Transformed::no(node)),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "compact_strings"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn has_views(schema: &SchemaRef) -> bool {
    schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView))
}

/// The batches of `input`, whose strings hold little memory beside themselves.
fn compacted(input: SendableRecordBatchStream, _context: &TaskContext) -> SendableRecordBatchStream {
    let schema = input.schema();
    Box::pin(RecordBatchStreamAdapter::new(schema, input.map(|batch| compact(&batch?))))
}

/// A batch whose strings hold little memory beside themselves.
pub(crate) fn compact(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => compact_views(column, column.as_string_view()),
        DataType::BinaryView => compact_views(column, column.as_binary_view()),
        _ => Arc::clone(column),
    });
    let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &options)?)
}

/// The same strings in memory of their own, where they lie in much more of another's.
fn compact_views<T: ByteViewType>(column: &ArrayRef, views: &GenericByteViewArray<T>) -> ArrayRef {
    let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
    match held > views.total_buffer_bytes_used() * 3 / 2 {
        true => Arc::new(views.gc()),
        false => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::StringViewArray;

    #[test]
    fn few_rows_of_many_are_copied_and_all_of_them_are_not() {
        let texts: Vec<Option<String>> =
            (0..100).map(|n| (n % 7 > 0).then(|| format!("a text that is not short {n}"))).collect();
        let all: ArrayRef = Arc::new(StringViewArray::from_iter(texts));
        let few = all.slice(10, 5);
        let compacted = compact_views(&few, few.as_string_view());
        let bytes = |array: &ArrayRef| array.as_string_view().data_buffers().iter().map(|one| one.len()).sum::<usize>();
        assert!(bytes(&compacted) < 200 && bytes(&few) > 2000, "{}", bytes(&compacted));
        assert_eq!(compacted.as_string_view(), few.as_string_view());
        assert_eq!(bytes(&compact_views(&all, all.as_string_view())), bytes(&all));
    }
}
