//! Values of these types inside of lists, structs and maps: what puts them there marks where they are, and what takes them out knows
//! what they are.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Column, DFSchema, Result, TableReference};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Unnest, Values};
use forebay_context::own_types;

use super::typing::{Kind, common};
use crate::marks::retyped;
use crate::own::{Own, is_inside};

/// A call that puts values of these kinds together, with the marks of their types inside of its own.
pub(super) fn put_together(call: Expr, name: &str, kinds: &[Kind], schema: &DFSchema) -> Expr {
    let marked = match (name, call.get_type(schema)) {
        ("make_array", Ok(DataType::List(element))) => common(kinds).map(|own| DataType::List(part(&element, &own))),
        ("named_struct", Ok(DataType::Struct(fields))) => {
            let mut is_one = false;
            let one = |(index, field): (usize, &FieldRef)| match kinds.get(2 * index + 1) {
                Some(Kind::Own(own)) => {
                    is_one = true;
                    part(field, own)
                }
                _ => Arc::clone(field),
            };
            let fields: Fields = fields.iter().enumerate().map(one).collect();
            is_one.then_some(DataType::Struct(fields))
        }
        _ => None,
    };
    match marked {
        Some(data_type) => retyped(call, data_type),
        None => call,
    }
}

fn part(field: &Field, own: &Own) -> FieldRef {
    Arc::new(own_types::marked(field.clone(), own.text()))
}

/// What a call takes out of its first argument.
pub(super) fn taken_out(name: &str, args: &[Expr], schema: &DFSchema) -> Option<Own> {
    let whole = args.first()?.get_type(schema).ok()?;
    match (name, whole) {
        (
            "list_extract" | "array_element" | "list_min" | "list_max" | "list_first" | "list_last" | "list_any_value"
            | "list_mode",
            DataType::List(element),
        ) => Own::of_field(&element),
        ("map_extract_value", DataType::Map(entries, _)) => match entries.data_type() {
            DataType::Struct(pair) => Own::of_field(pair.get(1)?),
            _ => None,
        },
        _ => None,
    }
}

/// A list of values, as an output of a node, and their type.
pub(super) type Listed = (Option<TableReference>, String, Own);

/// The outputs of `plan`, of which lists of values are marked as such.
pub(super) fn lists(plan: LogicalPlan, listed: &[Listed]) -> Result<LogicalPlan> {
    if listed.is_empty() {
        return Ok(plan);
    }
    let outputs = plan.schema().iter().map(|(relation, field)| {
        let value = Expr::Column(Column::from((relation, field)));
        let is_this = |(of, name, _): &&Listed| of.as_ref() == relation && name == field.name();
        match (listed.iter().find(is_this), field.data_type()) {
            (Some((.., own)), DataType::List(element)) => {
                let marked = retyped(value, DataType::List(part(element, own)));
                marked.alias_qualified(relation.cloned(), field.name())
            }
            _ => value,
        }
    });
    let outputs: Vec<Expr> = outputs.collect();
    LogicalPlanBuilder::from(plan).project(outputs)?.build()
}

/// Rows of VALUES, which keep no marks inside of values, with the marks put in above them.
pub(super) fn plain_rows(rows: Values) -> Result<LogicalPlan> {
    let Values { schema, values } = rows;
    if !schema.fields().iter().any(|field| is_inside(field.data_type())) {
        return Ok(LogicalPlan::Values(Values { schema, values }));
    }
    let plain = |field: &Field| field.clone().with_data_type(unmarked(field.data_type()));
    let row = |row: Vec<Expr>| {
        let one = |(value, field): (Expr, &FieldRef)| match is_inside(field.data_type()) {
            true => retyped(value, unmarked(field.data_type())),
            false => value,
        };
        row.into_iter().zip(schema.fields()).map(one).collect()
    };
    let values = values.into_iter().map(row).collect();
    let fields = schema.iter().map(|(relation, field)| (relation.cloned(), Arc::new(plain(field)))).collect();
    let plain_schema = DFSchema::new_with_metadata(fields, schema.metadata().clone())?;
    let outputs = schema.iter().map(|(relation, field)| {
        let value = Expr::Column(Column::from((relation, field)));
        match is_inside(field.data_type()) {
            true => retyped(value, field.data_type().clone()).alias_qualified(relation.cloned(), field.name()),
            false => value,
        }
    });
    let outputs: Vec<Expr> = outputs.collect();
    let plan = LogicalPlan::Values(Values { schema: Arc::new(plain_schema), values });
    LogicalPlanBuilder::from(plan).project(outputs)?.build()
}

/// A type without the marks inside of it.
fn unmarked(data_type: &DataType) -> DataType {
    let plain = |field: &FieldRef| {
        let data_type = unmarked(field.data_type());
        Arc::new(own_types::plain(field.as_ref().clone()).with_data_type(data_type))
    };
    match data_type {
        DataType::List(element) => DataType::List(plain(element)),
        DataType::Map(entries, is_sorted) => DataType::Map(plain(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        other => other.clone(),
    }
}

/// Elements of lists, each as a row, with the marks of their types.
pub(super) fn unnested(mut unnest: Unnest) -> Result<Unnest> {
    let mut found = Vec::new();
    for (index, list) in &unnest.list_type_columns {
        let mut field = Arc::clone(&unnest.input.schema().fields()[*index]);
        for _ in 0..list.depth {
            let DataType::List(element) = field.data_type() else { break };
            field = Arc::clone(element);
        }
        if let Some(own) = Own::of_field(&field) {
            found.push((&list.output_column, own));
        }
    }
    if found.is_empty() {
        return Ok(unnest);
    }
    let schema = &unnest.schema;
    let fields = schema.iter().map(|(relation, field)| {
        let is_this =
            |(column, _): &&(&Column, Own)| column.relation.as_ref() == relation && column.name == *field.name();
        let field = found.iter().find(is_this).map_or_else(|| Arc::clone(field), |(_, own)| part(field, own));
        (relation.cloned(), field)
    });
    let fields = fields.collect();
    unnest.schema = Arc::new(DFSchema::new_with_metadata(fields, schema.metadata().clone())?);
    Ok(unnest)
}
