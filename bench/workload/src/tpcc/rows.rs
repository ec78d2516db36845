//! Rows of a result, value by value.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Decimal128Type, Int32Type, Int64Type};
use arrow::util::display::array_value_to_string;
use forebay::{Error, Params, Prepared, Result, Session};

/// All rows of one statement.
pub(super) struct Rows(RecordBatch);

/// Runs a prepared statement with these values, and gives its rows.
pub(super) fn execute(session: &Session, prepared: &Prepared, params: &Params) -> Result<Rows> {
    let mut result = session.execute_prepared(prepared, params)?;
    let mut batches = Vec::new();
    while let Some(batch) = result.next_batch()? {
        batches.push(batch);
    }
    if let [_] = batches.as_slice() {
        return Ok(Rows(batches.remove(0)));
    }
    // Batches know their columns better than a result that has not run.
    let schema = batches.first().map_or_else(|| result.schema(), RecordBatch::schema);
    Ok(Rows(concat_batches(&schema, &batches).map_err(|error| Error::internal(error.to_string()))?))
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.0.num_rows()
    }

    /// An integer; an error where it is NULL.
    pub(super) fn integer(&self, row: usize, column: usize) -> Result<i64> {
        self.integer_or_null(row, column)?.ok_or_else(|| Error::internal("a NULL where TPC-C has none"))
    }

    pub(super) fn integer_or_null(&self, row: usize, column: usize) -> Result<Option<i64>> {
        let column = self.0.column(column);
        if row >= column.len() {
            return Err(Error::internal("TPC-C misses a row"));
        }
        if let Some(integers) = column.as_primitive_opt::<Int32Type>() {
            return Ok((!integers.is_null(row)).then(|| integers.value(row).into()));
        }
        let integers = cast(&column.slice(row, 1), &DataType::Int64).map_err(|e| Error::internal(e.to_string()))?;
        let integers = integers.as_primitive::<Int64Type>();
        Ok((!integers.is_null(0)).then(|| integers.value(0)))
    }

    /// A decimal, as a number of its last digit.
    pub(super) fn unscaled(&self, row: usize, column: usize) -> Result<i128> {
        let decimals = self.0.column(column).as_primitive_opt::<Decimal128Type>();
        let decimals = decimals.filter(|decimals| row < decimals.len());
        decimals.map(|decimals| decimals.value(row)).ok_or_else(|| Error::internal("TPC-C misses a decimal"))
    }

    pub(super) fn text(&self, row: usize, column: usize) -> Result<String> {
        if row >= self.len() {
            return Err(Error::internal("TPC-C misses a row"));
        }
        let column = self.0.column(column);
        if let Some(texts) = column.as_string_view_opt() {
            return Ok(texts.value(row).to_owned());
        }
        array_value_to_string(column, row).map_err(|error| Error::internal(error.to_string()))
    }
}
