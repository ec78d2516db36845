//! The operators of a plan as EXPLAIN shows them: each on a line of its own, those below it indented under it; in EXPLAIN
//! ANALYZE with what they did.
//!
//! Invariant: what is shown as done was counted while the query ran. Must not know: how pipelines are shown, which write
//! themselves.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result as DataFusionResult;
use datafusion::common::display::{PlanType, StringifiedPlan, ToStringifiedPlan};
use datafusion::common::format::ExplainFormat;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Explain;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, execute_stream,
};
use forebay_base::units::{format_bytes, format_count, format_seconds};
use forebay_context::statement::StatementContext;
use forebay_engine::timeline::SourceTimeline;
use futures::TryStreamExt;

use forebay_context::PIPELINES;

use crate::fetched::operator::FetchExec;
use crate::scan::ScanExec;
use crate::scan_times;

/// Runs a plan to its end, and gives its operators with what they did instead of its rows.
#[derive(Debug, Clone)]
pub struct AnalyzeExec {
    explained: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl AnalyzeExec {
    /// Of the plan `explained`; `schema` has two columns of text, a heading and the operators.
    pub fn new(explained: Arc<dyn ExecutionPlan>, schema: SchemaRef) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { explained, schema, properties: Arc::new(properties) }
    }
}

/// The answer to a plain EXPLAIN of a plan whose operators are `explained`; `None` of one that asks for more. DataFusion would make
/// the operators once more, and write them down behind each rule.
pub fn of_operators(explain: &Explain, explained: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let is_plain = explain.explain_format == ExplainFormat::Indent && !explain.verbose;
    if !is_plain || !explain.logical_optimization_succeeded {
        return None;
    }
    let mut plans = explain.stringified_plans.clone();
    plans.push(explain.plan.to_stringified(PlanType::FinalLogicalPlan));
    let operators = Operators { plan: explained, ran: false, verbose: false };
    plans.push(StringifiedPlan::new(PlanType::FinalPhysicalPlan, operators.to_string()));
    Some(Arc::new(ExplainExec::new(Arc::clone(explain.schema.inner()), plans, false)))
}

/// EXPLAIN's answer `planned` with the operators of `explained` as this module writes them.
pub fn with_operators(planned: &Arc<dyn ExecutionPlan>, explained: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let Some(answer) = planned.downcast_ref::<ExplainExec>() else { return Arc::clone(planned) };
    let plans = answer.stringified_plans().iter().map(|plan| match plan.plan_type {
        PlanType::FinalPhysicalPlan => StringifiedPlan::new(
            PlanType::FinalPhysicalPlan,
            Operators { plan: explained, ran: false, verbose: answer.verbose() }.to_string(),
        ),
        _ => plan.clone(),
    });
    Arc::new(ExplainExec::new(answer.schema(), plans.collect(), answer.verbose()))
}

/// The operators of a plan as text.
struct Operators<'a> {
    plan: &'a Arc<dyn ExecutionPlan>,
    /// Whether to say what they did.
    ran: bool,
    /// Whether to say what they assume.
    verbose: bool,
}

impl fmt::Display for Operators<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, self.plan, 0)
    }
}

impl Operators<'_> {
    fn write(&self, f: &mut fmt::Formatter<'_>, plan: &Arc<dyn ExecutionPlan>, depth: usize) -> fmt::Result {
        // It gives way to other tasks, and does nothing to rows.
        let is_shown = !plan.is::<CooperativeExec>();
        if is_shown {
            let mut text = OneOperator { plan: plan.as_ref(), verbose: self.verbose }.to_string();
            if self.ran {
                text.push_str(&done(plan.as_ref()).unwrap_or_default());
            }
            for line in text.lines() {
                writeln!(f, "{:indent$}{line}", "", indent = 2 * depth)?;
            }
        }
        plan.children().into_iter().try_for_each(|child| self.write(f, child, depth + usize::from(is_shown)))
    }
}

