//! What a statement may say of a file: its format, and how it is read or written.

use std::path::Path;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::parsers::CompressionTypeVariant;
use forebay_base::{Error, LogicalType, Result};

/// The formats that files come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Delimited text.
    Csv,
    /// As written by the TPC's generators: `|` between the values and after the last one, no header.
    Tbl,
    /// Apache Parquet.
    Parquet,
    /// One JSON object a line.
    Json,
}

/// How to read or write a file, where its name does not say.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// FORMAT.
    pub format: Option<Format>,
    /// DELIMITER.
    pub delimiter: Option<u8>,
    /// HEADER.
    pub header: Option<bool>,
    /// NULL: the text that stands for NULL.
    pub null: Option<String>,
    /// NULLSTR of several texts: those behind the first.
    pub more_nulls: Vec<String>,
    /// IGNORE_ERRORS: lines that are no rows of the table are left out.
    pub ignore_errors: bool,
    /// NULL_PADDING: the values that a line lacks are NULL.
    pub null_padding: bool,
    /// DECIMAL_SEPARATOR, in front of the fraction of a number.
    pub decimal: Option<u8>,
    /// THOUSANDS, between the digits of a number.
    pub thousands: Option<u8>,
    /// QUOTE.
    pub quote: Option<u8>,
    /// ESCAPE.
    pub escape: Option<u8>,
    /// COMPRESSION.
    pub compression: Option<CompressionTypeVariant>,
    /// MAX_LINE_SIZE, MAXIMUM_OBJECT_SIZE: bytes of the longest line.
    pub line_bytes: Option<usize>,
    /// SKIP: lines in front of the header, or of the first row.
    pub skip: usize,
    /// COMMENT: what begins lines that are no rows.
    pub comment: Option<u8>,
    /// ALL_VARCHAR: every column is text.
    pub all_text: bool,
    /// NAMES: of the first columns.
    pub names: Vec<String>,
    /// TYPES: of columns by their names, or by their places.
    pub types: Vec<(Option<String>, LogicalType)>,
    /// DATEFORMAT, for `strptime`.
    pub date_format: Option<String>,
    /// TIMESTAMPFORMAT, for `strptime`.
    pub timestamp_format: Option<String>,
    /// FILENAME: the column that holds the name of each row's file.
    pub filename: Option<String>,
    /// HIVE_PARTITIONING: whether folders such as `year=2024` are columns; by default if those of all files are.
    pub hive_partitioning: Option<bool>,
    /// UNION_BY_NAME: columns that a file lacks are NULL.
    pub union_by_name: bool,
    /// PARTITION_BY: a folder for each value of these columns, which the files in it do not have.
    pub partition_by: Vec<String>,
    /// FORCE_QUOTE: columns whose values are always in quotes, or `*`.
    pub force_quote: Vec<String>,
    /// ARRAY: the rows of a JSON file are one list.
    pub is_array: bool,
    /// OVERWRITE_OR_IGNORE: files are put into a folder that is there.
    pub overwrites: bool,
    /// ROW_GROUP_SIZE: rows of a row group of Parquet.
    pub row_group_rows: Option<usize>,
    /// The columns to read, in the order of the file. Inferred where it is not given.
    pub schema: Option<SchemaRef>,
}

impl Options {
    /// Whether records are read one by one, and their values as texts.
    pub fn is_tolerant(&self) -> bool {
        self.ignore_errors || self.null_padding
    }

    /// Whether COPY reads records one by one: the reader of whole files does not know what it says of values.
    pub fn is_read_one_by_one(&self) -> bool {
        self.is_tolerant() || self.decimal.is_some() || self.thousands.is_some() || !self.more_nulls.is_empty()
    }

    /// Whether all values are read as texts, since casts know more of their forms than readers.
    pub fn reads_texts(&self) -> bool {
        self.is_tolerant() || self.null.is_some() || self.decimal.is_some() || self.thousands.is_some()
    }

    /// Whether a text stands for NULL.
    pub fn is_null(&self, text: &str) -> bool {
        text.is_empty() || self.null.as_deref() == Some(text) || self.more_nulls.iter().any(|null| null == text)
    }
}

/// Whether a table name is meant as a file.
pub fn looks_like_path(name: &str) -> bool {
    name.contains(['/', '*', '?']) || Format::of_path(name).is_some()
}

impl Format {
    /// The format that a file's name tells, behind endings of compression.
    pub fn of_path(path: &str) -> Option<Self> {
        let lower = path.to_ascii_lowercase();
        let (stem, _) = split_compression(&lower);
        let extension = Path::new(stem).extension()?.to_str()?;
        Some(match extension {
            "csv" | "tsv" => Self::Csv,
            "tbl" => Self::Tbl,
            "parquet" | "pq" => Self::Parquet,
            "json" | "jsonl" | "ndjson" => Self::Json,
            _ => return None,
        })
    }

    /// The format of this name in an option.
    pub fn of_name(name: &str) -> Result<Self> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "csv" | "text" => Self::Csv,
            "tbl" => Self::Tbl,
            "parquet" => Self::Parquet,
            "json" | "jsonl" | "ndjson" => Self::Json,
            _ => {
                return Err(Error::input(format!("format {name} does not exist")).hint("Use csv, tbl, parquet or json"));
            }
        })
    }
}

/// The name without its ending of compression, and the compression.
pub fn split_compression(path: &str) -> (&str, CompressionTypeVariant) {
    for (ending, kind) in [
        (".gz", CompressionTypeVariant::GZIP),
        (".zst", CompressionTypeVariant::ZSTD),
        (".bz2", CompressionTypeVariant::BZIP2),
        (".xz", CompressionTypeVariant::XZ),
    ] {
        if let Some(stem) = path.strip_suffix(ending) {
            return (stem, kind);
        }
    }
    (path, CompressionTypeVariant::UNCOMPRESSED)
}

/// Stands between the paths of a list of files: no path has it.
pub const BETWEEN_FILES: char = '\0';

/// Names of the functions that read files, and the formats that they read. Their named arguments come as texts `name=value`.
pub const READ_FUNCTIONS: [(&str, Format); 8] = [
    ("parquet_scan", Format::Parquet),
    ("read_csv", Format::Csv),
    ("read_csv_auto", Format::Csv),
    ("read_json", Format::Json),
    ("read_json_auto", Format::Json),
    ("read_ndjson", Format::Json),
    ("read_ndjson_auto", Format::Json),
    ("read_parquet", Format::Parquet),
];

/// Options of COPY, for suggestions.
pub const COPY_OPTIONS: [&str; 18] = [
    "format",
    "delimiter",
    "quote",
    "escape",
    "null",
    "header",
    "compression",
    "max_line_size",
    "maximum_object_size",
    "partition_by",
    "force_quote",
    "array",
    "overwrite_or_ignore",
    "row_group_size",
    "ignore_errors",
    "null_padding",
    "decimal_separator",
    "thousands",
];

/// Names of the functions that tell what files are like.
pub const TOLD_FUNCTIONS: [&str; 7] = [
    "parquet_metadata",
    "parquet_schema",
    "parquet_file_metadata",
    "parquet_kv_metadata",
    "sniff_csv",
    "read_text",
    "read_blob",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_names() {
        assert_eq!(Format::of_path("a/b.CSV.gz"), Some(Format::Csv));
        assert_eq!(Format::of_path("lineorder.tbl"), Some(Format::Tbl));
        assert_eq!(Format::of_path("x.jsonl.zst"), Some(Format::Json));
        assert_eq!(Format::of_path("main.orders"), None);
        assert!(looks_like_path("data/*.parquet") && !looks_like_path("orders"));
    }
}
