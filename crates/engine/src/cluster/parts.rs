//! The parts of a table that is sorted: where they end, and their rows in a temporary file.
//!
//! A worker writes what it has gathered with one call, the rows of each part as a piece of their own: one column after the other, values
//! in as few bytes as the gathered rows need.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_base::{Error, Result, limits};
use forebay_disk::{AlignedBuffer, BufferPool, DiskFile, ReadRequest};

use super::carried::{ColumnRows, NUMBER_BYTES, Rows};
use super::moved;

/// A temporary file that several workers append to.
pub(super) struct PartsFile {
    file: Arc<dyn DiskFile>,
    end: AtomicU64,
    buffers: BufferPool,
}

/// Memory of buffers that are kept for the next ones: what some workers write or read at a time.
const KEPT_BYTES: usize = 128 << 20;

/// Where the rows of each part are.
pub(super) struct Parts {
    parts: Vec<Part>,
}

#[derive(Default, Clone)]
pub(super) struct Part {
    /// In the order of the rows.
    pub(super) pieces: Vec<Piece>,
    /// The least and the greatest number.
    numbers: Option<(u64, u64)>,
}

/// Rows of a part that lie together.
#[derive(Clone)]
pub(super) struct Piece {
    bytes: Range<u64>,
    rows: usize,
    layout: Arc<PieceLayout>,
}

/// How rows lie that were written together.
struct PieceLayout {
    number_bytes: usize,
    columns: Vec<StoredColumn>,
}

struct StoredColumn {
    width: usize,
    has_validity: bool,
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

impl PieceLayout {
    fn of(rows: &Rows) -> Self {
        let stored = |column: &ColumnRows| StoredColumn {
            width: moved::needed_width(&column.values, column.width),
            has_validity: !column.validity.is_empty(),
        };
        let number_bytes = moved::needed_width(&rows.numbers, NUMBER_BYTES);
        Self { number_bytes, columns: rows.columns.iter().map(stored).collect() }
    }

    /// Bytes of a row, without texts.
    fn row_bytes(&self) -> usize {
        let of_columns = self.columns.iter().map(|column| column.width + usize::from(column.has_validity));
        self.number_bytes + of_columns.sum::<usize>()
    }

    /// Writes these rows to a piece.
    fn write(&self, rows: &Rows, order: &[u32], piece: &mut [u8]) {
        let mut rest = piece;
        let mut next = |bytes: usize| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(bytes);
            rest = later;
            now
        };
        moved::take(&rows.numbers, (NUMBER_BYTES, self.number_bytes), order, next(order.len() * self.number_bytes));
        for (column, stored) in rows.columns.iter().zip(&self.columns) {
            if stored.has_validity {
                moved::take(&column.validity, (1, 1), order, next(order.len()));
            }
            moved::take(&column.values, (column.width, stored.width), order, next(order.len() * stored.width));
            if column.texts.is_some() {
                for text in order.iter().map(|row| column.text(*row as usize)) {
                    next(text.len()).copy_from_slice(text);
                }
            }
        }
    }

    /// Adds the rows of a piece.
    fn read(&self, piece: &[u8], count: usize, rows: &mut Rows) -> Result<()> {
        let mut rest = piece;
        let mut next = |bytes: usize| {
            let (now, later) = rest.split_at_checked(bytes).ok_or_else(damaged)?;
            rest = later;
            Ok::<_, Error>(now)
        };
        let before = rows.len();
        moved::widen(next(count * self.number_bytes)?, (self.number_bytes, NUMBER_BYTES), count, &mut rows.numbers);
        for (column, stored) in rows.columns.iter_mut().zip(&self.columns) {
            let validity = if stored.has_validity { Some(next(count)?) } else { None };
            column.add_validity(before, validity, count);
            moved::widen(next(count * stored.width)?, (stored.width, column.width), count, &mut column.values);
            if let Some(texts) = &mut column.texts {
                let mut end = texts.bytes.len();
                for length in &column.values.as_chunks().0[before..] {
                    texts.starts.push(end);
                    end += u32::from_le_bytes(*length) as usize;
                }
                texts.bytes.extend_from_slice(next(end - texts.bytes.len())?);
            }
        }
        Ok(())
    }
}

