//! Join tables by key: a bitmap of keys and an array for each payload column.
//!
//! Invariants: keys are distinct, so that each entry is written once, by one thread; entries without a key are 0.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use forebay_pipeline::KeySet;
use forebay_pipeline::ir::{JoinState, ValueType};

use super::{ColumnRange, DenseColumn, DensePayload};
use crate::arena::Arena;
use crate::parallel;
use crate::rows::{Field, RowBuffer, Valid};

/// A bitmap and arrays.
#[derive(Debug)]
pub(super) struct DenseTable {
    keys: Arc<KeySet>,
    columns: Vec<Column>,
    /// What the entries of bytes refer to.
    arena: Arena,
}

#[derive(Debug)]
struct Column {
    layout: DenseColumn,
    base: i64,
    entries: Entries,
    validity: Vec<u8>,
}

#[derive(Debug)]
enum Entries {
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
    Eight(Vec<u64>),
    Sixteen(Vec<[u64; 2]>),
}

/// A column that workers write at the same time, each its own entries; atomics make that safe and cost nothing.
#[derive(Debug)]
struct Writer {
    layout: DenseColumn,
    field: Field,
    base: i64,
    entries: Unfinished,
    validity: Vec<AtomicU8>,
}

#[derive(Debug)]
enum Unfinished {
    One(Vec<AtomicU8>),
    Two(Vec<AtomicU16>),
    Four(Vec<AtomicU32>),
    Eight(Vec<AtomicU64>),
    Sixteen(Vec<[AtomicU64; 2]>),
}

