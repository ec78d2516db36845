//! Columns as they are carried along while a table is sorted: values of fixed width as they lie in blocks, texts that are few as ids of
//! a dictionary, others as their lengths and bytes.
//!
//! Must not know: where rows are on their way to.

use std::sync::Arc;

use forebay_base::{LogicalType, PhysicalType};
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::vector::Vector;
use forebay_pipeline::ir::{DictionaryId, Register, SourceColumn, TableSource, Typed, ValueType};
use forebay_store::TableSnapshot;

use super::moved;

/// Different texts of a column that are carried as ids, at most about so many.
const MOST_DIFFERENT: f64 = 65_536.0;

/// Bytes of the dictionary of a column, at most about so many.
const DICTIONARY_BYTES: f64 = (16 << 20) as f64;

/// The columns of a table that is sorted.
pub(crate) struct Carried {
    /// How they are loaded.
    pub(crate) source: TableSource,
    /// The dictionaries of texts that are carried as ids.
    pub(crate) dictionaries: Vec<Arc<Dictionary>>,
}

/// Rows in memory.
pub(crate) struct Rows {
    /// A number of 8 bytes for each row.
    pub(crate) numbers: Vec<u8>,
    pub(crate) columns: Vec<ColumnRows>,
}

/// The values of a column.
#[derive(Debug, Default)]
pub(crate) struct ColumnRows {
    /// Bytes of a row's value; of a text's length.
    pub(crate) width: usize,
    /// One after the other.
    pub(crate) values: Vec<u8>,
    /// One byte a row, 1 = valid; none where all are.
    pub(crate) validity: Vec<u8>,
    /// Of texts that are carried as they are.
    pub(crate) texts: Option<Texts>,
}

/// Texts one after the other.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// Where each begins.
    pub(crate) starts: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

/// Bytes of the length of a text.
const LENGTH_BYTES: usize = size_of::<u32>();
/// Bytes of the number of a row.
pub(crate) const NUMBER_BYTES: usize = size_of::<u64>();

impl Carried {
    /// The columns at these positions of a table's list.
    pub(crate) fn new(table: &TableSnapshot, positions: &[usize]) -> Self {
        Self::with(table, positions, |position| are_few(table, position))
    }

    /// The same, with all texts as they are.
    pub(crate) fn without_dictionaries(table: &TableSnapshot, positions: &[usize]) -> Self {
        Self::with(table, positions, |_| false)
    }

    fn with(table: &TableSnapshot, positions: &[usize], are_few: impl Fn(usize) -> bool) -> Self {
        let mut dictionaries = Vec::new();
        let columns = positions.iter().enumerate().map(|(register, position)| {
            let column = &table.columns[*position];
            let physical = column.logical.physical();
            let dictionary = (physical == PhysicalType::Bytes && are_few(*position)).then(|| {
                dictionaries.push(Arc::default());
                DictionaryId(dictionaries.len() as u32 - 1)
            });
            let value = match (&column.logical, dictionary) {
                (LogicalType::Bool, _) => ValueType::Bool,
                (_, Some(_)) => ValueType::I64,
                (_, None) => SourceColumn::widened(physical),
            };
            let (typed, to) = (Typed { value, nullable: true }, Register(register as u32));
            SourceColumn { column: *position, name: column.name.clone(), physical, typed, dictionary, to }
        });
        let columns = columns.collect();
        let source = TableSource { table: 0, name: table.name.clone(), columns, tests: Vec::new() };
        Self { source, dictionaries }
    }

    /// Of these columns those at these positions of the table's list, with the same dictionaries.
    pub(crate) fn only(&self, positions: &[usize]) -> Self {
        let columns = self.source.columns.iter().filter(|column| positions.contains(&column.column)).cloned();
        let source = TableSource { columns: columns.collect(), ..self.source.clone() };
        Self { source, dictionaries: self.dictionaries.clone() }
    }

    /// No rows of these columns.
    pub(crate) fn no_rows(&self) -> Rows {
        let column = |column: &SourceColumn| match (column.dictionary, column.physical.width()) {
            (Some(_), _) => ColumnRows { width: size_of::<u32>(), ..Default::default() },
            (None, Some(width)) => ColumnRows { width, ..Default::default() },
            (None, None) => ColumnRows { width: LENGTH_BYTES, texts: Some(Texts::default()), ..Default::default() },
        };
        Rows { numbers: Vec::new(), columns: self.source.columns.iter().map(column).collect() }
    }
}

