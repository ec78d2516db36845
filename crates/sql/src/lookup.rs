//! What the names in a statement mean in the catalog: tables and columns, or an error that suggests another.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use forebay_base::Result;
use forebay_names::named::table_of;
use forebay_names::qualified_name::QualifiedName;
use forebay_store::TableSnapshot;

use crate::catalog::Planner;

/// The table or view that a name means, whether it is there or not.
pub fn find_name(planner: &Planner, name: &ObjectName) -> Result<QualifiedName> {
    planner.path().find(planner.snapshot(), name)
}

/// The table of this name, or an error that suggests another.
pub fn find_table(planner: &Planner, name: &QualifiedName) -> Result<Arc<TableSnapshot>> {
    table_of(planner.snapshot(), name)
}
