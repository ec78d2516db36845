//! A query's rows on their way to whoever asked.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use forebay_base::{ErrorKind, Result};
use forebay_context::error::from_reading;
use forebay_context::statement::StatementContext;
use forebay_physical::large_limits::without_top_rows;
use futures::StreamExt;
use tokio::sync::mpsc::Sender;

/// Runs a plan and sends its batches, or the error that ends it. Where its top rows turn out to need more memory than there is
/// before anything was sent, all rows are sorted instead.
pub(crate) async fn send_rows(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    statement: Arc<StatementContext>,
    sender: Sender<Result<RecordBatch>>,
) {
    // Of a plan that has run once; the other has no top rows.
    let mut first = Some(Arc::clone(&plan));
    let mut next = Some(plan);
    while let Some(plan) = next.take() {
        let mut rows = execute_stream(plan, Arc::clone(&context)).map_err(Some);
        loop {
            let batch = match &mut rows {
                Ok(rows) => rows.next().await,
                Err(error) => error.take().map(Err),
            };
            let Some(batch) = batch else { return };
            let batch = batch.map_err(|error| from_reading(error, &statement.files()));
            let first = first.take();
            if let (Err(error), Some(first)) = (&batch, first)
                && error.kind() == ErrorKind::OutOfMemory
                && let Ok(Some(sorting)) = without_top_rows(&first)
            {
                next = Some(sorting);
                break;
            }
            let failed = batch.is_err();
            // A reader that is gone does not want the error either.
            if sender.send(batch).await.is_err() || failed {
                return;
            }
        }
    }
}
