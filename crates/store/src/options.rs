//! Options of tables and columns (`WITH (name = value)`): texts that belong to the catalog, and that the store keeps
//! without reading them.
//!
//! Invariants: a column with options is one of the table's; names are as long as names may be, at most, and
//! values as long as `limits::OPTION_BYTES`. Must not
//! know: which options there are, what their values mean.

use std::collections::BTreeMap;

use forebay_base::{ColumnId, Error, Result, TableId, limits};

use crate::catalog::{Table, check_name};
use crate::serial::{Reader, Writer};
use crate::transaction::Transaction;

/// In the manifest the column of an option of the whole table.
pub(crate) const OPTION_NO_COLUMN: u32 = u32::MAX;

/// Least bytes of an option in the manifest: a column, a name of a byte, and an empty value.
const OPTION_LEAST_BYTES: usize = 13;

/// The options of one table: for it as a whole (`None`) and for some of its columns, values by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableOptions(BTreeMap<(Option<ColumnId>, String), String>);

impl TableOptions {
    /// The value that was set for the whole table (`None`) or for one of its columns.
    pub fn get(&self, column: Option<ColumnId>, name: &str) -> Option<&str> {
        self.0.get(&(column, name.to_owned())).map(String::as_str)
    }

    /// The value that holds for a column: its own, or else the table's.
    pub fn of_column(&self, column: ColumnId, name: &str) -> Option<&str> {
        self.get(Some(column), name).or_else(|| self.get(None, name))
    }

    /// All of them: those of the table first, then those of columns, by id; each by name.
    pub fn iter(&self) -> impl Iterator<Item = (Option<ColumnId>, &str, &str)> {
        self.0.iter().map(|((column, name), value)| (*column, name.as_str(), value.as_str()))
    }

    /// Sets a value, or with `None` goes back to what holds where nothing is set.
    pub fn set(&mut self, column: Option<ColumnId>, name: &str, value: Option<&str>) {
        match value {
            Some(value) => self.0.insert((column, name.to_owned()), value.to_owned()),
            None => self.0.remove(&(column, name.to_owned())),
        };
    }

    /// Forgets the options of a column that is dropped.
    pub(crate) fn forget(&mut self, column: ColumnId) {
        self.0.retain(|(of, _), _| *of != Some(column));
    }

    /// The end of a table's row. Nothing without options: such a row is as it was before there were any.
    pub(crate) fn encode(&self, row: &mut Writer) {
        if self.0.is_empty() {
            return;
        }
        row.count(self.0.len());
        for (column, name, value) in self.iter() {
            row.u32(column.map_or(OPTION_NO_COLUMN, |id| id.0));
            row.blob(name.as_bytes());
            row.blob(value.as_bytes());
        }
    }

    /// The rest of a table's row, for a table whose columns `has_column` knows.
    pub(crate) fn decode(reader: &mut Reader<'_>, has_column: impl Fn(ColumnId) -> bool) -> Result<Self> {
        let mut options = BTreeMap::new();
        if reader.is_empty() {
            return Ok(Self(options));
        }
        let count = reader.count(OPTION_LEAST_BYTES)?;
        for _ in 0..count {
            let column = match reader.u32()? {
                OPTION_NO_COLUMN => None,
                id => Some(ColumnId(id)),
            };
            let (name, value) = (reader.text()?, reader.text()?);
            if column.is_some_and(|id| !has_column(id)) {
                return Err(reader.wrong("an option is of a column that the table does not have"));
            }
            let key = (column, name);
            if options.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err(reader.wrong("its options are not in order"));
            }
            options.insert(key, value);
        }
        match count {
            0 => Err(reader.wrong("it counts options and has none")),
            _ => Ok(Self(options)),
        }
    }
}

impl Transaction {
    /// Sets an option of a table, or of one of its columns; `None` takes it back.
    ///
    /// # Errors
    /// `NotFound` if table or column are not there, `Input` if the name is not possible as one, or the value is too long.
    pub fn set_option(&mut self, id: TableId, column: Option<ColumnId>, name: &str, value: Option<&str>) -> Result<()> {
        check_name(name)?;
        value.map_or(Ok(()), check_value)?;
        let table: &mut Table = self.table_mut(id)?;
        if let Some(column) = column {
            table.column_or_error(column)?;
        }
        table.options.set(column, name, value);
        Ok(())
    }
}

fn check_value(value: &str) -> Result<()> {
    match value.len() > limits::OPTION_BYTES {
        false => Ok(()),
        true => Err(Error::input(format!(
            "the text {value:.32}… has {} bytes, and the catalog takes {} at most",
            value.len(),
            limits::OPTION_BYTES
        ))),
    }
}
