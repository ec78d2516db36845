//! What an aggregate is that is computed from all its rows at once: its types and its value.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};

/// An aggregate of rows.
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// Of how many arguments, the first ones, a NULL leaves a row out.
    pub needed: usize,
    /// The types that it takes in place of these.
    pub coerced: fn(&[DataType]) -> Result<Vec<DataType>>,
    /// The type of its value, by those of its arguments.
    pub result: fn(&[DataType]) -> Result<DataType>,
    /// Its value, of rows of which there is at least one.
    pub value: fn(&[ArrayRef], &DataType) -> Result<ScalarValue>,
    /// Its value where there are no rows, if it is not NULL.
    pub of_nothing: Option<f64>,
}

impl fmt::Debug for Definition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name)
    }
}

/// The type of lists of values of a type.
pub fn list_type(of: &DataType) -> DataType {
    DataType::List(item(of))
}

fn item(data_type: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(data_type.clone(), true))
}

/// A list of these values.
pub fn one_list(values: &ArrayRef) -> Result<ScalarValue> {
    let offsets = OffsetBuffer::from_lengths([values.len()]);
    let list = ListArray::try_new(item(values.data_type()), offsets, ArrayRef::clone(values), None)?;
    Ok(ScalarValue::List(Arc::new(list)))
}
