//! Rows made of columns whose values lie side by side, as devices give results back.
//!
//! Must not know: devices.

use std::ops::Range;

use forebay_pipeline::ir::{JoinState, Typed, ValueType};

use crate::arena::Arena;
use crate::layout::{self, HASH_SEED, Place, RowLayout, build_row, hash_end, hash_word};
use crate::parallel;
use crate::rows::RowBuffer;

/// Rows that one thread makes before it takes more.
const PART_ROWS: usize = 1 << 16;

/// A column of numbers or truths.
#[derive(Debug, Clone, Copy)]
pub struct PlainValues<'a> {
    /// Their type.
    pub typed: Typed,
    /// One value behind the other, little-endian: 1 byte for a truth, 8 for an integer or a float, 16 for a wide integer.
    pub values: &'a [u8],
    /// For each row a byte that is not 0 where the value is NULL; not looked at where the type has no NULLs.
    pub nulls: &'a [u8],
}

impl<'a> PlainValues<'a> {
    /// Bytes of a value of this type.
    fn value_bytes(value: ValueType) -> usize {
        match value {
            ValueType::Bool => 1,
            ValueType::I64 | ValueType::F64 | ValueType::Bytes => 8,
            ValueType::I128 => 16,
        }
    }

    /// Those of some rows.
    fn of(&self, rows: Range<usize>) -> Self {
        let width = Self::value_bytes(self.typed.value);
        let nulls: &'a [u8] = if self.typed.nullable { &self.nulls[rows.clone()] } else { &[] };
        Self { typed: self.typed, values: &self.values[rows.start * width..rows.end * width], nulls }
    }

    fn is_null(&self, row: usize) -> bool {
        self.typed.nullable && self.nulls[row] != 0
    }
}

