//! The schema `forebay`: how tables are stored, what of them is in memory, who holds memory, and which statements were run.
//!
//! A schema of this name that a database has from before it was taken goes first: its tables are found, and others of these.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result as DataFusionResult;
use forebay_base::{Error, ErrorKind, Result};
use forebay_context::error::{into_datafusion, suggestion};
use forebay_store::names_equal;

use crate::cache_columns::CacheColumns;
use crate::chunks::Chunks;
use crate::listing::Listing;
use crate::memory::MemoryHolders;
use crate::projections::Projections;
use crate::query_log::QueryLog;
use crate::seen::Seen;
use crate::segments::Segments;
use crate::table_columns::TableColumns;
use crate::told_tables::ToldTables;
use crate::told_transactions::ToldTransactions;
use crate::{CATALOG, information_schema};

/// The schema's name.
pub const NAME: &str = CATALOG;

/// Its tables.
pub const TABLES: [&str; 9] =
    ["cache", "chunks", "columns", "memory", "projections", "query_log", "segments", "tables", "transactions"];

/// The schema, of what a statement sees.
#[derive(Debug)]
pub struct SystemSchema {
    /// What the statement sees.
    pub seen: Arc<dyn Seen>,
    /// Tables of the database in a schema of this name.
    pub made: Option<Arc<dyn SchemaProvider>>,
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        let made = self.made.iter().flat_map(|made| made.table_names());
        made.chain(TABLES.map(str::to_owned)).collect()
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        if let Some(made) = self.made.as_ref().filter(|made| made.table_exist(name)) {
            return made.table(name).await;
        }
        let seen = || Arc::clone(&self.seen);
        Ok(Some(match name.to_lowercase().as_str() {
            "cache" => Arc::new(Listing::new(CacheColumns(seen()))),
            "chunks" => Arc::new(Listing::new(Chunks(seen()))),
            "columns" => Arc::new(Listing::new(TableColumns(seen()))),
            "memory" => Arc::new(Listing::new(MemoryHolders(seen()))),
            "projections" => Arc::new(Listing::new(Projections(seen()))),
            "query_log" => Arc::new(Listing::new(QueryLog(seen()))),
            "segments" => Arc::new(Listing::new(Segments(seen()))),
            "tables" => Arc::new(Listing::new(ToldTables(seen()))),
            "transactions" => Arc::new(Listing::new(ToldTransactions(seen()))),
            _ => return Err(into_datafusion(self.unknown(name))),
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.iter().any(|known| names_equal(known, name))
            || self.made.as_ref().is_some_and(|made| made.table_exist(name))
    }
}

impl SystemSchema {
    /// The error of a table that is not there.
    fn unknown(&self, name: &str) -> Error {
        let error = Error::new(ErrorKind::NotFound, format!("table {NAME}.{name} does not exist"));
        if let Some(near) = suggestion(name, TABLES.into_iter()) {
            return error.hint(format!("Did you mean {NAME}.{near}?"));
        }
        let same = self.seen.catalog().tables().find(|table| names_equal(&table.name, name));
        match same.and_then(|table| Some((self.seen.shown(&table.schema)?, table))) {
            Some((schema, table)) => error.hint(format!("Did you mean {schema}.{}?", table.name)),
            None => error.hint(format!(
                "The tables of schema {NAME} are {}; {}.tables has those of the database",
                TABLES.join(", "),
                information_schema::NAME
            )),
        }
    }
}

/// An error where a schema is one of system tables: nothing can be made, changed or dropped there. `name` is what was to be.
///
/// # Errors
/// `Input`.
pub fn check_free(schema: &str, name: &str) -> Result<()> {
    let Some(system) = [NAME, information_schema::NAME].into_iter().find(|known| names_equal(known, schema)) else {
        return Ok(());
    };
    let message = match names_equal(name, schema) {
        true => format!("schema {name} is one of system tables, which tell what is there and cannot be changed"),
        false => {
            format!("{name} is in schema {system}, of system tables, which tell what is there and cannot be changed")
        }
    };
    Err(Error::input(message)
        .hint(format!("Read them as {system}.{}", if system == NAME { "columns" } else { "tables" })))
}
