//! Joins that can be cancelled: a join may turn few rows into very many without ever waiting, and only what waits or looks
//! at the flag ends.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec, SymmetricHashJoinExec,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use forebay_context::error::into_datafusion;
use forebay_context::statement::StatementContext;
use forebay_engine::CancelToken;
use futures::Stream;

/// Puts a [`CancelExec`] above every join. Must be the last rule.
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
                true => Transformed::yes(Arc::new(CancelExec { input: node }) as Arc<dyn ExecutionPlan>),
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

/// Its input's batches, until the statement is cancelled.
#[derive(Debug)]
struct CancelExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for CancelExec {
    fn fmt_as(&self, _style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cancellable")
    }
}

impl ExecutionPlan for CancelExec {
    fn name(&self) -> &str {
        "Cancellable"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match children.pop() {
            Some(input) => Arc::new(Self { input }),
            None => self,
        })
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match children.into_iter().next() {
            Some(input) => Arc::new(Self { input }),
            None => self,
        })
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let statement = context.session_config().get_extension::<StatementContext>();
        let input = self.input.execute(partition, context)?;
        Ok(match statement {
            Some(statement) => Box::pin(CancelStream { input, cancel: statement.cancel.clone() }),
            None => input,
        })
    }

    fn metrics(&self) -> Option<MetricsSet> {
        None
    }

    #[expect(deprecated)]
    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.input.partition_statistics(partition)
    }
}

struct CancelStream {
    input: SendableRecordBatchStream,
    cancel: CancelToken,
}

impl Stream for CancelStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(error) = self.cancel.check() {
            return Poll::Ready(Some(Err(into_datafusion(error))));
        }
        self.input.as_mut().poll_next(context)
    }
}

impl RecordBatchStream for CancelStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
