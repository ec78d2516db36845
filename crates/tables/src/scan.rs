//! The scan of one table as a DataFusion operator: partitions share an [`engine::Scan`](forebay_engine::Scan) and take
//! morsels from it.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result as DataFusionResult, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_expr_common::physical_expr::{is_volatile, snapshot_generation};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SortOrderPushdownResult,
};
use forebay_base::{Error, LogicalType, limits};
use forebay_context::error::into_datafusion;
use forebay_context::statement::StatementContext;
use forebay_engine::copies::CopyChoice;
use forebay_engine::metrics::MetricsSnapshot;
use forebay_engine::run::{MorselRows, schema_of};
use forebay_engine::timeline::SourceTimeline;
use forebay_engine::{AdaptivePredicate, Direction, Engine, Metrics, RowFilter, Scan, ScanSettings};
use forebay_pipeline::ColumnPredicate;
use forebay_store::TableSnapshot;
use futures::Stream;

use crate::filter::Predicates;
use crate::read_copy::{self, Reading};

/// One in so many bytes of what is read ahead otherwise, where the first rows tell which others are needed.
const FIRST_READ_SHARE: usize = 8;

/// Scans one table.
#[derive(Debug, Clone)]
pub struct ScanExec {
    engine: Arc<Engine>,
    table: Arc<TableSnapshot>,
    statement: Arc<StatementContext>,
    reading: Reading,
    /// Positions in the table's list of columns.
    projection: Vec<usize>,
    /// Over the table's columns; evaluated exactly.
    predicates: Vec<Arc<dyn PhysicalExpr>>,
    /// Over the table's columns; change while the query runs, and are checked again above.
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    limit: Option<usize>,
    /// The column of the table that whoever reads the rows wants the first or the last values of.
    wanted_first: Option<(usize, Direction)>,
    statistics: Arc<Statistics>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// Made by the first partition that runs.
    scan: Arc<OnceLock<Arc<Scan>>>,
    /// This operator's own figures.
    counters: Arc<Metrics>,
}

impl ScanExec {
    /// A scan that gives `projection` of the rows that pass `predicates`.
    pub fn new(
        engine: Arc<Engine>,
        table: Arc<TableSnapshot>,
        statement: Arc<StatementContext>,
        projection: Vec<usize>,
        predicates: Vec<Arc<dyn PhysicalExpr>>,
        limit: Option<usize>,
        reading: Reading,
    ) -> Self {
        let schema = schema_of(&table, &projection);
        // A small table is read by one worker: that is quick, and its rows come in the order they were added.
        let blocks = (table.rows() as usize).div_ceil(limits::BLOCK_ROWS);
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(reading.partitions.min(blocks / limits::GROUP_BLOCKS + 1)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let statistics = Arc::new(crate::statistics::of_scan(&table, &projection, &predicates));
        Self {
            engine,
            table,
            statement,
            reading,
            projection,
            predicates,
            dynamic: Vec::new(),
            limit,
            wanted_first: None,
            statistics,
            schema,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            scan: Arc::default(),
            counters: Arc::default(),
        }
    }

    fn types(&self) -> Vec<LogicalType> {
        self.table.columns.iter().map(|column| column.logical.clone()).collect()
    }

    /// A predicate over this scan's output as one over the table's columns.
    fn over_table(&self, predicate: &Arc<dyn PhysicalExpr>) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
        Arc::clone(predicate)
            .transform_down(|node| {
                let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
                let moved = Column::new(column.name(), self.projection[column.index()]);
                Ok(Transformed::yes(Arc::new(moved) as Arc<dyn PhysicalExpr>))
            })
            .data()
    }

    /// When the scan did what, if that was noted.
    pub fn timeline(&self) -> Option<&SourceTimeline> {
        self.scan.get()?.timeline()
    }

    /// The copy of the table's rows that is read by these tests, where there is one to choose.
    fn copy(&self, tests: &[ColumnPredicate]) -> Option<(Arc<TableSnapshot>, CopyChoice)> {
        self.reading.choose((&self.engine, &self.table), &self.projection, &self.predicates, tests)
    }

