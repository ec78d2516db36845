//! What a transaction makes of the catalog of now, where others have committed since it began.
//!
//! What only one side has changed is as that side has it. Rows of a table that both have changed come together segment by segment: what
//! both have added is there, and segments that this transaction replaces must be there still. Everything else that both have changed is a
//! conflict, and so is a catalog that would name what is not there any more.
//!
//! Invariant: what is merged is a catalog as one transaction after the other could have made it, but for what each of them has read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result, TableId};

use super::Transaction;
use super::projections::check_rows;
use crate::catalog::{
    Catalog, Constraint, Macro, Named, NamedType, Objects, Schema, Table, fold, full_name, names_equal,
};
use crate::fact::Fact;
use crate::projection::Projection;
use crate::segment::{Deleted, Segment, SegmentVersion};
use crate::segment_list::{SegmentList, is_of_chunk};
use crate::sequence::Sequence;
use crate::table_snapshot::TableSnapshot;

/// One thing as it was when the transaction began, as the transaction has it, and as it is now; `None` where it is not there.
type Versions<'v, V> = (Option<&'v V>, Option<&'v V>, Option<&'v V>);

/// All of one kind: as they were when the transaction began, as the transaction has them, and as they are now.
type Maps<'m, K, V> = (&'m BTreeMap<K, V>, &'m BTreeMap<K, V>, &'m mut BTreeMap<K, V>);

/// The catalog `now` with what a transaction that began with `base` has made of that in `own`.
///
/// # Errors
/// `Conflict`.
pub(super) fn merged(base: &Catalog, own: &Catalog, now: &Catalog) -> Result<Catalog> {
    let mut catalog = now.clone();
    if own.has_objects_of(base) {
        return Ok(catalog);
    }
    let objects = catalog.objects_mut();
    let same_schema = |a: &Arc<Schema>, b: &Arc<Schema>| Arc::ptr_eq(a, b);
    let of_schema = |name: &String| format!("schema {name}");
    merge((&base.objects.schemas, &own.objects.schemas, &mut objects.schemas), same_schema, |name, _| {
        Err(changed(&of_schema(name)))
    })?;
    let of_name = |(schema, name): &(String, String)| full_name(schema, name);
    let same_name = |a: &Named, b: &Named| a == b;
    merge((&base.objects.names, &own.objects.names, &mut objects.names), same_name, |key, _| {
        Err(changed(&of_name(key)))
    })?;
    let same_macro = |a: &Arc<Macro>, b: &Arc<Macro>| a == b;
    merge((&base.objects.macros, &own.objects.macros, &mut objects.macros), same_macro, |(_, schema, name), _| {
        Err(changed(&format!("macro {}", full_name(schema, name))))
    })?;
    // Numbers are taken without regard to transactions.
    let same_sequence = |a: &Arc<Sequence>, b: &Arc<Sequence>| a.is_declared_as(b);
    merge((&base.objects.sequences, &own.objects.sequences, &mut objects.sequences), same_sequence, |key, _| {
        Err(changed(&format!("sequence {}", of_name(key))))
    })?;
    let same_type = |a: &Arc<NamedType>, b: &Arc<NamedType>| a == b;
    merge((&base.objects.types, &own.objects.types, &mut objects.types), same_type, |key, _| {
        Err(changed(&format!("type {}", of_name(key))))
    })?;
    let same_table = |a: &Arc<TableSnapshot>, b: &Arc<TableSnapshot>| Arc::ptr_eq(a, b);
    merge((&base.objects.tables, &own.objects.tables, &mut objects.tables), same_table, |_, versions| {
        merged_table(versions).map(Some)
    })?;
    let same_fact = |a: &Arc<Fact>, b: &Arc<Fact>| Arc::ptr_eq(a, b);
    merge((&base.objects.facts, &own.objects.facts, &mut objects.facts), same_fact, |_, (_, own, _)| Ok(own.cloned()))?;
    if !Arc::ptr_eq(&base.objects.directories, &own.objects.directories) {
        if !Arc::ptr_eq(&base.objects.directories, &now.objects.directories) {
            return Err(changed("the list of data directories"));
        }
        objects.directories = Arc::clone(&own.objects.directories);
    }
    check_names(&catalog)?;
    keep_facts_of_what_is_there(catalog.objects_mut());
    Ok(catalog)
}

