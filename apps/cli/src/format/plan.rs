//! Query plans: the text as it is, since a box around a tree of long lines makes it unreadable.
//!
//! Invariants: nothing is cut. Must not know: what a plan means.

use std::io::{self, Write};

use forebay::arrow::array::RecordBatch;
use forebay::arrow::datatypes::{DataType, Schema};

use super::Format;
use crate::lexer::beginnings;
use crate::terminal::{Paint, paint};
use forebay::render::value::{Notation, cells};

/// Writes the result of EXPLAIN: of two columns the first is a heading.
pub(crate) struct Plan {
    color: bool,
    rows: u64,
}

impl Plan {
    /// A writer for one plan.
    pub(crate) fn new(color: bool) -> Self {
        Self { color, rows: 0 }
    }

    /// Whether `statement` with the result `schema` is shown this way.
    pub(crate) fn fits(statement: &str, schema: &Schema) -> bool {
        let text =
            |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8);
        let begin = beginnings(statement).first().copied().unwrap_or(0);
        let first = statement[begin..].split_whitespace().next();
        let explains = first.is_some_and(|word| word.eq_ignore_ascii_case("explain"));
        explains && (1..=2).contains(&schema.fields().len()) && schema.fields().iter().all(|f| text(f.data_type()))
    }
}

impl Format for Plan {
    fn begin(&mut self, _schema: &Schema, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let columns: Vec<_> = batch.columns().iter().map(|column| cells(column.as_ref(), Notation::Text)).collect();
        let Some((text, headings)) = columns.split_last() else { return Ok(()) };
        for row in 0..batch.num_rows() {
            for heading in headings {
                let mut name = String::new();
                heading(row, &mut name);
                let gap = if self.rows > 0 { "\n" } else { "" };
                writeln!(out, "{gap}{}", paint(&name.replace('_', " "), Paint::Bold, self.color))?;
            }
            let mut plan = String::new();
            text(row, &mut plan);
            writeln!(out, "{}", plan.trim_end())?;
            self.rows += 1;
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::expect;
    use forebay::arrow::array::StringArray;

    use super::super::tests::batch;
    use super::*;

    #[test]
    fn a_plan_is_written_line_by_line() {
        let rows = batch(vec![
            ("plan_type", Arc::new(StringArray::from(vec!["logical_plan", "physical_plan"]))),
            ("plan", Arc::new(StringArray::from(vec!["Limit: 1\n  Scan: t\n", "Scan t"]))),
        ]);
        assert!(Plan::fits("EXPLAIN select 1", &rows.schema()));
        assert!(Plan::fits("-- why\n/* so */ explain select 1", &rows.schema()));
        assert!(!Plan::fits("select plan_type, plan from t", &rows.schema()));
        let mut out = Vec::new();
        Plan::new(false).batch(&rows, &mut out).expect("memory takes all bytes");
        expect![[r#"
            logical plan
            Limit: 1
              Scan: t

            physical plan
            Scan t
        "#]]
        .assert_eq(&String::from_utf8(out).expect("UTF-8"));
    }
}
