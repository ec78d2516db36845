//! What a statement sees of the database.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use forebay_base::Result;
use forebay_context::told_settings::Setting;
use forebay_engine::Engine;
use forebay_store::{Catalog, View};
use forebay_transactions::TransactionStatus;

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

    /// A query of what it sees, as a table.
    async fn query(&self, text: &str) -> Result<Arc<dyn TableProvider>>;

    /// The transactions of all sessions, and whether each is of its own.
    fn transactions(&self) -> Vec<(TransactionStatus, bool)>;

    /// The settings of the session.
    fn settings(&self) -> Vec<Setting>;

    /// The functions that it may call: their names and kinds.
    fn functions(&self) -> Vec<(String, &'static str)>;

    /// The variables of the session and the expressions that they stand for.
    fn variables(&self) -> Vec<(String, String)>;

    /// The columns of a view; `None` of one that can no longer be planned.
    async fn columns_of(&self, view: &View) -> Result<Option<SchemaRef>>;
}

/// Whether a schema holds temporary tables of the session.
pub(crate) fn is_temporary(seen: &dyn Seen, schema: &str) -> bool {
    seen.shown(schema).is_some_and(|shown| shown != schema)
}
