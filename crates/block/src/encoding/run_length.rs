//! RunLength: one value for each run of rows that have it. The codes section holds the last row of each run in 2 bytes, the
//! values section one value per run, strings as offsets and bytes.
//!
//! Invariants: last rows ascend, the last one is the block's last row. Neighbouring runs may have the same value. NULL rows
//! are within any run.

use forebay_base::Result;

use super::{BlockEncoding, Bounds, Encoding};
use crate::access::{Access, RunEnds};
use crate::column::{FixedColumn, OFFSET_BYTES, StringColumn};
use crate::encode::{BlockWriter, string_bounds, string_bytes};
use crate::header::Header;
use crate::native::Native;
use crate::parse::EncodedBlock;

/// The encoding of long runs.
pub(super) struct RunLength;

/// Bytes of the last row of a run.
const END_BYTES: usize = size_of::<u16>();

/// Shorter blocks are read before it matters how.
const LEAST_ROWS: usize = 4096;

/// Codes of shorter runs are read faster, by vectors (`examples/run_speed.rs` of the crate `cpu`).
const FEWEST_ROWS_PER_RUN: usize = 128;

/// Runs take at most this share of the bytes that the next best encoding takes. Codes compress well where runs are long;
/// runs are chosen for what they spare when they are read.
const MOST_SHARE: usize = 4;

/// The most runs that are worth it.
fn most_runs(rows: usize) -> usize {
    if rows < LEAST_ROWS { 0 } else { rows / FEWEST_ROWS_PER_RUN }
}

impl BlockEncoding for RunLength {
    const NAME: &'static str = "run_length";

    fn check_header(header: &Header) -> std::result::Result<(), &'static str> {
        header.check_codes(&[END_BYTES as u8])?;
        header.check_entries(header.rows)?;
        header.check_base(false)
    }

    fn codes(header: &Header) -> usize {
        header.entry_count as usize
    }

    fn entries(header: &Header) -> usize {
        header.entry_count as usize
    }

    fn element_bytes(_header: &Header) -> usize {
        END_BYTES
    }

    fn row_bytes(_header: &Header) -> usize {
        0
    }

    fn validate(block: &EncodedBlock<'_>) -> std::result::Result<(), &'static str> {
        let last_rows = block.run_ends().last_rows();
        let ascends = last_rows.windows(2).fold(true, |ascends, pair| ascends & (pair[0] < pair[1]));
        if ascends && last_rows.last().is_some_and(|last| usize::from(*last) + 1 == block.rows()) {
            Ok(())
        } else {
            Err("the ends of runs do not ascend to the last row")
        }
    }

    fn access<'a>(block: &EncodedBlock<'a>) -> Access<'a> {
        Access::RunLength { ends: block.run_ends(), values: block.values() }
    }

    fn estimate_fixed<T: Native>(column: &FixedColumn<'_, T>, budget: usize) -> Option<usize> {
        // On disk they take about as much as in memory.
        let run_bytes = 2 * (T::WIDTH + END_BYTES);
        let most = most_runs(column.rows.len()).min(budget / MOST_SHARE / run_bytes);
        let mut runs = 0;
        let mut before = None;
        column.rows.for_each_piece(|piece| {
            if runs <= most {
                let starts = before.is_none_or(|before: T| before.bits() != piece[0].bits());
                let changes = piece.windows(2).map(|pair| usize::from(pair[0].bits() != pair[1].bits()));
                runs += usize::from(starts) + changes.sum::<usize>();
                before = piece.last().copied();
            }
        });
        (runs <= most).then_some(runs * run_bytes)
    }

    fn encode_fixed<T: Native>(
        column: &FixedColumn<'_, T>,
        _budget: usize,
        block: &mut BlockWriter<'_>,
    ) -> Result<bool> {
        let (mut last_rows, mut values): (Vec<u16>, Vec<T>) = (Vec::new(), Vec::new());
        let mut row = 0;
        column.rows.for_each_piece(|piece| {
            for value in piece {
                match (values.last(), last_rows.last_mut()) {
                    (Some(before), Some(last)) if before.bits() == value.bits() => *last = row,
                    _ => {
                        values.push(*value);
                        last_rows.push(row);
                    }
                }
                row = row.wrapping_add(1);
            }
        });
        block.begin(header(block, values.len(), 0))?;
        block.write_section(bytemuck::cast_slice(&last_rows));
        block.write_section(bytemuck::cast_slice(&values));
        Ok(true)
    }

    fn estimate_strings(column: &StringColumn<'_>, budget: usize) -> Option<usize> {
        let most = most_runs(column.len());
        let (mut runs, mut bytes) = (0, OFFSET_BYTES);
        for row in 0..column.len() {
            if row == 0 || column.filled(row) != column.filled(row - 1) {
                runs += 1;
                bytes += END_BYTES + OFFSET_BYTES + column.filled(row).len();
                if runs > most || bytes > budget / MOST_SHARE {
                    return None;
                }
            }
        }
        Some(bytes)
    }

    fn encode_strings(
        column: &StringColumn<'_>,
        _budget: usize,
        block: &mut BlockWriter<'_>,
    ) -> Result<Option<Bounds>> {
        let (mut last_rows, mut values): (Vec<u16>, Vec<&[u8]>) = (Vec::new(), Vec::new());
        for row in 0..column.len() {
            let value = column.filled(row);
            match last_rows.last_mut().filter(|_| values.last() == Some(&value)) {
                Some(last) => *last = row as u16,
                None => {
                    values.push(value);
                    last_rows.push(row as u16);
                }
            }
        }
        let string_bytes = string_bytes(values.iter().map(|value| value.len()).sum())?;
        block.begin(header(block, values.len(), string_bytes))?;
        block.write_section(bytemuck::cast_slice(&last_rows));
        block.write_strings(values.iter().copied());
        let (min, max) = (values.iter().min(), values.iter().max());
        Ok(Some(string_bounds(min.copied().unwrap_or_default(), max.copied().unwrap_or_default())))
    }
}

