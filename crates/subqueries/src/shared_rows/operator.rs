//! Shared rows at run time. The first reader that asks has the definition run to its end; its rows are kept, in memory as far
//! as the budget goes and else on disk, and every reader reads them from the beginning. Nobody waits for another reader.

use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::SpillFile;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::{SpillManager, get_record_batch_memory_size};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, Partitioning,
    PlanProperties,
};
use forebay_context::lock::lock;
use futures::future::{BoxFuture, FutureExt, Shared};
use futures::{StreamExt, TryStreamExt};

/// The rows, once somebody asked for them.
type Computed = Shared<BoxFuture<'static, Result<Arc<Kept>, Arc<DataFusionError>>>>;

/// What the operators of one run hand each other.
#[derive(Debug, Default)]
struct Cell(Mutex<Option<Begun>>);

#[derive(Clone)]
struct Begun(Computed);

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Begun")
    }
}

/// Rows in memory, and those for which there was none.
struct Kept {
    batches: Vec<RecordBatch>,
    on_disk: Option<(SpillManager, Arc<dyn SpillFile>)>,
    _memory: MemoryReservation,
}

/// Runs a body, and what it reads once.
#[derive(Debug)]
pub struct SharedRowsExec {
    number: usize,
    definition: Arc<dyn ExecutionPlan>,
    body: Arc<dyn ExecutionPlan>,
    cell: Arc<Cell>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedRowsExec {
    /// The operator of a body whose scans read what `definition` computes.
    pub fn new(number: usize, definition: Arc<dyn ExecutionPlan>, body: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let cell = Arc::<Cell>::default();
        let body = body.transform_up(|node| match node.downcast_ref::<SharedScanExec>() {
            Some(scan) if scan.number == number => {
                let scan = SharedScanExec { cell: Some(Arc::clone(&cell)), ..scan.clone() };
                Ok(Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>))
            }
            _ => Ok(Transformed::no(node)),
        });
        Ok(Self::with(number, definition, body.data()?, cell))
    }

    fn with(number: usize, definition: Arc<dyn ExecutionPlan>, body: Arc<dyn ExecutionPlan>, cell: Arc<Cell>) -> Self {
        let properties = Arc::new(one_partition(&body.schema()));
        Self { number, definition, body, cell, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    fn with_children(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([definition, body]) = <[Arc<dyn ExecutionPlan>; 2]>::try_from(children) else {
            return internal_err!("shared rows have a definition and a body");
        };
        Ok(Arc::new(Self::with(self.number, definition, body, Arc::clone(&self.cell))))
    }
}

fn one_partition(schema: &SchemaRef) -> PlanProperties {
    PlanProperties::new(
        EquivalenceProperties::new(Arc::clone(schema)),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Incremental,
        Boundedness::Bounded,
    )
}

impl DisplayAs for SharedRowsExec {
    fn fmt_as(&self, _style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedRows: shared_{}", self.number)
    }
}

impl ExecutionPlan for SharedRowsExec {
    fn name(&self) -> &str {
        "SharedRows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.definition, &self.body]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; 2])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
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

    /// Each execution computes the rows anew: the rounds of a recursive query run the same operators again.
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("shared rows are computed in one partition");
        }
        let (definition, kept_for) = (Arc::clone(&self.definition), Arc::clone(&context));
        let metrics = SpillMetrics::new(&self.metrics, partition);
        let computed = async move { keep(definition, kept_for, metrics).await.map(Arc::new).map_err(Arc::new) };
        *lock(&self.cell.0) = Some(Begun(computed.boxed().shared()));
        self.body.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    #[expect(deprecated)]
    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.body.partition_statistics(partition)
    }
}

/// Runs a plan and keeps its rows.
async fn keep(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>, metrics: SpillMetrics) -> Result<Kept> {
    let memory = MemoryConsumer::new("shared rows").with_can_spill(true).register(context.memory_pool());
    let mut rows = plan.execute(0, Arc::clone(&context))?;
    let (mut batches, mut file) = (Vec::new(), None);
    let manager = SpillManager::new(context.runtime_env(), metrics, plan.schema());
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        if file.is_none() {
            if memory.try_grow(get_record_batch_memory_size(&batch)).is_ok() {
                batches.push(batch);
                continue;
            }
            file = Some(manager.create_in_progress_file("shared rows")?);
        }
        if let Some(file) = &mut file {
            file.append_batch(&batch)?;
        }
    }
    let on_disk = match file {
        Some(mut file) => file.finish()?.map(|file| (manager, file)),
        None => None,
    };
    Ok(Kept { batches, on_disk, _memory: memory })
}

/// Reads shared rows.
#[derive(Debug, Clone)]
pub struct SharedScanExec {
    number: usize,
    projection: Option<Vec<usize>>,
    /// Where the rows are, known to who is below the operator that computes them.
    cell: Option<Arc<Cell>>,
    properties: Arc<PlanProperties>,
}

impl SharedScanExec {
    /// A scan of these columns of shared rows; `schema` is what comes out.
    pub fn new(number: usize, projection: Option<Vec<usize>>, schema: &SchemaRef) -> Self {
        Self { number, projection, cell: None, properties: Arc::new(one_partition(schema)) }
    }
}

impl DisplayAs for SharedScanExec {
    fn fmt_as(&self, _style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedScan: shared_{}", self.number)
    }
}

impl ExecutionPlan for SharedScanExec {
    fn name(&self) -> &str {
        "SharedScan"
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
        let begun = self.cell.as_ref().and_then(|cell| lock(&cell.0).clone());
        let Some(Begun(computed)) = begun else {
            return internal_err!("shared rows are read outside of what computes them");
        };
        let (projection, schema) = (self.projection.clone(), self.schema());
        let result = Arc::clone(&schema);
        let rows = async move {
            let kept = computed.await.map_err(DataFusionError::Shared)?;
            let on_disk = match &kept.on_disk {
                Some((manager, file)) => manager.read_spill_as_stream(Arc::clone(file), None)?.left_stream(),
                None => futures::stream::empty().right_stream(),
            };
            let count = kept.batches.len();
            let in_memory = futures::stream::iter((0..count).map(move |at| Ok(kept.batches[at].clone())));
            let project = move |batch: RecordBatch| {
                let columns = match &projection {
                    Some(places) => places.iter().map(|place| Arc::clone(batch.column(*place))).collect(),
                    None => batch.columns().to_vec(),
                };
                let options =
                    datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?)
            };
            Ok::<_, DataFusionError>(in_memory.chain(on_disk).map(move |batch| batch.and_then(&project)))
        };
        let rows = futures::stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(result, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        None
    }
}
