//! Statements that make what is in the catalog.

use forebay_store::{Catalog, Constraint, Sequence, Table, View};
use forebay_tables::declared::{Index, generated_from};
use forebay_tables::nested_columns;

use crate::constraints;
use crate::names::{name_text, table_text};

/// `t`, `s.t`, and `t` of a temporary one.
fn shown_name(shown: &str, name: &str, is_temporary: bool) -> String {
    if is_temporary { name_text(name) } else { table_text(shown, name) }
}

/// CREATE TABLE, of a schema that is called `shown`.
pub(crate) fn of_table(table: &Table, catalog: &Catalog, shown: &str, is_temporary: bool) -> String {
    let only_key = table.constraints.iter().find_map(|constraint| match constraint {
        Constraint::PrimaryKey(ids) if ids.len() == 1 => ids.first(),
        _ => None,
    });
    let mut parts = Vec::new();
    for column in &table.columns {
        let mut text = format!("{} {}", name_text(&column.name), nested_columns::shown(table, column));
        if let Some(expression) = generated_from(table, column) {
            text += &format!(" GENERATED ALWAYS AS({expression})");
        }
        if let Some(default) = &column.default {
            text += &format!(" DEFAULT({default})");
        }
        text += match (only_key == Some(&column.id), column.nullable) {
            (true, _) => " PRIMARY KEY",
            (false, false) => " NOT NULL",
            (false, true) => "",
        };
        parts.push(text);
    }
    let declared = constraints::of(table, catalog).into_iter().filter(|told| told.kind != "NOT NULL");
    parts.extend(declared.filter(|told| only_key.is_none() || told.kind != "PRIMARY KEY").map(|told| told.text));
    let temporary = if is_temporary { "TEMP " } else { "" };
    format!("CREATE {temporary}TABLE {}({});", shown_name(shown, &table.name, is_temporary), parts.join(", "))
}

/// CREATE INDEX.
pub(crate) fn of_index(table: &Table, index: &Index<'_>) -> String {
    let unique = if index.is_unique { "UNIQUE " } else { "" };
    let on = table_text(&table.schema, &table.name);
    format!("CREATE {unique}INDEX {} ON {on}({});", name_text(index.name), index.parts.join(", "))
}

/// CREATE VIEW.
pub(crate) fn of_view(view: &View, shown: &str, is_temporary: bool) -> String {
    let temporary = if is_temporary { "TEMP " } else { "" };
    format!("CREATE {temporary}VIEW {} AS {};", shown_name(shown, &view.name, is_temporary), view.sql)
}

/// CREATE SEQUENCE.
pub(crate) fn of_sequence(sequence: &Sequence, shown: &str, is_temporary: bool) -> String {
    let range = &sequence.range;
    format!(
        "CREATE {}SEQUENCE {} INCREMENT BY {} MINVALUE {} MAXVALUE {} START {} {};",
        if is_temporary { "TEMP " } else { "" },
        shown_name(shown, &sequence.name, is_temporary),
        range.increment,
        range.least,
        range.greatest,
        range.start,
        if range.cycles { "CYCLE" } else { "NO CYCLE" }
    )
}
