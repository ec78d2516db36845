//! Statements and their answers as texts.

use forebay::arrow::util::display::array_value_to_string;
use forebay::{Session, Statement};

/// The rows of a statement as texts.
pub(crate) fn run(session: &Session, text: &str) -> forebay::Result<Vec<Vec<String>>> {
    let mut result = session.execute(&Statement { text: text.to_owned() })?;
    let mut rows = Vec::new();
    while let Some(batch) = result.next_batch()? {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row).expect("a text"));
            rows.push(values.collect());
        }
    }
    Ok(rows)
}

/// Runs a script that succeeds.
#[track_caller]
pub(crate) fn ok(session: &Session, script: &str) {
    for statement in session.statements(script).expect(script) {
        run(session, &statement.text).unwrap_or_else(|error| panic!("{}: {error}", statement.text));
    }
}