/// An operator as it shows itself.
struct OneOperator<'a> {
    plan: &'a dyn ExecutionPlan,
    verbose: bool,
}

impl fmt::Display for OneOperator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_pipelines = self.verbose && self.plan.name() == PIPELINES;
        self.plan.fmt_as(if of_pipelines { DisplayFormatType::Verbose } else { DisplayFormatType::Default }, f)
    }
}

/// What an operator did, as it follows its text; `None` where nothing was counted, and for pipelines, which tell it line by
/// line.
fn done(plan: &dyn ExecutionPlan) -> Option<String> {
    let metrics = plan.metrics().filter(|_| plan.name() != PIPELINES)?;
    let rows = metrics.output_rows()?;
    let mut text = format!("  {} rows", format_count(rows as u64));
    if let Some(elapsed_ns) = metrics.elapsed_compute() {
        write!(text, " in {}", format_seconds(elapsed_ns as f64 / 1e9)).ok()?;
    }
    if let Some(bytes) = metrics.spilled_bytes().filter(|bytes| *bytes > 0) {
        write!(text, ", {} of them on disk in between", format_bytes(bytes as u64)).ok()?;
    }
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        text.push_str(&scanned(&metrics, scan.timeline()));
    }
    if plan.is::<FetchExec>() {
        text.push_str(&scanned(&metrics, None));
    }
    Some(text)
}

/// What a scan read and left out, each on a line of its own.
fn scanned(metrics: &MetricsSet, timeline: Option<&SourceTimeline>) -> String {
    let count = |name: &str| metrics.sum_by_name(name).map_or(0, |value| value.as_usize() as u64);
    let mut text = String::new();
    let (blocks, pruned) = (count("blocks"), count("blocks_pruned"));
    let read = (count("bytes_read"), count("read_ns"), count("inflate_ns"));
    if let Some(cost) = scan_times::sentence(read, timeline.map(SourceTimeline::times).as_ref()) {
        text += &format!("\n  | {cost}");
    }
    if let Some(in_part) = scan_times::in_part(count("chunks_in_part")) {
        text += &format!("\n  | {in_part}");
    }
    if pruned > 0 {
        text += &format!("\n  | zones left out {} of {} blocks", format_count(pruned), format_count(blocks));
    }
    if count("psma_rows") > 0 {
        text += &format!("\n  | PSMA left out {} rows", format_count(count("psma_rows")));
    }
    for lane in scan_times::drawn(timeline) {
        text += &format!("\n  | {lane}");
    }
    text
}

impl DisplayAs for AnalyzeExec {
    fn fmt_as(&self, _style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Analyze")
    }
}

impl ExecutionPlan for AnalyzeExec {
    fn name(&self) -> &str {
        "Analyze"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.explained]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let explained = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.explained));
        Ok(Arc::new(Self::new(explained, Arc::clone(&self.schema))))
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

    fn execute(&self, _partition: usize, context: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let (explained, schema) = (Arc::clone(&self.explained), Arc::clone(&self.schema));
        let recorder = context.session_config().get_extension::<StatementContext>();
        let recorder = recorder.map(|statement| Arc::clone(statement.record()));
        let rows = async move {
            let started = Instant::now();
            let mut rows = execute_stream(Arc::clone(&explained), context)?;
            let mut count = 0;
            while let Some(batch) = rows.try_next().await? {
                count += batch.num_rows() as u64;
            }
            let elapsed = format_seconds(started.elapsed().as_secs_f64());
            recorder.iter().for_each(|recorder| recorder.end());
            let rows = if count == 1 { "1 row".to_owned() } else { format!("{} rows", format_count(count)) };
            let heading = StringArray::from(vec![format!("{rows} in {elapsed}")]);
            let operators =
                StringArray::from(vec![Operators { plan: &explained, ran: true, verbose: false }.to_string()]);
            Ok(RecordBatch::try_new(schema, vec![Arc::new(heading), Arc::new(operators)])?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::once(rows))))
    }
}
