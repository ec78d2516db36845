//! One `column = value` per line, rows apart by an empty line: for wide rows.
//!
//! Invariants: names are right-aligned; one value is one line. Must not know: types.

use std::io::{self, Write};

use forebay::arrow::array::RecordBatch;
use forebay::arrow::datatypes::Schema;

use super::{Format, Layout};
use crate::terminal::{Paint, paint, push_visible, width};
use forebay::render::value::{Notation, cells};

pub(crate) struct Line {
    null: String,
    names: Vec<String>,
    rows: u64,
}

impl Line {
    pub(crate) fn new(layout: Layout) -> Self {
        let null = layout.null.unwrap_or_else(|| "NULL".into());
        Self { null: paint(&null, Paint::Grey, layout.color), names: Vec::new(), rows: 0 }
    }
}

impl Format for Line {
    fn begin(&mut self, schema: &Schema, _out: &mut dyn Write) -> io::Result<()> {
        let visible = schema.fields().iter().map(|field| {
            let mut name = String::new();
            push_visible(field.name(), &mut name);
            name
        });
        let names: Vec<String> = visible.collect();
        let widest = names.iter().map(|name| width(name)).max().unwrap_or(0);
        self.names = names.into_iter().map(|name| format!("{}{name} = ", " ".repeat(widest - width(&name)))).collect();
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let columns: Vec<_> = batch.columns().iter().map(|column| cells(column.as_ref(), Notation::Text)).collect();
        let mut text = String::new();
        let mut cell = String::new();
        for row in 0..batch.num_rows() {
            if self.rows > 0 {
                text.push('\n');
            }
            self.rows += 1;
            for (name, column) in self.names.iter().zip(&columns) {
                text.push_str(name);
                cell.clear();
                if column(row, &mut cell) {
                    push_visible(&cell, &mut text);
                } else {
                    text.push_str(&self.null);
                }
                text.push('\n');
            }
        }
        out.write_all(text.as_bytes())
    }

    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::Kind;
    use super::super::tests::{header, render, sample};

    #[test]
    fn all_types_and_nulls() {
        expect![[r#"
                id = 9007199254740993
            amount = -12.05
             ratio = 1.0
                ok = true
              name = a|b, "c"
               raw = \x00ff
               day = 2024-01-31
                at = 2024-01-31 12:34:56.123

                id = NULL
            amount = NULL
             ratio = NULL
                ok = NULL
              name = NULL
               raw = NULL
               day = NULL
                at = NULL
        "#]]
        .assert_eq(&render(Kind::Line, header(), &[sample()]));
    }
}
