//! Comma-separated values after RFC 4180, with `\n` line ends.
//!
//! Invariants: NULL is the text for it, by default the empty field, and a string that reads like it is quoted, so that the
//! two stay apart. No row is an empty line, which readers skip: a lone NULL without a text is `""`. Must not know: widths,
//! colours.

use std::io::{self, Write};

use forebay::arrow::array::RecordBatch;
use forebay::arrow::datatypes::Schema;

use super::{Format, Layout};
use forebay::render::value::{Notation, cells};

pub(crate) struct Csv {
    header: bool,
    null: String,
    /// `null` is quoted even though it is NULL.
    is_null_quoted: bool,
    /// There is one column, so that an empty field would be an empty line.
    is_alone: bool,
}

impl Csv {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { header: layout.header, null: layout.null.unwrap_or_default(), is_null_quoted: false, is_alone: false }
    }

    /// Quotes what was appended to `out` since `start`, where that is needed.
    fn quote_from(&self, start: usize, out: &mut String) {
        let is_empty_line = self.is_alone && out.len() == start;
        if out[start..] == self.null || is_empty_line || is_special(&out[start..]) {
            quote(start, out);
        }
    }
}

fn is_special(field: &str) -> bool {
    field.contains(['"', ',', '\n', '\r'])
}

fn quote(start: usize, out: &mut String) {
    let quoted = format!("\"{}\"", out[start..].replace('"', "\"\""));
    out.replace_range(start.., &quoted);
}

impl Format for Csv {
    fn begin(&mut self, schema: &Schema, out: &mut dyn Write) -> io::Result<()> {
        self.is_alone = schema.fields().len() == 1;
        self.is_null_quoted = self.is_alone && self.null.is_empty() || is_special(&self.null);
        if !self.header || schema.fields().is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        for (index, field) in schema.fields().iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            let start = text.len();
            text.push_str(field.name());
            self.quote_from(start, &mut text);
        }
        text.push('\n');
        out.write_all(text.as_bytes())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let columns: Vec<_> = batch.columns().iter().map(|column| cells(column.as_ref(), Notation::Text)).collect();
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                let start = text.len();
                if column(row, &mut text) {
                    self.quote_from(start, &mut text);
                } else {
                    text.push_str(&self.null);
                    if self.is_null_quoted {
                        quote(start, &mut text);
                    }
                }
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
    use forebay::arrow::array::{NullArray, StringArray};

    use super::super::tests::{batch, header, render, sample};
    use super::super::{Kind, Layout};

    #[test]
    fn all_types_and_nulls() {
        expect![[r#"
            id,amount,ratio,ok,name,raw,day,at
            9007199254740993,-12.05,1.0,true,"a|b, ""c""",\x00ff,2024-01-31,2024-01-31 12:34:56.123
            ,,,,,,,
        "#]]
        .assert_eq(&render(Kind::Csv, header(), &[sample()]));
    }

    #[test]
    fn null_text_and_empty_strings_stay_apart() {
        let values = StringArray::from(vec![Some(""), None, Some("NA"), Some("two\nlines")]);
        let rows = batch(vec![("a,b", Arc::new(values.clone()))]);
        let two = batch(vec![("a,b", Arc::new(values)), ("n", Arc::new(NullArray::new(4)))]);
        expect![[r#"
            "a,b",n
            "",
            ,
            NA,
            "two
            lines",
        "#]]
        .assert_eq(&render(Kind::Csv, header(), &[two]));
        let layout = Layout { null: Some("NA".into()), ..Layout::default() };
        expect![[r#"
            ""
            NA
            "NA"
            "two
            lines"
        "#]]
        .assert_eq(&render(Kind::Csv, layout, &[rows]));
    }

    /// Readers skip empty lines.
    #[test]
    fn no_row_is_an_empty_line() {
        let rows = batch(vec![("a", Arc::new(StringArray::from(vec![Some("x"), None, Some("")])))]);
        assert_eq!(render(Kind::Csv, header(), std::slice::from_ref(&rows)), "a\nx\n\"\"\n\"\"\n");
        let layout = Layout { null: Some("-".into()), ..Layout::default() };
        assert_eq!(render(Kind::Csv, layout, &[rows]), "x\n-\n\"\"\n");
    }

    #[test]
    fn a_text_for_null_is_one_field() {
        let rows = batch(vec![("a", Arc::new(StringArray::from(vec![Some("x"), None, Some("a,b")])))]);
        let layout = Layout { null: Some("a,b".into()), ..Layout::default() };
        assert_eq!(render(Kind::Csv, layout, &[rows]), "x\n\"a,b\"\n\"a,b\"\n");
    }
}
