//! Joins that can be cancelled: a join may turn few rows into very many without ever waiting, and only what waits or looks
//! at the flag ends.

use std::sync::Arc;
use std::task::Poll;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec, SymmetricHashJoinExec,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use forebay_context::error::into_datafusion;
use forebay_context::statement::StatementContext;
use futures::{StreamExt, stream};

use crate::streamed::Streamed;

/// Has every join look at the flag. Must be the last rule.
#[derive(Debug)]
pub struct CancellableJoins;

impl PhysicalOptimizerRule for CancellableJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let is_join = node.is::<HashJoinExec>()
                || node.is::<NestedLoopJoinExec>()
                || node.is::<CrossJoinExec>()
                || node.is::<SortMergeJoinExec>()
                || node.is::<PiecewiseMergeJoinExec>()
                || node.is::<SymmetricHashJoinExec>();
            Ok(match is_join {
                true => Transformed::yes(Streamed::over(node, "Cancellable", until_cancelled)),
                false => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "cancellable_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The batches of `input` until the statement is cancelled.
fn until_cancelled(mut input: SendableRecordBatchStream, context: &TaskContext) -> SendableRecordBatchStream {
    let Some(statement) = context.session_config().get_extension::<StatementContext>() else { return input };
    let schema = input.schema();
    let batches = stream::poll_fn(move |context| match statement.cancel.check() {
        Ok(()) => input.poll_next_unpin(context),
        Err(error) => Poll::Ready(Some(Err(into_datafusion(error)))),
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}
