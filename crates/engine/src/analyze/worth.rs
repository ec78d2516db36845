//! Which facts about a table are worth making: of the columns of tables that its declared foreign keys lead to, and of its own.

use forebay_base::{ColumnId, limits};
use forebay_store::{Catalog, Constraint, TableSnapshot};

use super::build::Wanted;
use crate::facts::Hop;

/// A column has too many different values for bins to tell blocks apart where so large a part of the rows differs.
const MOST_DIFFERENT: f64 = 0.5;

/// A table with fewer blocks has nothing to rule out.
const FEWEST_BLOCKS: usize = 2;

/// Facts about a table, or a copy of its rows, that are worth making: about the rows of other tables, and unless `sideways_only` about
/// its own.
pub fn worth_making(catalog: &Catalog, table: &TableSnapshot, sideways_only: bool) -> Vec<Wanted> {
    if has_few_blocks(table) {
        return Vec::new();
    }
    let mut wanted = Vec::new();
    if !sideways_only {
        wanted.push(Wanted { hops: Vec::new(), columns: telling_columns(table, &[]) });
    }
    add_partners(catalog, table, &[], &mut wanted);
    wanted.retain(|wanted| !wanted.columns.is_empty());
    wanted
}

/// Facts about a table, or a copy of its rows, that may be worth making: about the rows of other tables whose declared foreign keys lead
/// to it. Whether their columns tell its blocks apart is found out on a sample ([`super::build`]).
pub fn worth_making_of_referencing(catalog: &Catalog, table: &TableSnapshot) -> Vec<Wanted> {
    if has_few_blocks(table) {
        return Vec::new();
    }
    let known: Vec<Hop> = hops_of(catalog, table).into_iter().map(|(hop, _)| hop).collect();
    let mut wanted = Vec::new();
    for other in catalog.tables().filter(|other| other.id != table.id) {
        let here = hops_of(catalog, other).into_iter().filter(|(_, partner)| partner.id == table.id);
        for (hop, _) in here.filter(|(hop, _)| has_column(table, hop.key)) {
            let back = Hop { column: hop.key, table: other.id, key: hop.column };
            let columns = telling_columns(other, &[hop.column]);
            if !columns.is_empty() && !known.contains(&back) {
                wanted.push(Wanted { hops: vec![back], columns });
            }
        }
    }
    wanted
}

/// Adds what is behind the foreign keys of a table at the end of some hops.
fn add_partners(catalog: &Catalog, table: &TableSnapshot, hops: &[Hop], wanted: &mut Vec<Wanted>) {
    if hops.len() == limits::FACT_HOPS {
        return;
    }
    for (hop, partner) in hops_of(catalog, table) {
        // Back to where one has been, or by a column that the copy lacks.
        if hops.iter().any(|known| known.table == hop.table) || !has_column(table, hop.column) {
            continue;
        }
        let hops: Vec<Hop> = hops.iter().copied().chain([hop]).collect();
        wanted.push(Wanted { hops: hops.clone(), columns: telling_columns(partner, &[hop.key]) });
        add_partners(catalog, partner, &hops, wanted);
    }
}

/// The hops by the declared foreign keys of one column each, in the order of their declaration, with the tables that they lead to.
pub fn hops_of<'c>(catalog: &'c Catalog, table: &TableSnapshot) -> Vec<(Hop, &'c TableSnapshot)> {
    let hop = |constraint: &Constraint| {
        let Constraint::ForeignKey { columns, table: name, references, .. } = constraint else { return None };
        let ([column], [key]) = (columns.as_slice(), references.as_slice()) else { return None };
        let partner = catalog.tables().find(|other| other.full_name() == *name && other.id != table.id)?;
        let key = partner.columns.iter().find(|column| forebay_store::names_equal(&column.name, key))?;
        let is_key = |id: ColumnId, of: &TableSnapshot| of.column_by_id(id).is_some_and(|(_, c)| is_integer(c));
        let can_go = is_key(*column, table) && is_key(key.id, partner);
        can_go.then(|| (Hop { column: *column, table: partner.id, key: key.id }, &**partner))
    };
    table.constraints.iter().filter_map(hop).collect()
}

fn has_few_blocks(table: &TableSnapshot) -> bool {
    let groups = table.segments.iter().filter_map(|segment| segment.groups().ok()).flatten();
    groups.map(|group| group.block_rows.len()).sum::<usize>() < FEWEST_BLOCKS
}

fn has_column(table: &TableSnapshot, id: ColumnId) -> bool {
    table.column_by_id(id).is_some_and(|(position, _)| table.has_column(position))
}

fn is_integer(column: &forebay_store::Column) -> bool {
    use forebay_base::PhysicalType::{I8, I16, I32, I64, U8, U16, U32};
    matches!(column.logical.physical(), I8 | I16 | I32 | I64 | U8 | U16 | U32)
}

/// The columns of a table whose bins may tell blocks apart.
fn telling_columns(table: &TableSnapshot, without: &[ColumnId]) -> Vec<ColumnId> {
    let tells = |(index, column): (usize, &forebay_store::Column)| {
        if !table.has_column(index) {
            return None;
        }
        let distinct = table.distribution(index).map_or(0.0, |known| known.distinct);
        let tells = distinct > 1.0 && distinct <= (table.rows() as f64 * MOST_DIFFERENT).max(f64::from(u8::MAX));
        (tells && !without.contains(&column.id)).then_some(column.id)
    };
    table.columns.iter().enumerate().filter_map(tells).collect()
}
