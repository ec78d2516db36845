//! What programs made for PostgreSQL ask of a catalog: whether the user may do something, and whether something is found by its name.
//! There is one user, who may do everything, and one database; and `error`, which fails with a message.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use forebay_functions::function::{Call, Definition, Shape, TEXT, is_text, refused};

/// A function that is true of everything.
macro_rules! granted {
    ($name:literal) => {
        Definition { names: &[$name], shape: any_shape, compute: |call| call.flags_of(|_| Ok(Some(true))) }
    };
}

pub(crate) const DEFINITIONS: &[Definition] = &[
    granted!("has_any_column_privilege"),
    granted!("has_column_privilege"),
    granted!("has_database_privilege"),
    granted!("has_foreign_data_wrapper_privilege"),
    granted!("has_function_privilege"),
    granted!("has_language_privilege"),
    granted!("has_schema_privilege"),
    granted!("has_sequence_privilege"),
    granted!("has_server_privilege"),
    granted!("has_table_privilege"),
    granted!("has_tablespace_privilege"),
    granted!("pg_has_role"),
    granted!("pg_collation_is_visible"),
    granted!("pg_conversion_is_visible"),
    granted!("pg_function_is_visible"),
    granted!("pg_opclass_is_visible"),
    granted!("pg_operator_is_visible"),
    granted!("pg_opfamily_is_visible"),
    granted!("pg_table_is_visible"),
    granted!("pg_type_is_visible"),
    Definition { names: &["error"], shape: message_shape, compute: fail },
];

fn any_shape(types: &[DataType]) -> Option<Shape> {
    (1..=4).contains(&types.len()).then(|| Shape { arguments: types.to_vec(), result: DataType::Boolean })
}

fn message_shape(types: &[DataType]) -> Option<Shape> {
    let [only] = types else { return None };
    is_text(only).then(|| Shape { arguments: vec![TEXT], result: DataType::Null })
}

fn fail(call: &Call<'_>) -> Result<ArrayRef> {
    let messages = call.texts(0);
    match (0..call.rows).find(|row| messages.is_valid(*row)) {
        Some(row) => Err(refused(messages.value(row), "The statement calls error()")),
        None => Ok(datafusion::arrow::array::new_null_array(&DataType::Null, call.rows)),
    }
}
