//! Fetches columns of a table for the few rows that come, by their places.
//!
//! Invariants: rows leave in the order in which they came; nothing is read before all of them are there.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::common::Result as DataFusionResult;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use forebay_base::Error;
use forebay_context::error::into_datafusion;
use forebay_context::statement::StatementContext;
use forebay_engine::fetch::{FetchOptions, fetch};
use forebay_engine::{Engine, Metrics, ScanSettings};
use forebay_store::TableSnapshot;
use futures::TryStreamExt;

use super::node::Output;
use crate::scan::shown_figures;

/// What is fetched.
#[derive(Debug, Clone)]
pub(super) struct Fetched {
    pub(super) engine: Arc<Engine>,
    pub(super) table: Arc<TableSnapshot>,
    /// Positions in the table's list of columns.
    pub(super) columns: Vec<usize>,
    /// The input's column of places.
    pub(super) place: usize,
    pub(super) outputs: Vec<Output>,
    pub(super) settings: ScanSettings,
    pub(super) statement: Arc<StatementContext>,
    /// For EXPLAIN.
    pub(super) text: String,
}

/// Fetches columns behind its input.
#[derive(Debug, Clone)]
pub struct FetchExec {
    input: Arc<dyn ExecutionPlan>,
    fetched: Arc<Fetched>,
    /// The order of the first input, which others have to keep.
    order: Option<OrderingRequirements>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    counters: Arc<Metrics>,
}

impl FetchExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, fetched: Fetched, schema: SchemaRef) -> Self {
        let order = input.output_ordering().map(|order| OrderingRequirements::from(order.clone()));
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        let (metrics, counters) = (ExecutionPlanMetricsSet::new(), Arc::default());
        Self { input, fetched: Arc::new(fetched), order, schema, properties, metrics, counters }
    }
}

impl Fetched {
    /// The rows of a batch with what is fetched of them.
    fn rows(&self, batch: &RecordBatch, schema: &SchemaRef, metrics: &Metrics) -> forebay_base::Result<RecordBatch> {
        let places = batch.column(self.place).as_primitive_opt::<Int64Type>();
        let places = places.ok_or_else(|| Error::internal("places of rows are of another type"))?;
        let places: Vec<Option<i64>> = places.iter().collect();
        let options = FetchOptions { settings: self.settings, metrics, cancel: &self.statement.cancel };
        let fetched = fetch(&self.engine, &self.table, &self.columns, &places, options)?;
        let array = |output: &Output| match output {
            Output::Input(column) => Arc::clone(batch.column(*column)),
            Output::Fetched(number) => Arc::clone(&fetched[*number]),
        };
        let arrays = self.outputs.iter().map(array).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
            .map_err(|error| Error::internal(format!("fetched rows made an invalid batch: {error}")))
    }
}

impl DisplayAs for FetchExec {
    fn fmt_as(&self, _style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForebayFetch: {}", self.fetched.text)
    }
}

impl ExecutionPlan for FetchExec {
    fn name(&self) -> &str {
        "ForebayFetch"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone()]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let input = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(Self { input, ..Self::clone(&self) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let (fetched, schema, counters) =
            (Arc::clone(&self.fetched), Arc::clone(&self.schema), Arc::clone(&self.counters));
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        fetched.statement.watch(&counters, 0);
        let rows = async move {
            let input_schema = input.schema();
            let batches: Vec<RecordBatch> = input.try_collect().await?;
            let timer = baseline.elapsed_compute().timer();
            let batch = concat_batches(&input_schema, &batches)?;
            let rows = fetched.rows(&batch, &schema, &counters).map_err(into_datafusion)?;
            drop(timer);
            baseline.record_output(rows.num_rows());
            Ok(rows)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::once(rows))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut all = self.metrics.clone_inner();
        for metric in shown_figures(&self.counters.snapshot()).clone_inner().iter() {
            all.push(Arc::clone(metric));
        }
        Some(all)
    }
}
