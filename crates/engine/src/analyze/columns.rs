//! Columns as they are loaded for facts: integers, and strings as ids; their values, and the bins of these.

use std::sync::Arc;

use forebay_base::{ColumnId, Error, LogicalType, PhysicalType, Result, Value};
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::vector::Vector;
use forebay_pipeline::ir::{DictionaryId, Register, SourceColumn, TableSource, Typed, ValueType};
use forebay_prune::bins::{Binning, NULL_BIN};
use forebay_store::TableSnapshot;

/// Longer strings make no bins: their bounds would be as large as what they spare.
pub(super) const LONGEST_VALUE_BYTES: usize = 256;

/// Puts the values of one column into bins, and remembers some that it has seen.
pub(super) struct ColumnBins {
    pub(super) binning: Binning,
    /// By id of a string.
    of_ids: Vec<Option<u8>>,
    last: Option<(i64, u8)>,
}

impl ColumnBins {
    pub(super) fn new(binning: Binning) -> Self {
        Self { binning, of_ids: Vec::new(), last: None }
    }

    pub(super) fn bin(
        &mut self,
        vector: &Vector,
        row: usize,
        column: &SourceColumn,
        dictionaries: &[Arc<Dictionary>],
    ) -> u8 {
        if !vector.is_valid(row) {
            return NULL_BIN;
        }
        if column.typed.value != ValueType::I64 {
            return value(vector, row, column, dictionaries).map_or(NULL_BIN, |value| self.binning.bin_of(&value));
        }
        let Some(number) = integer(vector, row) else { return NULL_BIN };
        let Some(dictionary) = column.dictionary else {
            return match self.last {
                Some((last, bin)) if last == number => bin,
                _ => {
                    let bin = self.binning.bin_of(&Value::Int(number.into()));
                    self.last = Some((number, bin));
                    bin
                }
            };
        };
        let id = number as usize;
        if self.of_ids.len() <= id {
            self.of_ids.resize(id + 1, None);
        }
        match self.of_ids[id] {
            Some(bin) => bin,
            None => {
                let text = dictionaries[dictionary.0 as usize].value(number as u32);
                *self.of_ids[id].insert(self.binning.bin_of(&Value::Bytes(text)))
            }
        }
    }
}

/// The columns of a table as they are loaded here: strings as ids, each column with a dictionary of its own.
pub(super) fn source_of(table: &TableSnapshot, columns: &[ColumnId]) -> Result<TableSource> {
    let mut dictionaries = 0;
    let mut loaded = Vec::with_capacity(columns.len());
    for (register, id) in columns.iter().enumerate() {
        let (position, column) = table.column_or_error(*id)?;
        let physical = column.logical.physical();
        let dictionary = (physical == PhysicalType::Bytes).then(|| {
            dictionaries += 1;
            DictionaryId(dictionaries - 1)
        });
        let value = match (&column.logical, dictionary) {
            (LogicalType::Bool, _) => ValueType::Bool,
            (_, Some(_)) => ValueType::I64,
            (_, None) => SourceColumn::widened(physical),
        };
        let (typed, to) = (Typed { value, nullable: true }, Register(register as u32));
        loaded.push(SourceColumn { column: position, name: column.name.clone(), physical, typed, dictionary, to });
    }
    Ok(TableSource { table: 0, name: table.name.clone(), columns: loaded, tests: Vec::new() })
}

pub(super) fn dictionaries_of(source: &TableSource) -> Vec<Arc<Dictionary>> {
    source.columns.iter().filter(|column| column.dictionary.is_some()).map(|_| Arc::default()).collect()
}

/// An error where a column is no key that hops go by.
pub(super) fn check_key(column: &SourceColumn, table: &TableSnapshot) -> Result<()> {
    match (column.typed.value, column.dictionary) {
        (ValueType::I64, None) => Ok(()),
        _ => Err(Error::input(format!("column {} of table {} is no integer", column.name, table.name))),
    }
}

/// Calls `see` with every integer that the first `rows` of such a column have.
pub(super) fn each_integer(vector: &Vector, rows: usize, mut see: impl FnMut(i64)) {
    integers_of(vector, 0..rows, |_, integer| integer.into_iter().for_each(&mut see));
}

/// Calls `see` with each of these rows, counted, and the integer that it has in such a column.
pub(super) fn integers_of(
    vector: &Vector,
    rows: impl ExactSizeIterator<Item = usize>,
    mut see: impl FnMut(usize, Option<i64>),
) {
    macro_rules! each {
        ($native:ty) => {{
            let values = vector.values::<$native>();
            let rows = rows.enumerate();
            match vector.validity() {
                None => rows.for_each(|(index, row)| see(index, Some(values[row].into()))),
                Some(validity) => {
                    rows.for_each(|(index, row)| see(index, (validity[row] != 0).then(|| values[row].into())));
                }
            }
        }};
    }
    match vector.physical() {
        PhysicalType::I8 => each!(i8),
        PhysicalType::I16 => each!(i16),
        PhysicalType::I32 => each!(i32),
        PhysicalType::I64 => each!(i64),
        PhysicalType::U8 => each!(u8),
        PhysicalType::U16 => each!(u16),
        PhysicalType::U32 => each!(u32),
        PhysicalType::U64 | PhysicalType::I128 | PhysicalType::F32 | PhysicalType::F64 | PhysicalType::Bytes => {
            (0..rows.len()).for_each(|index| see(index, None));
        }
    }
}

/// An integer of a column of integers or ids.
pub(super) fn integer(vector: &Vector, row: usize) -> Option<i64> {
    if !vector.is_valid(row) {
        return None;
    }
    Some(match vector.physical() {
        PhysicalType::I8 => vector.values::<i8>()[row].into(),
        PhysicalType::I16 => vector.values::<i16>()[row].into(),
        PhysicalType::I32 => vector.values::<i32>()[row].into(),
        PhysicalType::I64 => vector.values::<i64>()[row],
        PhysicalType::U8 => vector.values::<u8>()[row].into(),
        PhysicalType::U16 => vector.values::<u16>()[row].into(),
        PhysicalType::U32 => vector.values::<u32>()[row].into(),
        PhysicalType::U64 | PhysicalType::I128 | PhysicalType::F32 | PhysicalType::F64 | PhysicalType::Bytes => {
            return None;
        }
    })
}

/// The value of a row; `None` for NULL.
pub(super) fn value(
    vector: &Vector,
    row: usize,
    column: &SourceColumn,
    dictionaries: &[Arc<Dictionary>],
) -> Option<Value> {
    match column.dictionary {
        None => vector.scalar(row, column.typed.value).to_value(),
        Some(id) => integer(vector, row).map(|number| Value::Bytes(dictionaries[id.0 as usize].value(number as u32))),
    }
}
