//! The parts of a table that is sorted: where they end, and their rows in a temporary file.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use forebay_base::{Error, Result, limits};
use forebay_disk::{BufferPool, DiskFile, ReadRequest};

/// A temporary file that several workers append to.
pub(super) struct PartsFile {
    file: Arc<dyn DiskFile>,
    end: AtomicU64,
    buffers: BufferPool,
}

/// Memory of buffers that are kept for the next ones.
const KEPT_BYTES: usize = 32 << 20;

/// Where the rows of each part are.
pub(super) struct Parts {
    parts: Vec<Part>,
    file: Option<PartsFile>,
}

#[derive(Default, Clone)]
struct Part {
    /// In the order of the rows.
    pieces: Vec<Range<u64>>,
    /// The least and the greatest number.
    numbers: Option<(u64, u64)>,
}

/// Numbers that begin a part, ascending, for about `wanted` parts with equally many rows of a sample; the first part begins
/// with the least number. A number that many rows have is a part of its own.
pub(super) fn split(mut sample: Vec<u64>, wanted: usize) -> Vec<u64> {
    sample.sort_unstable();
    let rows = sample.len().div_ceil(wanted.max(1)).max(1);
    let mut bounds = Vec::new();
    let mut begun = 0;
    for same in sample.chunk_by(|a, b| a == b) {
        let (start, number) = (offset(&sample, same), same[0]);
        if same.len() >= rows {
            bounds.push(number);
            bounds.extend(number.checked_add(1));
            begun = start + same.len();
        } else if start + same.len() - begun > rows {
            bounds.push(number);
            begun = start;
        }
    }
    bounds.dedup();
    bounds
}

/// Where a part of a slice begins in it.
fn offset(whole: &[u64], part: &[u64]) -> usize {
    (part.as_ptr().addr() - whole.as_ptr().addr()) / size_of::<u64>()
}

impl PartsFile {
    pub(super) fn new(file: Arc<dyn DiskFile>) -> Self {
        Self { file, end: AtomicU64::new(0), buffers: BufferPool::new(KEPT_BYTES) }
    }

    /// Writes rows, by way of `bytes`; gives where they are.
    pub(super) fn write(&self, rows: &RecordBatch, bytes: &mut Vec<u8>) -> Result<Range<u64>> {
        bytes.clear();
        let mut written = || {
            let mut writer = StreamWriter::try_new(&mut *bytes, rows.schema_ref())?;
            writer.write(rows)?;
            writer.finish()
        };
        written().map_err(|error| Error::internal(format!("rows could not be written: {error}")))?;
        let padded = bytes.len().next_multiple_of(limits::IO_ALIGN);
        let start = self.end.fetch_add(padded as u64, Ordering::Relaxed);
        let mut buffer = self.buffers.require(padded)?;
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffer[bytes.len()..].fill(0);
        self.file.write_direct(start, &buffer)?;
        Ok(start..start + bytes.len() as u64)
    }

    fn read(&self, piece: &Range<u64>) -> Result<Vec<RecordBatch>> {
        let bytes = (piece.end - piece.start) as usize;
        let buffer = self.buffers.require(bytes.next_multiple_of(limits::IO_ALIGN))?;
        let mut requests = [ReadRequest { offset: piece.start, buffer }];
        self.file.read_direct(&mut requests)?;
        let damaged = |error| Error::internal(format!("rows could not be read back: {error}"));
        let reader = StreamReader::try_new(&requests[0].buffer[..bytes], None).map_err(damaged)?;
        reader.map(|batch| batch.map_err(damaged)).collect()
    }
}

impl Parts {
    /// So many parts without rows.
    pub(super) fn new(parts: usize) -> Self {
        Self { parts: vec![Part::default(); parts], file: None }
    }

    /// The parts of workers whose shares of the rows follow one another.
    pub(super) fn joined(shares: Vec<Self>, file: PartsFile) -> Self {
        let mut shares = shares.into_iter();
        let mut all = shares.next().unwrap_or_else(|| Self::new(0));
        for share in shares {
            for (part, more) in all.parts.iter_mut().zip(share.parts) {
                part.pieces.extend(more.pieces);
                part.widen(more.numbers);
            }
        }
        Self { file: Some(file), ..all }
    }

    /// The number of parts.
    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Adds rows to a part.
    pub(super) fn add(&mut self, part: usize, piece: Range<u64>, numbers: Option<(u64, u64)>) {
        self.parts[part].pieces.push(piece);
        self.parts[part].widen(numbers);
    }

    /// Whether all rows of a part have the same number, and so are in order.
    pub(super) fn has_one_number(&self, part: usize) -> bool {
        self.parts[part].numbers.is_none_or(|(least, greatest)| least == greatest)
    }

    /// The rows of a part.
    pub(super) fn read(&self, part: usize) -> impl Iterator<Item = Result<RecordBatch>> + '_ {
        let read = |piece: &Range<u64>| match &self.file {
            Some(file) => file.read(piece),
            None => Err(Error::internal("parts without a file")),
        };
        self.parts[part].pieces.iter().flat_map(move |piece| match read(piece) {
            Ok(batches) => batches.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })
    }
}

impl Part {
    fn widen(&mut self, numbers: Option<(u64, u64)>) {
        self.numbers = match (self.numbers, numbers) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (known, new) => known.or(new),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(sample: &[u64], wanted: usize) -> Vec<usize> {
        let bounds = split(sample.to_vec(), wanted);
        assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
        let mut sizes = vec![0; bounds.len() + 1];
        sample.iter().for_each(|number| sizes[bounds.partition_point(|bound| bound <= number)] += 1);
        sizes
    }

    #[test]
    fn parts_have_about_equally_many_rows() {
        let sample: Vec<u64> = (0..1000).map(|number| number * 7 % 1000).collect();
        assert!(sizes(&sample, 10).iter().all(|rows| *rows <= 100), "{:?}", sizes(&sample, 10));
        assert!(split(sample, 10).len() <= 11);
        assert_eq!(split(Vec::new(), 4), Vec::<u64>::new());
    }

    #[test]
    fn numbers_of_many_rows_are_alone() {
        let mut sample = vec![5; 900];
        sample.extend(0..100);
        let bounds = split(sample.clone(), 10);
        assert!(bounds.contains(&5) && bounds.contains(&6), "{bounds:?}");
        let last = split(vec![u64::MAX; 10], 2);
        assert_eq!(last, [u64::MAX]);
    }
}