/// Brings what a transaction changed of one kind of things into `now`; `both` says what becomes of what others have changed, too.
fn merge<K: Ord + Clone, V: Clone>(
    (base, own, now): Maps<'_, K, V>,
    is_same: impl Fn(&V, &V) -> bool,
    both: impl Fn(&K, Versions<'_, V>) -> Result<Option<V>>,
) -> Result<()> {
    let is_same = |a: Option<&V>, b: Option<&V>| match (a, b) {
        (Some(a), Some(b)) => is_same(a, b),
        (None, None) => true,
        _ => false,
    };
    let keys: BTreeSet<&K> = base.keys().chain(own.keys()).collect();
    for key in keys {
        let (before, changed) = (base.get(key), own.get(key));
        if is_same(before, changed) {
            continue;
        }
        let result = match is_same(before, now.get(key)) {
            true => changed.cloned(),
            false => both(key, (before, changed, now.get(key)))?,
        };
        match result {
            Some(value) => now.insert(key.clone(), value),
            None => now.remove(key),
        };
    }
    Ok(())
}

/// A table whose rows two transactions have changed.
fn merged_table((base, own, now): Versions<'_, Arc<TableSnapshot>>) -> Result<Arc<TableSnapshot>> {
    let name = base.or(own).or(now).map_or_else(String::new, |table| table.full_name());
    let what = format!("table {name}");
    let (Some(base), Some(own), Some(now)) = (base, own, now) else {
        return Err(match now {
            None => conflict(format!("{what} was dropped by another transaction")),
            Some(_) => changed(&what),
        });
    };
    let is_as_before = |other: &Table| {
        let definitions =
            |table: &Table| table.projections.iter().map(|own| Arc::clone(&own.definition)).collect::<Vec<_>>();
        other.is_declared_as(base) && other.next_column == base.next_column && definitions(other) == definitions(base)
    };
    if !is_as_before(now) {
        return Err(conflict(format!("{what} was altered by another transaction")));
    }
    if !is_as_before(own) {
        return Err(conflict(format!(
            "the rows of {what} were changed by another transaction, and this one alters it"
        )));
    }
    let mut merged = TableSnapshot::clone(now);
    let find = |table: &Table, copy: &Projection| -> SegmentList {
        table.projection_by_id(copy.definition.id).map(|own| own.segments.clone()).unwrap_or_default()
    };
    for Deleted { segment, rows } in base.segments.deleted_in(&own.segments) {
        let Some(there) = now.segments.find(segment.id) else { return Err(beside(&what)) };
        if there.deleted().intersects(&rows) {
            return Err(conflict(format!("rows of {what} were changed by another transaction, and by this one")));
        }
        merged.edit().segments.delete(segment.id, &rows)?;
    }
    for (gone, come) in base.segments.changes_to(&own.segments) {
        check_there(&now.segments, &gone, &what)?;
        // What has become of hot rows stays where these were.
        let place = |segment: &Arc<Segment>| own.segments.place_of(segment.id()).unwrap_or_default();
        let (of_chunks, others): (Vec<_>, Vec<_>) = come.into_iter().partition(|segment| is_of_chunk(place(segment)));
        match gone.is_empty() {
            true if others.is_empty() => {}
            true => merged.append(place(&others[0]), others),
            false => merged.edit().segments.replace(&gone, others),
        }
        of_chunks.into_iter().for_each(|segment| merged.insert(place(&segment), vec![segment]));
    }
    for copy in merged.projections_mut() {
        for (gone, come) in find(base, copy).changes_to(&find(own, copy)) {
            check_there(&copy.segments, &gone, &what)?;
            copy.segments.replace(&gone, come);
        }
    }
    check_rows(&merged)?;
    Ok(Arc::new(merged))
}

/// Those of these tables whose rows have changed between the two catalogs.
pub(super) fn changed_rows(tables: &BTreeSet<TableId>, before: &Catalog, now: &Catalog) -> BTreeSet<TableId> {
    let versions =
        |catalog: &Catalog, id: &TableId| catalog.objects.tables.get(id).map(|table| table.segments.versions());
    tables.iter().filter(|id| versions(before, id) != versions(now, id)).copied().collect()
}

/// Those of these tables that have segments which they did not have before.
pub(super) fn added_segments(tables: &BTreeSet<TableId>, before: &Catalog, now: &Catalog) -> BTreeSet<TableId> {
    let has_more = |id: &&TableId| {
        let (Some(before), Some(now)) = (before.objects.tables.get(id), now.objects.tables.get(id)) else {
            return true;
        };
        !Arc::ptr_eq(before, now) && now.segments.iter().any(|own| before.segments.find(own.id()).is_none())
    };
    tables.iter().filter(has_more).copied().collect()
}

/// The error of a transaction that relies on rows which others have changed.
pub(super) fn changed_beside(transaction: &Transaction) -> Error {
    let tables = transaction.unchecked.iter().flat_map(|unchecked| unchecked.rows.iter().chain(&unchecked.segments));
    let mut names = tables.filter_map(|id| Some(transaction.catalog().stored_table(*id)?.full_name()));
    let name = names.next().unwrap_or_default();
    conflict(format!("another transaction wrote rows of table {name}, which may have the same keys"))
}

fn check_there(segments: &SegmentList, gone: &[SegmentVersion], what: &str) -> Result<()> {
    match gone.iter().all(|version| segments.find_version(*version).is_some()) {
        true => Ok(()),
        false => Err(beside(what)),
    }
}

fn beside(what: &str) -> Error {
    conflict(format!("rows of {what} that lie beside these were changed by another transaction"))
}

/// An error where what one transaction has made needs what another has dropped.
fn check_names(catalog: &Catalog) -> Result<()> {
    let keys = catalog.objects.names.keys().chain(catalog.objects.sequences.keys()).chain(catalog.objects.types.keys());
    let mut schemas = keys.map(|(schema, _)| schema).chain(catalog.objects.macros.keys().map(|(_, schema, _)| schema));
    if let Some(gone) = schemas.find(|schema| !catalog.objects.schemas.contains_key(&fold(schema))) {
        return Err(conflict(format!(
            "schema {gone} was dropped by a transaction while another one put something into it"
        )));
    }
    for table in catalog.schema_tables() {
        for constraint in &table.constraints {
            let Constraint::ForeignKey { table: target, references, .. } = constraint else { continue };
            let found = catalog.schema_tables().find(|other| names_equal(&other.full_name(), target));
            if !found.is_some_and(|found| references.iter().all(|column| found.column(column).is_some())) {
                let message =
                    format!("a transaction changed table {target} while another one made a foreign key to it");
                return Err(conflict(message));
            }
        }
        for projection in &table.projections {
            projection
                .definition
                .check(table, catalog)
                .map_err(|_| changed(&format!("table {}", table.full_name())))?;
        }
    }
    Ok(())
}

fn keep_facts_of_what_is_there(objects: &mut Objects) {
    let Objects { facts, tables, .. } = objects;
    facts.retain(|_, fact| {
        let definition = fact.definition();
        let has_columns =
            |table: &Arc<TableSnapshot>| definition.columns.iter().all(|column| table.column_by_id(*column).is_some());
        let are_there = definition.sources.iter().all(|source| tables.contains_key(&source.table));
        are_there && tables.get(&definition.table).is_some_and(has_columns)
    });
}

fn changed(what: &str) -> Error {
    conflict(format!("{what} was changed by another transaction"))
}

fn conflict(message: String) -> Error {
    Error::new(ErrorKind::Conflict, message).hint("Run the transaction again")
}
