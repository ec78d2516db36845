//! A Markdown table, as GitHub reads it.
//!
//! Invariants: one row is one line; pipes and line ends in values are escaped. Must not know: widths, colours.

use std::io::{self, Write};

use forebay::arrow::array::RecordBatch;
use forebay::arrow::datatypes::Schema;

use super::{Format, Layout};
use forebay::render::types::is_number;
use forebay::render::value::{Notation, cells};

pub(crate) struct Markdown {
    null: String,
}

impl Markdown {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { null: layout.null.unwrap_or_else(|| "NULL".into()) }
    }
}

fn push_cell(text: &str, out: &mut String) {
    out.push(' ');
    for character in text.chars() {
        match character {
            '|' => out.push_str("\\|"),
            '\n' => out.push_str("<br>"),
            '\r' => {}
            other => out.push(other),
        }
    }
    out.push_str(" |");
}

impl Format for Markdown {
    /// The header is always written: a Markdown table without one is none.
    fn begin(&mut self, schema: &Schema, out: &mut dyn Write) -> io::Result<()> {
        if schema.fields().is_empty() {
            return Ok(());
        }
        let mut text = String::from("|");
        schema.fields().iter().for_each(|field| push_cell(field.name(), &mut text));
        text.push_str("\n|");
        for field in schema.fields() {
            text.push_str(if is_number(field.data_type()) { "---:|" } else { "---|" });
        }
        text.push('\n');
        out.write_all(text.as_bytes())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let columns: Vec<_> = batch.columns().iter().map(|column| cells(column.as_ref(), Notation::Text)).collect();
        let mut text = String::new();
        let mut cell = String::new();
        for row in 0..batch.num_rows() {
            text.push('|');
            for column in &columns {
                cell.clear();
                if !column(row, &mut cell) {
                    cell.push_str(&self.null);
                }
                push_cell(&cell, &mut text);
            }
            text.push('\n');
        }
        out.write_all(text.as_bytes())
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

    use super::super::Kind;
    use super::super::tests::{batch, header, render, sample};

    #[test]
    fn all_types_and_nulls() {
        expect![[r#"
            | id | amount | ratio | ok | name | raw | day | at |
            |---:|---:|---:|---|---|---|---|---|
            | 9007199254740993 | -12.05 | 1.0 | true | a\|b, "c" | \x00ff | 2024-01-31 | 2024-01-31 12:34:56.123 |
            | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL |
        "#]]
        .assert_eq(&render(Kind::Markdown, header(), &[sample()]));
    }

    #[test]
    fn a_value_cannot_break_its_row() {
        let rows = batch(vec![("a|b", Arc::new(StringArray::from(vec!["x\r\ny"])))]);
        expect![[r#"
            | a\|b |
            |---|
            | x<br>y |
        "#]]
        .assert_eq(&render(Kind::Markdown, header(), &[rows]));
    }
}