/// The set of the valid keys, which lie in this range, of rows that come in several parts. `None` where they span too much.
pub(super) fn key_bits<'a, R>(
    (low, high): (i64, i64),
    parts: Vec<R>,
    key: &Field,
    threads: usize,
) -> Option<Arc<KeySet>>
where
    R: Iterator<Item = &'a [u64]> + Send,
{
    let words = high.wrapping_sub(low) as u64 / 64 + 1;
    let words: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
    let is_alone = threads == 1 || parts.len() == 1;
    parallel::map(threads, parts, |rows| {
        for row in rows.filter(|row| key.is_valid(row)) {
            let number = (row[key.word] as i64).wrapping_sub(low) as u64;
            let (word, bit) = (&words[(number / 64) as usize], 1 << (number % 64));
            // A single writer need not lock the memory.
            if is_alone {
                word.store(word.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
            } else {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    });
    let words = words.into_iter().map(AtomicU64::into_inner).collect();
    KeySet::of_words(i128::from(low), words).map(Arc::new)
}

/// Bytes that hold every value of a range, less the least one.
pub fn entry_bytes((low, high): (i64, i64)) -> u8 {
    match high.wrapping_sub(low) as u64 {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

impl DenseTable {
    /// How the payload would lie.
    pub(super) fn columns(state: &JoinState, payload: &[ColumnRange]) -> Vec<DenseColumn> {
        let column = |(typed, range): (&forebay_pipeline::ir::Typed, &ColumnRange)| DenseColumn {
            bytes: match typed.value {
                ValueType::Bool => 1,
                ValueType::F64 => 8,
                ValueType::I128 | ValueType::Bytes => 16,
                ValueType::I64 => range.range().map_or(1, entry_bytes),
            },
            validity: typed.nullable,
        };
        state.payload.iter().zip(payload).map(column).collect()
    }

    /// Bytes that such arrays of `span` entries take.
    pub(super) fn bytes(columns: &[DenseColumn], span: u64) -> u64 {
        let entry: u64 = columns.iter().map(|column| u64::from(column.bytes) + u64::from(column.validity)).sum();
        span * entry + span / 8
    }

    /// The table of rows with these keys; `fields` are the key and the payload.
    pub(super) fn build(
        keys: Arc<KeySet>,
        layout: Vec<DenseColumn>,
        payload: &[ColumnRange],
        fields: &[Field],
        parts: Vec<RowBuffer>,
        threads: usize,
    ) -> Self {
        let span = (keys.high() - keys.low()) as usize + 1;
        let (key, fields) = fields.split_first().expect("there is a key");
        let column = |((layout, field), range): ((DenseColumn, &Field), &ColumnRange)| Writer {
            layout,
            field: *field,
            base: range.range().map_or(0, |(low, _)| low),
            entries: Unfinished::new(layout.bytes, span),
            validity: if layout.validity { zeroed(span, AtomicU8::new) } else { Vec::new() },
        };
        let columns: Vec<Writer> = layout.into_iter().zip(fields).zip(payload).map(column).collect();
        let low = keys.low() as i64;
        parallel::map(threads, parts.iter().collect(), |part: &RowBuffer| {
            for row in part.rows().filter(|row| key.is_valid(row)) {
                let entry = (row[key.word] as i64).wrapping_sub(low) as usize;
                columns.iter().for_each(|column| column.write(entry, row));
            }
        });
        let mut arena = Arena::default();
        arena.append(parts.into_iter().map(|part| part.into_parts().1));
        Self { keys, columns: columns.into_iter().map(Writer::finish).collect(), arena }
    }

    pub(super) fn keys(&self) -> &Arc<KeySet> {
        &self.keys
    }

    pub(super) fn layout(&self) -> Vec<DenseColumn> {
        self.columns.iter().map(|column| column.layout).collect()
    }

    /// Entries, validity and base of each column.
    pub(super) fn addresses(&self) -> Vec<(u64, u64, i64)> {
        let validity = |column: &Column| match column.layout.validity {
            true => column.validity.as_ptr().expose_provenance() as u64,
            false => 0,
        };
        self.columns.iter().map(|column| (column.entries.address(), validity(column), column.base)).collect()
    }

    /// A column as it lies in memory.
    pub(super) fn payload(&self, column: usize) -> DensePayload<'_> {
        let Column { layout, base, entries, validity } = &self.columns[column];
        DensePayload { entries: entries.bytes(), entry_bytes: layout.bytes, base: *base, validity }
    }

    /// The value that compiled code would read.
    #[cfg(test)]
    pub(super) fn scalar(&self, column: usize, entry: usize, value: ValueType) -> forebay_pipeline::Scalar {
        use forebay_pipeline::Scalar;

        let payload = self.payload(column);
        if payload.validity.get(entry) == Some(&0) {
            return Scalar::Null;
        }
        let width = usize::from(payload.entry_bytes);
        let mut bytes = [0; 16];
        bytes[..width].copy_from_slice(&payload.entries[entry * width..][..width]);
        let wide = i128::from_le_bytes(bytes);
        match value {
            ValueType::Bool => Scalar::Bool(wide != 0),
            ValueType::I64 => Scalar::I64(payload.base.wrapping_add(wide as i64)),
            ValueType::F64 => Scalar::F64(f64::from_bits(wide as u64)),
            ValueType::I128 => Scalar::I128(wide),
            ValueType::Bytes => Scalar::bytes(self.arena.get(wide as u64, (wide >> 64) as usize)),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let bytes = |column: &Column| column.entries.memory_bytes() + column.validity.capacity();
        self.columns.iter().map(bytes).sum::<usize>() + self.arena.memory_bytes()
    }
}

impl Writer {
    #[inline]
    fn write(&self, entry: usize, row: &[u64]) {
        const ORDER: Ordering = Ordering::Relaxed;
        if !matches!(self.field.valid, Valid::Always) {
            if !self.field.is_valid(row) {
                return;
            }
            self.validity[entry].store(1, ORDER);
        }
        let first = row[self.field.word];
        let offset = if self.field.value == ValueType::I64 { first.wrapping_sub(self.base as u64) } else { first };
        match &self.entries {
            Unfinished::One(entries) => entries[entry].store(offset as u8, ORDER),
            Unfinished::Two(entries) => entries[entry].store(offset as u16, ORDER),
            Unfinished::Four(entries) => entries[entry].store(offset as u32, ORDER),
            Unfinished::Eight(entries) => entries[entry].store(offset, ORDER),
            Unfinished::Sixteen(entries) => {
                entries[entry][0].store(first, ORDER);
                entries[entry][1].store(row[self.field.word + 1], ORDER);
            }
        }
    }

    /// The column, which nobody writes any more. Arrays of atomics become plain ones in place.
    fn finish(self) -> Column {
        let entries = match self.entries {
            Unfinished::One(entries) => Entries::One(entries.into_iter().map(AtomicU8::into_inner).collect()),
            Unfinished::Two(entries) => Entries::Two(entries.into_iter().map(AtomicU16::into_inner).collect()),
            Unfinished::Four(entries) => Entries::Four(entries.into_iter().map(AtomicU32::into_inner).collect()),
            Unfinished::Eight(entries) => Entries::Eight(entries.into_iter().map(AtomicU64::into_inner).collect()),
            Unfinished::Sixteen(entries) => {
                Entries::Sixteen(entries.into_iter().map(|entry| entry.map(AtomicU64::into_inner)).collect())
            }
        };
        let validity = self.validity.into_iter().map(AtomicU8::into_inner).collect();
        Column { layout: self.layout, base: self.base, entries, validity }
    }
}

impl Unfinished {
    fn new(bytes: u8, count: usize) -> Self {
        match bytes {
            1 => Self::One(zeroed(count, AtomicU8::new)),
            2 => Self::Two(zeroed(count, AtomicU16::new)),
            4 => Self::Four(zeroed(count, AtomicU32::new)),
            8 => Self::Eight(zeroed(count, AtomicU64::new)),
            _ => Self::Sixteen(zeroed(count, |zero: u64| [AtomicU64::new(zero), AtomicU64::new(zero)])),
        }
    }
}

fn zeroed<T, N: From<u8>>(count: usize, new: impl Fn(N) -> T) -> Vec<T> {
    (0..count).map(|_| new(N::from(0))).collect()
}

/// Runs `$body` with `$entries` bound to the entries of any width.
macro_rules! with_entries {
    ($self:expr, $entries:ident => $body:expr) => {
        match $self {
            Entries::One($entries) => $body,
            Entries::Two($entries) => $body,
            Entries::Four($entries) => $body,
            Entries::Eight($entries) => $body,
            Entries::Sixteen($entries) => $body,
        }
    };
}

impl Entries {
    fn bytes(&self) -> &[u8] {
        with_entries!(self, entries => bytemuck::cast_slice(entries))
    }

    fn address(&self) -> u64 {
        with_entries!(self, entries => entries.as_ptr().expose_provenance() as u64)
    }

    fn memory_bytes(&self) -> usize {
        self.bytes().len()
    }
}