/// The rows of columns, laid out like this, in parts that `threads` threads have made; what comes before the values is 0. All columns have
/// this many rows.
pub fn rows_of_columns(layout: &RowLayout, columns: &[PlainValues<'_>], rows: usize, threads: usize) -> Vec<RowBuffer> {
    let make = |part: Vec<PlainValues<'_>>, rows| filled(layout, &part, rows);
    in_parts(layout.words.max(1), columns, rows, threads, make)
}

/// The same of rows of a build side that somebody else has found: the columns of its keys, then those of its payload.
pub fn build_rows_of_columns(
    state: &JoinState,
    columns: &[PlainValues<'_>],
    rows: usize,
    threads: usize,
) -> Vec<RowBuffer> {
    let layout = build_row(state);
    let make = |part: Vec<PlainValues<'_>>, rows| {
        let mut memory = filled(&layout, &part, rows);
        let keys = &part[..state.keys.len()];
        hash_keys(&layout, keys, &mut memory);
        if !state.keeps_all {
            leave_out_null_keys(layout.words, keys, rows, &mut memory);
        }
        memory
    };
    in_parts(layout.words, columns, rows, threads, make)
}

fn in_parts(
    words: usize,
    columns: &[PlainValues<'_>],
    rows: usize,
    threads: usize,
    make: impl Fn(Vec<PlainValues<'_>>, usize) -> Vec<u64> + Sync,
) -> Vec<RowBuffer> {
    let parts = (0..rows).step_by(PART_ROWS).map(|first| first..rows.min(first + PART_ROWS)).collect();
    parallel::map(threads, parts, |part: Range<usize>| {
        let columns = columns.iter().map(|column| column.of(part.clone())).collect();
        RowBuffer::of_parts(words, make(columns, part.len()), Arena::default())
    })
}

/// Writes the hash of each row's key, which lies behind its values by then, into the second word.
fn hash_keys(layout: &RowLayout, keys: &[PlainValues<'_>], memory: &mut [u64]) {
    for (number, row) in memory.chunks_exact_mut(layout.words).enumerate() {
        let part = |hash, (key, place): (&PlainValues<'_>, &Place)| match key.typed.value {
            _ if key.is_null(number) => hash_word(hash, 0),
            ValueType::I128 => hash_word(hash_word(hash, row[place.word]), row[place.word + 1]),
            _ => hash_word(hash, row[place.word]),
        };
        row[1] = hash_end(keys.iter().zip(&layout.places).fold(HASH_SEED, part));
    }
}

/// Rows with a NULL in their key find no partner.
fn leave_out_null_keys(words: usize, keys: &[PlainValues<'_>], rows: usize, memory: &mut Vec<u64>) {
    let nullable: Vec<_> = keys.iter().filter(|key| key.typed.nullable).collect();
    if nullable.is_empty() {
        return;
    }
    let mut kept = 0;
    for row in (0..rows).filter(|row| !nullable.iter().any(|key| key.is_null(*row))) {
        memory.copy_within(row * words..(row + 1) * words, kept * words);
        kept += 1;
    }
    memory.truncate(kept * words);
}

/// The rows with their values and validity bits.
fn filled(layout: &RowLayout, columns: &[PlainValues<'_>], rows: usize) -> Vec<u64> {
    let words = layout.words.max(1);
    let mut memory = vec![0; rows * words];
    for (column, place) in columns.iter().zip(&layout.places) {
        let word = place.word;
        let all = memory.chunks_exact_mut(words);
        match column.typed.value {
            ValueType::Bool => all.zip(column.values).for_each(|(row, value)| row[word] = u64::from(*value != 0)),
            ValueType::Bytes => panic!("bytes are kept by their buffer"),
            ValueType::I64 | ValueType::F64 => {
                let values = column.values.as_chunks::<8>().0;
                all.zip(values).for_each(|(row, value)| row[word] = u64::from_le_bytes(*value));
            }
            ValueType::I128 => {
                let values = column.values.as_chunks::<8>().0.as_chunks::<2>().0;
                for (row, [low, high]) in all.zip(values) {
                    (row[word], row[word + 1]) = (u64::from_le_bytes(*low), u64::from_le_bytes(*high));
                }
            }
        }
        let (Some(validity), Some(bit)) = (layout.validity, place.bit) else { continue };
        for (number, row) in memory.chunks_exact_mut(words).enumerate() {
            match column.is_null(number) {
                true => row[word..word + layout::words(place.typed.value)].fill(0),
                false => row[validity] |= 1 << bit,
            }
        }
    }
    memory
}

#[cfg(test)]
mod tests {
    use forebay_pipeline::Scalar;

    use super::*;

    fn column(typed: Typed, rows: usize, value: impl Fn(usize) -> Option<i128>) -> (Vec<u8>, Vec<u8>) {
        let width = PlainValues::value_bytes(typed.value);
        let bytes = |row| value(row).unwrap_or(-1).to_le_bytes()[..width].to_vec();
        ((0..rows).flat_map(bytes).collect(), (0..rows).map(|row| u8::from(value(row).is_none())).collect())
    }

    /// Rows that are made column by column are those that are made value by value, with their hashes.
    #[test]
    fn columns_make_the_same_rows_as_values() {
        let rows = PART_ROWS + 1000;
        let (integer, wide) = (Typed::required(ValueType::I64), Typed::nullable(ValueType::I128));
        let (truth, float) = (Typed::nullable(ValueType::Bool), Typed::required(ValueType::F64));
        let key = Typed::nullable(ValueType::I64);
        type Of = fn(usize) -> Option<i128>;
        let columns: [(Typed, Of); 5] = [
            (key, |row| (row % 7 != 0).then_some(row as i128 * 3 - 1000)),
            (wide, |row| (row % 11 != 0).then_some(((row as i128) << 70) - 5)),
            (truth, |row| (row % 3 != 0).then_some(i128::from(row % 2 == 0))),
            (float, |row| Some(i128::from((row as f64 / 3.0).to_bits()))),
            (integer, |row| Some(-(row as i128))),
        ];
        let bytes: Vec<_> = columns.iter().map(|(typed, of)| column(*typed, rows, of)).collect();
        let plain: Vec<_> = columns
            .iter()
            .zip(&bytes)
            .map(|((typed, _), (values, nulls))| PlainValues { typed: *typed, values, nulls })
            .collect();
        let scalar = |(typed, of): &(Typed, Of), row: usize| match (of(row), typed.value) {
            (None, _) => Scalar::Null,
            (Some(value), ValueType::Bool) => Scalar::Bool(value != 0),
            (Some(value), ValueType::F64) => Scalar::F64(f64::from_bits(value as u64)),
            (Some(value), ValueType::I128) => Scalar::I128(value),
            (Some(value), _) => Scalar::I64(value as i64),
        };
        let types: Vec<Typed> = columns.iter().map(|(typed, _)| *typed).collect();
        let layout = RowLayout::new(1, types.iter().copied());
        let mut expected = RowBuffer::new(layout.words);
        for row in 0..rows {
            let values: Vec<Scalar> = columns.iter().map(|column| scalar(column, row)).collect();
            expected.push_values(&layout, &[0], &values);
        }
        for threads in [1, 3] {
            let made = rows_of_columns(&layout, &plain, rows, threads);
            assert_eq!(made.len(), 2);
            assert!(made.iter().flat_map(RowBuffer::rows).eq(expected.rows()), "{threads} threads");
        }
        for keeps_all in [false, true] {
            let state = JoinState { keys: types[..2].to_vec(), payload: types[2..].to_vec(), keeps_all };
            let build = build_row(&state);
            let mut expected = RowBuffer::new(build.words);
            for row in 0..rows {
                let values: Vec<Scalar> = columns.iter().map(|column| scalar(column, row)).collect();
                if !keeps_all && values[..2].iter().any(Scalar::is_null) {
                    continue;
                }
                let part = |hash, part: &Scalar| match part {
                    Scalar::I64(value) => hash_word(hash, *value as u64),
                    Scalar::I128(value) => hash_word(hash_word(hash, *value as u64), (*value >> 64) as u64),
                    _ => hash_word(hash, 0),
                };
                expected.push_values(&build, &[0, hash_end(values[..2].iter().fold(HASH_SEED, part))], &values);
            }
            let made = build_rows_of_columns(&state, &plain, rows, 2);
            assert!(made.iter().flat_map(RowBuffer::rows).eq(expected.rows()), "keeps all: {keeps_all}");
        }
        assert!(rows_of_columns(&layout, &plain, 0, 2).is_empty());
    }
}
