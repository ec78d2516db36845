//! Columns of lists, structs and maps. A table stores their values as texts, and an option of the column tells their type; queries
//! read a table with such columns as the query that casts the texts.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result as DataFusionResult};
use datafusion::datasource::{TableType, provider_as_source};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::Column as ColumnName;
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType as SqlType, ExprWithAlias};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{ColumnId, Error};
use forebay_context::error::into_datafusion;
use forebay_store::{Column, Table, TableOptions};
use forebay_syntax::dialect::ForebayDialect;
use forebay_syntax::types::{shown_column_type, shown_type};
use forebay_tables::table::ForebayTable;

/// The option that tells the type of a column whose values are stored as texts.
pub const TYPE_OPTION: &str = "type";

/// Whether this is a type of values that are stored as texts.
pub fn is_nested(data_type: &SqlType) -> bool {
    match data_type {
        SqlType::Array(ArrayElemTypeDef::SquareBracket(_, None) | ArrayElemTypeDef::AngleBracket(_)) => true,
        SqlType::Struct(..) => true,
        SqlType::Custom(name, parts) => parts.len() == 2 && name.to_string().eq_ignore_ascii_case("map"),
        _ => false,
    }
}

/// The type of a column of such values, as it is written.
pub fn type_text(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::List(element) | DataType::LargeList(element) => {
            Some(format!("{}[]", part_text(element.data_type())?))
        }
        DataType::Struct(fields) if !fields.is_empty() => {
            let field = |field: &Arc<datafusion::arrow::datatypes::Field>| {
                Some(format!("\"{}\" {}", field.name().replace('"', "\"\""), part_text(field.data_type())?))
            };
            Some(format!("STRUCT({})", fields.iter().map(field).collect::<Option<Vec<_>>>()?.join(", ")))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.iter().all(|field| !field.data_type().is_nested()) => {
                let parts = pair.iter().map(|field| part_text(field.data_type())).collect::<Option<Vec<_>>>()?;
                Some(format!("MAP({})", parts.join(", ")))
            }
            _ => None,
        },
        _ => None,
    }
}

fn part_text(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Null => Some("INTEGER".to_owned()),
        nested if nested.is_nested() => type_text(nested),
        plain => forebay_engine::types::logical_type(plain, "").ok().map(|_| shown_type(plain)),
    }
}

/// Adds the types of columns that hold the rows of a query.
pub(crate) fn add_types(options: &mut TableOptions, schema: &Schema) {
    for (index, field) in schema.fields().iter().enumerate() {
        if let Some(text) = type_text(field.data_type()) {
            options.set(Some(ColumnId(index as u32)), TYPE_OPTION, Some(&text));
        }
    }
}

/// The name of the type of a column.
pub fn shown(table: &Table, column: &Column) -> String {
    match table.options.get(Some(column.id), TYPE_OPTION) {
        Some(name) => name.to_owned(),
        None => shown_column_type(&column.logical),
    }
}

/// A table as queries read it: itself, or the query that casts its texts.
pub(crate) fn provider(base: Arc<ForebayTable>, state: &SessionState) -> DataFusionResult<Arc<dyn TableProvider>> {
    let table = Arc::clone(base.table());
    let type_of = |id: ColumnId| table.options.get(Some(id), TYPE_OPTION);
    if !table.columns.iter().any(|column| type_of(column.id).is_some()) {
        return Ok(base);
    }
    let schema = DFSchema::try_from(Schema::clone(table.schema()))?;
    let source = provider_as_source(Arc::clone(&base) as Arc<dyn TableProvider>);
    let values = table.columns.iter().map(|column| match type_of(column.id) {
        None => Ok(Expr::Column(ColumnName::from_name(&column.name))),
        Some(name) => {
            let text = format!("CAST(\"{}\" AS {name})", column.name.replace('"', "\"\""));
            let parsed = Parser::new(&ForebayDialect).try_with_sql(&text).and_then(|mut parser| parser.parse_expr());
            let wrong = |error| {
                let message = format!("the type {name} of column {} cannot be read: {error}", column.name);
                into_datafusion(Error::corrupt(message))
            };
            let expr = ExprWithAlias { expr: parsed.map_err(wrong)?, alias: None };
            Ok(state.create_logical_expr_from_sql_expr(expr, &schema)?.alias(&column.name))
        }
    });
    let values = values.collect::<DataFusionResult<Vec<_>>>()?;
    let plan = LogicalPlanBuilder::scan("stored", source, None)?.project(values)?.build()?;
    let fields = plan.schema().fields().iter().zip(&table.columns);
    let fields: Vec<_> = fields.map(|(field, column)| field.as_ref().clone().with_nullable(column.nullable)).collect();
    Ok(Arc::new(NestedTable { base, schema: Arc::new(Schema::new(fields)), plan }))
}

/// A table of which some columns are stored as texts.
#[derive(Debug)]
struct NestedTable {
    base: Arc<ForebayTable>,
    schema: SchemaRef,
    plan: LogicalPlan,
}

#[async_trait]
impl TableProvider for NestedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.base.get_column_default(column)
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Err(into_datafusion(Error::internal("a table with nested columns is read as a query")))
    }
}
