//! Tables that transactions have asked for by their names, for those that ask again.
//!
//! Must not know: transactions, rows.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use forebay_base::{Error, ErrorKind, Result, TableId};
use forebay_store::{Catalog, DEFAULT_SCHEMA};

use crate::table::KeyedTable;

/// So many names are known at most.
const MOST_NAMES: usize = 4096;

/// Tables by the names that they were asked for by.
#[derive(Debug, Default)]
pub struct KnownTables {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The schema that they are of.
    schema: u64,
    tables: HashMap<String, KeyedTable>,
}

impl KnownTables {
    /// A table of the schema `main`, or one that is named with its schema, whose rows may be written by key. `takes_hot_rows` says whether that
    /// is so of what the schema does not tell.
    ///
    /// # Errors
    /// `NotFound`, `Unsupported`.
    pub(crate) fn find(
        &self,
        name: &str,
        catalog: &Catalog,
        takes_hot_rows: impl Fn(TableId) -> bool,
    ) -> Result<KeyedTable> {
        let schema = catalog.schema_number();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state.tables.get(name).filter(|known| state.schema == schema && takes_hot_rows(known.id()));
        if let Some(known) = known {
            return Ok(known.clone());
        }
        let (of_schema, table) = name.split_once('.').unwrap_or((DEFAULT_SCHEMA, name));
        let found = catalog.stored_table_named(of_schema, table);
        let missing = || Error::new(ErrorKind::NotFound, format!("table {name} does not exist"));
        let table = KeyedTable::of(found.ok_or_else(missing)?, catalog);
        table.check_written()?;
        if state.schema < schema || state.tables.len() >= MOST_NAMES {
            *state = State { schema, tables: HashMap::new() };
        }
        if state.schema == schema {
            state.tables.insert(name.to_owned(), table.clone());
        }
        Ok(table)
    }
}
