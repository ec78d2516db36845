//! Unpacking the selected rows of a block by position (Data Blocks §3.4).

use std::ops::Range;

use forebay_block::{Access, Codes, EncodedBlock, Native, RunEnds, ValueRef, Values, validity};

use crate::Selection;
use crate::selection::{Selected, count_below};
use crate::simd::prefetch;

/// Appends the selected values to `out`; NULL rows give any value. `T` must be the block's physical type.
pub fn unpack_fixed<T: Native>(block: &EncodedBlock, selection: &Selection, out: &mut Vec<T>) {
    unpack_to(block, &selection.all(), out);
}

/// Writes the values of `rows` to `out`, which has as many; NULL rows give any value. `T` must be the block's physical
/// type.
pub fn fill_fixed<T: Native>(block: &EncodedBlock, rows: &Selected, out: &mut [T]) {
    assert_eq!(rows.len(), out.len(), "one value for each row");
    unpack_to(block, rows, out);
}

fn unpack_to<T: Native>(block: &EncodedBlock, rows: &Selected, mut out: impl Target<T>) {
    assert_eq!(T::PHYSICAL, block.physical(), "a block is unpacked as its own type");
    match block.access() {
        Access::AllNull => out.take(std::iter::repeat_n(T::zeroed(), rows.len())),
        Access::Constant(value) => {
            let bits = match value {
                ValueRef::Int(value) => value,
                ValueRef::Float32(value) => value.bits(),
                ValueRef::Float64(value) => value.bits(),
                ValueRef::Bytes(_) => unreachable!("a fixed-width block has no string"),
            };
            let value = T::from_bits(bits).expect("parsing checked that the constant is of the block's type");
            out.take(std::iter::repeat_n(value, rows.len()));
        }
        Access::FrameOfReference { base, codes } => {
            let base = T::from_bits(base).expect("parsing checked that the base is of the block's type");
            with_codes(codes, rows, FromFrame { base, out });
        }
        Access::Dictionary { values: Values::Fixed(values), codes } => {
            with_codes(codes, rows, FromDictionary { values: &values.natives(), out });
        }
        Access::RunLength { values: Values::Fixed(values), ends } => {
            with_runs(ends, rows, FromDictionary { values: &values.natives(), out });
        }
        Access::Plain(Values::Fixed(values)) => match rows {
            Selected::Rows(rows) => {
                out.take_bytes(&values.bytes()[rows.start as usize * T::WIDTH..rows.end as usize * T::WIDTH]);
            }
            Selected::Positions(positions) => {
                let ask = |row| prefetch(values.bytes(), row * T::WIDTH);
                ahead(positions, T::WIDTH, ask, |piece| {
                    out.take(piece.iter().map(|row| values.native::<T>(usize::from(*row))));
                });
            }
        },
        Access::Dictionary { values: Values::Strings(_), .. }
        | Access::Plain(Values::Strings(_))
        | Access::RunLength { values: Values::Strings(_), .. } => {
            unreachable!("a fixed-width block has no strings")
        }
    }
}

/// Appends the dictionary codes of the selected rows to `out`, or the numbers of their runs. The block must be a dictionary
/// block or one of runs.
pub fn unpack_codes(block: &EncodedBlock, selection: &Selection, out: &mut Vec<u32>) {
    let entries = match block.access() {
        Access::Dictionary { codes, .. } => Entries::Codes(codes),
        Access::RunLength { ends, .. } => Entries::Runs(ends),
        Access::AllNull | Access::Constant(_) | Access::FrameOfReference { .. } | Access::Plain(_) => {
            panic!("codes are unpacked from dictionary blocks and runs, not from {:?}", block.encoding())
        }
    };
    entries.take(&selection.all(), FromFrame { base: 0u32, out });
}

/// What tells which of a block's entries each row has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entries<'a> {
    /// Codes.
    Codes(Codes<'a>),
    /// The number of its run.
    Runs(RunEnds<'a>),
}

impl Entries<'_> {
    /// Gives the entries of `rows` to `sink`.
    #[inline]
    pub(crate) fn take(self, rows: &Selected, sink: impl CodeSink) {
        match self {
            Self::Codes(codes) => with_codes(codes, rows, sink),
            Self::Runs(ends) => with_runs(ends, rows, sink),
        }
    }

    /// Writes the entries of `rows`, which must fit 4 bytes, to `out`, which has as many.
    pub(crate) fn fill(self, rows: &Selected, out: &mut [u32]) {
        assert_eq!(rows.len(), out.len(), "one entry for each row");
        self.take(rows, FromFrame { base: 0u32, out });
    }
}

