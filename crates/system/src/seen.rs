//! What a statement sees of the database.

use std::fmt;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use forebay_base::Result;
use forebay_engine::Engine;
use forebay_store::{Catalog, View};

/// What a statement sees of the database.
#[async_trait]
pub trait Seen: fmt::Debug + Send + Sync {
    /// Its catalog.
    fn catalog(&self) -> &Catalog;

    /// What a schema is called in answers: one of temporary tables otherwise than in the catalog. `None` of those of other
    /// sessions.
    fn shown<'a>(&self, schema: &'a str) -> Option<&'a str>;

    /// The engine that runs the statement.
    fn engine(&self) -> &Engine;

    /// The columns of a view; `None` of one that can no longer be planned.
    async fn columns_of(&self, view: &View) -> Result<Option<SchemaRef>>;
}

/// Whether a schema holds temporary tables of the session.
pub(crate) fn is_temporary(seen: &dyn Seen, schema: &str) -> bool {
    seen.shown(schema).is_some_and(|shown| shown != schema)
}
