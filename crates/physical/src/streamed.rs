//! An operator that changes nothing of a plan but how its input's batches come: one at a time through a function.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// Makes a stream of an input's stream: of as many rows, in the same order, with the same values.
pub type Wrap = fn(SendableRecordBatchStream, &TaskContext) -> SendableRecordBatchStream;

/// Its input's rows, by a stream around the input's.
pub struct Streamed {
    name: &'static str,
    input: Arc<dyn ExecutionPlan>,
    wrap: Wrap,
    /// The input's, or what is left of them.
    properties: Arc<PlanProperties>,
    is_apart: bool,
}

impl Streamed {
    /// `input`, each of whose partitions `wrap` is put around; `name` is what EXPLAIN shows.
    pub fn over(input: Arc<dyn ExecutionPlan>, name: &'static str, wrap: Wrap) -> Arc<dyn ExecutionPlan> {
        let properties = Arc::clone(input.properties());
        Arc::new(Self { name, input, wrap, properties, is_apart: false })
    }

    /// As [`Streamed::over`], with nothing known of the rows: neither constants nor an order.
    pub fn apart(input: Arc<dyn ExecutionPlan>, name: &'static str, wrap: Wrap) -> Arc<dyn ExecutionPlan> {
        let nothing = EquivalenceProperties::new(input.schema());
        let properties = Arc::new(input.properties().as_ref().clone().with_eq_properties(nothing));
        Arc::new(Self { name, input, wrap, properties, is_apart: true })
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
        vec![!self.is_apart]
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
            Some(input) if self.is_apart => Self::apart(input, self.name, self.wrap),
            Some(input) => Self::over(input, self.name, self.wrap),
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
