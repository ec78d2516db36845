//! In which order the rows of a statement's tables are looked for, and by which keys.
//!
//! Must not know: what is done with the rows.

use forebay_engine::keyed::KeyColumns;

use crate::expression::{Comparison, Condition, Expression, Typed};
use crate::names::{Names, Source};
use crate::program::{Access, KeyBound, KeyBounds, Step, Stored};

/// How well a key serves: columns that are equal to something, and whether the next one has a bound.
type Score = (bool, usize, bool);

/// A condition on a column of a table by what is known when its rows are looked for.
struct OnColumn<'c> {
    /// The number of the condition.
    number: usize,
    column: usize,
    comparison: Comparison,
    value: &'c Typed,
}

/// A step for each table; `None` where rows of one are not found by key.
pub(crate) fn steps(names: &Names, conditions: Vec<Condition>) -> Option<Vec<Step>> {
    let mut left: Vec<Option<Condition>> = conditions.into_iter().map(Some).collect();
    let mut steps: Vec<Step> = Vec::new();
    while steps.len() < names.sources.len() {
        let is_placed = |table: usize| steps.iter().any(|step| step.number == table);
        let candidates = names.sources.iter().enumerate().filter(|(number, _)| !is_placed(*number));
        let found = candidates.filter_map(|(number, source)| {
            let on_columns = on_columns(number, source, &left, &is_placed);
            let (score, access, used) = best(source, &on_columns)?;
            Some((score, number, access, used))
        });
        // Of equal ones the first that is written.
        let (_, number, access, used) = found.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
        for at in used {
            left[at] = None;
        }
        let is_there = |table: usize| table == number || is_placed(table);
        let mut conditions = Vec::new();
        for condition in &mut left {
            let needs = |known: &Condition| known.left.needs_only(&is_there) && known.right.needs_only(&is_there);
            if condition.as_ref().is_some_and(needs) {
                conditions.extend(condition.take());
            }
        }
        let source = &names.sources[number];
        let (table, reads) = (source.table.clone(), source.reads.clone());
        steps.push(Step { number, table, access, reads, conditions });
    }
    Some(steps)
}

fn on_columns<'c>(
    table: usize,
    source: &Source,
    conditions: &'c [Option<Condition>],
    is_placed: &dyn Fn(usize) -> bool,
) -> Vec<OnColumn<'c>> {
    let mut found = Vec::new();
    for (number, condition) in conditions.iter().enumerate() {
        let Some(Condition { left, comparison, right }) = condition else { continue };
        for (column, comparison, value) in [(left, *comparison, right), (right, comparison.turned(), left)] {
            if let Expression::Column { table: own, slot, .. } = column.expression
                && own == table
                && value.needs_only(is_placed)
            {
                found.push(OnColumn { number, column: source.reads[slot], comparison, value });
            }
        }
    }
    found
}

/// The best access to a table by these conditions, and which of them it takes.
fn best(source: &Source, conditions: &[OnColumn<'_>]) -> Option<(Score, Access, Vec<usize>)> {
    let keys = source.table.keys().iter().enumerate().map(|(number, columns)| (Some(number), columns));
    let all = keys.chain(source.table.indexes().map(|columns| (None, columns)));
    let found = all.filter_map(|(key, columns)| access(source, key, columns, conditions));
    found.reduce(|best, other| if other.0 > best.0 { other } else { best })
}

fn access(
    source: &Source,
    key: Option<usize>,
    columns: &KeyColumns,
    conditions: &[OnColumn<'_>],
) -> Option<(Score, Access, Vec<usize>)> {
    let stored = |condition: &OnColumn<'_>| Stored {
        value: condition.value.clone(),
        logical: source.logical(condition.column).clone(),
        is_not_null: false,
    };
    let (mut values, mut used) = (Vec::new(), Vec::new());
    for column in columns.positions() {
        let is_equal = |own: &&OnColumn<'_>| own.column == *column && own.comparison == Comparison::Equal;
        let Some(condition) = conditions.iter().find(is_equal) else { break };
        values.push(stored(condition));
        used.push(condition.number);
    }
    let equal = values.len();
    if let Some(key) = key.filter(|_| equal == columns.positions().len()) {
        return Some(((true, equal, false), Access::Unique { key, values }, used));
    }
    let mut bound = |is_low: bool| {
        let column = *columns.positions().get(equal)?;
        // NULL would lie below all bounds.
        let is_bound = |own: &&OnColumn<'_>| {
            own.column == column
                && match own.comparison {
                    Comparison::Greater | Comparison::GreaterOrEqual => is_low,
                    Comparison::Less | Comparison::LessOrEqual => !is_low,
                    _ => false,
                }
        };
        let condition = conditions.iter().filter(|_| source.is_not_null(column)).find(is_bound)?;
        used.push(condition.number);
        let is_included = matches!(condition.comparison, Comparison::GreaterOrEqual | Comparison::LessOrEqual);
        Some(KeyBound { value: stored(condition), is_included })
    };
    let bounds = Box::new(KeyBounds { low: bound(true), high: bound(false) });
    let has_bound = bounds.low.is_some() || bounds.high.is_some();
    let score = (false, equal, has_bound);
    (equal > 0 || has_bound).then(|| (score, Access::Range { columns: columns.clone(), values, bounds }, used))
}