/// Whether the different texts of a column are so few that a dictionary may have all of them.
fn are_few(table: &TableSnapshot, position: usize) -> bool {
    let Some(known) = table.distribution(position) else { return false };
    let (id, rows) = (table.columns[position].id, table.rows().max(1) as f64);
    let plain_bytes: u64 = table
        .segments
        .iter()
        .filter_map(|segment| Some((segment.column_index(id)?, segment.groups().ok()?)))
        .flat_map(|(index, groups)| groups.iter().map(move |group| group.columns[index].plain_bytes))
        .sum();
    known.distinct <= MOST_DIFFERENT && known.distinct * (plain_bytes as f64 / rows) <= DICTIONARY_BYTES
}

impl Rows {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len() / NUMBER_BYTES
    }

    /// The number of each.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.numbers.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let of_column = |column: &ColumnRows| {
            column.values.len()
                + column.texts.as_ref().map_or(0, |texts| texts.bytes.len() + size_of_val(&*texts.starts))
        };
        self.numbers.len() + self.columns.iter().map(of_column).sum::<usize>()
    }

    /// Adds the rows of these vectors, which are the columns, with their numbers; zeros where nothing is given.
    pub(crate) fn add(&mut self, vectors: &[Vector], numbers: Option<&[u64]>) {
        match numbers {
            Some(numbers) => self.numbers.extend(numbers.iter().flat_map(|number| number.to_le_bytes())),
            None => {
                let rows = vectors.first().map_or(0, Vector::rows);
                self.numbers.resize(self.numbers.len() + rows * NUMBER_BYTES, 0);
            }
        }
        self.columns.iter_mut().zip(vectors).for_each(|(column, vector)| column.add(vector));
    }

    /// Adds these rows of others with the same columns.
    pub(crate) fn append(&mut self, others: &Self, rows: &[u32]) {
        let append = |values: &[u8], width: usize, out: &mut Vec<u8>| {
            let start = out.len();
            out.resize(start + rows.len() * width, 0);
            moved::take(values, (width, width), rows, &mut out[start..]);
        };
        let before = self.len();
        append(&others.numbers, NUMBER_BYTES, &mut self.numbers);
        for (column, other) in self.columns.iter_mut().zip(&others.columns) {
            if other.validity.is_empty() {
                column.add_validity(before, None, rows.len());
            } else {
                column.validity.resize(before, 1);
                append(&other.validity, 1, &mut column.validity);
            }
            append(&other.values, column.width, &mut column.values);
            if let Some(texts) = &mut column.texts {
                rows.iter().for_each(|row| texts.push(other.text(*row as usize)));
            }
        }
    }

    /// How many rows from this one on, at most so many, are the same as those of others from that one on, whose columns and dictionaries are
    /// the same.
    pub(crate) fn equal_rows(&self, row: usize, (others, other): (&Self, usize), most: usize) -> usize {
        let columns = self.columns.iter().zip(&others.columns);
        columns.fold(most, |count, (mine, others)| mine.equal_rows(row, (others, other), count))
    }

    /// Appends what tells a row from others that are different in these columns.
    pub(crate) fn append_key(&self, columns: &[usize], row: usize, key: &mut Vec<u8>) {
        for column in columns.iter().map(|column| &self.columns[*column]) {
            let is_valid = column.is_valid(row);
            key.push(u8::from(is_valid));
            if is_valid {
                // The length of a text is in front of it.
                key.extend_from_slice(&column.values[row * column.width..][..column.width]);
                key.extend_from_slice(column.text(row));
            }
        }
    }

    /// Makes room for so many more rows; that of texts comes with them. What is exact leaves no page to be cleared for nothing.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.numbers.reserve_exact(more * NUMBER_BYTES);
        for column in &mut self.columns {
            column.values.reserve_exact(more * column.width);
        }
    }

    /// Leaves no row.
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        for column in &mut self.columns {
            column.values.clear();
            column.validity.clear();
            if let Some(texts) = &mut column.texts {
                texts.starts.clear();
                texts.bytes.clear();
            }
        }
    }

    /// Leaves these rows, in this order.
    pub(crate) fn keep(&mut self, rows: &[u32]) {
        let keep = |values: &mut Vec<u8>, width: usize| {
            let mut kept = vec![0; rows.len() * width];
            moved::take(values, (width, width), rows, &mut kept);
            // The larger memory stays for the next rows.
            values.clear();
            values.extend_from_slice(&kept);
        };
        keep(&mut self.numbers, NUMBER_BYTES);
        for column in &mut self.columns {
            if let Some(texts) = &mut column.texts {
                let mut kept = Texts::default();
                rows.iter().for_each(|row| kept.push(texts.get(&column.values, *row as usize)));
                *texts = kept;
            }
            keep(&mut column.values, column.width);
            if !column.validity.is_empty() {
                keep(&mut column.validity, 1);
            }
        }
    }
}

