//! The physical operator of a carved subtree: runs its pipelines and hands their result over.
//!
//! Nothing is handed over before the pipelines are done, so that DataFusion can still run the subtree instead where they
//! fail: for memory, which its operators spill, or in arithmetic, whose errors are to be the same as ever.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DataFusionResult, Statistics};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::UserDefinedLogicalNode;
use datafusion::logical_expr::{LogicalPlan, physical_planning_context::PhysicalPlanningContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, execute_stream,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use forebay_base::{Error, ErrorKind};
use forebay_context::PIPELINES;
use forebay_context::error::into_datafusion;
use forebay_context::settings;
use forebay_context::settings::Execution;
use forebay_context::statement::StatementContext;
use forebay_engine::Metrics;
use forebay_engine::query::{self, PipelineReport, Query, QueryOptions, QueryOutput};
use forebay_subqueries::plans::with_named_keys;
use forebay_tables::scan::shown_figures;
use futures::{StreamExt, TryStreamExt};

use crate::node::{Carved, PipelinesNode};
use forebay_tables::tree;

/// Plans carved subtrees.
#[derive(Debug)]
pub struct PipelinesPlanner {
    /// Rows are counted at each step, for EXPLAIN ANALYZE.
    pub counted: bool,
}

#[async_trait]
impl ExtensionPlanner for PipelinesPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        _physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> DataFusionResult<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<PipelinesNode>() else { return Ok(None) };
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else { return Ok(None) };
        Ok(Some(Arc::new(PipelinesExec::new(node.carved(), state, self.counted)?)))
    }
}

/// Runs pipelines.
#[derive(Debug, Clone)]
pub struct PipelinesExec {
    carved: Arc<Carved>,
    /// Over the rows that the statement sees.
    query: Arc<Query>,
    execution: Execution,
    counted: bool,
    /// Plans the subtree for DataFusion.
    state: Arc<SessionState>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    statistics: Arc<Statistics>,
    metrics: ExecutionPlanMetricsSet,
    outcome: Arc<Mutex<Outcome>>,
}

/// What became of the pipelines.
#[derive(Debug, Default)]
struct Outcome {
    reports: Vec<PipelineReport>,
    /// Why DataFusion ran the subtree instead.
    fallback: Option<String>,
}

impl PipelinesExec {
    /// Runs `carved` as `state` says; rows are counted at each step if they are to be shown.
    ///
    /// # Errors
    /// As [`Carved::bind`].
    pub fn new(carved: &Arc<Carved>, state: &SessionState, counted: bool) -> DataFusionResult<Self> {
        let (carved, query) = (Arc::clone(carved), Arc::new(carved.bind(state)?));
        let schema = Arc::clone(&query.schema);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let mut statistics = Statistics::new_unknown(&schema);
        statistics.num_rows = Precision::Inexact(carved.rows as usize);
        Ok(Self {
            carved,
            query,
            execution: Execution::of(state.config()),
            counted,
            state: Arc::new(state.clone()),
            schema,
            properties: Arc::new(properties),
            statistics: Arc::new(statistics),
            metrics: ExecutionPlanMetricsSet::new(),
            outcome: Arc::default(),
        })
    }

    fn outcome(&self) -> std::sync::MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By pipeline, where it will run if a device is asked.
    fn places(&self) -> Vec<String> {
        let places = query::places(&self.carved.engine, &self.query, &self.options());
        // Whoever asks for a device that cannot be had is told by the query itself, too.
        places.unwrap_or_else(|error| vec![error.to_string()])
    }

    /// How the pipelines run, whatever statement they are a part of.
    fn options(&self) -> QueryOptions {
        let config = self.state.config();
        let execution = match self.execution {
            Execution::Interpreter => query::Execution::Interpreter,
            Execution::Compiled | Execution::DataFusion => query::Execution::Compiled,
        };
        QueryOptions {
            threads: config.target_partitions().max(1),
            execution,
            device: settings::device(config),
            memory_bytes: settings::memory_limit(config),
            account: None,
            scan: settings::of_scans(config),
            counted: self.counted,
            timeline: None,
        }
    }