    fn shared_scan(&self, settings: ScanSettings, workers: usize) -> forebay_base::Result<Arc<Scan>> {
        if let Some(scan) = self.scan.get() {
            return Ok(Arc::clone(scan));
        }
        let tests = Predicates::of(&self.predicates, &self.types()).tests;
        let table = self.copy(&tests).map_or_else(|| Arc::clone(&self.table), |(copy, _)| copy);
        let (counters, cancel) = (Arc::clone(&self.counters), self.statement.cancel.clone());
        let scan = Scan::new(Arc::clone(&self.engine), table, self.projection.clone(), counters, cancel)?;
        let (scan, settings) = match self.wanted_first {
            // Where what comes first tells what else is needed, little is read before that is known.
            Some((column, direction)) if !self.dynamic.is_empty() => {
                let read_ahead_bytes = settings.read_ahead_bytes / FIRST_READ_SHARE;
                (scan.in_order_of(column, direction), ScanSettings { read_ahead_bytes, ..settings })
            }
            _ => (scan, settings),
        };
        self.statement.watch(&self.counters, scan.morsels());
        let scan = scan.of_rows_that_pass(&tests, settings);
        let timeline = || {
            let recorder = self.statement.timeline()?;
            recorder.uses(workers);
            Some(recorder.scan_of(&self.table))
        };
        let scan = || Arc::new(scan.with_timeline(timeline()));
        Ok(Arc::clone(self.scan.get_or_init(scan)))
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> = self.projection.iter().map(|c| self.table.columns[*c].name.as_str()).collect();
        write!(f, "ForebayScan: table={}.{}, columns=[{}]", self.table.schema, self.table.name, columns.join(", "))?;
        let parts = Predicates::of(&self.predicates, &self.types());
        if !parts.tests.is_empty() {
            let tests: Vec<String> = parts
                .tests
                .iter()
                .map(|test| crate::explain::test_text(&self.table.columns[test.column], &test.test))
                .collect();
            write!(f, ", on codes=[{}]", tests.join(" AND "))?;
        }
        if !parts.residual.is_empty() {
            let rest: Vec<String> = parts.residual.iter().map(ToString::to_string).collect();
            write!(f, ", on rows=[{}]", rest.join(" AND "))?;
        }
        if !self.dynamic.is_empty() {
            let dynamic: Vec<String> = self.dynamic.iter().map(crate::explain::shortened).collect();
            write!(f, ", at run time=[{}]", dynamic.join(" AND "))?;
        }
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        if let Some((_, choice)) = self.copy(&parts.tests) {
            write!(f, ", {}", read_copy::text(&choice))?;
        }
        Ok(())
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &str {
        "ForebayScan"
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
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        for expr in self.predicates.iter().chain(&self.dynamic) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    /// A plan that runs again (a recursive query) starts its scan anew.
    fn reset_state(self: Arc<Self>) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { scan: Arc::default(), ..(*self).clone() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let settings = forebay_context::settings::of_scans(context.session_config());
        let workers = context.session_config().target_partitions().max(1);
        let scan = self.shared_scan(settings, workers).map_err(into_datafusion)?;
        let batch_rows = context.session_config().batch_size().min(limits::BATCH_ROWS);
        let fixed = Predicates::of(&self.predicates, &self.types());
        let filters = fixed.row_filters(false).map_err(into_datafusion)?;
        Ok(Box::pin(ScanStream {
            scan,
            types: self.types(),
            tests: fixed.ranked(false),
            filters,
            dynamic: self.dynamic.clone(),
            generations: Vec::new(),
            optional: Vec::new(),
            coalescer: BatchCoalescer::new(Arc::clone(&self.schema), batch_rows)
                .with_biggest_coalesce_batch_size(Some(batch_rows / 2)),
            ready: VecDeque::new(),
            rows: None,
            remaining: self.limit,
            done: false,
            schema: Arc::clone(&self.schema),
            baseline: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let shown = shown_figures(&self.counters.snapshot());
        let mut all = self.metrics.clone_inner();
        for metric in shown.clone_inner().iter() {
            all.push(Arc::clone(metric));
        }
        Some(all)
    }

    fn partition_statistics(&self, partition: Option<usize>) -> DataFusionResult<Arc<Statistics>> {
        match partition {
            Some(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema))),
            None => Ok(Arc::clone(&self.statistics)),
        }
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    /// Row groups are taken in the order of their bounds, so that the first rows of an order are soon known, and what cannot
    /// be among them is left out.
    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> DataFusionResult<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let Some(first) = order.first() else { return Ok(SortOrderPushdownResult::Unsupported) };
        let Some(column) = first.expr.downcast_ref::<Column>() else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        let direction = if first.options.descending { Direction::Descending } else { Direction::Ascending };
        let wanted_first = Some((self.projection[column.index()], direction));
        Ok(SortOrderPushdownResult::Inexact { inner: Arc::new(Self { wanted_first, ..self.clone() }) })
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        // The smaller of two limits holds.
        let limit = self.limit.into_iter().chain(limit).min();
        Some(Arc::new(Self { limit, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        // Each partition stops after that many rows, so an operator above still has to cut.
        None
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> DataFusionResult<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let parents = &child_pushdown_result.parent_filters;
        if self.limit.is_some() || parents.is_empty() {
            // Filters come after the limit: before it, other rows would be the first ones.
            let answers = vec![PushedDown::No; parents.len()];
            return Ok(FilterPushdownPropagation::with_parent_pushdown_result(answers));
        }
        let mut taken = self.clone();
        let mut answers = Vec::new();
        for parent in parents {
            let predicate = self.over_table(&parent.filter)?;
            if is_volatile(&predicate) {
                answers.push(PushedDown::No);
            } else if DynamicFilterTracking::classify(&predicate).contains_dynamic_filter() {
                taken.dynamic.push(predicate);
                answers.push(PushedDown::No);
            } else {
                taken.predicates.push(predicate);
                answers.push(PushedDown::Yes);
            }
        }
        taken.statistics = Arc::new(crate::statistics::of_scan(&self.table, &self.projection, &taken.predicates));
        let node: Arc<dyn ExecutionPlan> = Arc::new(taken);
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(answers).with_updated_node(node))
    }
}

/// The figures of a scan as DataFusion shows them. Made afresh on every call: the counters are the truth.
pub fn shown_figures(figures: &MetricsSnapshot) -> ExecutionPlanMetricsSet {
    let shown = ExecutionPlanMetricsSet::new();
    for (name, value) in [
        ("bytes_read", figures.read_bytes),
        ("bytes_scanned", figures.scanned_bytes),
        ("bytes_of_codes", figures.code_bytes),
        ("chunks", figures.chunks),
        ("chunks_pruned", figures.chunks_pruned),
        ("chunks_in_part", figures.chunks_in_part),
        ("blocks", figures.blocks),
        ("blocks_pruned", figures.blocks_pruned),
        ("rows_in", figures.rows_in),
        ("read_ns", figures.read_ns),
        ("inflate_ns", figures.inflate_ns),
        ("psma_rows", figures.psma_rows),
    ] {
        MetricBuilder::new(&shown).global_counter(name).add(value as usize);
    }
    shown
}

/// One partition's share of a scan.
struct ScanStream {
    scan: Arc<Scan>,
    types: Vec<LogicalType>,
    tests: Vec<AdaptivePredicate>,
    filters: Vec<Box<dyn RowFilter>>,
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    generations: Vec<u64>,
    optional: Vec<Box<dyn RowFilter>>,
    coalescer: BatchCoalescer,
    ready: VecDeque<RecordBatch>,
    rows: Option<MorselRows>,
    remaining: Option<usize>,
    done: bool,
    schema: SchemaRef,
    baseline: BaselineMetrics,
}

impl ScanStream {
    /// The next batch, working on as many morsels as that takes.
    fn advance(&mut self) -> forebay_base::Result<Option<RecordBatch>> {
        let internal = |error: datafusion::arrow::error::ArrowError| Error::internal(error.to_string());
        loop {
            if let Some(batch) = self.ready.pop_front().or_else(|| self.coalescer.next_completed_batch()) {
                return Ok(Some(self.cut(batch)));
            }
            if self.done {
                return Ok(None);
            }
            if self.rows.is_some() && self.learn()? {
                let tests = &self.tests;
                self.rows.iter_mut().for_each(|rows| rows.leave_out(tests));
            }
            let next = match &mut self.rows {
                Some(rows) => rows.next_block()?,
                None => None,
            };
            match next {
                Some(batches) if self.schema.fields().is_empty() => self.ready.extend(batches),
                Some(batches) => {
                    for batch in batches {
                        self.coalescer.push_batch(batch).map_err(internal)?;
                    }
                    // Who learns from rows should see them soon: what it learns may save the next block.
                    if !self.dynamic.is_empty() {
                        self.coalescer.finish_buffered_batch().map_err(internal)?;
                    }
                }
                None => match self.scan.next_morsel() {
                    Some(morsel) => {
                        self.learn()?;
                        let fixed = self.filters.len();
                        self.filters.append(&mut self.optional);
                        let rows = self.scan.run(morsel, &mut self.tests, &mut self.filters);
                        self.optional = self.filters.split_off(fixed);
                        self.rows = Some(rows?);
                    }
                    None => {
                        self.done = true;
                        self.coalescer.finish_buffered_batch().map_err(internal)?;
                    }
                },
            }
        }
    }

    /// Looks whether filters from joins and top-k have changed since it was last asked.
    fn learn(&mut self) -> forebay_base::Result<bool> {
        let now: Vec<u64> = self.dynamic.iter().map(snapshot_generation).collect();
        let has_changed = now != self.generations;
        if has_changed {
            let learned = Predicates::of_dynamic(&self.dynamic, &self.types)?;
            self.optional = learned.row_filters(true)?;
            self.tests.retain(|ranked| !ranked.optional);
            self.tests.extend(learned.ranked(true));
            self.generations = now;
        }
        Ok(has_changed)
    }

    fn cut(&mut self, batch: RecordBatch) -> RecordBatch {
        let Some(remaining) = &mut self.remaining else { return batch };
        let rows = batch.num_rows().min(*remaining);
        *remaining -= rows;
        if *remaining == 0 {
            self.done = true;
            self.rows = None;
            self.ready.clear();
        }
        batch.slice(0, rows)
    }
}

impl Stream for ScanStream {
    type Item = DataFusionResult<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = self.get_mut();
        if stream.remaining == Some(0) {
            return Poll::Ready(None);
        }
        let elapsed = stream.baseline.elapsed_compute().clone();
        let timer = elapsed.timer();
        stream.rows.iter_mut().for_each(MorselRows::go_on);
        let polled = match stream.advance() {
            Ok(batch) => batch.map(Ok),
            Err(error) => {
                stream.done = true;
                stream.rows = None;
                Some(Err(DataFusionError::External(Box::new(error))))
            }
        };
        stream.rows.iter_mut().for_each(MorselRows::rest);
        timer.done();
        stream.baseline.record_poll(Poll::Ready(polled))
    }
}

impl RecordBatchStream for ScanStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
