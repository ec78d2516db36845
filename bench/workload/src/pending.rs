//! What the facade will offer, until it does.

use forebay::{Database, Error, Result};

pub(crate) struct ColumnStorage {
    pub(crate) table: String,
    pub(crate) column: String,
    pub(crate) plain_bytes: u64,
    pub(crate) stored_bytes: u64,
}

pub(crate) trait Pending {
    fn storage(&self) -> Result<Vec<ColumnStorage>> {
        Err(Error::unsupported("not there yet"))
    }
    fn clear_cache(&self) -> Result<()> {
        Err(Error::unsupported("not there yet"))
    }
}

impl Pending for Database {}
