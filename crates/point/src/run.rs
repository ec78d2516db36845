//! How programs run.
//!
//! Must not know: how statements are written.

use std::cmp::Ordering;

use forebay_base::{Error, ErrorKind, Result};
use forebay_engine::Engine;
use forebay_engine::keyed::KeyColumns;
use forebay_keyed::{KeyRange, KeyedRow, KeyedRows, KeyedTable};
use forebay_store::{Cell, HotRow, Transaction};
use smallvec::SmallVec;

use crate::expression::Environment;
use crate::output::{Accumulator, OutputColumn};
use crate::program::{Access, Action, KeyBound, KeyBounds, Output, Program, Select, Step, Stored};
use crate::rows::PointRows;
use crate::values::{Datum, Parameters};

/// Rows that a program looks up at most: a plan of more reads them better.
const MOST_ROWS: usize = 4096;

/// Blocks of a table that may have a key, at most: a plan scans more of them faster than their keys are sorted.
const MOST_BLOCKS: usize = 64;

/// What a program runs on.
#[derive(Debug)]
pub struct Scope<'s> {
    /// Reads rows of segments.
    pub engine: &'s Engine,
    /// Sees and changes rows.
    pub transaction: &'s mut Transaction,
    /// The statement's values.
    pub parameters: &'s Parameters<'s>,
    /// When the transaction began, in microseconds since 1970; `None` where programs may not ask for it.
    pub now: Option<i64>,
    /// Whether rows that change have to stay where they are in their table, as far as a plan keeps them there.
    pub keeps_order: bool,
}

/// What a program gives.
#[derive(Debug)]
pub enum Outcome {
    /// Rows.
    Rows(PointRows),
    /// A number of changed rows.
    Changed(u64),
}

/// Why a program ends before its end.
enum Stop {
    /// The statement is to be planned.
    Planned,
    Failed(Error),
}

type Steps<T> = std::result::Result<T, Stop>;

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error.kind() {
            // A plan says what is wrong in the words of its statement.
            ErrorKind::Constraint | ErrorKind::Input | ErrorKind::Unsupported | ErrorKind::NotFound => Self::Planned,
            // It needs less, or says who has it.
            ErrorKind::OutOfMemory => Self::Planned,
            _ => Self::Failed(error),
        }
    }
}

fn rows_of<'t>(engine: &'t Engine, transaction: &'t mut Transaction) -> KeyedRows<'t> {
    KeyedRows::new(engine, transaction).in_few_blocks(MOST_BLOCKS)
}

fn known<T>(value: Option<T>) -> Steps<T> {
    value.ok_or(Stop::Planned)
}

impl Program {
    /// Runs it. `None` where the statement has to be planned: then nothing has changed.
    ///
    /// # Errors
    /// Those of reading; `Conflict` where another transaction has changed a row.
    pub fn run(&self, scope: Scope<'_>) -> Result<Option<Outcome>> {
        let Scope { engine, transaction, parameters, now, keeps_order } = scope;
        let is_by_key = |table: &KeyedTable| transaction.takes_hot_rows(table.id());
        let has_room = !self.changes_rows() || transaction.has_room_for_hot_rows();
        if self.needs_now && now.is_none() || !has_room || !self.tables().all(is_by_key) {
            return Ok(None);
        }
        let mut run = Run { parameters: &parameters.values, now: now.unwrap_or_default(), looked_up: 0, keeps_order };
        let ended = match &self.action {
            Action::Select(select) => run.select(&mut rows_of(engine, transaction), select).map(Outcome::Rows),
            Action::Update { step, changes } => {
                run.all_or_none(engine, transaction, step, |run, rows, found| run.update(rows, step, found, changes))
            }
            Action::Delete { step } => {
                run.all_or_none(engine, transaction, step, |_, rows, found| Ok(rows.delete(&step.table, found)?))
            }
            Action::Insert { table, rows } => run.insert(engine, transaction, table, rows),
        };
        match ended {
            Ok(outcome) => Ok(Some(outcome)),
            Err(Stop::Planned) => Ok(None),
            Err(Stop::Failed(error)) => Err(error),
        }
    }
}

