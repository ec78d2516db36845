//! Ways to write rows: one trait, one module per format.
//!
//! Invariants: a format sees batches in order and never needs the whole result, except the small window that a table
//! measures and shows. Must not know: sessions, terminals' input, where the bytes go.

mod csv;
mod json;
mod line;
mod markdown;
mod plan;
mod table;

use std::io::{self, Write};

use clap::ValueEnum;
use forebay::arrow::array::RecordBatch;
use forebay::arrow::datatypes::Schema;

pub(crate) use plan::Plan;

/// What all formats are told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    /// Write the column names.
    pub(crate) header: bool,
    /// Text for NULL; each format has its own otherwise.
    pub(crate) null: Option<String>,
    /// Colours may be used.
    pub(crate) color: bool,
    /// Columns of the terminal; without one nothing is cut.
    pub(crate) width: Option<usize>,
    /// Rows that a table shows at most; `None` shows all.
    pub(crate) max_rows: Option<usize>,
}

/// Writes one result. Calls come in the order `begin`, any number of `batch`, `end`.
pub(crate) trait Format {
    /// Writes what comes before the first row.
    fn begin(&mut self, schema: &Schema, out: &mut dyn Write) -> io::Result<()>;
    /// Takes the next rows.
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what comes after the last row.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// The formats by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Box-drawn table
    #[value(aliases = ["box", "duckbox"])]
    Table,
    /// Comma-separated values (RFC 4180)
    Csv,
    /// One JSON array of objects
    Json,
    /// One JSON object per line
    #[value(aliases = ["jsonlines", "ndjson"])]
    Jsonl,
    /// Markdown table
    #[value(alias = "md")]
    Markdown,
    /// One `column = value` per line
    Line,
}

impl Kind {
    /// A writer of this format for one result.
    pub(crate) fn writer(self, layout: Layout) -> Box<dyn Format> {
        match self {
            Self::Table => Box::new(table::Table::new(layout)),
            Self::Csv => Box::new(csv::Csv::new(layout)),
            Self::Json => Box::new(json::Json::array()),
            Self::Jsonl => Box::new(json::Json::lines()),
            Self::Markdown => Box::new(markdown::Markdown::new(layout)),
            Self::Line => Box::new(line::Line::new(layout)),
        }
    }

    /// The format called `name`, in any case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::from_str(name, true).ok()
    }

    /// Names of all formats.
    pub(crate) fn names() -> Vec<String> {
        Self::value_variants()
            .iter()
            .filter_map(|kind| kind.to_possible_value())
            .map(|value| value.get_name().to_owned())
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use forebay::arrow::array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringArray,
        TimestampMicrosecondArray,
    };

    use super::*;

    /// Everything that `kind` writes for `batches`.
    pub(crate) fn render(kind: Kind, layout: Layout, batches: &[RecordBatch]) -> String {
        let mut out = Vec::new();
        let mut format = kind.writer(layout);
        format.begin(&batches[0].schema(), &mut out).expect("memory takes all bytes");
        for batch in batches {
            format.batch(batch, &mut out).expect("memory takes all bytes");
        }
        format.end(&mut out).expect("memory takes all bytes");
        String::from_utf8(out).expect("formats write UTF-8")
    }

    pub(crate) fn header() -> Layout {
        Layout { header: true, ..Layout::default() }
    }

    pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
            .expect("columns of one length")
    }

    /// Two rows of the common types, the second all NULL.
    pub(crate) fn sample() -> RecordBatch {
        let amount = Decimal128Array::from(vec![Some(-1205), None]).with_precision_and_scale(10, 2).expect("fits");
        batch(vec![
            ("id", Arc::new(Int64Array::from(vec![Some(9_007_199_254_740_993), None]))),
            ("amount", Arc::new(amount)),
            ("ratio", Arc::new(Float64Array::from(vec![Some(1.0), None]))),
            ("ok", Arc::new(BooleanArray::from(vec![Some(true), None]))),
            ("name", Arc::new(StringArray::from(vec![Some("a|b, \"c\""), None]))),
            ("raw", Arc::new(BinaryArray::from_opt_vec(vec![Some(b"\x00\xff"), None]))),
            ("day", Arc::new(Date32Array::from(vec![Some(19_753), None]))),
            ("at", Arc::new(TimestampMicrosecondArray::from(vec![Some(1_706_704_496_123_000), None]))),
        ])
    }

    #[test]
    fn every_format_is_found_by_its_name() {
        for name in Kind::names() {
            assert!(Kind::named(&name.to_uppercase()).is_some(), "{name}");
        }
        assert_eq!(Kind::named("md"), Some(Kind::Markdown));
        assert_eq!(Kind::named("xml"), None);
    }
}
