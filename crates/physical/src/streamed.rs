//! An operator that changes nothing of a plan but how its input's batches come: one at a time through a function.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    PlanProperties,
};

/// Makes a stream of an input's stream: of as many rows, in the same order, with the same values.
pub type Wrap = fn(SendableRecordBatchStream, &TaskContext) -> SendableRecordBatchStream;

/// Its input's rows, by a stream around the input's.
pub struct Streamed {
    name: &'static str,
    input: Arc<dyn ExecutionPlan>,
    wrap: Wrap,
    /// The input's, or what is left of them.
    properties: Arc<PlanProperties>,
    kind: Kind,
}

/// What is known of the rows.
#[derive(Clone)]
enum Kind {
    /// What is known of the input's.
    Over,
    /// Nothing.
    Apart,
    /// Nothing, but the input has to have this order, in one partition.
    Ordered(LexOrdering),
}

impl Streamed {
    /// `input`, each of whose partitions `wrap` is put around; `name` is what EXPLAIN shows.
    pub fn over(input: Arc<dyn ExecutionPlan>, name: &'static str, wrap: Wrap) -> Arc<dyn ExecutionPlan> {
        Self::of_kind(Kind::Over, input, name, wrap)
    }

    /// As [`Streamed::over`], with nothing known of the rows: neither constants nor an order.
    pub fn apart(input: Arc<dyn ExecutionPlan>, name: &'static str, wrap: Wrap) -> Arc<dyn ExecutionPlan> {
        Self::of_kind(Kind::Apart, input, name, wrap)
    }

    /// As [`Streamed::apart`], over an input that has to keep the order that it has, in one partition. As [`Streamed::apart`] if it has none.
    pub fn ordered(input: Arc<dyn ExecutionPlan>, name: &'static str, wrap: Wrap) -> Arc<dyn ExecutionPlan> {
        let kind = input.output_ordering().cloned().map_or(Kind::Apart, Kind::Ordered);
        Self::of_kind(kind, input, name, wrap)
    }

    fn of_kind(kind: Kind, input: Arc<dyn ExecutionPlan>, name: &'static str, wrap: Wrap) -> Arc<dyn ExecutionPlan> {
        let properties = match kind {
            Kind::Over => Arc::clone(input.properties()),
            Kind::Apart | Kind::Ordered(_) => {
                let nothing = EquivalenceProperties::new(input.schema());
                Arc::new(input.properties().as_ref().clone().with_eq_properties(nothing))
            }
        };
        Arc::new(Self { name, input, wrap, properties, kind })
    }
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.name).field("input", &self.input).finish()
    }
}

impl DisplayAs for Streamed {
    fn fmt_as(&self, _style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl ExecutionPlan for Streamed {
    fn name(&self) -> &str {
        self.name
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![matches!(self.kind, Kind::Over)]
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![match &self.kind {
            Kind::Ordered(order) => Some(OrderingRequirements::from(order.clone())),
            Kind::Over | Kind::Apart => None,
        }]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![match &self.kind {
            Kind::Ordered(_) => Distribution::SinglePartition,
            Kind::Over | Kind::Apart => Distribution::UnspecifiedDistribution,
        }])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match children.into_iter().next() {
            Some(input) => Self::of_kind(self.kind.clone(), input, self.name, self.wrap),
            None => self,
        })
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        Ok((self.wrap)(input, &context))
    }

    #[expect(deprecated)]
    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.input.partition_statistics(partition)
    }
}
