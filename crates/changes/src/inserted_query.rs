//! INSERT of the rows of a query. The planner takes all VALUES in such a statement for rows of the table, also those in subqueries
//! and WITH; so the query is planned by itself.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{Column, DFSchema, Result as DataFusionResult, ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{DmlStatement, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, WriteOp};
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{
    Insert, ObjectName, ObjectNamePart, Query, SetExpr, Statement as Ast, TableObject, With,
};
use forebay_base::{Error, Result};
use forebay_context::error::from_datafusion;
use forebay_store::Table;

use crate::columns::unknown_column;

/// The table that a statement inserts into.
pub fn inserted_table(statement: &PlanStatement) -> Option<ObjectName> {
    let PlanStatement::Statement(ast) = statement else { return None };
    match ast.as_ref() {
        Ast::Insert(Insert { table: TableObject::TableName(name), .. }) => Some(name.clone()),
        _ => None,
    }
}

/// An INSERT of the rows of a query.
pub struct Inserted {
    /// Its columns that get values; all of them where none are named.
    columns: Vec<ObjectName>,
    /// The query.
    pub query: Box<Query>,
}

impl Inserted {
    /// Takes a statement apart that inserts the rows of a query; other statements stay as they are.
    pub fn taken_from(statement: &mut PlanStatement) -> Option<Self> {
        let PlanStatement::Statement(ast) = statement else { return None };
        let Ast::Insert(insert) = ast.as_mut() else { return None };
        let is_query = |query: &Query| query.with.is_some() || !matches!(query.body.as_ref(), SetExpr::Values(_));
        let is_plain = insert.returning.is_none() && insert.on.is_none() && !insert.overwrite && !insert.replace_into;
        if !is_plain || !insert.source.as_deref().is_some_and(is_query) {
            return None;
        }
        let query = insert.source.take()?;
        Some(Self { columns: std::mem::take(&mut insert.columns), query })
    }

    /// The plan that puts the rows of `source`, the query's plan, into `table`, which queries read as `provider`.
    ///
    /// # Errors
    /// Columns that are not there, named twice, or not as many as the query has, and values of other types.
    pub fn plan(&self, table: &Table, provider: Arc<dyn TableProvider>, source: LogicalPlan) -> Result<LogicalPlan> {
        let target = provider.schema();
        let mut places = vec![None; target.fields().len()];
        match self.columns.is_empty() {
            true => places.iter_mut().enumerate().for_each(|(index, place)| *place = Some(index)),
            false => {
                for (place, name) in self.columns.iter().enumerate() {
                    let name = name
                        .0
                        .last()
                        .and_then(ObjectNamePart::as_ident)
                        .map(|name| name.value.clone())
                        .unwrap_or_default();
                    let known = table.columns.iter().map(|column| column.name.as_str());
                    let (index, _) = table.column(&name).ok_or_else(|| unknown_column(&name, known))?;
                    if places[index].replace(place).is_some() {
                        return Err(Error::input(format!("column {name} is named twice")));
                    }
                }
            }
        }
        let wanted = places.iter().flatten().count();
        let found = source.schema().fields().len();
        if wanted != found {
            return Err(Error::input("the query has another number of columns than are inserted")
                .hint(format!("It has {found}, and {wanted} are inserted")));
        }
        let value = |(index, place): (usize, &Option<usize>)| -> DataFusionResult<Expr> {
            let field = target.field(index);
            let expr = match place {
                Some(place) => Expr::Column(Column::from(source.schema().qualified_field(*place)))
                    .cast_to(field.data_type(), source.schema())?,
                None => provider
                    .get_column_default(field.name())
                    .cloned()
                    .unwrap_or(Expr::Literal(ScalarValue::Null, None))
                    .cast_to(field.data_type(), &DFSchema::empty())?,
            };
            Ok(expr.alias(field.name()))
        };
        let values = places.iter().enumerate().map(value).collect::<DataFusionResult<Vec<_>>>();
        let values = values.map_err(from_datafusion)?;
        let input = LogicalPlanBuilder::from(source).project(values).and_then(LogicalPlanBuilder::build);
        let input = Arc::new(input.map_err(from_datafusion)?);
        let (name, operation) = (TableReference::bare(table.name.as_str()), WriteOp::Insert(InsertOp::Append));
        Ok(LogicalPlan::Dml(DmlStatement::new(name, provider_as_source(provider), operation, input)))
    }
}

/// An INSERT with the tables that a WITH in front of it names.
pub fn with_tables(insert: &Insert, with: Option<&With>) -> Insert {
    let mut insert = insert.clone();
    if let (Some(with), Some(source)) = (with, &mut insert.source) {
        let mut all = with.clone();
        if let Some(own) = source.with.take() {
            all.recursive |= own.recursive;
            all.cte_tables.extend(own.cte_tables);
        }
        source.with = Some(all);
    }
    insert
}
