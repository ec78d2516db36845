//! How DataFusion's writer of Parquet files is asked, and what it answers.

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::common::config::TableParquetOptions;
use datafusion::common::parsers::CompressionTypeVariant;
use forebay_forms::file_options::Options;

/// How Parquet files are written.
pub(crate) fn parquet_options(compression: CompressionTypeVariant, options: &Options) -> TableParquetOptions {
    let mut parquet = TableParquetOptions::default();
    parquet.global.compression = Some(match compression {
        CompressionTypeVariant::ZSTD => "zstd(3)".to_owned(),
        CompressionTypeVariant::GZIP => "gzip(6)".to_owned(),
        _ => "snappy".to_owned(),
    });
    if let Some(rows) = options.row_group_rows {
        parquet.global.max_row_group_size = rows;
    }
    parquet
}

/// The rows that the writer says it has written.
pub(crate) fn written_rows(batches: &[RecordBatch]) -> u64 {
    batches
        .iter()
        .filter_map(|batch| batch.columns().first()?.as_primitive_opt::<UInt64Type>())
        .flatten()
        .flatten()
        .sum()
}