/// The value of a bound as its column has it.
fn cell<'v>(value: &'v Option<Datum<'_>>, bound: &Option<KeyBound>) -> Option<Cell<'v>> {
    let physical = bound.as_ref()?.value.logical.physical();
    Some(value.as_ref()?.cell(physical))
}

/// The keys that begin with these values, where the next one lies between bounds; `None` where there can be none.
fn range_of<'c>(
    table: &KeyedTable,
    columns: &KeyColumns,
    values: &[Cell<'c>],
    (bounds, next): (&KeyBounds, (Option<Cell<'c>>, Option<Cell<'c>>)),
) -> Steps<Option<KeyRange>> {
    let mut range = KeyedRows::keys_with(table, columns, values)?;
    for (bound, value, is_low) in [(&bounds.low, next.0, true), (&bounds.high, next.1, false)] {
        let (Some(bound), Some(value)) = (bound, value) else { continue };
        let with_bound = [values, &[value]].concat();
        let (first, behind) = KeyedRows::keys_with(table, columns, &with_bound)?;
        match (is_low, bound.is_included) {
            (true, true) => range.0 = first,
            (true, false) => match behind {
                Some(behind) => range.0 = behind,
                None => return Ok(None),
            },
            (false, true) => range.1 = behind,
            (false, false) => range.1 = Some(first),
        }
    }
    Ok(Some(range))
}

/// A row for each table of these steps, before any is found.
fn found_by(steps: &[Step]) -> Vec<HotRow> {
    steps.iter().map(|step| HotRow::with_capacity(step.reads.len())).collect()
}

struct Run<'r> {
    parameters: &'r [Datum<'r>],
    now: i64,
    looked_up: usize,
    keeps_order: bool,
}

impl<'r> Run<'r> {
    fn environment<'e>(&'e self, rows: &'e [HotRow]) -> Environment<'e> {
        Environment { rows, parameters: self.parameters, now: self.now }
    }

