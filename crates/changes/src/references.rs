//! Foreign keys: each row of a table that has one, without NULL there, has a row in the table that it leads to. Those that lead to
//! columns which are no key tell only by which columns tables are joined.

use std::sync::Arc;

use forebay_base::ColumnId;
use forebay_store::{Catalog, Constraint, Table, TableSnapshot, names_equal};
use forebay_tables::table::primary_key;

use crate::keys::Key;

/// A foreign key.
#[derive(Debug, Clone)]
pub struct ForeignKey {
    /// The table that has it.
    pub child: Arc<TableSnapshot>,
    /// The table that it leads to.
    pub parent: Arc<TableSnapshot>,
    /// Its columns.
    columns: Key,
    /// Those of the table that it leads to.
    references: Key,
}

impl ForeignKey {
    /// The foreign keys of tables for which `is_meant` holds, told the child and the parent.
    pub fn of(catalog: &Catalog, is_meant: impl Fn(&Table, &Table) -> bool) -> Vec<Self> {
        let mut found = Vec::new();
        // Most tables have none: their hot rows are not asked for.
        for child in catalog.schema_tables() {
            for constraint in &child.constraints {
                let Constraint::ForeignKey { columns, table, references, is_enforced: true } = constraint else {
                    continue;
                };
                let parent = catalog.schema_tables().find(|parent| names_equal(&parent.full_name(), table));
                let Some(parent) = parent.filter(|parent| is_meant(child, parent)) else { continue };
                let name = |id| child.column_by_id(id).map(|(_, column)| column.name.clone());
                let names: Option<Vec<String>> = columns.iter().map(|id| name(*id)).collect();
                let references = if references.is_empty() { primary_key(parent) } else { references.clone() };
                let stored =
                    |name: &String| parent.column(name).map_or(name.clone(), |(_, column)| column.name.clone());
                let references: Vec<String> = references.iter().map(stored).collect();
                if !is_key(parent, &references) {
                    continue;
                }
                let with_hot_rows =
                    |table: &Arc<TableSnapshot>| Arc::clone(catalog.table_by_id(table.id).unwrap_or(table));
                let (child, parent) = (with_hot_rows(child), with_hot_rows(parent));
                found.extend(names.map(|names| {
                    let (columns, references) = (Key::of_names(names), Key::of_names(references));
                    Self { child, parent, columns, references }
                }));
            }
        }
        found
    }

    /// The query of a key, as messages show it, that a row of `rows` has and none of `parents`, tables in FROM. Those that rows of `gone`
    /// had were there before.
    pub fn missing(&self, rows: &str, gone: Option<&str>, parents: &str) -> String {
        let before = gone.map(|gone| format!(" AND NOT {}", self.columns.found_in(&self.columns.given(gone))));
        format!(
            "SELECT {} FROM {} AS n WHERE NOT {}{} LIMIT 1",
            self.references.shown(),
            self.columns.given(rows),
            self.references.found_in(&self.references.given(parents)),
            before.unwrap_or_default(),
        )
    }

    /// The query of a key, as messages show it, that a row of `children` has, a row of `gone` had, and none of `parents` has.
    pub fn orphaned(&self, children: &str, gone: &str, parents: Option<&str>) -> String {
        let found = |of: &str| self.references.found_in(&self.references.given(of));
        let stays = parents.map(|parents| format!(" AND NOT {}", found(parents)));
        format!(
            "SELECT {} FROM {} AS n WHERE {}{} LIMIT 1",
            self.columns.shown(),
            self.columns.given(children),
            found(gone),
            stays.unwrap_or_default(),
        )
    }
}

/// Whether these columns are a PRIMARY KEY or UNIQUE of a table.
fn is_key(table: &Table, names: &[String]) -> bool {
    let is_named = |id: &ColumnId| table.column_by_id(*id).is_some_and(|(_, column)| names.contains(&column.name));
    table.constraints.iter().any(|constraint| match constraint {
        Constraint::PrimaryKey(ids) | Constraint::Unique(ids) => ids.len() == names.len() && ids.iter().all(is_named),
        Constraint::ForeignKey { .. } | Constraint::Check { .. } => false,
    })
}