impl ColumnRows {
    fn rows(&self) -> usize {
        self.values.len() / self.width
    }

    /// The text of a row; of none where the column has no texts.
    pub(crate) fn text(&self, row: usize) -> &[u8] {
        self.texts.as_ref().map_or(&[], |texts| texts.get(&self.values, row))
    }

    /// As [`Rows::equal_rows`], of this column.
    fn equal_rows(&self, row: usize, (others, other): (&Self, usize), most: usize) -> usize {
        let width = self.width;
        let mine = &self.values[row * width..][..most * width];
        let theirs = &others.values[other * width..][..most * width];
        if self.texts.is_none() && self.validity.is_empty() && others.validity.is_empty() {
            return equal_bytes(mine, theirs) / width;
        }
        let are_equal = |at: &usize| {
            let (is_valid, values) = (self.is_valid(row + at), at * width..(at + 1) * width);
            is_valid == others.is_valid(other + at)
                && (!is_valid
                    || mine[values.clone()] == theirs[values] && self.text(row + at) == others.text(other + at))
        };
        (0..most).take_while(are_equal).count()
    }

    fn is_valid(&self, row: usize) -> bool {
        self.validity.is_empty() || self.validity[row] != 0
    }

    /// The least and the greatest value of integers of at most 8 bytes; `None` where there are none.
    pub(crate) fn integer_bounds(&self, physical: PhysicalType) -> Option<(i128, i128)> {
        let bits = |value: &[u8]| {
            let mut bytes = [0; 8];
            bytes[..value.len()].copy_from_slice(value);
            u64::from_le_bytes(bytes)
        };
        let unused = u64::BITS - 8 * self.width.min(8) as u32;
        let integer = |bits: u64| match physical {
            PhysicalType::I8 | PhysicalType::I16 | PhysicalType::I32 | PhysicalType::I64 => {
                Some(i128::from((bits << unused) as i64 >> unused))
            }
            PhysicalType::U8 | PhysicalType::U16 | PhysicalType::U32 | PhysicalType::U64 => Some(i128::from(bits)),
            PhysicalType::I128 | PhysicalType::F32 | PhysicalType::F64 | PhysicalType::Bytes => None,
        };
        let widen = |known: Option<(i128, i128)>, value: i128| match known {
            None => Some((value, value)),
            Some((low, high)) => Some((low.min(value), high.max(value))),
        };
        if self.width > 8 {
            return None;
        }
        self.values.chunks_exact(self.width).filter_map(|value| integer(bits(value))).fold(None, widen)
    }

    fn add(&mut self, vector: &Vector) {
        self.add_validity(self.rows(), vector.validity(), vector.rows());
        let Some(texts) = &mut self.texts else {
            return self.values.extend_from_slice(vector.value_bytes());
        };
        for row in 0..vector.rows() {
            let text = if vector.is_valid(row) { vector.bytes(row) } else { &[] };
            texts.push(text);
            self.values.extend_from_slice(&(text.len() as u32).to_le_bytes());
        }
    }

    /// Adds the validity of some rows behind the first `rows`.
    pub(crate) fn add_validity(&mut self, rows: usize, validity: Option<&[u8]>, added: usize) {
        if validity.is_none() && self.validity.is_empty() {
            return;
        }
        self.validity.resize(rows, 1);
        match validity {
            Some(validity) => self.validity.extend_from_slice(validity),
            None => self.validity.resize(rows + added, 1),
        }
    }
}

/// Bytes that are compared at a time.
const COMPARED_BYTES: usize = 256;

