//! UPDATE and DELETE. Files of segments do not change. Of a large segment few of whose rows a statement concerns it is noted that these
//! are deleted, and their new versions come behind all others (merge on read); other segments that have such rows are written anew,
//! without them or with their new values, and take the places of the old ones: their rows keep their order (copy on write).

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{
    Delete, FromTable, ObjectName, ObjectNamePart, SelectItem, TableFactor, TableWithJoins, Update, With,
};
use forebay_base::{Error, Result, limits};
use forebay_changes::change::{Change, PLACE};
use forebay_changes::columns::{quoted, whole_table};
use forebay_changes::of_one_row::other_than_of_one_row;
use forebay_changes::segment_counts::SegmentCounts;
use forebay_context::row_changes::RowChangeMode;
use forebay_keyed::MOST_HOT_ROWS;
use forebay_store::{Deleted, RowChanges, SealedSegment, Segment, Table, TableSnapshot};
use forebay_syntax::parse::parse_plan;
use forebay_tables::load::{self, Loaded};

use crate::answer::Answer;
use crate::lookup::{find_name, find_table};
use crate::returning::Returning;
use crate::run::Run;

/// A segment is written anew where more than one in so many of its rows change.
const MOST_CHANGED: u64 = 8;

/// And where more than one in so many would be deleted: scans read them still.
const MOST_DELETED: u64 = 2;

