//! A table whose rows are found by keys.
//!
//! Must not know: transactions, rows.

use std::sync::Arc;

use forebay_base::{Error, LogicalType, Result, TableId};
use forebay_engine::keyed::KeyColumns;
use forebay_store::{Catalog, Constraint, TableSnapshot, names_equal};
use forebay_tables::declared::{generated_from, indexes};

/// A table with its keys.
#[derive(Debug, Clone)]
pub struct KeyedTable {
    pub(crate) id: TableId,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    columns: Vec<(String, LogicalType)>,
    /// PRIMARY KEY and UNIQUE, as they are declared.
    keys: Vec<KeyColumns>,
    primary: usize,
}

impl KeyedTable {
    /// A table of a catalog.
    ///
    /// # Errors
    /// `Unsupported` where rows of it need more than its keys to be right, or it has no key.
    pub(crate) fn of(table: &TableSnapshot, catalog: &Catalog) -> Result<Self> {
        let name = table.full_name();
        let unsupported = |why: &str| {
            let message = format!("rows of table {name} are not written by key: {why}");
            Err(Error::unsupported(message).hint("Change them by SQL"))
        };
        if !table.projections.is_empty() {
            return unsupported("it has projections");
        }
        if indexes(table).any(|index| index.is_unique) {
            return unsupported("it has a unique index");
        }
        if table.columns.iter().any(|column| generated_from(table, column).is_some()) {
            return unsupported("it has a generated column");
        }
        if table.constraints.iter().any(|own| matches!(own, Constraint::Check { is_enforced: true, .. })) {
            return unsupported("it has a CHECK");
        }
        let refers = |own: &Constraint| match own {
            Constraint::ForeignKey { table: target, is_enforced: true, .. } => names_equal(target, &name),
            _ => false,
        };
        let is_foreign = |own: &Constraint| matches!(own, Constraint::ForeignKey { is_enforced: true, .. });
        let others = catalog.schema_tables().any(|other| other.constraints.iter().any(refers));
        if others || table.constraints.iter().any(is_foreign) {
            return unsupported("it has a foreign key, or one leads to it");
        }
        let keys =
            table.constraints.iter().filter(|own| matches!(own, Constraint::PrimaryKey(_) | Constraint::Unique(_)));
        let keys: Vec<&Constraint> = keys.collect();
        let Some(primary) = keys.iter().position(|own| matches!(own, Constraint::PrimaryKey(_))) else {
            return unsupported("it has no primary key");
        };
        let position = |id| table.column_by_id(id).map(|(position, _)| position);
        let columns = |own: &&Constraint| own.columns().iter().filter_map(|id| position(*id)).collect();
        let keys = keys.iter().map(|own| KeyColumns::of(table, columns(own))).collect();
        let columns = table.columns.iter().map(|column| (column.name.clone(), column.logical.clone())).collect();
        Ok(Self { id: table.id, shared: Arc::new(Shared { name, columns, keys, primary }) })
    }

    /// `schema.table`.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Names and types of its columns.
    pub fn columns(&self) -> &[(String, LogicalType)] {
        &self.shared.columns
    }

    /// The position of a column.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn column(&self, name: &str) -> Result<usize> {
        let found = self.shared.columns.iter().position(|(own, _)| names_equal(own, name));
        found.ok_or_else(|| {
            let message = format!("table {} has no column {name}", self.shared.name);
            Error::new(forebay_base::ErrorKind::NotFound, message)
        })
    }

    /// The positions of the columns of its primary key.
    pub fn key(&self) -> &[usize] {
        self.shared.keys[self.shared.primary].positions()
    }

    pub(crate) fn keys(&self) -> &[KeyColumns] {
        &self.shared.keys
    }

    /// The number of the primary key among them.
    pub(crate) fn primary(&self) -> usize {
        self.shared.primary
    }
}
