//! What a statement gives back: rows as they come, and what they cost.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use forebay_base::{Error, ErrorKind, Result};
use forebay_context::error::{from_datafusion, worker_error};
use forebay_context::logged::Logged;
use forebay_context::statement::StatementContext;
use forebay_context::workers::Workers;
use forebay_plans::send::{QueryRows, SentRows};
use forebay_point::PointRows;
use forebay_transactions::{OpenTransaction, Working};
use forebay_zones::shown;

use crate::running::Running;

/// What kind of result a statement has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultKind {
    /// Rows.
    Rows,
    /// A change of so many rows.
    Changed(u64),
    /// Done, nothing to count.
    Done(String),
}

/// A running or finished statement.
#[derive(Debug)]
pub struct Answer {
    pub(crate) kind: ResultKind,
    pub(crate) schema: SchemaRef,
    /// Batches have other names than the schema, or instants in another time zone.
    pub(crate) is_renamed: bool,
    pub(crate) statement: Arc<StatementContext>,
    pub(crate) rows: u64,
    pub(crate) elapsed: Option<Duration>,
    /// What fails with it.
    pub(crate) transaction: Option<Arc<OpenTransaction>>,
    /// While its rows are read.
    pub(crate) working: Option<Working>,
    /// What is noted of it when it ends.
    pub(crate) logged: Option<Logged>,
    pub(crate) source: Source,
}

/// Some rows of an answer.
#[derive(Debug, Clone)]
pub enum AnswerRows {
    /// Those of a statement by key, as it found them.
    Found(PointRows),
    /// Arrays of columns.
    Batch(RecordBatch),
}

/// Where an answer's rows come from.
#[derive(Debug)]
pub(crate) enum Source {
    Batches(std::vec::IntoIter<RecordBatch>),
    /// All rows of a statement by key.
    Found(PointRows),
    Query {
        rows: QueryRows,
        runtime: Arc<Workers>,
        running: Arc<Running>,
    },
}

impl Source {
    /// No rows, or no more of them.
    pub(crate) fn nothing() -> Self {
        Self::Batches(Vec::new().into_iter())
    }
}

impl Answer {
    /// What kind of result this is.
    pub fn kind(&self) -> &ResultKind {
        &self.kind
    }

    /// The same rows, whose columns have the names of those of `columns`, if there are as many.
    pub(crate) fn named_as(mut self, columns: &Schema) -> Self {
        let schema = renamed(&self.schema, columns);
        self.is_renamed |= schema != self.schema;
        self.schema = schema;
        self
    }

    /// The answer of a statement of this transaction, which runs until the rows are read.
    pub(crate) fn of(mut self, transaction: Arc<OpenTransaction>, working: Working) -> Self {
        self.transaction.get_or_insert(transaction);
        self.working = Some(working).filter(|_| self.elapsed.is_none());
        self
    }

    /// The query log takes note of it: now where it has no rows, or else when they have been read.
    pub(crate) fn noted_by(mut self, logged: Logged) -> Self {
        match self.elapsed {
            Some(_) => logged.end(&self.statement, self.rows, None),
            None => self.logged = Some(logged),
        }
        self
    }

    /// The columns of the rows.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The next rows; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let next = self.find_batch();
        if let (Err(_), Some(transaction)) = (&next, &self.transaction) {
            transaction.fail();
            self.working = None;
        }
        if !matches!(next, Ok(Some(_)))
            && let Some(logged) = self.logged.take()
        {
            logged.end(&self.statement, self.rows, next.as_ref().err());
        }
        next
    }

    /// The same as [`Answer::next_batch`], as they come where that is no batch.
    pub fn next_rows(&mut self) -> Result<Option<AnswerRows>> {
        match &self.source {
            Source::Found(_) if !self.is_renamed => {
                let Source::Found(rows) = std::mem::replace(&mut self.source, Source::nothing()) else {
                    return Err(Error::internal("rows were there and are not"));
                };
                self.rows += rows.len() as u64;
                Ok(Some(AnswerRows::Found(rows)))
            }
            _ => Ok(self.next_batch()?.map(AnswerRows::Batch)),
        }
    }

    fn find_batch(&mut self) -> Result<Option<RecordBatch>> {
        let next = match &mut self.source {
            Source::Batches(batches) => batches.next(),
            Source::Found(rows) => {
                let batch = rows.batch()?;
                self.source = Source::nothing();
                Some(batch)
            }
            Source::Query { rows: QueryRows { ready, rest, .. }, runtime, running } => match (ready.next(), rest) {
                (Some(batch), _) => Some(batch?),
                (None, None) => None,
                // The task may compute for long before it sees that it was aborted.
                (None, Some(SentRows { receiver, task })) => {
                    match runtime.block_on(running.unless_cancelled(async { Ok(receiver.recv().await) }))? {
                        Some(batch) => Some(batch?),
                        None => {
                            if let Err(error) = runtime.block_on(task) {
                                running.cancel.check()?;
                                return Err(worker_error(&error));
                            }
                            None
                        }
                    }
                }
            },
        };
        let next = match next {
            Some(batch) if self.is_renamed => Some(shown::batch(&batch, &self.schema).map_err(from_datafusion)?),
            other => other,
        };
        match &next {
            Some(batch) => self.rows += batch.num_rows() as u64,
            None => {
                self.elapsed.get_or_insert(self.statement.started.elapsed());
                self.source = Source::nothing();
                self.working = None;
            }
        }
        Ok(next)
    }

    /// Rows returned so far, or changed.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Time since the statement began; final after the last batch.
    pub fn elapsed(&self) -> Duration {
        self.elapsed.unwrap_or_else(|| self.statement.started.elapsed())
    }

    /// Time that it took to plan; none where its plan was there already.
    pub fn plan_time(&self) -> Duration {
        Duration::from_nanos(self.statement.plan_ns())
    }

    /// Time that its pipelines took to compile; none where their code was there already.
    pub fn compile_time(&self) -> Duration {
        Duration::from_nanos(self.statement.compile_ns())
    }

    /// The figures of the scans so far.
    pub fn figures(&self) -> forebay_engine::metrics::MetricsSnapshot {
        self.statement.figures()
    }
}

/// `schema` with the names of another one, where that has as many columns.
pub(crate) fn renamed(schema: &Schema, names: &Schema) -> SchemaRef {
    if schema.fields().len() != names.fields().len() {
        return Arc::new(schema.clone());
    }
    let rename = |(field, named): (&Arc<Field>, &Arc<Field>)| field.as_ref().clone().with_name(named.name());
    let fields: Vec<Field> = schema.fields().iter().zip(names.fields()).map(rename).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(logged) = self.logged.take() {
            logged.end(
                &self.statement,
                self.rows,
                Some(&Error::new(ErrorKind::Cancelled, "its rows were not read to the end")),
            );
        }
    }
}
