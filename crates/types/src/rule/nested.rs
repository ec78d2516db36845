//! Values of these types inside of lists, structs and maps: what puts them there marks where they are, and what takes them out knows
//! what they are.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Column, DFSchema, Result, TableReference};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Unnest, Values};

use super::elements::{has_enum, part, restored};
use super::typing::{Kind, common};
use crate::marks::{has_same_marks, retyped, unmarked};
use crate::own::{Own, is_inside};

/// A call that puts values of these kinds together, with the marks of their types inside of its own.
pub(super) fn put_together(call: Expr, name: &str, kinds: &[Kind], schema: &DFSchema) -> Expr {
    let marked = match (name, call.get_type(schema)) {
        ("make_array", Ok(DataType::List(element))) => common(kinds).map(|own| DataType::List(part(&element, &own))),
        ("named_struct" | "struct", Ok(DataType::Struct(fields))) => {
            let mut is_one = false;
            // Rows have values alone, structs the names of their fields in front of these.
            let place = |index: usize| if name == "struct" { index } else { 2 * index + 1 };
            let one = |(index, field): (usize, &FieldRef)| match kinds.get(place(index)) {
                Some(Kind::Own(own)) => {
                    is_one = true;
                    part(field, own)
                }
                _ => Arc::clone(field),
            };
            let fields: Fields = fields.iter().enumerate().map(one).collect();
            is_one.then_some(DataType::Struct(fields))
        }
        ("map", Ok(DataType::Map(entries, is_sorted))) => {
            map_of(&call, &entries, schema).map(|entries| DataType::Map(entries, is_sorted))
        }
        _ => None,
    };
    match marked {
        Some(data_type) => retyped(call, data_type),
        None => call,
    }
}

/// The entries of a map that is made of a list of keys and one of values, if these have such types.
fn map_of(call: &Expr, entries: &FieldRef, schema: &DFSchema) -> Option<FieldRef> {
    let (Expr::ScalarFunction(call), DataType::Struct(pair)) = (call, entries.data_type()) else { return None };
    let own = |list: &Expr| match list.get_type(schema) {
        Ok(DataType::List(element)) => Own::of_field(&element),
        _ => None,
    };
    let owns: Vec<Option<Own>> = call.args.iter().map(own).collect();
    if owns.len() != pair.len() || owns.iter().all(Option::is_none) {
        return None;
    }
    let one = |(field, own): (&FieldRef, Option<Own>)| own.map_or_else(|| Arc::clone(field), |own| part(field, &own));
    let pair = DataType::Struct(pair.iter().zip(owns).map(one).collect());
    let marked = entries.as_ref().clone().with_data_type(pair);
    // No column of a table can have the type of a map of ENUMs.
    (!has_enum(&marked)).then(|| Arc::new(marked))
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

/// An output of a node that is not marked as what it is yet, and what that is.
pub(super) type Unmarked = (Option<TableReference>, String, Kind);

/// The outputs of `plan`, of which these are marked as what they are.
pub(super) fn outputs(plan: LogicalPlan, listed: &[Unmarked]) -> Result<LogicalPlan> {
    if listed.is_empty() {
        return Ok(plan);
    }
    let outputs = plan.schema().iter().map(|(relation, field)| {
        let value = Expr::Column(Column::from((relation, field)));
        let is_this = |(of, name, _): &&Unmarked| of.as_ref() == relation && name == field.name();
        match (listed.iter().find(is_this), field.data_type()) {
            (Some((.., Kind::Keyed(data_type))), _) => {
                restored(value, data_type.clone()).alias_qualified(relation.cloned(), field.name())
            }
            (Some((.., Kind::Listed(own))), DataType::List(element)) => {
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
    let types: Vec<DataType> = schema.fields().iter().enumerate().map(|(at, f)| column_type(&values, at, f)).collect();
    if !types.iter().any(is_inside) && !values.iter().flatten().any(has_marks) {
        return Ok(LogicalPlan::Values(Values { schema, values }));
    }
    let plain = |field: &Field| field.clone().with_data_type(unmarked(field.data_type()));
    let row = |row: Vec<Expr>| {
        let one = |(value, field): (Expr, &FieldRef)| match has_marks(&value) {
            true => retyped(value, unmarked(field.data_type())),
            false => value,
        };
        row.into_iter().zip(schema.fields()).map(one).collect()
    };
    let values = values.into_iter().map(row).collect();
    let fields = schema.iter().map(|(relation, field)| (relation.cloned(), Arc::new(plain(field)))).collect();
    let plain_schema = DFSchema::new_with_metadata(fields, schema.metadata().clone())?;
    let outputs = schema.iter().zip(types).map(|((relation, field), data_type)| {
        let value = Expr::Column(Column::from((relation, field)));
        match is_inside(&data_type) {
            true => retyped(value, data_type).alias_qualified(relation.cloned(), field.name()),
            false => value,
        }
    });
    let outputs: Vec<Expr> = outputs.collect();
    let plan = LogicalPlan::Values(Values { schema: Arc::new(plain_schema), values });
    LogicalPlanBuilder::from(plan).project(outputs)?.build()
}

/// Whether a value of VALUES has marks inside.
fn has_marks(value: &Expr) -> bool {
    value.get_type(&DFSchema::empty()).is_ok_and(|data_type| is_inside(&data_type))
}

/// The type of a column of VALUES, with the marks that all of its values have: the planner sees none in structs.
fn column_type(rows: &[Vec<Expr>], column: usize, field: &Field) -> DataType {
    let planned = field.data_type().clone();
    let none = DFSchema::empty();
    let types = rows.iter().filter_map(|row| row.get(column)?.get_type(&none).ok()).filter(|own| !own.is_null());
    let types: Vec<DataType> = types.collect();
    match types.first() {
        Some(first) if is_inside(first) && unmarked(first) == unmarked(&planned) => {
            let is_one = types.iter().all(|other| has_same_marks(first, other));
            if is_one { first.clone() } else { unmarked(&planned) }
        }
        _ => planned,
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
