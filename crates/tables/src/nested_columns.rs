//! Columns of lists, structs and maps, and of types of texts. A table stores their values as texts, and an option of the column tells
//! their type; queries read a table with lists and the like as the query that casts the texts. Columns of types of texts are marked by
//! the table itself.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result as DataFusionResult};
use datafusion::datasource::{TableType, provider_as_source};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::Column as ColumnName;
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType as SqlType, ExprWithAlias};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{ColumnId, Error, Result, Value};
use forebay_context::error::into_datafusion;
use forebay_context::own_types;
use forebay_planning::trees;
use forebay_store::{Column, Table, TableOptions};
use forebay_syntax::dialect::ForebayDialect;
use forebay_syntax::types::{shown_column_type, shown_type, sql_type};
use forebay_types::functions::{as_written, to_own};
use forebay_types::own::Own;
use forebay_types::planned::own_type;

use crate::table::ForebayTable;
pub use crate::table::TYPE_OPTION;

/// The type of a column whose values are stored as texts, as the option tells it.
///
/// # Errors
/// What is no type.
pub fn told_type(data_type: &SqlType) -> Result<Option<String>> {
    match own_type(data_type)? {
        Some(own) => Ok(Some(own.text().to_owned())),
        None => is_nested(data_type).then(|| written_type(data_type)).transpose(),
    }
}

/// A type within a type of lists, structs or maps, or such a type, by the names that types are shown by.
fn written_type(data_type: &SqlType) -> Result<String> {
    if let Some(own) = own_type(data_type)? {
        return Ok(own.text().to_owned());
    }
    Ok(match data_type {
        SqlType::Array(ArrayElemTypeDef::SquareBracket(element, Some(length))) => {
            format!("{}[{length}]", written_type(element)?)
        }
        SqlType::Array(ArrayElemTypeDef::SquareBracket(element, None) | ArrayElemTypeDef::AngleBracket(element)) => {
            format!("{}[]", written_type(element)?)
        }
        SqlType::Struct(fields, _) => {
            let mut written = Vec::with_capacity(fields.len());
            for field in fields {
                let name = field.field_name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
                written.push(name + &written_type(&field.field_type)?);
            }
            format!("STRUCT({})", written.join(", "))
        }
        SqlType::Custom(_, parts) if is_nested(data_type) => {
            let part = |text: &String| {
                let parsed = Parser::new(&ForebayDialect).try_with_sql(text).and_then(|mut own| own.parse_data_type());
                parsed.map_or_else(|_| Ok(text.clone()), |own| written_type(&own))
            };
            format!("MAP({})", parts.iter().map(part).collect::<Result<Vec<_>>>()?.join(", "))
        }
        scalar => shown_column_type(&sql_type(scalar)?),
    })
}

/// Whether this is a type of lists, structs or maps.
pub fn is_nested(data_type: &SqlType) -> bool {
    match data_type {
        SqlType::Array(ArrayElemTypeDef::SquareBracket(..) | ArrayElemTypeDef::AngleBracket(_)) => true,
        SqlType::Struct(..) => true,
        SqlType::Custom(name, parts) => parts.len() == 2 && name.to_string().eq_ignore_ascii_case("map"),
        _ => false,
    }
}

/// The type of a column of such values, as it is written.
pub fn type_text(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::List(element) | DataType::LargeList(element) => Some(format!("{}[]", part_text(element)?)),
        DataType::FixedSizeList(element, length) => Some(format!("{}[{length}]", part_text(element)?)),
        DataType::Struct(fields) if !fields.is_empty() => {
            let is_plain = |name: &str| {
                let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
                name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
            };
            let name = |name: &str| match is_plain(name) {
                true => name.to_owned(),
                false => format!("\"{}\"", name.replace('"', "\"\"")),
            };
            let field = |field: &Arc<Field>| Some(format!("{} {}", name(field.name()), part_text(field)?));
            Some(format!("STRUCT({})", fields.iter().map(field).collect::<Option<Vec<_>>>()?.join(", ")))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.iter().all(|field| !field.data_type().is_nested()) => {
                let parts = pair.iter().map(|field| part_text(field)).collect::<Option<Vec<_>>>()?;
                Some(format!("MAP({})", parts.join(", ")))
            }
            _ => None,
        },
        _ => None,
    }
}

fn part_text(field: &Field) -> Option<String> {
    if let Some(own) = own_types::of(field) {
        return Some(own.to_owned());
    }
    match field.data_type() {
        DataType::Null => Some("INTEGER".to_owned()),
        nested if nested.is_nested() => type_text(nested),
        plain => forebay_engine::types::logical_type(plain, "").ok().map(|_| shown_type(plain)),
    }
}

