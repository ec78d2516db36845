//! JSON: one array of objects, or one object per line.
//!
//! Invariants: every output parses; integers and decimals are numbers with all their digits; columns of one name get
//! distinct keys. Must not know: widths, colours.

use std::collections::HashSet;
use std::io::{self, Write};

use forebay::arrow::array::RecordBatch;
use forebay::arrow::datatypes::Schema;

use super::Format;
use forebay::render::value::{Notation, cells, push_json_string};

pub(crate) struct Json {
    /// One array around all objects, not lines.
    array: bool,
    /// `"name":` of each column.
    keys: Vec<String>,
    rows: u64,
}

impl Json {
    pub(crate) fn array() -> Self {
        Self { array: true, keys: Vec::new(), rows: 0 }
    }

    pub(crate) fn lines() -> Self {
        Self { array: false, keys: Vec::new(), rows: 0 }
    }
}

/// The names of the columns, made distinct with `_1`, `_2`, … where a parser would drop one.
fn distinct_names(schema: &Schema) -> Vec<String> {
    let mut taken: HashSet<String> = HashSet::new();
    let mut names = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let mut name = field.name().clone();
        let mut number = 0;
        while !taken.insert(name.clone()) {
            number += 1;
            name = format!("{}_{number}", field.name());
        }
        names.push(name);
    }
    names
}

impl Format for Json {
    fn begin(&mut self, schema: &Schema, out: &mut dyn Write) -> io::Result<()> {
        for name in distinct_names(schema) {
            let mut key = String::new();
            push_json_string(&name, &mut key);
            key.push(':');
            self.keys.push(key);
        }
        if self.array { out.write_all(b"[") } else { Ok(()) }
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let columns: Vec<_> = batch.columns().iter().map(|column| cells(column.as_ref(), Notation::Json)).collect();
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            if self.array {
                text.push_str(if self.rows == 0 { "\n" } else { ",\n" });
            }
            text.push('{');
            for (index, (key, column)) in self.keys.iter().zip(&columns).enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(key);
                if !column(row, &mut text) {
                    text.push_str("null");
                }
            }
            text.push('}');
            if !self.array {
                text.push('\n');
            }
            self.rows += 1;
        }
        out.write_all(text.as_bytes())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match (self.array, self.rows) {
            (false, _) => Ok(()),
            (true, 0) => out.write_all(b"]\n"),
            (true, _) => out.write_all(b"\n]\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::expect;
    use forebay::arrow::array::types::Int32Type;
    use forebay::arrow::array::{Float64Array, Int64Array, ListArray, StringArray, StructArray};
    use forebay::arrow::datatypes::{DataType, Field};

    use super::super::tests::{batch, header, render, sample};
    use super::super::{Kind, Layout};

    #[test]
    fn all_types_and_nulls() {
        let text = render(Kind::Json, header(), &[sample()]);
        expect![[r#"
            [
            {"id":9007199254740993,"amount":-12.05,"ratio":1.0,"ok":true,"name":"a|b, \"c\"","raw":"\\x00ff","day":"2024-01-31","at":"2024-01-31 12:34:56.123"},
            {"id":null,"amount":null,"ratio":null,"ok":null,"name":null,"raw":null,"day":null,"at":null}
            ]
        "#]]
        .assert_eq(&text);
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON parses");
    }

    #[test]
    fn strings_are_escaped_and_odd_floats_are_strings() {
        let rows = batch(vec![
            ("a\"b", Arc::new(StringArray::from(vec!["\u{1}\\\t\n", "é😀", ""]))),
            ("x", Arc::new(Float64Array::from(vec![f64::NAN, f64::NEG_INFINITY, 1e300]))),
            ("x", Arc::new(Float64Array::from(vec![-0.0, 0.1, 1e-7]))),
        ]);
        let text = render(Kind::Jsonl, Layout::default(), &[rows]);
        expect![[r#"
            {"a\"b":"\u0001\\\t\n","x":"NaN","x_1":-0.0}
            {"a\"b":"é😀","x":"-Infinity","x_1":0.1}
            {"a\"b":"","x":1e300,"x_1":1e-7}
        "#]]
        .assert_eq(&text);
        for line in text.lines() {
            serde_json::from_str::<serde_json::Value>(line).expect("each line parses");
        }
    }

    #[test]
    fn nested_values_are_json() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), None]), None]);
        let member = Arc::new(StringArray::from(vec![Some("x"), None]));
        let object = StructArray::from(vec![(
            Arc::new(Field::new("s", DataType::Utf8, true)),
            member as forebay::arrow::array::ArrayRef,
        )]);
        let rows = batch(vec![("l", Arc::new(list)), ("o", Arc::new(object))]);
        expect![[r#"
            {"l":[1, null],"o":{"s":"x"}}
            {"l":null,"o":{"s":null}}
        "#]]
        .assert_eq(&render(Kind::Jsonl, Layout::default(), std::slice::from_ref(&rows)));
        expect![[r#"
            l,o
            "[1, NULL]",{'s': x}
            ,{'s': NULL}
        "#]]
        .assert_eq(&render(Kind::Csv, header(), &[rows]));
    }

    #[test]
    fn an_empty_result_is_an_empty_array() {
        let rows = batch(vec![("a", Arc::new(Int64Array::from(Vec::<i64>::new())))]);
        assert_eq!(render(Kind::Json, header(), &[rows]), "[]\n");
    }
}
