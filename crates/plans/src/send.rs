//! A query's rows on their way to whoever asked.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use forebay_base::{ErrorKind, Result};
use forebay_context::error::{from_datafusion, from_reading};
use forebay_context::statement::StatementContext;
use forebay_engine::timeline::Recorder;
use forebay_physical::large_limits::without_top_rows;
use forebay_physical::light::is_light;
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::{AbortHandle, JoinHandle};

/// Batches that wait for a slow reader.
const BUFFERED_BATCHES: usize = 4;

/// The rows of a query that has begun: those that there are already, and those that a worker sends.
#[derive(Debug)]
pub struct QueryRows {
    /// Their columns.
    pub schema: SchemaRef,
    /// The batches have instants in another time zone than the schema.
    pub is_renamed: bool,
    /// Those that there are.
    pub ready: std::vec::IntoIter<Result<RecordBatch>>,
    /// Those that come.
    pub rest: Option<SentRows>,
}

/// A query that has begun.
#[derive(Debug)]
pub enum Begun {
    /// It has rows to show, or none.
    Rows(QueryRows),
    /// A worker runs it until it has.
    Task(SpawnedTask<Result<QueryRows>>),
}

/// Rows that a worker sends. Dropped, it stops.
#[derive(Debug)]
pub struct SentRows {
    /// Where they arrive.
    pub receiver: Receiver<Result<RecordBatch>>,
    /// Who sends them.
    pub task: JoinHandle<()>,
}

impl SentRows {
    /// What stops the worker.
    pub fn abort_handle(&self) -> AbortHandle {
        self.task.abort_handle()
    }
}

impl Drop for SentRows {
    /// Rows that nobody reads any more stop their query.
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs a plan until it has rows to show, and goes on until it would have to wait for more of them; a worker sends the others. A light plan
/// is run by the thread that polls, since a change of threads takes as long as a short query; others are left to a worker. Where its top
/// rows turn out to need more memory than there is before there are any, all rows are sorted instead.
///
/// # Errors
/// What fails before there are rows.
pub async fn begin(
    state: &SessionState,
    statement: Arc<StatementContext>,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Begun> {
    // Of a statement that was cancelled while it was planned nothing runs: whoever waited may be at the next one.
    tokio::task::yield_now().await;
    let schema = plan.schema();
    let zone = forebay_zones::rule::of_session(state.config_options()).map_err(from_datafusion)?;
    let in_zone = zone.and_then(|zone| forebay_zones::shown::schema(&schema, zone.name()));
    let context = statement.task_context(state);
    statement.timeline().into_iter().for_each(Recorder::planned);
    let is_light = is_light(plan.as_ref());
    let rows = async move {
        let begun = match begin_plan(Arc::clone(&plan), &context, &statement).await {
            Err(error) if error.kind() == ErrorKind::OutOfMemory => match without_top_rows(&plan) {
                Ok(Some(sorting)) => begin_plan(sorting, &context, &statement).await,
                _ => Err(error),
            },
            begun => begun,
        };
        let (ready, rest) = begun?;
        let (is_renamed, schema) = (in_zone.is_some(), in_zone.unwrap_or(schema));
        Ok(QueryRows { schema, is_renamed, ready: ready.into_iter(), rest })
    };
    Ok(match is_light {
        true => Begun::Rows(rows.await?),
        false => Begun::Task(SpawnedTask::spawn(rows)),
    })
}

async fn begin_plan(
    plan: Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    statement: &Arc<StatementContext>,
) -> Result<(Vec<Result<RecordBatch>>, Option<SentRows>)> {
    let failed = |error| from_reading(error, &statement.files());
    let mut rows = execute_stream(plan, Arc::clone(context)).map_err(failed)?;
    let mut ready = Vec::new();
    let mut next = rows.next().await.transpose().map_err(failed)?.map(Ok);
    while let Some(batch) = next {
        let is_last = batch.is_err();
        ready.push(batch);
        if is_last {
            break;
        }
        let polled = if ready.len() < BUFFERED_BATCHES { rows.next().now_or_never() } else { None };
        let Some(polled) = polled else { return Ok((ready, Some(sent(rows, statement)))) };
        next = polled.map(|batch| batch.map_err(failed));
    }
    Ok((ready, None))
}

/// Has a worker send these rows.
fn sent(rows: SendableRecordBatchStream, statement: &Arc<StatementContext>) -> SentRows {
    let (sender, receiver) = mpsc::channel(BUFFERED_BATCHES);
    SentRows { receiver, task: tokio::spawn(send_rows(rows, Arc::clone(statement), sender)) }
}

/// Sends batches, up to the error that ends them.
async fn send_rows(
    mut rows: SendableRecordBatchStream,
    statement: Arc<StatementContext>,
    sender: Sender<Result<RecordBatch>>,
) {
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(|error| from_reading(error, &statement.files()));
        let failed = batch.is_err();
        // A reader that is gone does not want the error either.
        if sender.send(batch).await.is_err() || failed {
            return;
        }
    }
}
