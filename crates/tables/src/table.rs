//! A Forebay table as DataFusion sees it.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint as PlanConstraint, Constraints, DFSchema, Result as DataFusionResult};
use datafusion::datasource::TableType;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_plan::ExecutionPlan;
use forebay_base::{ColumnId, Error};
use forebay_context::error::into_datafusion;
use forebay_context::own_types;
use forebay_context::statement::StatementContext;
use forebay_engine::Engine;
use forebay_engine::types::arrow_type;
use forebay_store::{Constraint, PLACES_NAME, Table, TableSnapshot};

use crate::read_copy::Reading;
use crate::rows::TableRows;
use crate::scan::ScanExec;

/// The option that tells the type of a column whose values are stored as texts.
pub const TYPE_OPTION: &str = "type";

/// One table, or some rows of one.
#[derive(Debug)]
pub struct ForebayTable {
    engine: Arc<Engine>,
    rows: TableRows,
    schema: SchemaRef,
    constraints: Constraints,
    defaults: HashMap<String, Expr>,
    /// Columns that are fetched by the places of rows, where it gives those.
    fetched: Option<Vec<usize>>,
}

impl ForebayTable {
    /// `table`, with the rows that it has when a statement scans it. `defaults` are the planned DEFAULT expressions by column
    /// name.
    pub fn new(engine: Arc<Engine>, table: &Table, defaults: HashMap<String, Expr>) -> Self {
        Self::with_rows(engine, table, TableRows::OfStatement(table.id), defaults)
    }

    /// `part`, which has some rows of a table of the database.
    pub fn of_part(engine: Arc<Engine>, part: Arc<TableSnapshot>) -> Self {
        let table = Arc::clone(&part);
        Self::with_rows(engine, &table, TableRows::Only(part), HashMap::new())
    }

    fn with_rows(engine: Arc<Engine>, table: &Table, rows: TableRows, defaults: HashMap<String, Expr>) -> Self {
        let field = |column: &forebay_store::Column| {
            let field = Field::new(&column.name, arrow_type(&column.logical), column.nullable);
            match table.options.get(Some(column.id), TYPE_OPTION).filter(|told| own_types::is_own(told)) {
                Some(told) => own_types::marked(field, told),
                None => field,
            }
        };
        let schema = Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>()));
        Self { engine, rows, schema, constraints: plan_constraints(table), defaults, fetched: None }
    }

    /// The same table with the column of the places of its rows behind all others, by which whoever reads it fetches these columns.
    pub(crate) fn with_places(&self, fetched: Vec<usize>) -> Self {
        let place = Arc::new(Field::new(PLACES_NAME, DataType::Int64, false));
        let fields: Vec<_> = self.schema.fields().iter().cloned().chain([place]).collect();
        Self {
            engine: Arc::clone(&self.engine),
            rows: TableRows::Placed(Box::new(self.rows.clone())),
            schema: Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone())),
            constraints: self.constraints.clone(),
            defaults: HashMap::new(),
            fetched: Some(fetched),
        }
    }

    /// Whether it has the column of places.
    pub(crate) fn gives_places(&self) -> bool {
        self.fetched.is_some()
    }

    /// The columns that whoever reads it fetches by the places of its rows.
    pub fn fetched(&self) -> &[usize] {
        self.fetched.as_deref().unwrap_or_default()
    }

    /// The engine that holds the table.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Its rows.
    pub fn rows(&self) -> &TableRows {
        &self.rows
    }
}

/// Earlier programs loaded files without looking at declared keys, so the optimizer must not rely on them: it would drop duplicates
/// from groups.
fn plan_constraints(_table: &Table) -> Constraints {
    Constraints::new_unverified(Vec::<PlanConstraint>::new())
}

/// The names of these columns, for messages and DESCRIBE.
pub fn column_names(table: &Table, ids: &[ColumnId]) -> Vec<String> {
    ids.iter().filter_map(|id| table.column_by_id(*id)).map(|(_, column)| column.name.clone()).collect()
}

/// The columns of the primary key.
pub fn primary_key(table: &Table) -> Vec<String> {
    let key = table.constraints.iter().find_map(|constraint| match constraint {
        Constraint::PrimaryKey(ids) => Some(column_names(table, ids)),
        _ => None,
    });
    key.unwrap_or_default()
}

#[async_trait]
impl TableProvider for ForebayTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        // Of the session and not of the table: a kept plan is run by later statements.
        let Some(statement) = state.config().get_extension::<StatementContext>() else {
            return Err(into_datafusion(Error::internal("a table is scanned outside of a statement")));
        };
        let table = self.rows.bind(state).map_err(into_datafusion)?;
        let schema = DFSchema::try_from(Schema::clone(&self.schema))?;
        let predicates =
            filters.iter().map(|filter| physical(filter, &schema, state)).collect::<DataFusionResult<Vec<_>>>()?;
        let projection = match projection {
            Some(columns) => columns.clone(),
            None => (0..table.columns.len()).collect(),
        };
        Ok(Arc::new(ScanExec::new(
            Arc::clone(&self.engine),
            table,
            statement,
            projection,
            predicates,
            limit,
            Reading::of(state.config()).fetching(self.fetched()),
        )))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        // Volatile filters must be evaluated once per row, in the order of the query.
        let answer = |filter: &&Expr| match filter.is_volatile() {
            true => TableProviderFilterPushDown::Unsupported,
            false => TableProviderFilterPushDown::Exact,
        };
        Ok(filters.iter().map(answer).collect())
    }
}

/// An expression of a plan that has its types, over columns of this schema.
pub fn physical(expr: &Expr, schema: &DFSchema, session: &dyn Session) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
    create_physical_expr(expr, schema, session.execution_props(), &PhysicalPlanningContext::default())
}
