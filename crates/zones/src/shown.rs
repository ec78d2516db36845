//! Instants as a session is shown them: columns say its zone, and whoever writes them does so in it.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::Result;

/// The schema with instants in this zone; `None` where it has none.
pub fn schema(schema: &Schema, zone: &str) -> Option<SchemaRef> {
    let fields = in_zone(schema.fields(), zone)?;
    Some(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// Rows with the types of such a schema.
pub fn batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |(column, field): (&ArrayRef, &FieldRef)| match column.data_type() == field.data_type() {
        true => Ok(Arc::clone(column)),
        false => cast(column, field.data_type()),
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(column).collect::<Result<_, _>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

fn in_zone(fields: &Fields, zone: &str) -> Option<Fields> {
    let types: Vec<Option<DataType>> = fields.iter().map(|field| of_type(field.data_type(), zone)).collect();
    let changed = |(field, data_type): (&FieldRef, Option<DataType>)| match data_type {
        Some(data_type) => Arc::new(Field::clone(field).with_data_type(data_type)),
        None => Arc::clone(field),
    };
    types.iter().any(Option::is_some).then(|| fields.iter().zip(types).map(changed).collect())
}

/// A type with instants in this zone; `None` of one that has none.
pub(crate) fn of_type(data_type: &DataType, zone: &str) -> Option<DataType> {
    let element =
        |field: &FieldRef| Some(Arc::new(Field::clone(field).with_data_type(of_type(field.data_type(), zone)?)));
    Some(match data_type {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some(zone.into())),
        DataType::List(field) => DataType::List(element(field)?),
        DataType::FixedSizeList(field, length) => DataType::FixedSizeList(element(field)?, *length),
        DataType::Struct(fields) => DataType::Struct(in_zone(fields, zone)?),
        DataType::Map(field, is_sorted) => DataType::Map(element(field)?, *is_sorted),
        _ => return None,
    })
}