impl Run<'_> {
    /// Runs a DELETE.
    pub(crate) fn delete(&self, delete: &Delete, with: Option<&With>) -> Result<Answer> {
        self.change(&self.change_of_delete(delete, with)?, delete.returning.as_ref())
    }

    /// Runs an UPDATE.
    pub(crate) fn update(&self, update: &Update, with: Option<&With>) -> Result<Answer> {
        let state = self.state();
        let mut values = update.assignments.iter().map(|assignment| &assignment.value).chain(&update.selection);
        match values.find_map(|value| other_than_of_one_row(&state, value)) {
            Some(call) => Err(Error::input(format!("{call} is no value of one row, as UPDATE sets them"))
                .hint("Write it in a subquery: SET a = (SELECT max(b) FROM t)")),
            None => self.change(&self.change_of_update(update, with)?, update.returning.as_ref()),
        }
    }

    /// The query of the rows that an UPDATE puts into its table.
    pub(crate) fn query_of_update(&self, update: &Update, with: Option<&With>) -> Result<PlanStatement> {
        let change = self.change_of_update(update, with)?;
        parse_plan(&change.rows(&whole_table(&change.table)))
    }

    /// The query of the rows that a DELETE leaves in its table.
    pub(crate) fn query_of_delete(&self, delete: &Delete, with: Option<&With>) -> Result<PlanStatement> {
        let change = self.change_of_delete(delete, with)?;
        parse_plan(&change.rows(&whole_table(&change.table)))
    }

    fn change_of_update(&self, update: &Update, with: Option<&With>) -> Result<Change> {
        let (table, alias) = target_of(self, &update.table)?;
        Change::of_update(table, alias, update, with)
    }

    fn change_of_delete(&self, delete: &Delete, with: Option<&With>) -> Result<Change> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [target] = from.as_slice() else { return Err(Error::input("DELETE takes one table")) };
        let (table, alias) = target_of(self, target)?;
        Change::of_delete(table, alias, delete, with)
    }

    fn change(&self, change: &Change, returning: Option<&Vec<SelectItem>>) -> Result<Answer> {
        let mut returning = Returning::of(self, returning)?;
        self.planner.transaction().check_writable()?;
        let mut changed = 0;
        let mut changes = RowChanges::default();
        // What is wrong with the statement is said of an empty table, too.
        if change.table.segments.is_empty() {
            let part = self.planner.add_part(Table::clone(&change.table));
            self.plan_rows(&self.state(), &change.table, &change.rows(&quoted(&part)))?;
        }
        if let Some(returning) = &mut returning {
            // Of no row: the columns that there will be.
            returning.add_segments(self, &change.table, &change.alias, Vec::new())?;
        }
        let concerned = self.concerned(change)?;
        for (segment, rows) in change.table.segments.iter().zip(concerned).filter(|(_, rows)| *rows > 0) {
            let part = change.table.with_rows([Arc::clone(segment)]);
            let part = quoted(&self.planner.add_part(part));
            if self.marks_rows(&change.table, segment, rows) {
                let marked = self.marked(change, segment)?;
                changed += marked.0.rows.count();
                if let Some(returning) = &mut returning {
                    let rows = match &change.values {
                        None => vec![Arc::new(segment.only(&marked.0.rows)?)],
                        Some(_) => marked.1.iter().map(|sealed| Arc::clone(sealed.segment())).collect(),
                    };
                    returning.add_segments(self, &change.table, &change.alias, rows)?;
                }
                if !marked.0.rows.is_empty() {
                    changes.deleted.push(marked);
                }
                continue;
            }
            changed += rows;
            if let (Some(returning), None) = (&mut returning, &change.values) {
                let concerned = change.concerned.as_deref().unwrap_or("TRUE");
                returning.add(self, &change.with, &format!("{part} AS {} WHERE {concerned}", change.alias))?;
            }
            let new = match change.values.is_none() && rows == segment.rows() {
                true => Vec::new(),
                false => self.rewritten(&change.table, &change.rows(&part))?,
            };
            if let (Some(returning), Some(_)) = (&mut returning, &change.values) {
                self.return_new(returning, change, &part, &new)?;
            }
            changes.replaced.push((vec![segment.as_version()], new));
        }
        self.check_written(&change.keys(), &change.table, &changes)?;
        self.replace(&change.table, changes)?;
        match returning {
            Some(returning) => returning.answer(self),
            None => self.changed(changed),
        }
    }

    /// By segment: how many of its rows a statement concerns. One query for all segments: most have no such row.
    fn concerned(&self, change: &Change) -> Result<Vec<u64>> {
        let segments = &change.table.segments;
        if change.concerned.is_none() {
            return Ok(segments.iter().map(|segment| segment.rows()).collect());
        }
        let all = change.table.with_rows(segments.iter().cloned());
        if segments.len() == 1 {
            let part = quoted(&self.planner.add_part(all));
            return Ok(vec![self.number(&change.count(&part))?]);
        }
        let part = quoted(&self.planner.add_part(Table::clone(TableSnapshot::from(all).with_places())));
        let state = self.state();
        let mut answer = self.stream(&state, self.plan_text(&state, &change.places(&part))?)?;
        let mut concerned = SegmentCounts::of(segments);
        while let Some(batch) = answer.next_batch()? {
            concerned.add(&load::places(batch.column(0))?)?;
        }
        Ok(concerned.into_counts())
    }

    /// Whether a segment of which so many rows change stays, without these rows.
    pub(crate) fn marks_rows(&self, table: &Table, segment: &Segment, rows: u64) -> bool {
        // Projections follow segments that are written anew.
        if !table.projections.is_empty() {
            return false;
        }
        match RowChangeMode::of(self.state().config()) {
            RowChangeMode::CopyOnWrite => false,
            RowChangeMode::MergeOnRead => true,
            // Hot rows change where they are.
            RowChangeMode::Auto if segment.is_hot() => rows <= MOST_HOT_ROWS,
            RowChangeMode::Auto => {
                let stored = segment.stored_rows();
                let is_worn = (segment.deleted().count() + rows) * MOST_DELETED > stored;
                stored > limits::SMALL_SEGMENT_ROWS && rows * MOST_CHANGED <= stored && !is_worn
            }
        }
    }

    /// The rows of a segment that a statement concerns, as deleted ones, and segments with their new versions.
    fn marked(&self, change: &Change, segment: &Arc<Segment>) -> Result<(Deleted, Vec<SealedSegment>)> {
        let placed = TableSnapshot::from(change.table.with_rows([Arc::clone(segment)]));
        let placed = Table::clone(placed.with_places());
        let part = quoted(&self.planner.add_part(placed.clone()));
        match &change.values {
            None => self.deleted_of(segment, &change.places(&part)).map(|deleted| (deleted, Vec::new())),
            Some(_) => self.moved(segment, (&placed, &part), &change.new_rows(&part)),
        }
    }

    /// The rows of a segment at the places that a query gives.
    pub(crate) fn deleted_of(&self, segment: &Segment, query: &str) -> Result<Deleted> {
        let state = self.state();
        let mut answer = self.stream(&state, self.plan_text(&state, query)?)?;
        let mut places = Vec::new();
        while let Some(batch) = answer.next_batch()? {
            places.extend(load::places(batch.column(0))?);
        }
        Ok(Deleted { segment: segment.as_version(), rows: segment.rows_at(&places)? })
    }

    /// The rows of a segment at the places that are the last column of a query, and segments with what the query gives besides.
    /// `placed` is a table of the segment with places, which queries call `part`.
    pub(crate) fn moved(
        &self,
        segment: &Segment,
        (placed, part): (&Table, &str),
        query: &str,
    ) -> Result<(Deleted, Vec<SealedSegment>)> {
        let mut state = self.state();
        // One thread reads rows in their order.
        state.config_mut().options_mut().execution.target_partitions = 1;
        let physical = self.physical(&state, self.plan_insert(&state, part, query)?)?;
        let columns = &placed.columns[..placed.columns.len() - 1];
        let Loaded { segments: new, rows, places } = self.load(&state, physical, columns, &placed.options)?;
        let deleted = Deleted { segment: segment.as_version(), rows: segment.rows_at(&places)? };
        match deleted.rows.count() == rows {
            true => Ok((deleted, new)),
            false => Err(Error::internal("a row was changed twice by one statement")),
        }
    }

    /// Adds to RETURNING the new values of the rows of a part that an UPDATE concerns.
    fn return_new(&self, returning: &mut Returning, change: &Change, part: &str, new: &[SealedSegment]) -> Result<()> {
        let Change { table, alias, with, concerned, .. } = change;
        let written = table.with_rows(new.iter().map(|sealed| Arc::clone(sealed.segment())));
        let written = quoted(&self.planner.add_part(written));
        let Some(concerned) = concerned else {
            return returning.add(self, with, &format!("{written} AS {alias}"));
        };
        // Rows keep their places.
        let columns = change.items(&|_, old| old);
        let numbered = |of: &str| format!("(SELECT *, row_number() OVER () AS {PLACE} FROM {of}) AS {alias}");
        let chosen = format!("SELECT {alias}.{PLACE} FROM {} WHERE {concerned}", numbered(part));
        let rows = format!(
            "SELECT {columns} FROM {} WHERE {alias}.{PLACE} IN ({chosen}) ORDER BY {alias}.{PLACE}",
            numbered(&written)
        );
        returning.add(self, with, &format!("({rows}) AS {alias}"))
    }

    /// The rows of a query as segments of `table`.
    pub(crate) fn rewritten(&self, table: &Table, rows: &str) -> Result<Vec<SealedSegment>> {
        let mut state = self.state();
        // One thread reads rows in their order.
        state.config_mut().options_mut().execution.target_partitions = 1;
        let physical = self.physical(&state, self.plan_rows(&state, table, rows)?)?;
        self.load(&state, physical, &table.columns, &table.options).map(|loaded| loaded.segments)
    }

    /// The plan of a query as rows of `table`, in its types.
    pub(crate) fn plan_rows(&self, state: &SessionState, table: &Table, rows: &str) -> Result<Arc<LogicalPlan>> {
        self.plan_insert(state, &whole_table(table), rows)
    }

    /// The plan of a query as rows of the table that queries call `target`.
    fn plan_insert(&self, state: &SessionState, target: &str, rows: &str) -> Result<Arc<LogicalPlan>> {
        match self.plan_text(state, &format!("INSERT INTO {target} {rows}"))? {
            LogicalPlan::Dml(DmlStatement { op: WriteOp::Insert(_), input, .. }) => Ok(input),
            _ => Err(Error::internal("an INSERT was planned as something else")),
        }
    }

    /// The number that a query gives.
    pub(crate) fn number(&self, query: &str) -> Result<u64> {
        let state = self.state();
        let mut answer = self.stream(&state, self.plan_text(&state, query)?)?;
        let mut number = 0;
        while let Some(batch) = answer.next_batch()? {
            let counts = batch.column(0).as_primitive_opt::<Int64Type>();
            let counts = counts.ok_or_else(|| Error::internal("count(*) is no BIGINT"))?;
            number += counts.values().iter().map(|count| u64::try_from(*count).unwrap_or_default()).sum::<u64>();
        }
        Ok(number)
    }
}

/// The table that a statement changes, and what it is called there.
fn target_of(run: &Run<'_>, target: &TableWithJoins) -> Result<(Arc<TableSnapshot>, String)> {
    match (&target.relation, target.joins.as_slice()) {
        (TableFactor::Table { name, alias, args: None, .. }, []) => {
            let table = find_table(&run.planner, &find_name(&run.planner, name)?)?;
            let alias = alias.as_ref().map(|alias| alias.name.to_string());
            Ok((table, alias.unwrap_or_else(|| last(name).unwrap_or_default())))
        }
        _ => Err(Error::input("UPDATE and DELETE change one table")
            .hint("Write UPDATE t SET … FROM other WHERE …, or DELETE FROM t USING other WHERE …")),
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(ObjectNamePart::as_ident).map(ToString::to_string)
}
