//! What of two catalogs is the same where rows do not matter: what names mean, and how it is declared.

use std::sync::Arc;

use super::{Catalog, Schema, Table};
use crate::sequence::Sequence;
use crate::table_snapshot::TableSnapshot;

impl Catalog {
    /// The number of its schema: equal numbers, equal schemas, tables with their columns, constraints and options, views,
    /// macros and types. Rows may differ.
    pub fn schema_number(&self) -> u64 {
        self.objects.schema_commit
    }

    /// Whether names mean the same in both, as far as rows do not matter.
    pub fn has_schema_of(&self, other: &Self) -> bool {
        if self.has_objects_of(other) {
            return true;
        }
        let (own, other) = (&*self.objects, &*other.objects);
        let same_table = |(a, b): (&Arc<TableSnapshot>, &Arc<TableSnapshot>)| Arc::ptr_eq(a, b) || a.is_declared_as(b);
        let same_schema = |(a, b): (&Arc<Schema>, &Arc<Schema>)| a.id == b.id && a.name == b.name;
        let same_sequence = |(a, b): (&Arc<Sequence>, &Arc<Sequence>)| a.is_declared_as(b);
        own.names == other.names
            && own.macros == other.macros
            && own.types == other.types
            && own.tables.len() == other.tables.len()
            && own.tables.values().zip(other.tables.values()).all(same_table)
            && own.schemas.len() == other.schemas.len()
            && own.schemas.values().zip(other.schemas.values()).all(same_schema)
            && own.sequences.len() == other.sequences.len()
            && own.sequences.keys().eq(other.sequences.keys())
            && own.sequences.values().zip(other.sequences.values()).all(same_sequence)
    }
}

impl Table {
    /// Whether both are the same but for their rows.
    pub(crate) fn is_declared_as(&self, other: &Self) -> bool {
        self.id == other.id
            && (&self.schema, &self.name) == (&other.schema, &other.name)
            && self.columns == other.columns
            && self.constraints == other.constraints
            && self.options == other.options
    }
}
