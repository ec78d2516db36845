//! Answers of statements as integers, for tests of several sessions.

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int64Type};
use forebay::{QueryResult, Result, Session, Statement, arrow};

/// The integers of the first column of what a statement gives; -1 for NULL.
pub(crate) fn run(session: &Session, text: &str) -> Result<Vec<i64>> {
    integers(session.execute(&Statement { text: text.to_owned() })?)
}

/// Those of an answer.
pub(crate) fn integers(mut result: QueryResult) -> Result<Vec<i64>> {
    let mut values = Vec::new();
    while let Some(batch) = result.next_batch()? {
        let Some(column) = batch.columns().first() else { continue };
        let column = arrow::compute::cast(column, &DataType::Int64).expect("integers");
        values.extend(column.as_primitive::<Int64Type>().iter().map(|value| value.unwrap_or(-1)));
    }
    Ok(values)
}