/// How many bytes at the beginning of both are equal.
fn equal_bytes(a: &[u8], b: &[u8]) -> usize {
    let pieces = a.chunks(COMPARED_BYTES).zip(b.chunks(COMPARED_BYTES));
    let start = pieces.take_while(|(a, b)| a == b).count() * COMPARED_BYTES;
    let start = start.min(a.len());
    start + a[start..].iter().zip(&b[start..]).take_while(|(a, b)| a == b).count()
}

impl Texts {
    fn push(&mut self, text: &[u8]) {
        self.starts.push(self.bytes.len());
        self.bytes.extend_from_slice(text);
    }

    /// The text of a row, where `lengths` are those of all.
    pub(crate) fn get(&self, lengths: &[u8], row: usize) -> &[u8] {
        let length = u32::from_le_bytes(lengths.as_chunks().0[row]) as usize;
        &self.bytes[self.starts[row]..self.starts[row] + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A column of integers, NULL where there is none, and one of texts.
    fn rows(values: &[(Option<u32>, &str)]) -> Rows {
        let has_nulls = values.iter().any(|(integer, _)| integer.is_none());
        let integers = ColumnRows {
            width: 4,
            values: values.iter().flat_map(|(integer, _)| integer.unwrap_or(77).to_le_bytes()).collect(),
            validity: values.iter().filter(|_| has_nulls).map(|(integer, _)| u8::from(integer.is_some())).collect(),
            texts: None,
        };
        let mut texts = ColumnRows { width: 4, texts: Some(Texts::default()), ..Default::default() };
        for (_, text) in values {
            texts.values.extend((text.len() as u32).to_le_bytes());
            texts.texts.iter_mut().for_each(|texts| texts.push(text.as_bytes()));
        }
        Rows { numbers: vec![0; values.len() * NUMBER_BYTES], columns: vec![integers, texts] }
    }

    #[test]
    fn equal_rows_are_counted() {
        let all: Vec<(Option<u32>, &str)> =
            (0..500).map(|row| (Some(row / 3), ["", "x", "xy"][row as usize % 3])).collect();
        let mine = rows(&all);
        assert_eq!(mine.equal_rows(0, (&mine, 0), 500), 500);
        assert_eq!(mine.equal_rows(3, (&mine, 0), 497), 0);
        for changed in [0, 1, 63, 64, 200, 499] {
            let mut others = all.clone();
            others[changed].0 = Some(1000);
            assert_eq!(mine.equal_rows(0, (&rows(&others), 0), 500), changed);
            others[changed] = (all[changed].0, "y");
            assert_eq!(mine.equal_rows(0, (&rows(&others), 0), 500), changed);
            others[changed] = (None, all[changed].1);
            assert_eq!(mine.equal_rows(0, (&rows(&others), 0), 500), changed);
            assert_eq!(rows(&others).equal_rows(0, (&rows(&others), 0), 500), 500);
            others.remove(changed);
            let after = 499 - changed;
            assert_eq!(mine.equal_rows(changed + 1, (&rows(&others), changed), after), after);
        }
    }

    #[test]
    fn rows_are_appended_kept_and_told_apart() {
        let all = [(Some(5), "a"), (None, "bc"), (Some(256), ""), (Some(5), "a"), (Some(97), "")];
        let mut some = rows(&[(Some(1), "first")]);
        some.append(&rows(&all), &[4, 1, 1, 0]);
        assert_eq!(some.len(), 5);
        let wanted = rows(&[(Some(1), "first"), all[4], all[1], all[1], all[0]]);
        assert_eq!(some.equal_rows(0, (&wanted, 0), 5), 5);
        some.keep(&[3, 0]);
        assert_eq!(some.equal_rows(0, (&rows(&[all[1], (Some(1), "first")]), 0), 2), 2);
        let key = |row: usize| {
            let mut key = Vec::new();
            rows(&all).append_key(&[0, 1], row, &mut key);
            key
        };
        let mut keys: Vec<Vec<u8>> = (0..all.len()).map(key).collect();
        assert_eq!(keys[0], keys[3]);
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 4);
        let bounds = |values: &[i16]| {
            let values = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            ColumnRows { width: 2, values, ..Default::default() }.integer_bounds(PhysicalType::I16)
        };
        assert_eq!((bounds(&[3, -7, 9]), bounds(&[])), (Some((-7, 9)), None));
    }
}
