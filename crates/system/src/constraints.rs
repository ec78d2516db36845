//! The constraints of tables as DuckDB tells them: what they are called, what they say and which columns they are of.

use forebay_base::ColumnId;
use forebay_store::{Catalog, Constraint, Table, TableSnapshot, names_equal};

use crate::names::{name_text, table_text};

/// A constraint of a table.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    /// Its kind in SQL's words.
    pub(crate) kind: &'static str,
    /// What it says.
    pub(crate) text: String,
    /// The condition of a CHECK.
    pub(crate) expression: Option<String>,
    /// The columns that it is of, by their places.
    pub(crate) places: Vec<i64>,
    /// The same by their names.
    pub(crate) columns: Vec<&'a str>,
    /// Its name, which follows from what it is.
    pub(crate) name: String,
    /// What a foreign key leads to.
    pub(crate) references: Option<(&'a TableSnapshot, Vec<&'a str>)>,
}

/// The constraints of a table: NOT NULL of its columns first, then those that it was declared with.
pub(crate) fn of<'a>(table: &'a Table, catalog: &'a Catalog) -> Vec<Told<'a>> {
    let not_null = table.columns.iter().zip(0..).filter(|(column, _)| !column.nullable).map(|(column, place)| Told {
        kind: "NOT NULL",
        text: "NOT NULL".to_owned(),
        expression: None,
        places: vec![place],
        columns: vec![&column.name],
        name: named(table, &[&column.name], "not_null"),
        references: None,
    });
    not_null.chain(table.constraints.iter().map(|constraint| told(table, catalog, constraint))).collect()
}

fn told<'a>(table: &'a Table, catalog: &'a Catalog, constraint: &'a Constraint) -> Told<'a> {
    let (Constraint::PrimaryKey(ids)
    | Constraint::Unique(ids)
    | Constraint::ForeignKey { columns: ids, .. }
    | Constraint::Check { columns: ids, .. }) = constraint;
    let found: Vec<_> = ids.iter().filter_map(|id: &ColumnId| table.column_by_id(*id)).collect();
    let places = found.iter().map(|(place, _)| *place as i64).collect();
    let columns: Vec<&str> = found.iter().map(|(_, column)| column.name.as_str()).collect();
    let listed = |names: &[&str]| names.iter().map(|name| name_text(name)).collect::<Vec<_>>().join(", ");
    let (kind, text, expression, name, references) = match constraint {
        Constraint::PrimaryKey(_) => {
            ("PRIMARY KEY", format!("PRIMARY KEY({})", listed(&columns)), None, named(table, &columns, "pkey"), None)
        }
        Constraint::Unique(_) => {
            ("UNIQUE", format!("UNIQUE({})", listed(&columns)), None, named(table, &columns, "key"), None)
        }
        Constraint::Check { condition, is_enforced, .. } => {
            let text = format!("CHECK(({condition})){}", enforced(*is_enforced));
            ("CHECK", text, Some(format!("({condition})")), named(table, &columns, "check"), None)
        }
        Constraint::ForeignKey { table: other, references, is_enforced, .. } => {
            let references: Vec<&str> = references.iter().map(String::as_str).collect();
            let parent = catalog.tables().find(|parent| names_equal(&parent.full_name(), other));
            let called = parent.map_or_else(|| other.clone(), |parent| table_text(&parent.schema, &parent.name));
            let (own, others) = (listed(&columns), listed(&references));
            let text = format!("FOREIGN KEY ({own}) REFERENCES {called}({others}){}", enforced(*is_enforced));
            let parts = [columns.as_slice(), &references].concat();
            (
                "FOREIGN KEY",
                text,
                None,
                named(table, &parts, "fkey"),
                parent.map(|parent| (parent.as_ref(), references)),
            )
        }
    };
    Told { kind, text, expression, places, columns, name, references }
}

fn enforced(is_enforced: bool) -> &'static str {
    if is_enforced { "" } else { " NOT ENFORCED" }
}

/// `t_a_b_pkey`.
fn named(table: &Table, columns: &[&str], end: &str) -> String {
    [&[table.name.as_str()], columns, &[end]].concat().join("_")
}

/// The name of the key of a table that foreign keys lead to by these columns.
pub(crate) fn key_name(parent: &Table, catalog: &Catalog, references: &[&str]) -> Option<String> {
    let is_key = |told: &Told<'_>| {
        let is_same = told.columns.iter().zip(references).all(|(one, other)| names_equal(one, other));
        matches!(told.kind, "PRIMARY KEY" | "UNIQUE") && is_same && told.columns.len() == references.len()
    };
    of(parent, catalog).into_iter().find(is_key).map(|told| told.name)
}
