//! The tables that system tables tell of, as a statement sees them and names them.

use std::sync::Arc;

use forebay_store::{Fact, TableSnapshot};

use crate::seen::Seen;

/// A table.
#[derive(Debug)]
pub(crate) struct ShownTable {
    /// What the statement sees.
    pub(crate) seen: Arc<dyn Seen>,
    /// What its schema is called.
    pub(crate) schema: String,
    /// The table, or a copy of its rows.
    pub(crate) table: Arc<TableSnapshot>,
}

/// All tables, by schema and name.
pub(crate) fn tables(seen: &Arc<dyn Seen>) -> Vec<Arc<ShownTable>> {
    let shown = |table: &Arc<TableSnapshot>| {
        let schema = seen.shown(&table.schema)?.to_owned();
        Some(Arc::new(ShownTable { seen: Arc::clone(seen), schema, table: Arc::clone(table) }))
    };
    let mut all: Vec<_> = seen.catalog().tables().filter_map(shown).collect();
    all.sort_by(|a, b| (&a.schema, &a.table.name).cmp(&(&b.schema, &b.table.name)));
    all
}

/// All tables, each with its projections behind it.
pub(crate) fn copies(seen: &Arc<dyn Seen>) -> Vec<Arc<ShownTable>> {
    let with_copies = |of: Arc<ShownTable>| {
        let copy = |copy: &Arc<TableSnapshot>| {
            let (seen, schema) = (Arc::clone(&of.seen), of.schema.clone());
            Arc::new(ShownTable { seen, schema, table: Arc::clone(copy) })
        };
        let projections: Vec<_> = of.table.copies().iter().map(copy).collect();
        std::iter::once(of).chain(projections)
    };
    tables(seen).into_iter().flat_map(with_copies).collect()
}

impl ShownTable {
    /// The projection whose rows these are; `None` where they are the table's own.
    pub(crate) fn projection(&self) -> Option<String> {
        self.table.projection().map(|projection| projection.name.clone())
    }

    /// The facts that tell of a column, or of the rows that it leads to.
    pub(crate) fn facts_of(&self, column: usize) -> impl Iterator<Item = &Arc<Fact>> {
        let id = self.table.columns[column].id;
        self.seen.catalog().facts_of(self.table.id).filter(move |fact| fact.definition().columns.contains(&id))
    }

    /// Whether scans use a fact: the other tables that it was made from are as they were.
    pub(crate) fn is_used(&self, fact: &Fact) -> bool {
        let catalog = self.seen.catalog();
        let mut others = fact.definition().sources.iter().filter(|source| source.table != self.table.id);
        others.all(|source| catalog.table_by_id(source.table).is_some_and(|table| table.version == source.version))
    }
}

/// Names with how many there are of each: the name alone where there is one.
pub(crate) fn shares<'n>(parts: impl Iterator<Item = (&'n str, u64)>) -> Option<String> {
    let parts: Vec<_> = parts.collect();
    match parts.as_slice() {
        [] => None,
        [(only, _)] => Some((*only).to_owned()),
        several => Some(several.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_where_there_are_several_names() {
        assert_eq!(shares([].into_iter()), None);
        assert_eq!(shares([("lz4", 7)].into_iter()).as_deref(), Some("lz4"));
        assert_eq!(shares([("lz4", 7), ("fsst", 1)].into_iter()).as_deref(), Some("lz4 7, fsst 1"));
    }
}
