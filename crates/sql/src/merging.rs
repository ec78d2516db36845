//! MERGE, and INSERT … ON CONFLICT, which is one: segments with rows that a clause is for are written anew, rows that are added come
//! behind all others, in one commit.

use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result};
use forebay_changes::columns::quoted;
use forebay_changes::conflict::Conflict;
use forebay_changes::keys::Key;
use forebay_changes::merge::{Merge, Parsed};
use forebay_store::{Deleted, DeletedRows, RowChanges, SealedSegment, Segment, Table, TableSnapshot};

use crate::answer::Answer;
use crate::lookup::{find_name, find_table};
use crate::returning::Returning;
use crate::run::Run;

impl Run<'_> {
    /// Runs a MERGE.
    pub(crate) fn merge(&self, text: &str) -> Result<Answer> {
        let parsed = Parsed::of(text)?;
        let table = find_table(&self.planner, &find_name(&self.planner, &parsed.target)?)?;
        let source = self.plan_text(&self.state(), &format!("SELECT * FROM {}", parsed.source))?;
        let columns: Vec<String> = source.schema().fields().iter().map(|field| field.name().clone()).collect();
        let merge = Merge::of(&parsed, table, &columns)?;
        self.planner.transaction().check_writable()?;
        let mut returning = Returning::of(self, parsed.returning.as_ref())?;
        if let Some(returning) = &mut returning {
            // Of no row: the columns that there will be.
            returning.of_merge("INSERT");
            returning.add_segments(self, &merge.table, &merge.alias, Vec::new())?;
        }
        let changed = self.merged(&merge, &mut returning)?;
        returning.map_or_else(|| self.changed(changed), |returning| returning.answer(self))
    }

    /// Adds the rows of `new` to a table, or changes those that are there already. Returns how many were added or changed.
    pub(crate) fn insert_or_change(
        &self,
        conflict: Conflict,
        table: &Arc<TableSnapshot>,
        new: &[SealedSegment],
        returning: &mut Option<Returning>,
    ) -> Result<u64> {
        let rows = table.with_rows(new.iter().map(|sealed| Arc::clone(sealed.segment())));
        let part = quoted(&self.planner.add_part(rows));
        self.merged(&conflict.merge(Arc::clone(table), &part), returning)
    }

    fn merged(&self, merge: &Merge, returning: &mut Option<Returning>) -> Result<u64> {
        let table = &merge.table;
        let mut changed = 0;
        let mut changes = RowChanges::default();
        self.check_no_error(merge.errors(None))?;
        if table.segments.is_empty() {
            // What is wrong with the statement is said of an empty table, too.
            let part = quoted(&self.planner.add_part(Table::clone(table)));
            self.plan_rows(&self.state(), table, &merge.rows(&part))?;
        }
        for segment in &table.segments {
            let part = quoted(&self.planner.add_part(table.with_rows([Arc::clone(segment)])));
            self.check_no_error(merge.errors(Some(&part)))?;
            let pairs = self.number(&merge.pairs(&part))?;
            if pairs == 0 {
                continue;
            }
            if pairs != self.number(&merge.concerned(&part))? {
                return Err(Error::input(
                    "MERGE cannot change a row twice, and a row of the table has several partners",
                )
                .hint("Have the source give one row for each of the table, as by GROUP BY or DISTINCT ON"));
            }
            changed += pairs;
            if self.marks_rows(table, segment, pairs) {
                changes.deleted.extend(self.marked_by_merge(merge, segment, returning)?);
                continue;
            }
            if let Some(returning) = returning.as_mut() {
                for (done, rows) in [("DELETE", merge.deleted(&part)), ("UPDATE", merge.updated(&part))] {
                    let Some(rows) = rows else { continue };
                    returning.of_merge(done);
                    returning.add(self, "", &format!("({rows}) AS {}", merge.alias))?;
                }
            }
            changes.replaced.push((vec![segment.as_version()], self.rewritten(table, &merge.rows(&part))?));
        }
        if let Some(inserted) = merge.inserted() {
            let new = self.rewritten(table, &inserted)?;
            changed += new.iter().map(|sealed| sealed.segment().rows()).sum::<u64>();
            if let Some(returning) = returning {
                returning.of_merge("INSERT");
                let written = new.iter().map(|sealed| Arc::clone(sealed.segment())).collect();
                returning.add_segments(self, table, &merge.alias, written)?;
            }
            changes.replaced.push((Vec::new(), new));
        }
        self.check_written(&Key::of(table), table, &changes)?;
        self.replace(table, changes)?;
        Ok(changed)
    }

    /// The rows of a segment that clauses are for, as deleted ones, and segments with their new versions.
    fn marked_by_merge(
        &self,
        merge: &Merge,
        segment: &Arc<Segment>,
        returning: &mut Option<Returning>,
    ) -> Result<Vec<(Deleted, Vec<SealedSegment>)>> {
        let table = &merge.table;
        let placed = TableSnapshot::from(table.with_rows([Arc::clone(segment)]));
        let placed = Table::clone(placed.with_places());
        let part = quoted(&self.planner.add_part(placed.clone()));
        let mut marked = Vec::new();
        if let Some(query) = merge.places_of_deleted(&part) {
            let deleted = self.deleted_of(segment, &query)?;
            if let Some(returning) = returning.as_mut() {
                returning.of_merge("DELETE");
                let gone = vec![Arc::new(segment.only(&deleted.rows)?)];
                returning.add_segments(self, table, &merge.alias, gone)?;
            }
            marked.push((deleted, Vec::new()));
        }
        if let Some(query) = merge.updated_with_places(&part) {
            let (updated, new) = self.moved(segment, (&placed, &part), &query)?;
            if let Some(returning) = returning {
                returning.of_merge("UPDATE");
                let new = new.iter().map(|sealed| Arc::clone(sealed.segment())).collect();
                returning.add_segments(self, table, &merge.alias, new)?;
            }
            marked.push((updated, new));
        }
        let Some((first, _)) = marked.first() else { return Ok(Vec::new()) };
        // One for the segment: what it has then is not what was read.
        let rows = marked.iter().fold(DeletedRows::default(), |rows, (deleted, _)| rows.union(&deleted.rows));
        let deleted = Deleted { segment: first.segment, rows };
        let new = marked.into_iter().flat_map(|(_, new)| new).collect();
        Ok(if deleted.rows.is_empty() { Vec::new() } else { vec![(deleted, new)] })
    }

    fn check_no_error(&self, count: Option<String>) -> Result<()> {
        match count.map(|count| self.number(&count)).transpose()? {
            None | Some(0) => Ok(()),
            Some(rows) => {
                Err(Error::new(ErrorKind::Constraint, format!("WHEN … THEN ERROR holds for {rows} rows of this MERGE")))
            }
        }
    }
}
