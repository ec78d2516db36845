//! What a statement sees of the database.

use std::fmt;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use forebay_base::{DirectoryId, Result};
use forebay_store::{Catalog, View};

/// What a statement sees of the database.
#[async_trait]
pub trait Seen: fmt::Debug + Send + Sync {
    /// Its catalog.
    fn catalog(&self) -> &Catalog;

    /// What a schema is called in answers: one of temporary tables otherwise than in the catalog. `None` of those of other
    /// sessions.
    fn shown<'a>(&self, schema: &'a str) -> Option<&'a str>;

    /// The directories that its files are in, and where they are.
    fn directories(&self) -> Vec<(DirectoryId, String)>;

    /// The columns of a view; `None` of one that can no longer be planned.
    async fn columns_of(&self, view: &View) -> Result<Option<SchemaRef>>;
}

/// Whether a schema holds temporary tables of the session.
pub(crate) fn is_temporary(seen: &dyn Seen, schema: &str) -> bool {
    seen.shown(schema).is_some_and(|shown| shown != schema)
}