/// Adds the types of columns that hold the rows of a query: those that its rows have, and those that its plan tells.
pub fn add_types(options: &mut TableOptions, schema: &Schema, told: &Schema) {
    for (index, (field, told)) in schema.fields().iter().zip(told.fields()).enumerate() {
        let own = own_types::of(told).map(str::to_owned);
        if let Some(text) = own.or_else(|| type_text(field.data_type())) {
            options.set(Some(ColumnId(index as u32)), TYPE_OPTION, Some(&text));
        }
    }
}

/// The rows of `plan`, which are to be those of `table`, with values that the types of its columns have.
pub fn checked(table: &Table, plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let told = |column: &Column| table.options.get(Some(column.id), TYPE_OPTION).and_then(Own::of_text);
    let owns: Vec<Option<Own>> = table.columns.iter().map(told).collect();
    if owns.iter().all(Option::is_none) || owns.len() != plan.schema().fields().len() {
        return Ok(plan);
    }
    let plan = uncast(plan, &owns)?;
    let values: Vec<Expr> = plan
        .schema()
        .iter()
        .zip(owns)
        .map(|((relation, field), own)| {
            let value = Expr::Column((relation, field).into());
            match own {
                None => value,
                Some(own) if Own::of_field(field).as_ref() == Some(&own) => value,
                Some(own) => to_own(value, own, false).alias_qualified(relation.cloned(), field.name()),
            }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(values)?.build()
}

/// The rows of `plan`, of which values are not cast to texts that columns take as they are: bits of a number are not its digits.
fn uncast(plan: LogicalPlan, owns: &[Option<Own>]) -> DataFusionResult<LogicalPlan> {
    let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else { return Ok(plan) };
    let source = |value: &Expr| match value {
        Expr::Alias(alias) => alias.expr.try_as_col().and_then(|column| input.schema().maybe_index_of_column(column)),
        value => value.try_as_col().and_then(|column| input.schema().maybe_index_of_column(column)),
    };
    let mut of_input = vec![None; input.schema().fields().len()];
    for (value, own) in expr.iter().zip(owns) {
        if let Some(index) = source(value) {
            of_input[index].clone_from(own);
        }
    }
    let input = match Arc::unwrap_or_clone(input) {
        LogicalPlan::Values(mut rows) => {
            let empty = DFSchema::empty();
            for row in &mut rows.values {
                row.iter_mut().zip(&of_input).for_each(|(value, own)| uncast_value(value, own.as_ref(), &empty));
            }
            LogicalPlan::Values(rows)
        }
        other => other,
    };
    let value = |(mut value, own): (Expr, &Option<Own>)| {
        let (relation, name) = value.qualified_name();
        uncast_value(&mut value, own.as_ref(), input.schema());
        if value.qualified_name() == (relation.clone(), name.clone()) {
            value
        } else {
            value.alias_qualified(relation, name)
        }
    };
    let values: Vec<Expr> = expr.into_iter().zip(owns).map(value).collect();
    LogicalPlanBuilder::from(input).project(values)?.build()
}

/// A cast to a text of what a type takes as it is, as a value of that type.
fn uncast_value(value: &mut Expr, own: Option<&Own>, schema: &DFSchema) {
    let Some(own) = own else { return };
    let place = match value {
        Expr::Alias(alias) => alias.expr.as_mut(),
        value => value,
    };
    if let Expr::Cast(cast) = place
        && cast.expr.get_type(schema).is_ok_and(|source| own.takes(&source))
    {
        *place = to_own(as_written(std::mem::take(cast.expr.as_mut())), own.clone(), false);
    }
}

/// The name of the type of a column.
pub fn shown(table: &Table, column: &Column) -> String {
    match table.options.get(Some(column.id), TYPE_OPTION) {
        Some(name) => name.to_owned(),
        None => shown_column_type(&column.logical),
    }
}

/// A value as one of the type that a column tells, as it is stored.
///
/// # Errors
/// A text that it does not have.
pub fn stored_value(told: Option<&str>, value: Option<Value>) -> Result<Option<Value>> {
    let (Some(own), Some(Value::Bytes(text))) = (told.and_then(Own::of_text), &value) else { return Ok(value) };
    let text = String::from_utf8_lossy(text);
    match own.value(&text) {
        Some(stored) => Ok(Some(Value::Bytes(stored.into_owned().into_bytes()))),
        None => Err(own.unknown(&text)),
    }
}

/// A table as queries read it: itself, or the query that casts its texts.
pub fn provider(
    base: Arc<ForebayTable>,
    table: &Table,
    state: &SessionState,
) -> DataFusionResult<Arc<dyn TableProvider>> {
    let type_of = |id: ColumnId| table.options.get(Some(id), TYPE_OPTION).filter(|name| !own_types::is_own(name));
    if !table.columns.iter().any(|column| type_of(column.id).is_some()) {
        return Ok(base);
    }
    let schema = DFSchema::try_from(Schema::clone(&base.schema()))?;
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
            Ok(trees::expression(state, expr, &schema)?.alias(&column.name))
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
