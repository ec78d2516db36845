//! SUMMARIZE: figures about every column of a table or query, from one query that has a single row.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use forebay_base::{Error, Result};
use forebay_syntax::types::shown_field;

/// The shares of a column's values that lie below its quartiles.
const QUARTILES: [f64; 3] = [0.25, 0.5, 0.75];

/// The figures that [`query`] computes for every column: texts, but for the numbers of different and of given values.
const FIGURES: usize = 9;

/// The query whose one row answers SUMMARIZE of `source`, for columns of these names and types.
pub fn query(source: &str, schema: &Schema) -> String {
    let mut parts = vec!["count(*)".to_owned()];
    for field in schema.fields() {
        let name = format!("\"{}\"", field.name().replace('"', "\"\""));
        let ordered = !matches!(field.data_type(), DataType::Null);
        for bound in ["min", "max"] {
            parts.push(text(ordered.then(|| format!("{bound}({name})"))));
        }
        parts.push(format!("count(DISTINCT {name})"));
        parts.extend(middles(&name, field.data_type()));
        parts.push(format!("count({name})"));
    }
    let columns: Vec<String> =
        parts.into_iter().enumerate().map(|(index, part)| format!("{part} AS c{index}")).collect();
    format!("SELECT {} FROM {source}", columns.join(", "))
}

fn text(value: Option<String>) -> String {
    format!("CAST({} AS VARCHAR)", value.unwrap_or_else(|| "NULL".to_owned()))
}

/// The average, the standard deviation and the quartiles of a column, as far as its type has them.
fn middles(name: &str, data_type: &DataType) -> Vec<String> {
    let quartiles = |of: &dyn Fn(String) -> String, values: &str| -> Vec<String> {
        QUARTILES.iter().map(|share| text(Some(of(format!("approx_quantile({values}, {share})"))))).collect()
    };
    let instants = |made: &str, zone: &str| {
        let values = format!("epoch_us(CAST({name} AS {made}))");
        let of = move |number: String| format!("CAST(make_timestamp(CAST({number} AS BIGINT)) AS {zone})");
        let mut figures = vec![text(Some(of(format!("avg({values})")))), text(None)];
        figures.extend(quartiles(&of, &values));
        figures
    };
    match data_type {
        DataType::Timestamp(_, Some(_)) => instants("TIMESTAMPTZ", "TIMESTAMPTZ"),
        DataType::Timestamp(_, None) => instants("TIMESTAMP", "TIMESTAMP"),
        DataType::Date32 => {
            let mut figures = instants("TIMESTAMP", "TIMESTAMP");
            figures.truncate(2);
            figures.extend(quartiles(&|value| value, name));
            figures
        }
        numeric if numeric.is_numeric() => {
            let mut figures: Vec<String> = ["avg", "stddev"]
                .iter()
                .map(|function| text(Some(format!("{function}(CAST({name} AS DOUBLE))"))))
                .collect();
            figures.extend(quartiles(&|value| value, name));
            figures
        }
        _ => vec![text(None); 2 + QUARTILES.len()],
    }
}

/// The answer to SUMMARIZE: a row for every column, from the one row of [`query`] as texts.
///
/// # Errors
/// Columns that Arrow refuses, which would be a bug.
pub fn answer(schema: &Schema, row: &[Option<String>]) -> Result<RecordBatch> {
    let rows: i64 = row.first().and_then(|value| value.as_deref()).and_then(|value| value.parse().ok()).unwrap_or(0);
    let figure = |column: usize, index: usize| row.get(1 + column * FIGURES + index).cloned().flatten();
    let number =
        |column: usize, index: usize| figure(column, index).and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    let columns = || 0..schema.fields().len();
    let texts =
        |index: usize| -> ArrayRef { Arc::new(columns().map(|column| figure(column, index)).collect::<StringArray>()) };
    let of_fields = |shown: &dyn Fn(&Field) -> String| -> ArrayRef {
        Arc::new(schema.fields().iter().map(|field| Some(shown(field))).collect::<StringArray>())
    };
    let hundredths = |column: usize| {
        (rows > 0).then(|| (10_000.0 * (rows - number(column, FIGURES - 1)) as f64 / rows as f64).round() as i128)
    };
    let nulls = columns().map(hundredths).collect::<Decimal128Array>().with_precision_and_scale(9, 2);
    let nulls = nulls.map_err(|error| Error::internal(error.to_string()))?;
    let answers: Vec<(&str, ArrayRef)> = vec![
        ("column_name", of_fields(&|field| field.name().clone())),
        ("column_type", of_fields(&|field| shown_field(field))),
        ("min", texts(0)),
        ("max", texts(1)),
        ("approx_unique", Arc::new(columns().map(|column| Some(number(column, 2))).collect::<Int64Array>())),
        ("avg", texts(3)),
        ("std", texts(4)),
        ("q25", texts(5)),
        ("q50", texts(6)),
        ("q75", texts(7)),
        ("count", Arc::new(columns().map(|_| Some(rows)).collect::<Int64Array>())),
        ("null_percentage", Arc::new(nulls)),
    ];
    let fields: Vec<Field> =
        answers.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = answers.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| Error::internal(error.to_string()))
}