    /// Runs the pipelines on the calling thread and those that it starts.
    fn run(&self, statement: &StatementContext) -> forebay_base::Result<QueryOutput> {
        for bound in &self.query.tables {
            statement.watch(&bound.metrics, forebay_engine::morsels(&bound.table)?.len());
        }
        let (account, timeline) = (Some(statement.account.clone()), statement.timeline().cloned());
        let options = QueryOptions { account, timeline, ..self.options() };
        options.timeline.iter().for_each(|recorder| recorder.uses(options.threads));
        query::run(&self.carved.engine, &self.query, &options, &statement.cancel)
    }

    /// The rows, from the pipelines or from DataFusion.
    async fn rows(self, context: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let Some(statement) = context.session_config().get_extension::<StatementContext>() else {
            return Err(into_datafusion(Error::internal("pipelines are run outside of a statement")));
        };
        // Run on this thread: handing the work over costs two wake-ups.
        match tokio::task::block_in_place(|| self.run(&statement)) {
            Ok(output) => {
                statement.compiled(output.reports.iter().map(|report| report.compile_ns).sum());
                self.outcome().reports = output.reports;
                let on_disk = output.on_disk.into_iter().flatten().map(|batch| batch.map_err(into_datafusion));
                let held = output.held;
                let batches = output.batches.into_iter().map(Ok).chain(on_disk);
                // Their memory is given back with the last of them.
                let batches = futures::stream::iter(batches).inspect(move |_| _ = &held);
                Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
            }
            Err(error) if asks_datafusion(&error) => {
                self.outcome().fallback = Some(error.to_string());
                self.datafusion(context).await
            }
            Err(error) => Err(into_datafusion(error)),
        }
    }

    /// The subtree's rows from DataFusion's operators.
    async fn datafusion(&self, context: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let planner = DefaultPhysicalPlanner::default();
        let plan =
            planner.create_physical_plan(with_named_keys(&self.carved.plan)?.as_ref(), self.state.as_ref()).await?;
        let rows = execute_stream(plan, context)?;
        let schema = Arc::clone(&self.schema);
        let rows = rows.map(move |batch| {
            let batch = batch?;
            Ok(RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec())?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
    }
}

/// Whether DataFusion can do what pipelines could not.
fn asks_datafusion(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::Overflow | ErrorKind::Input | ErrorKind::Unsupported)
}

impl DisplayAs for PipelinesExec {
    fn fmt_as(&self, style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.outcome();
        let execution = match self.execution {
            Execution::Interpreter => "interpreter",
            Execution::Compiled | Execution::DataFusion => "compiled",
        };
        write!(f, "ForebayPipelines: execution={execution}, pipelines={}", self.carved.text.len())?;
        if let Some(fallback) = &outcome.fallback {
            write!(f, ", run by DataFusion: {fallback}")?;
        }
        if matches!(style, DisplayFormatType::TreeRender) {
            return Ok(());
        }
        let is_verbose = matches!(style, DisplayFormatType::Verbose);
        let places = match self.execution {
            Execution::Compiled if outcome.reports.is_empty() => self.places(),
            _ => Vec::new(),
        };
        tree::write(f, &self.query, &self.carved.text, &outcome.reports, &places)?;
        let mut assumed = self.carved.scans.iter().zip(&self.query.tables).filter(|_| is_verbose);
        assumed.try_for_each(|(scan, bound)| {
            write!(f, "\n  assumes of {}: {}", bound.table.name, scan.assumes.text(&bound.table))
        })
    }
}

impl ExecutionPlan for PipelinesExec {
    fn name(&self) -> &str {
        PIPELINES
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
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows = futures::stream::once(self.clone().rows(context)).try_flatten().map(move |batch| {
            let batch = batch?;
            baseline.record_output(batch.num_rows());
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let sum = Metrics::default();
        for bound in &self.query.tables {
            sum.add_all(&bound.metrics.snapshot());
        }
        let mut all = self.metrics.clone_inner();
        for metric in shown_figures(&sum.snapshot()).clone_inner().iter() {
            all.push(Arc::clone(metric));
        }
        Some(all)
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> DataFusionResult<Arc<Statistics>> {
        Ok(Arc::clone(&self.statistics))
    }
}
