//! A system table as DataFusion sees it. Its rows are made while they are asked for, batch by batch, and of a batch first what is
//! known without reading: filters of that decide what is read for the others.
//!
//! Invariant: no file is touched for rows that such filters leave out, nor for columns that nobody asked for.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{AsArray, BooleanArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result as DataFusionResult};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use forebay_base::Result;
use forebay_context::error::into_datafusion;
use forebay_context::statement::StatementContext;
use futures::stream;

use crate::columns::{self, Column};

/// Batches of rows, made as they are asked for.
pub(crate) type Batches<R> = Box<dyn Iterator<Item = Result<Vec<R>>> + Send>;

/// Where rows come from.
pub(crate) trait Rows: fmt::Debug + Send + Sync + 'static {
    /// A row, as far as it is known without reading.
    type Row: Send + Sync + 'static;

    /// The table's columns.
    const COLUMNS: &'static [Column<Self::Row>];

    /// All rows but those that `passes` leaves out. It says which of some rows may matter.
    fn batches(&self, passes: Passes<Self::Row>) -> Batches<Self::Row>;
}

/// What is known of the rows that a query asks for: filters of columns that are known without reading.
pub(crate) struct Passes<R: 'static> {
    columns: &'static [Column<R>],
    filters: Arc<Vec<KnownFilter>>,
}

/// A filter, and the columns that it looks at.
struct KnownFilter {
    expr: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
}

impl<R> Clone for Passes<R> {
    fn clone(&self) -> Self {
        Self { columns: self.columns, filters: Arc::clone(&self.filters) }
    }
}

impl<R> Passes<R> {
    /// Those of these rows that may matter by filters which look at none but the first `known` columns.
    pub(crate) fn of_first(&self, known: usize, rows: Vec<R>) -> Result<Vec<R>> {
        self.filtered(rows, |filter| filter.columns.iter().all(|column| *column < known))
    }

    fn filtered(&self, mut rows: Vec<R>, asks: impl Fn(&KnownFilter) -> bool) -> Result<Vec<R>> {
        for filter in self.filters.iter().filter(|filter| asks(filter)) {
            let batch = columns::sparse(self.columns, &filter.columns, &rows)?;
            // A filter that fails says so when the rows are there.
            let passing = filter.expr.evaluate(&batch).and_then(|passing| passing.into_array(rows.len()));
            let Some(passing) = passing.ok().and_then(|array| array.as_boolean_opt().cloned()) else { continue };
            let is_passing = |row: usize| is_true(&passing, row);
            let mut row = 0..;
            rows.retain(|_| row.next().is_some_and(is_passing));
        }
        Ok(rows)
    }
}

fn is_true(passing: &BooleanArray, row: usize) -> bool {
    use datafusion::arrow::array::Array;
    !passing.is_null(row) && passing.value(row)
}

/// The table.
#[derive(Debug)]
pub(crate) struct Listing<T> {
    rows: Arc<T>,
    schema: SchemaRef,
}

impl<T: Rows> Listing<T> {
    pub(crate) fn new(rows: T) -> Self {
        Self { rows: Arc::new(rows), schema: columns::schema(T::COLUMNS) }
    }

    /// The columns that an expression names, where all of them are known without reading.
    fn known_columns(&self, expr: &Expr) -> Option<Vec<usize>> {
        let names: HashSet<_> = expr.column_refs();
        let place = |name: &str| T::COLUMNS.iter().position(|column| column.name == name && column.is_known);
        names.into_iter().map(|column| place(&column.name)).collect()
    }

    fn passes(&self, session: &dyn Session, filters: &[Expr]) -> DataFusionResult<Passes<T::Row>> {
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let mut known = Vec::new();
        for filter in filters {
            if let Some(columns) = self.known_columns(filter) {
                known.push(KnownFilter { expr: session.create_physical_expr(filter.clone(), &schema)?, columns });
            }
        }
        Ok(Passes { columns: T::COLUMNS, filters: Arc::new(known) })
    }
}

#[async_trait]
impl<T: Rows> TableProvider for Listing<T> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match self.known_columns(filter) {
                Some(_) => TableProviderFilterPushDown::Inexact,
                None => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let chosen = projection.cloned().unwrap_or_else(|| (0..T::COLUMNS.len()).collect());
        let schema = Arc::new(self.schema.project(&chosen)?);
        let part = Part {
            rows: Arc::clone(&self.rows),
            schema: Arc::clone(&schema),
            chosen,
            passes: self.passes(session, filters)?,
        };
        let limit = limit.filter(|_| filters.is_empty());
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![Arc::new(part)], None, None, false, limit)?))
    }
}

/// All rows.
struct Part<T: Rows> {
    rows: Arc<T>,
    schema: SchemaRef,
    chosen: Vec<usize>,
    passes: Passes<T::Row>,
}

impl<T: Rows> fmt::Debug for Part<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("rows", &self.rows).field("chosen", &self.chosen).finish_non_exhaustive()
    }
}

impl<T: Rows> PartitionStream for Part<T> {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let statement = context.session_config().get_extension::<StatementContext>();
        let (schema, chosen, passes) = (Arc::clone(&self.schema), self.chosen.clone(), self.passes.clone());
        let batches = self.rows.batches(passes.clone()).map(move |rows| {
            statement.as_ref().map_or(Ok(()), |statement| statement.cancel.check())?;
            let rows = passes.filtered(rows?, |_| true)?;
            columns::batch(T::COLUMNS, &schema, &chosen, &rows)
        });
        let batches = stream::iter(batches.map(|batch| batch.map_err(into_datafusion)));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}
