//! The rows of UNION ALL come in the order of its branches, as in DuckDB: where partitions are read as one stream, those of a union
//! follow one another. All of them are computed at once, up to a few batches ahead of whoever reads.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    Partitioning, PlanProperties,
};
use futures::{StreamExt, stream};

/// Batches of a partition that wait until it is its turn.
const BATCHES_AHEAD: usize = 4;

/// Puts the operator in the place of those that read the partitions of a union in any order.
#[derive(Debug)]
pub struct Branches;

impl PhysicalOptimizerRule for Branches {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan
            .transform_up(|node| {
                let Some(coalesced) = node.downcast_ref::<CoalescePartitionsExec>() else {
                    return Ok(Transformed::no(node));
                };
                if !is_of_branches(coalesced.input().as_ref()) {
                    return Ok(Transformed::no(node));
                }
                let rows: Arc<dyn ExecutionPlan> = Arc::new(BranchesExec::new(Arc::clone(coalesced.input())));
                Ok(Transformed::yes(match coalesced.fetch() {
                    Some(fetch) => Arc::new(GlobalLimitExec::new(rows, 0, Some(fetch))),
                    None => rows,
                }))
            })
            .data()?;
        // What is left to whoever runs the plan.
        let is_open = plan.output_partitioning().partition_count() > 1 && is_of_branches(plan.as_ref());
        Ok(if is_open { Arc::new(BranchesExec::new(plan)) } else { plan })
    }

    fn name(&self) -> &str {
        "branches"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether the partitions of a plan are those of a union, one after the other.
fn is_of_branches(plan: &dyn ExecutionPlan) -> bool {
    if plan.is::<UnionExec>() {
        return true;
    }
    match plan.children().as_slice() {
        [only] => {
            !plan.is::<RepartitionExec>() && !plan.is::<CoalescePartitionsExec>() && is_of_branches(only.as_ref())
        }
        _ => false,
    }
}

/// Reads partitions one after the other.
#[derive(Debug)]
struct BranchesExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl BranchesExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { input, properties: Arc::new(properties) }
    }

    fn with_children(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return internal_err!("branches have one input");
        };
        Ok(Arc::new(Self::new(input)))
    }
}

impl DisplayAs for BranchesExec {
    fn fmt_as(&self, _style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Branches")
    }
}

impl ExecutionPlan for BranchesExec {
    fn name(&self) -> &str {
        "Branches"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::UnspecifiedDistribution])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.with_children(children)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.with_children(children)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("branches are read as one partition");
        }
        let schema = self.input.schema();
        let read = |partition: usize| {
            let mut waiting = RecordBatchReceiverStream::builder(Arc::clone(&schema), BATCHES_AHEAD);
            let (input, context, sender) = (Arc::clone(&self.input), Arc::clone(&context), waiting.tx());
            waiting.spawn(async move {
                let mut rows = input.execute(partition, context)?;
                while let Some(batch) = rows.next().await {
                    // A reader that is gone wants no more.
                    if sender.send(batch).await.is_err() {
                        break;
                    }
                }
                Ok(())
            });
            waiting.build()
        };
        let partitions: Vec<SendableRecordBatchStream> =
            (0..self.input.output_partitioning().partition_count()).map(read).collect();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(partitions).flatten())))
    }

    #[expect(deprecated)]
    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.input.partition_statistics(None)
    }
}
