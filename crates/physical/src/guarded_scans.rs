//! Scans of files whose readers may meet anything: a panic of theirs is an error, and every error names the file.

use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use forebay_context::error::{from_reading, into_datafusion};
use forebay_context::panics::caught;
use forebay_context::statement::StatementContext;
use futures::Stream;

/// Guards every scan of files. Behind the rules that know scans.
#[derive(Debug)]
pub struct GuardedScans;

impl PhysicalOptimizerRule for GuardedScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match files(node.as_ref()) {
            Some(files) => Ok(Transformed::yes(Arc::new(GuardedScan { scan: node, files }) as Arc<dyn ExecutionPlan>)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "guarded_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The files that a plan reads; `None` where it is no scan of files. Partitions take files from each other, so they are those
/// of all.
fn files(plan: &dyn ExecutionPlan) -> Option<Vec<String>> {
    let config = plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
    let files = config.file_groups.iter().flat_map(|group| group.iter());
    let mut paths: Vec<String> = files.map(|file| format!("/{}", file.object_meta.location)).collect();
    paths.sort();
    paths.dedup();
    Some(paths)
}

/// A scan's batches, and errors with the names of its files.
#[derive(Debug)]
struct GuardedScan {
    scan: Arc<dyn ExecutionPlan>,
    files: Vec<String>,
}

impl DisplayAs for GuardedScan {
    fn fmt_as(&self, style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scan.fmt_as(style, f)
    }
}

impl GuardedScan {
    /// The files by the names that the statement has for them.
    fn names(&self, statement: Option<&StatementContext>) -> Vec<String> {
        let known = statement.map(StatementContext::files).unwrap_or_default();
        let name = |path: &String| {
            let is_meant = |name: &&String| std::path::absolute(name).is_ok_and(|full| full == Path::new(path));
            known.iter().find(is_meant).unwrap_or(path).clone()
        };
        self.files.iter().map(name).collect()
    }
}

impl ExecutionPlan for GuardedScan {
    fn name(&self) -> &str {
        self.scan.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.scan.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.scan.properties()
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
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.scan.apply_expressions(f)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = Arc::clone(&self.scan).reset_state()?;
        Ok(Arc::new(Self { scan, files: self.files.clone() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let statement = context.session_config().get_extension::<StatementContext>();
        let files = self.names(statement.as_deref());
        let scan = self.scan.execute(partition, context)?;
        Ok(Box::pin(GuardedStream { schema: scan.schema(), scan: Some(scan), files }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.scan.metrics()
    }

    #[expect(deprecated)]
    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.scan.partition_statistics(partition)
    }
}

struct GuardedStream {
    schema: SchemaRef,
    /// Nothing behind an error: what panicked is not asked again.
    scan: Option<SendableRecordBatchStream>,
    files: Vec<String>,
}

impl Stream for GuardedStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(scan) = self.scan.as_mut() else { return Poll::Ready(None) };
        let error = match caught(|| scan.as_mut().poll_next(context)) {
            Ok(Poll::Ready(Some(Err(error)))) => error,
            Ok(other) => return other,
            Err(panic) => {
                self.scan = None;
                into_datafusion(panic)
            }
        };
        Poll::Ready(Some(Err(into_datafusion(from_reading(error, &self.files)))))
    }
}

impl RecordBatchStream for GuardedStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