/// Writes whether `rows` are valid to `out`, which has as many, one byte each, 1 = valid. False, and nothing written, where
/// the block has no NULL.
pub fn fill_validity(block: &EncodedBlock, rows: &Selected, out: &mut [u8]) -> bool {
    assert_eq!(rows.len(), out.len(), "one byte for each row");
    if block.null_count() == 0 {
        return false;
    }
    let Some(bitmap) = block.validity() else {
        out.fill(0);
        return true;
    };
    match rows {
        Selected::Rows(rows) => {
            for (bytes, row) in out.chunks_mut(64).zip(rows.clone().step_by(64)) {
                let word = validity::word(bitmap, row as usize);
                for (bytes, bits) in bytes.chunks_mut(8).zip(word.to_le_bytes()) {
                    bytes.copy_from_slice(&bytes_of_bits(bits)[..bytes.len()]);
                }
            }
        }
        Selected::Positions(positions) => {
            for (byte, row) in out.iter_mut().zip(*positions) {
                *byte = u8::from(validity::is_valid(bitmap, usize::from(*row)));
            }
        }
    }
    true
}

/// Eight bits as eight bytes of 0 or 1, the least significant one first.
#[inline]
fn bytes_of_bits(bits: u8) -> [u8; 8] {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Every byte keeps its own bit; adding 127 carries it into the byte's top.
    let own = (u64::from(bits) * EACH) & 0x8040_2010_0804_0201;
    (((own + 0x7f * EACH) >> 7) & EACH).to_le_bytes()
}

/// Bitmap of the selected rows' validity, least significant bit first, 1 = valid; `None` where the block has no NULL.
pub fn unpack_validity(block: &EncodedBlock, selection: &Selection) -> Option<Vec<u8>> {
    if block.null_count() == 0 {
        return None;
    }
    let selected = selection.len();
    let mut out = Vec::with_capacity(selected.div_ceil(64) * 8);
    if let Some(bitmap) = block.validity() {
        match selection {
            Selection::Rows(rows) => {
                for row in rows.clone().step_by(64) {
                    out.extend_from_slice(&validity::word(bitmap, row as usize).to_le_bytes());
                }
            }
            Selection::Positions(positions) => {
                for rows in positions.chunks(64) {
                    let bit = |row: &u16| u64::from(validity::is_valid(bitmap, usize::from(*row)));
                    let word = rows.iter().rev().fold(0u64, |word, row| word << 1 | bit(row));
                    out.extend_from_slice(&word.to_le_bytes());
                }
            }
        }
    }
    // Bits behind the selection are 0.
    out.resize(selected.div_ceil(8), 0);
    if let (false, Some(last)) = (selected.is_multiple_of(8), out.last_mut()) {
        *last &= (1 << (selected % 8)) - 1;
    }
    Some(out)
}

/// What is made of codes, in whatever width they are: it takes them piece by piece, in row order.
pub(crate) trait CodeSink {
    fn take<C: Copy + Into<u64>>(&mut self, codes: impl ExactSizeIterator<Item = C>);

    /// Takes the same code so many times.
    #[inline]
    fn repeat(&mut self, code: u32, rows: usize) {
        self.take(std::iter::repeat_n(code, rows));
    }
}

/// Where values go: behind those of a vector, or over the next ones of a slice, which has as many.
trait Target<T> {
    fn take(&mut self, values: impl ExactSizeIterator<Item = T>);
    fn take_bytes(&mut self, bytes: &[u8]);
}

/// Writes values over the first slots, which are then done.
#[inline]
pub(crate) fn overwrite<T>(slots: &mut &mut [T], values: impl ExactSizeIterator<Item = T>) {
    let (now, rest) = std::mem::take(slots).split_at_mut(values.len());
    for (slot, value) in now.iter_mut().zip(values) {
        *slot = value;
    }
    *slots = rest;
}

impl<T: Native> Target<T> for &mut Vec<T> {
    #[inline]
    fn take(&mut self, values: impl ExactSizeIterator<Item = T>) {
        self.extend(values);
    }