fn damaged() -> Error {
    Error::internal("rows of a table that is sorted could not be read back")
}

impl PartsFile {
    pub(super) fn new(file: Arc<dyn DiskFile>) -> Self {
        Self { file, end: AtomicU64::new(0), buffers: BufferPool::new(KEPT_BYTES) }
    }

    /// Writes rows: first those of the first part, and so on. `counts` says how many each has of `order`.
    pub(super) fn write(&self, rows: &Rows, (order, counts): (&[u32], &[usize]), parts: &mut Parts) -> Result<()> {
        let layout = Arc::new(PieceLayout::of(rows));
        let row_bytes = layout.row_bytes();
        let text_bytes = |rows_of_part: &[u32]| -> usize {
            let of = rows.columns.iter().filter(|column| column.texts.is_some());
            of.map(|column| rows_of_part.iter().map(|row| column.text(*row as usize).len()).sum::<usize>()).sum()
        };
        let (mut pieces, mut row, mut end) = (Vec::new(), 0, 0);
        for (part, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let of_part = &order[row..row + count];
            let bytes = count * row_bytes + text_bytes(of_part);
            pieces.push((part, of_part, end..end + bytes));
            row += count;
            end = (end + bytes).next_multiple_of(limits::IO_ALIGN);
        }
        let mut buffer: AlignedBuffer = self.buffers.require(end)?;
        let start = self.end.fetch_add(end as u64, Ordering::Relaxed);
        let numbers = rows.numbers.as_chunks().0;
        let mut written = 0;
        for (part, of_part, bytes) in pieces {
            buffer[written..bytes.start].fill(0);
            written = bytes.end;
            layout.write(rows, of_part, &mut buffer[bytes.clone()]);
            let place = start + bytes.start as u64..start + bytes.end as u64;
            let part = &mut parts.parts[part];
            let of_rows = of_part.iter().map(|row| u64::from_le_bytes(numbers[*row as usize]));
            let ends =
                of_rows.fold((u64::MAX, 0), |(least, greatest), number| (number.min(least), number.max(greatest)));
            part.widen(ends);
            part.pieces.push(Piece { bytes: place, rows: of_part.len(), layout: Arc::clone(&layout) });
        }
        buffer[written..].fill(0);
        self.file.write_direct(start, &buffer)
    }

    /// Adds the rows of these pieces, in their order.
    pub(super) fn read(&self, pieces: &[Piece], rows: &mut Rows) -> Result<()> {
        let request = |piece: &Piece| {
            let bytes = piece.bytes() as usize;
            let buffer = self.buffers.require(bytes.next_multiple_of(limits::IO_ALIGN))?;
            Ok(ReadRequest { offset: piece.bytes.start, buffer })
        };
        // Rows of nothing but zeros take no bytes.
        let stored = pieces.iter().filter(|piece| !piece.bytes.is_empty());
        let mut requests = stored.map(request).collect::<Result<Vec<_>>>()?;
        self.file.read_direct(&mut requests)?;
        let mut filled = requests.iter();
        // Parts are of about the same size: room for a larger one spares moving for the next.
        let count: usize = pieces.iter().map(|piece| piece.rows).sum();
        rows.reserve(count + count / 8);
        for piece in pieces {
            let bytes: &[u8] = match piece.bytes.is_empty() {
                true => &[],
                false => &filled.next().ok_or_else(damaged)?.buffer[..piece.bytes() as usize],
            };
            piece.layout.read(bytes, piece.rows, rows)?;
        }
        Ok(())
    }
}

