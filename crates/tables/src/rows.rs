//! Which rows of a table a plan reads: those that the table has when the plan is run, so that a plan can be kept beyond commits
//! and holds no files meanwhile, or certain ones.

use std::sync::Arc;

use datafusion::catalog::Session;
use forebay_base::{Error, Result, TableId};
use forebay_store::{Catalog, TableSnapshot};

/// The rows of a table that a plan reads.
#[derive(Debug, Clone)]
pub enum TableRows {
    /// Those of the catalog that the statement sees.
    OfStatement(TableId),
    /// These.
    Only(Arc<TableSnapshot>),
    /// The same, with the column of their places.
    Placed(Box<Self>),
}

impl TableRows {
    /// These rows without the column of their places.
    pub fn own(&self) -> &Self {
        match self {
            Self::Placed(rows) => rows.own(),
            Self::OfStatement(_) | Self::Only(_) => self,
        }
    }

    /// The table with these rows, for a statement of `session`.
    ///
    /// # Errors
    /// Where the session sees no catalog, or the table is gone: a plan outlived the schema that it was made for.
    pub fn bind(&self, session: &dyn Session) -> Result<Arc<TableSnapshot>> {
        match self {
            Self::Only(table) => Ok(Arc::clone(table)),
            Self::Placed(rows) => rows.bind(session).map(|table| Arc::clone(table.with_places())),
            Self::OfStatement(id) => {
                let catalog = session.config().get_extension::<Catalog>();
                let catalog = catalog.ok_or_else(|| Error::internal("a table is read outside of a statement"))?;
                let table = catalog.table_by_id(*id).cloned();
                table.ok_or_else(|| Error::internal(format!("table number {id} is not in the statement's catalog")))
            }
        }
    }
}