    fn take_bytes(&mut self, bytes: &[u8]) {
        let start = self.len();
        self.resize(start + bytes.len() / T::WIDTH, T::zeroed());
        bytemuck::cast_slice_mut(&mut self[start..]).copy_from_slice(bytes);
    }
}

impl<T: Native> Target<T> for &mut [T] {
    #[inline]
    fn take(&mut self, values: impl ExactSizeIterator<Item = T>) {
        overwrite(self, values);
    }

    fn take_bytes(&mut self, bytes: &[u8]) {
        bytemuck::cast_slice_mut(self).copy_from_slice(bytes);
    }
}

struct FromFrame<T, O> {
    base: T,
    out: O,
}

impl<T: Native, O: Target<T>> CodeSink for FromFrame<T, O> {
    #[inline]
    fn take<C: Copy + Into<u64>>(&mut self, codes: impl ExactSizeIterator<Item = C>) {
        let base = self.base;
        self.out.take(codes.map(|code| base.plus(code.into())));
    }
}

struct FromDictionary<'a, T, O> {
    values: &'a [T],
    out: O,
}

impl<T: Native, O: Target<T>> CodeSink for FromDictionary<'_, T, O> {
    #[inline]
    fn take<C: Copy + Into<u64>>(&mut self, codes: impl ExactSizeIterator<Item = C>) {
        let values = self.values;
        self.out.take(codes.map(|code| values[code.into() as usize]));
    }

    #[inline]
    fn repeat(&mut self, code: u32, rows: usize) {
        self.out.take(std::iter::repeat_n(self.values[code as usize], rows));
    }
}

#[inline]
pub(crate) fn with_codes(codes: Codes, rows: &Selected, sink: impl CodeSink) {
    match codes {
        Codes::U8(codes) => selected(codes, rows, sink),
        Codes::U16(codes) => selected(codes, rows, sink),
        Codes::U32(codes) => selected(codes, rows, sink),
        Codes::U64(codes) => selected(codes, rows, sink),
    }
}

/// Gives the number of each row's run to `sink`, run by run.
pub(crate) fn with_runs(ends: RunEnds, rows: &Selected, mut sink: impl CodeSink) {
    for_each_run(ends, rows, |run, selected| sink.repeat(run as u32, selected.len()));
}

/// Calls `visit` with every run that has some of `rows`, ascending, and with their numbers among `rows`.
pub(crate) fn for_each_run(ends: RunEnds, rows: &Selected, mut visit: impl FnMut(usize, Range<usize>)) {
    match rows {
        Selected::Rows(rows) if rows.is_empty() => {}
        Selected::Rows(rows) => {
            let first = ends.run_of(rows.start as usize);
            let start = rows.start;
            for run in first..ends.len() {
                let own = ends.rows(run);
                visit(run, (own.start.max(start) - start) as usize..(own.end.min(rows.end) - start) as usize);
                if own.end >= rows.end {
                    break;
                }
            }
        }
        Selected::Positions(positions) => {
            let (last_rows, mut run, mut from) = (ends.last_rows(), 0, 0);
            while let Some(position) = positions.get(from) {
                // Mostly the next run; else some runs have no such row.
                if last_rows[run] < *position {
                    run += 1;
                    if last_rows[run] < *position {
                        run += last_rows[run..].partition_point(|last| last < position);
                    }
                }
                let count = count_below(&positions[from..], u32::from(last_rows[run]) + 1);
                visit(run, from..from + count);
                from += count;
            }
        }
    }
}

#[inline]
fn selected<C: Copy + Into<u64>>(codes: &[C], rows: &Selected, mut sink: impl CodeSink) {
    match rows {
        Selected::Rows(rows) => sink.take(codes[rows.start as usize..rows.end as usize].iter().copied()),
        Selected::Positions(positions) if is_dense(positions) => {
            // Where hardly a row is missing, most pieces are rows one after the other, which vector instructions take.
            let (pieces, rest) = positions.as_chunks::<PIECE_ROWS>();
            for piece in pieces {
                let first = usize::from(piece[0]);
                match codes[first..].first_chunk::<PIECE_ROWS>() {
                    Some(run) if usize::from(piece[PIECE_ROWS - 1]) == first + PIECE_ROWS - 1 => {
                        sink.take(run.iter().copied());
                    }
                    _ => sink.take(piece.iter().map(|row| codes[usize::from(*row)])),
                }
            }
            sink.take(rest.iter().map(|row| codes[usize::from(*row)]));
        }
        Selected::Positions(positions) => {
            ahead(
                positions,
                size_of::<C>(),
                |row| prefetch(codes, row),
                |piece| {
                    sink.take(piece.iter().map(|row| codes[usize::from(*row)]));
                },
            );
        }
    }
}

