//! What a Parquet reader asks of a file, and gets only once it was checked.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::Result as DataFusionResult;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use forebay_base::{Context, Error, Result};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::pages;
use super::shapes;
use super::thrift::Walker;

/// Makes readers that check, of those that another makes.
#[derive(Debug)]
pub(super) struct CheckedReaders {
    pub(super) readers: Arc<dyn ParquetFileReaderFactory>,
    /// What readers may take for a page.
    pub(super) memory_bytes: usize,
}

impl ParquetFileReaderFactory for CheckedReaders {
    fn create_reader(
        &self,
        partition_index: usize,
        partitioned_file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> DataFusionResult<Box<dyn AsyncFileReader + Send>> {
        let (file, file_bytes) =
            (format!("/{}", partitioned_file.object_meta.location), partitioned_file.object_meta.size);
        let reader = self.readers.create_reader(partition_index, partitioned_file, metadata_size_hint, metrics)?;
        Ok(Box::new(CheckedReader { reader, file, file_bytes, chunks: None, memory_bytes: self.memory_bytes }))
    }
}

/// Where a column of a row group lies.
struct Chunk {
    range: Range<u64>,
    row_group: usize,
    column: usize,
}

/// The columns of all row groups, by where they begin.
struct Chunks {
    metadata: Arc<ParquetMetaData>,
    sorted: Vec<Chunk>,
}

impl Chunks {
    fn new(metadata: Arc<ParquetMetaData>) -> Self {
        let mut sorted = Vec::new();
        for (row_group, group) in metadata.row_groups().iter().enumerate() {
            for (column, chunk) in group.columns().iter().enumerate() {
                let (start, length) = chunk.byte_range();
                sorted.push(Chunk { range: start..start + length, row_group, column });
            }
        }
        sorted.sort_by_key(|chunk| chunk.range.start);
        Self { metadata, sorted }
    }

    /// Checks the pages of `range`.
    fn check(&self, range: &Range<u64>, bytes: &Bytes, memory_bytes: usize) -> Result<()> {
        let behind = self.sorted.partition_point(|chunk| chunk.range.start <= range.start);
        let chunk = self.sorted[..behind].iter().rev().find(|chunk| chunk.range.end >= range.end);
        let Some(chunk) = chunk else {
            return Err(Error::input(format!("bytes {} to {} belong to no column", range.start, range.end)));
        };
        let column = self.metadata.row_group(chunk.row_group).column(chunk.column);
        pages::check(bytes, range.start, column, memory_bytes)
            .context(|| format!("column {}", column.column_path().string()))
            .context(|| format!("row group {}", chunk.row_group))
    }

    /// Whether a column's Bloom filter begins at `start`, and if so, with a length that is known.
    fn bloom_filter(&self, start: u64) -> Option<bool> {
        let columns = self.metadata.row_groups().iter().flat_map(|group| group.columns());
        let mut filters = columns.filter(|column| column.bloom_filter_offset() == i64::try_from(start).ok());
        filters.next().map(|column| column.bloom_filter_length().is_some())
    }
}

struct CheckedReader {
    reader: Box<dyn AsyncFileReader + Send>,
    file: String,
    file_bytes: u64,
    chunks: Option<Arc<Chunks>>,
    memory_bytes: usize,
}

impl CheckedReader {
    async fn chunks(&mut self) -> ParquetResult<Arc<Chunks>> {
        if let Some(chunks) = &self.chunks {
            return Ok(Arc::clone(chunks));
        }
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Skip);
        let metadata = self.reader.get_metadata(Some(&options)).await?;
        let chunks = Arc::new(Chunks::new(metadata));
        self.chunks = Some(Arc::clone(&chunks));
        Ok(chunks)
    }

    fn check_range(&self, range: &Range<u64>) -> ParquetResult<()> {
        match range.start <= range.end && range.end <= self.file_bytes {
            true => Ok(()),
            false => Err(self.wrong(Error::input(format!(
                "bytes {} to {} are asked for, and the file has {}",
                range.start, range.end, self.file_bytes
            )))),
        }
    }

    fn wrong(&self, error: Error) -> ParquetError {
        ParquetError::External(Box::new(error.context(format!("file {}", self.file))))
    }
}

impl AsyncFileReader for CheckedReader {
    /// Page indexes, which were checked before, and Bloom filters.
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        async move {
            self.check_range(&range)?;
            let bytes = self.reader.get_bytes(range.clone()).await?;
            let chunks = self.chunks().await?;
            if let Some(is_whole) = chunks.bloom_filter(range.start) {
                check_bloom_filter(&bytes, is_whole).map_err(|error| self.wrong(error))?;
            }
            Ok(bytes)
        }
        .boxed()
    }

    /// Pages.
    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        async move {
            ranges.iter().try_for_each(|range| self.check_range(range))?;
            let all = self.reader.get_byte_ranges(ranges.clone()).await?;
            let chunks = self.chunks().await?;
            for (range, bytes) in ranges.iter().zip(&all) {
                chunks.check(range, bytes, self.memory_bytes).map_err(|error| self.wrong(error))?;
            }
            Ok(all)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        self.reader.get_metadata(options)
    }
}

/// Checks a filter, or only its header. A reader goes on without one that is wrong.
fn check_bloom_filter(bytes: &[u8], is_whole: bool) -> Result<()> {
    let mut claimed = 0;
    let mut walker = Walker::new(bytes);
    walker.structure(shapes::BLOOM_FILTER, &mut |path, value| {
        if let (&[1], Some(value)) = (path, value) {
            claimed = value;
        }
        Ok(())
    })?;
    let claimed = usize::try_from(claimed).unwrap_or(0);
    let there = bytes.len() - walker.walked();
    if claimed < 32 || !claimed.is_multiple_of(32) || (is_whole && there != claimed) {
        return Err(Error::input(format!("a Bloom filter claims {claimed} bytes and has {there}")));
    }
    Ok(())
}
