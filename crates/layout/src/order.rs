//! Columns of an order by their names.

use datafusion::sql::sqlparser::ast::ObjectName;
use forebay_base::{Error, ErrorKind, Result};
use forebay_context::error::suggestion;
use forebay_engine::analyze::hops_of;
use forebay_engine::facts::{Hop, OrderKey};
use forebay_store::{Catalog, TableSnapshot};

/// A column of an order as SQL writes it: a column behind a foreign key with the column that refers to its table in front.
pub(crate) fn shown(catalog: &Catalog, table: &TableSnapshot, key: &OrderKey) -> Result<String> {
    key.text(table, catalog).ok_or_else(|| Error::internal("a column of an order is not there"))
}

/// The column that a name means: one of the table's own, or else one of the tables that its foreign keys lead to, nearer ones
/// first, in the order of their declaration. In front of it may stand the columns of the foreign keys, or the table that has it.
pub(crate) fn order_key(catalog: &Catalog, table: &TableSnapshot, name: &ObjectName) -> Result<OrderKey> {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(|part| part.value.clone()).collect();
    let Some((column, way)) = parts.split_last() else { return Err(Error::input("a column without a name")) };
    if way.is_empty()
        && let Some((_, own)) = table.column(column)
    {
        return Ok(OrderKey { hops: Vec::new(), column: own.id });
    }
    let mut behind: Vec<(Vec<Hop>, &TableSnapshot)> = vec![(Vec::new(), table)];
    let mut names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let mut next = 0;
    while let Some((hops, at)) = behind.get(next).cloned() {
        next += 1;
        if let (true, Some((_, found))) = (is_way(catalog, table, &hops, way), at.column(column)) {
            return Ok(OrderKey { hops, column: found.id });
        }
        if hops.len() == forebay_base::limits::FACT_HOPS {
            continue;
        }
        for (hop, partner) in hops_of(catalog, at) {
            if hops.iter().all(|known| known.table != hop.table) {
                names.extend(partner.columns.iter().map(|column| column.name.as_str()));
                behind.push((hops.iter().copied().chain([hop]).collect(), partner));
            }
        }
    }
    let error = unknown_column(column, names.into_iter());
    Err(error.context(format!("table {} and the tables that its foreign keys of one column lead to", table.name)))
}

/// The error that there is no column of this name, with one of `known` that it is like.
pub(crate) fn unknown_column<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Error {
    let error = Error::new(ErrorKind::NotFound, format!("column {name} does not exist"));
    match suggestion(name, known) {
        Some(other) => error.hint(format!("Did you mean {other}?")),
        None => error,
    }
}

/// Whether `way` names these hops, by their columns, or the table that they lead to.
fn is_way(catalog: &Catalog, table: &TableSnapshot, hops: &[Hop], way: &[String]) -> bool {
    let end = hops.last().map_or(Some(table), |hop| catalog.table_by_id(hop.table).map(|table| &**table));
    let is_end = |name: &String| end.is_some_and(|end| forebay_store::names_equal(&end.name, name));
    let mut at = Some(table);
    let by_columns = hops.len() == way.len()
        && hops.iter().zip(way).all(|(hop, name)| {
            let column = at.and_then(|table| table.column_by_id(hop.column));
            at = catalog.table_by_id(hop.table).map(|table| &**table);
            column.is_some_and(|(_, column)| forebay_store::names_equal(&column.name, name))
        });
    way.is_empty() || by_columns || matches!(way, [only] if is_end(only))
}