/// Takes rows of so many bytes, which are asked for ahead where they lie far apart.
#[inline]
fn ahead(positions: &[u16], width: usize, ask: impl Fn(usize), mut take: impl FnMut(&[u16])) {
    if !is_sparse(positions, width) {
        return take(positions);
    }
    let ask = |piece: &[u16]| piece.iter().for_each(|row| ask(usize::from(*row)));
    let mut pieces = positions.chunks(AHEAD_ROWS).peekable();
    pieces.peek().into_iter().for_each(|first| ask(first));
    while let Some(piece) = pieces.next() {
        pieces.peek().into_iter().for_each(|next| ask(next));
        take(piece);
    }
}

/// Positions of a sparse selection that are asked for before those in front of them are taken. The processor looks ahead less
/// far by itself.
const AHEAD_ROWS: usize = 128;

/// Bytes between two values of a selection from which on nearly each has a line of the cache for itself; its neighbours'
/// lines are fetched with it.
const SPARSE_BYTES: usize = 128;

/// Whether the rows lie so far apart that taking them is waiting for memory.
#[inline]
fn is_sparse(positions: &[u16], width: usize) -> bool {
    let (Some(first), Some(last)) = (positions.first(), positions.last()) else { return false };
    usize::from(last - first) * width >= positions.len() * SPARSE_BYTES
}

/// Positions of a dense selection that are looked at together.
const PIECE_ROWS: usize = 16;

/// Whether of the rows from the first to the last position at most one in [`PIECE_ROWS`] is missing.
#[inline]
fn is_dense(positions: &[u16]) -> bool {
    let (Some(first), Some(last)) = (positions.first(), positions.last()) else { return false };
    let span = usize::from(last - first) + 1;
    span - positions.len() <= span / PIECE_ROWS
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Collected(Vec<u64>);

    impl CodeSink for Collected {
        fn take<C: Copy + Into<u64>>(&mut self, codes: impl ExactSizeIterator<Item = C>) {
            self.0.extend(codes.map(Into::into));
        }
    }

    struct Borrowed<'a>(&'a mut Collected);

    impl CodeSink for Borrowed<'_> {
        fn take<C: Copy + Into<u64>>(&mut self, codes: impl ExactSizeIterator<Item = C>) {
            self.0.take(codes);
        }
    }

    #[test]
    fn dense_selections_are_taken_row_by_row() {
        let codes: Vec<u32> = (0..5000).map(|row| row * 7 % 1013).collect();
        for (step, missing) in [(0, 0), (97, 0), (97, 96), (16, 3), (5, 1), (2, 1), (4999, 4998)] {
            for end in [0u16, 1, 15, 16, 17, 100, 4999, 5000] {
                let positions: Vec<u16> = (0..end).filter(|row| step == 0 || row % step != missing).collect();
                check_codes(&codes, &positions);
            }
        }
    }

    /// Fewer rows than are asked for ahead, as many, one more, and some pieces.
    #[test]
    fn sparse_selections_are_taken_whole() {
        let codes: Vec<u32> = (0..60_000).map(|row| row * 7 % 1013).collect();
        for rows in [1, 2, AHEAD_ROWS - 1, AHEAD_ROWS, AHEAD_ROWS + 1, 3 * AHEAD_ROWS + 5, 490] {
            let positions: Vec<u16> = (0..rows).map(|row| (row * 120) as u16).collect();
            assert!(rows == 1 || is_sparse(&positions, 4), "{rows}");
            assert!(!is_sparse(&positions, 1), "{rows}");
            check_codes(&codes, &positions);
        }
    }

    fn check_codes(codes: &[u32], positions: &[u16]) {
        let mut sink = Collected(Vec::new());
        with_codes(Codes::U32(codes), &Selected::Positions(positions), Borrowed(&mut sink));
        let expected: Vec<u64> = positions.iter().map(|row| codes[usize::from(*row)].into()).collect();
        assert_eq!(sink.0, expected, "{positions:?}");
    }
}