fn header(block: &BlockWriter<'_>, runs: usize, string_bytes: u32) -> Header {
    Header {
        encoding: Encoding::RunLength,
        code_bytes: END_BYTES as u8,
        entry_count: runs as u32,
        string_bytes,
        ..block.header
    }
}

impl<'a> EncodedBlock<'a> {
    /// The ends of a block of runs.
    fn run_ends(&self) -> RunEnds<'a> {
        RunEnds { last_rows: self.numbers(self.header().layout().codes) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{encode_fixed, encode_strings, parse_changed};
    use super::*;
    use crate::access::Values;

    #[test]
    fn runs_have_a_last_row_and_a_value_each() {
        let bytes = encode_fixed::<i32>(&[7, 7, -1, 7, 7, 7], None, Some(Encoding::RunLength));
        let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
        let Access::RunLength { ends, values: Values::Fixed(values) } = block.access() else {
            panic!("{:?}", block.access());
        };
        assert_eq!(ends.last_rows(), [1, 2, 5]);
        assert_eq!(values.natives::<i32>().as_ref(), [7, -1, 7]);
        assert_eq!((0..3).map(|run| ends.rows(run)).collect::<Vec<_>>(), [0..2, 2..3, 3..6]);
        assert_eq!((0..6).map(|row| ends.run_of(row)).collect::<Vec<_>>(), [0, 0, 1, 2, 2, 2]);
        let mut numbers = vec![9];
        ends.append_numbers(&mut numbers);
        assert_eq!((numbers, ends.number_bytes()), (vec![9, 0, 0, 1, 2, 2, 2], 1));
        let bytes = encode_strings(&[b"fig", b"fig", b""], Some(Encoding::RunLength));
        let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
        let Access::RunLength { ends, values: Values::Strings(values) } = block.access() else {
            panic!("{:?}", block.access());
        };
        assert_eq!((ends.last_rows(), values.get(0), values.get(1)), (&[1, 2][..], &b"fig"[..], &b""[..]));
    }

    #[test]
    fn runs_of_a_full_block_reach_its_last_row() {
        for length in [1, 2, 1000, 65_535, 65_536] {
            let values: Vec<u8> = (0..65_536).map(|row| (row / length) as u8).collect();
            let bytes = encode_fixed(&values, None, Some(Encoding::RunLength));
            let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
            let Access::RunLength { ends, .. } = block.access() else { panic!("{:?}", block.access()) };
            assert_eq!((ends.len(), ends.rows(ends.len() - 1).end), (65_536usize.div_ceil(length), 65_536));
        }
    }

    #[test]
    fn more_than_256_runs_have_numbers_of_two_bytes() {
        for runs in [256, 257, 1000] {
            let mut values: Vec<u16> = (0..5000).map(|row| row % runs).collect();
            values.sort_unstable();
            let bytes = encode_fixed(&values, None, Some(Encoding::RunLength));
            let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
            let Access::RunLength { ends, .. } = block.access() else { panic!("{:?}", block.access()) };
            let mut numbers = Vec::new();
            ends.append_numbers(&mut numbers);
            // Sorted values that begin at 0 are the numbers of their runs.
            let expected: Vec<u8> = match ends.number_bytes() {
                1 => values.iter().map(|value| *value as u8).collect(),
                _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            };
            assert_eq!((numbers == expected, ends.number_bytes()), (true, if runs == 256 { 1 } else { 2 }), "{runs}");
        }
    }

    #[test]
    fn long_runs_are_chosen_by_a_clear_margin() {
        let encoding = |rows: usize, length: usize| {
            let values: Vec<i64> = (0..rows).map(|row| (row / length) as i64).collect();
            EncodedBlock::parse(encode_fixed(&values, None, None).bytes()).expect("own blocks parse").encoding()
        };
        assert_eq!(encoding(65_536, 1000), Encoding::RunLength);
        assert_eq!(encoding(LEAST_ROWS, FEWEST_ROWS_PER_RUN), Encoding::RunLength);
        assert_eq!(encoding(LEAST_ROWS - 1, 1000), Encoding::Truncation, "few rows");
        assert_eq!(encoding(65_536, FEWEST_ROWS_PER_RUN - 1), Encoding::Truncation, "short runs");
        let strings = |length: usize| {
            let texts: Vec<Vec<u8>> = (0..65_536).map(|row| format!("status {}", row / length).into_bytes()).collect();
            let slices: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
            EncodedBlock::parse(encode_strings(&slices, None).bytes()).expect("own blocks parse").encoding()
        };
        assert_eq!((strings(1000), strings(20)), (Encoding::RunLength, Encoding::Dictionary));
    }

    #[test]
    fn headers_and_ends_are_checked() {
        let bytes = encode_fixed::<i32>(&[7, 7, -1, 7, 7, 7], None, Some(Encoding::RunLength));
        assert_eq!(parse_changed(&bytes, 6, 1), "code width does not match encoding and type");
        assert_eq!(parse_changed(&bytes, 20, 0), "wrong number of dictionary entries or runs");
        assert_eq!(parse_changed(&bytes, 20, 7), "wrong number of dictionary entries or runs");
        assert_eq!(parse_changed(&bytes, 48, 1), "base value out of the type's range");
        for (at, byte) in [(64, 2), (64, 9), (66, 1), (68, 4), (68, 6), (69, 1)] {
            assert_eq!(parse_changed(&bytes, at, byte), "the ends of runs do not ascend to the last row");
        }
        let bytes = encode_strings(&[b"fig", b"fig", b""], Some(Encoding::RunLength));
        assert_eq!(parse_changed(&bytes, 128 + 4, 9), "string offsets are not monotone or out of bounds");
    }
}