impl Parts {
    /// So many parts without rows.
    pub(super) fn new(parts: usize) -> Self {
        Self { parts: vec![Part::default(); parts] }
    }

    /// The parts of workers whose shares of the rows follow one another.
    pub(super) fn joined(shares: Vec<Self>) -> Vec<Part> {
        let mut shares = shares.into_iter();
        let mut all = shares.next().map(|first| first.parts).unwrap_or_default();
        for share in shares {
            for (part, more) in all.iter_mut().zip(share.parts) {
                part.pieces.extend(more.pieces);
                more.numbers.into_iter().for_each(|ends| part.widen(ends));
            }
        }
        all
    }
}

impl Piece {
    /// Bytes in the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }
}

impl Part {
    /// Whether all rows have the same number, and so are in order.
    pub(super) fn has_one_number(&self) -> bool {
        self.numbers.is_none_or(|(least, greatest)| least == greatest)
    }

    fn widen(&mut self, (least, greatest): (u64, u64)) {
        let known = self.numbers.unwrap_or((least, greatest));
        self.numbers = Some((known.0.min(least), known.1.max(greatest)));
    }
}

#[cfg(test)]
mod tests {
    use forebay_disk::{Disk, MemoryDisk};

    use super::super::carried::Texts;
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

    /// Rows with a number, an integer that is NULL in every fifth, and a text of some bytes.
    fn rows(numbers: &[u64], nulls: bool) -> Rows {
        let integers = numbers.iter().flat_map(|number| (*number as u32).to_le_bytes()).collect();
        let validity = numbers.iter().filter(|_| nulls).map(|number| u8::from(number % 5 != 0)).collect();
        let (mut texts, mut lengths) = (Texts::default(), Vec::new());
        for number in numbers {
            texts.starts.push(texts.bytes.len());
            let text = "x".repeat((number % 4) as usize) + "y";
            texts.bytes.extend_from_slice(text.as_bytes());
            lengths.extend((text.len() as u32).to_le_bytes());
        }
        let integers = ColumnRows { width: 4, values: integers, validity, texts: None };
        let texts = ColumnRows { width: 4, values: lengths, validity: Vec::new(), texts: Some(texts) };
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Rows { numbers, columns: vec![integers, texts] }
    }

    #[test]
    fn pieces_are_read_as_they_were_written() {
        let file = PartsFile::new(MemoryDisk::default().temporary().expect("a file"));
        let mut shares = Vec::new();
        let writes: [(&[u64], bool); 4] =
            [(&[9, 3, 70_000, 5, 4], false), (&[0, 0, 0], true), (&[0], false), (&[10, 1], true)];
        for (numbers, nulls) in writes {
            let mut parts = Parts::new(2);
            let order: Vec<u32> = (0..numbers.len() as u32).rev().collect();
            let in_first = numbers.len().div_ceil(2);
            let counts = [in_first, numbers.len() - in_first];
            file.write(&rows(numbers, nulls), (&order, &counts), &mut parts).expect("written");
            shares.push(parts);
        }
        let parts = Parts::joined(shares);
        let expected: [&[u64]; 2] = [&[4, 5, 70_000, 0, 0, 0, 1], &[3, 9, 0, 10]];
        for (part, expected) in parts.iter().zip(expected) {
            assert!(!part.has_one_number());
            let mut read = rows(&[], false);
            file.read(&part.pieces, &mut read).expect("read back");
            assert_eq!(read.numbers().collect::<Vec<_>>(), expected);
            let wanted = rows(expected, false);
            for row in 0..expected.len() {
                assert_eq!(read.columns[1].text(row), wanted.columns[1].text(row), "row {row} of {expected:?}");
            }
            assert_eq!(read.columns[0].values, wanted.columns[0].values);
            assert_eq!(read.columns[0].validity.len(), expected.len());
        }
        assert!(rows(&[], false).len() == 0 && Part::default().has_one_number());
    }
}