    /// Values as columns have them.
    fn values<'e>(&'e self, values: &'e [Stored], rows: &'e [HotRow]) -> Steps<SmallVec<[Datum<'e>; 4]>> {
        values.iter().map(|value| self.value(value, rows)).collect()
    }

    fn value<'e>(&'e self, stored: &'e Stored, rows: &'e [HotRow]) -> Steps<Datum<'e>> {
        let value = known(stored.value.value(self.environment(rows)))?;
        match value {
            Datum::Null if stored.is_not_null => Err(Stop::Planned),
            value => known(value.stored(&stored.value.kind, &stored.logical)),
        }
    }

    fn bound<'e>(&'e self, bound: &'e Option<KeyBound>, rows: &'e [HotRow]) -> Steps<Option<Datum<'e>>> {
        bound.as_ref().map(|bound| self.value(&bound.value, rows)).transpose()
    }

    /// The rows of a step, where those of the steps before are known.
    fn find(&mut self, access: &mut KeyedRows<'_>, step: &Step, rows: &[HotRow], most: usize) -> Steps<Vec<KeyedRow>> {
        let found = self.looked_up(access, step, rows, most)?;
        self.looked_up += found.len();
        match self.looked_up > MOST_ROWS {
            true => Err(Stop::Planned),
            false => Ok(found),
        }
    }

    fn looked_up(&self, access: &mut KeyedRows<'_>, step: &Step, rows: &[HotRow], most: usize) -> Steps<Vec<KeyedRow>> {
        let (Access::Unique { values: stored, .. } | Access::Range { values: stored, .. }) = &step.access;
        let values = self.values(stored, rows)?;
        // Nothing is equal to NULL.
        if values.contains(&Datum::Null) {
            return Ok(Vec::new());
        }
        let cells: SmallVec<[Cell<'_>; 4]> =
            values.iter().zip(stored).map(|(value, stored)| value.cell(stored.logical.physical())).collect();
        match &step.access {
            Access::Unique { key, .. } => Ok(access.find(&step.table, *key, &cells)?.into_iter().collect()),
            Access::Range { columns, bounds, .. } => {
                let (low, high) = (self.bound(&bounds.low, rows)?, self.bound(&bounds.high, rows)?);
                // Nothing is above NULL or below it.
                if [&low, &high].contains(&&Some(Datum::Null)) {
                    return Ok(Vec::new());
                }
                let next = (cell(&low, &bounds.low), cell(&high, &bounds.high));
                match range_of(&step.table, columns, &cells, (bounds, next))? {
                    None => Ok(Vec::new()),
                    Some(range) => {
                        Ok(access.range(&step.table, columns, (&cells, next), &range, most.min(MOST_ROWS + 1))?)
                    }
                }
            }
        }
    }

    /// Calls `each` with every combination of rows that the steps find, from this one on, until it says that it has enough.
    fn each(
        &mut self,
        access: &mut KeyedRows<'_>,
        steps: &[Step],
        rows: &mut Vec<HotRow>,
        most: usize,
        each: &mut dyn FnMut(&[HotRow]) -> Steps<bool>,
    ) -> Steps<bool> {
        let Some((step, later)) = steps.split_first() else { return each(rows) };
        let mut found = self.find(access, step, rows, most)?;
        if most == usize::MAX {
            // As a scan has them.
            access.sort_as_scanned(&step.table, &mut found)?;
        }
        for row in found {
            access.read(&step.table, row, &step.reads, &mut rows[step.number])?;
            if self.holds(step, rows)? && !self.each(access, later, rows, most, each)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn holds(&self, step: &Step, rows: &[HotRow]) -> Steps<bool> {
        for condition in &step.conditions {
            if !known(condition.holds(self.environment(rows)))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn select(&mut self, access: &mut KeyedRows<'_>, select: &Select) -> Steps<PointRows> {
        let limit = match &select.limit {
            None => usize::MAX,
            Some(limit) => match known(limit.value(self.environment(&[])))? {
                Datum::Integer(limit) => known(usize::try_from(limit).ok())?,
                _ => return Err(Stop::Planned),
            },
        };
        let cells = match &select.output {
            Output::Rows(output) => self.rows(access, select, output, limit)?,
            Output::Aggregates(aggregates) => {
                let mut accumulators: Vec<Accumulator> = aggregates.iter().map(|_| Accumulator::default()).collect();
                let most = if select.is_in_order { 1 } else { usize::MAX };
                self.each(access, &select.steps, &mut found_by(&select.steps), most, &mut |rows| {
                    for (accumulator, aggregate) in accumulators.iter_mut().zip(aggregates) {
                        known(accumulator.add(aggregate, rows))?;
                    }
                    Ok(true)
                })?;
                let mut cells = HotRow::with_capacity(aggregates.len());
                let all = accumulators.into_iter().zip(aggregates).zip(select.schema.fields());
                for ((accumulator, aggregate), field) in all {
                    let result = known(accumulator.result(aggregate, field.data_type()))?;
                    cells.push(result.cell(aggregate.physical()));
                }
                cells
            }
        };
        Ok(PointRows::new(&select.schema, &select.physical, cells))
    }

    /// The rows of a query without aggregates, one behind the other.
    fn rows(
        &mut self,
        access: &mut KeyedRows<'_>,
        select: &Select,
        output: &[OutputColumn],
        limit: usize,
    ) -> Steps<HotRow> {
        let most = if select.is_in_order { limit } else { usize::MAX };
        let is_sorted = !select.order.is_empty() && !select.is_in_order;
        let enough = if is_sorted { usize::MAX } else { limit };
        let width = output.len() + if is_sorted { select.order.len() } else { 0 };
        let (mut cells, mut found) = (HotRow::with_capacity(width), 0);
        if limit > 0 {
            self.each(access, &select.steps, &mut found_by(&select.steps), most, &mut |rows| {
                output.iter().for_each(|column| cells.push(rows[column.table].cell(column.slot)));
                if is_sorted {
                    select.order.iter().for_each(|by| cells.push(rows[by.table].cell(by.slot)));
                }
                found += 1;
                Ok(found < enough)
            })?;
        }
        if !is_sorted {
            return Ok(cells);
        }
        let by = |row: &usize, other: &usize| {
            let orders = select.order.iter().enumerate().map(|(at, by)| {
                let value = |row: &usize| Datum::of(cells.cell(row * width + output.len() + at), by.physical);
                let order = value(row).cmp(&value(other));
                if by.is_descending { order.reverse() } else { order }
            });
            { orders }.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        let mut order: Vec<usize> = (0..found).collect();
        order.sort_by(by);
        order.truncate(limit);
        let mut sorted = HotRow::with_capacity(order.len() * output.len());
        for row in order {
            (0..output.len()).for_each(|column| sorted.push(cells.cell(row * width + column)));
        }
        Ok(sorted)
    }

    /// Changes all rows that a step finds, or none of them.
    fn all_or_none(
        &mut self,
        engine: &Engine,
        transaction: &mut Transaction,
        step: &Step,
        mut change: impl FnMut(&Self, &mut KeyedRows<'_>, KeyedRow) -> Steps<()>,
    ) -> Steps<Outcome> {
        let mut rows = [HotRow::with_capacity(step.reads.len())];
        let mut access = rows_of(engine, transaction);
        let mut found = self.find(&mut access, step, &rows, usize::MAX)?;
        if !step.conditions.is_empty() {
            let mut kept = Vec::with_capacity(found.len());
            for row in found {
                access.read(&step.table, row, &step.reads, &mut rows[0])?;
                if self.holds(step, &rows)? {
                    kept.push(row);
                }
            }
            found = kept;
        }
        access.sort_as_scanned(&step.table, &mut found)?;
        // A change of one row is made as a whole or not at all.
        let before = (found.len() > 1).then(|| transaction.moment());
        let mut access = rows_of(engine, transaction);
        let changed = found.iter().try_for_each(|row| change(self, &mut access, *row));
        if let (Err(_), Some(before)) = (&changed, before) {
            transaction.return_to(&before)?;
        }
        changed.map(|()| Outcome::Changed(found.len() as u64))
    }

    fn update(
        &self,
        access: &mut KeyedRows<'_>,
        step: &Step,
        found: KeyedRow,
        changes: &[(usize, Stored)],
    ) -> Steps<()> {
        if self.keeps_order && access.is_rewritten_in_place(&step.table, found)? {
            return Err(Stop::Planned);
        }
        let mut rows = [HotRow::with_capacity(step.reads.len())];
        let is_read = |(_, stored): &(usize, Stored)| !stored.value.needs_only(&|_| false);
        if changes.iter().any(is_read) {
            access.read(&step.table, found, &step.reads, &mut rows[0])?;
        }
        let values: Vec<Datum<'_>> =
            changes.iter().map(|(_, stored)| self.value(stored, &rows)).collect::<Steps<_>>()?;
        let cells: Vec<(usize, Cell<'_>)> = changes
            .iter()
            .zip(&values)
            .map(|((column, stored), value)| (*column, value.cell(stored.logical.physical())))
            .collect();
        Ok(access.update(&step.table, found, &cells)?)
    }

    fn insert(
        &self,
        engine: &Engine,
        transaction: &mut Transaction,
        table: &KeyedTable,
        rows: &[Vec<Stored>],
    ) -> Steps<Outcome> {
        let before = (rows.len() > 1).then(|| transaction.moment());
        let mut access = rows_of(engine, transaction);
        let inserted = rows.iter().try_for_each(|row| {
            let values = self.values(row, &[])?;
            let cells: Vec<Cell<'_>> =
                values.iter().zip(row).map(|(value, stored)| value.cell(stored.logical.physical())).collect();
            Ok::<_, Stop>(access.insert(table, &cells)?)
        });
        if let (Err(_), Some(before)) = (&inserted, before) {
            transaction.return_to(&before)?;
        }
        inserted.map(|()| Outcome::Changed(rows.len() as u64))
    }
}
