//! A Forebay table as DataFusion sees it.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint as PlanConstraint, Constraints, DFSchema, Result as DataFusionResult};
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use forebay_base::{ColumnId, Error};
use forebay_context::error::into_datafusion;
use forebay_context::statement::StatementContext;
use forebay_engine::Engine;
use forebay_store::{Constraint, Table};

use crate::known::KnownTable;
use crate::scan::ScanExec;

/// One table in one snapshot.
#[derive(Debug)]
pub struct ForebayTable {
    engine: Arc<Engine>,
    table: Arc<KnownTable>,
    constraints: Constraints,
    defaults: HashMap<String, Expr>,
}

impl ForebayTable {
    /// `table`. `defaults` are the planned DEFAULT expressions by column name.
    pub fn new(engine: Arc<Engine>, table: Arc<KnownTable>, defaults: HashMap<String, Expr>) -> Self {
        let constraints = plan_constraints(&table);
        Self { engine, table, constraints, defaults }
    }

    /// The engine that holds the table.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The table itself, with what is known of it.
    pub fn table(&self) -> &Arc<KnownTable> {
        &self.table
    }
}

/// Declared keys are not enforced yet, so the optimizer must not rely on them: it would drop duplicates from groups.
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
        Arc::clone(self.table.schema())
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
        let schema = DFSchema::try_from(Schema::clone(self.table.schema()))?;
        let predicates = filters
            .iter()
            .map(|filter| state.create_physical_expr(filter.clone(), &schema))
            .collect::<DataFusionResult<Vec<_>>>()?;
        let projection = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.table.columns.len()).collect(),
        };
        Ok(Arc::new(ScanExec::new(
            Arc::clone(&self.engine),
            Arc::clone(&self.table),
            statement,
            projection,
            predicates,
            limit,
            state.config().target_partitions(),
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
