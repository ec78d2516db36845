//! What a catalog sees of tables with hot rows, and what it has of them beside those.
//!
//! Must not know: how hot rows are seen.

use std::sync::Arc;

use forebay_base::TableId;

use super::{Catalog, Named, key};
use crate::table_snapshot::TableSnapshot;

impl Catalog {
    /// The table without its hot rows, as its segments have it.
    pub fn stored_table(&self, id: TableId) -> Option<&Arc<TableSnapshot>> {
        self.objects.tables.get(&id)
    }

    /// The same of the table of this name.
    pub fn stored_table_named(&self, schema: &str, name: &str) -> Option<&Arc<TableSnapshot>> {
        match self.objects.names.get(&key(schema, name))? {
            Named::Table(id) => self.objects.tables.get(id),
            Named::View(_) => None,
        }
    }

    /// All tables, for who asks how they are declared: without hot rows.
    pub fn schema_tables(&self) -> impl Iterator<Item = &Arc<TableSnapshot>> {
        self.objects.tables.values()
    }

    /// Tables of which it sees hot rows.
    pub fn hot_tables(&self) -> Vec<TableId> {
        self.objects.tables.keys().copied().filter(|id| self.hot.has_rows(*id)).collect()
    }
}
