//! UPDATE, DELETE and INSERT.

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, Insert, ObjectName, SetExpr, TableObject, TableWithJoins,
    Update, Value, ValueWithSpan,
};
use forebay_base::{LogicalType, TimeUnit, canonical_f64};

use super::Reader;
use super::expressions::{day, microseconds};
use crate::access::steps;
use crate::expression::{Expression, Typed};
use crate::program::{Action, Step, Stored};
use crate::values::{Datum, Kind};

impl Reader<'_> {
    /// The only table of a statement that changes rows.
    fn changed(&mut self, table: &TableWithJoins) -> Option<()> {
        (table.joins.is_empty()).then(|| self.from(table))??;
        self.names.sources[0].table.check_written().ok()
    }

    pub(super) fn update(&mut self, update: &Update) -> Option<Action> {
        let is_plain = update.from.is_none()
            && update.returning.is_none()
            && update.output.is_none()
            && update.or.is_none()
            && update.order_by.is_empty()
            && update.limit.is_none()
            && update.optimizer_hints.is_empty();
        if !is_plain {
            return None;
        }
        self.changed(&update.table)?;
        let mut changes: Vec<(usize, Stored)> = Vec::new();
        for Assignment { target, value } in &update.assignments {
            let AssignmentTarget::ColumnName(ObjectName(parts)) = target else { return None };
            let [name] = parts.as_slice() else { return None };
            let column = self.names.sources[0].column(&name.as_ident()?.value)?;
            let source = &self.names.sources[0];
            let is_in_key = source.table.keys().iter().any(|key| key.positions().contains(&column));
            // Keys are unique once all rows of a statement have theirs.
            if is_in_key || changes.iter().any(|(other, _)| *other == column) {
                return None;
            }
            let stored = self.stored(value, column)?;
            changes.push((column, stored));
        }
        Some(Action::Update { step: self.only_step(update.selection.as_ref()?)?, changes })
    }

    pub(super) fn delete(&mut self, delete: &Delete) -> Option<Action> {
        let is_plain = delete.tables.is_empty()
            && delete.using.is_none()
            && delete.returning.is_none()
            && delete.output.is_none()
            && delete.order_by.is_empty()
            && delete.limit.is_none()
            && delete.optimizer_hints.is_empty();
        let FromTable::WithFromKeyword(from) = &delete.from else { return None };
        let [table] = from.as_slice() else { return None };
        if !is_plain {
            return None;
        }
        self.changed(table)?;
        Some(Action::Delete { step: self.only_step(delete.selection.as_ref()?)? })
    }

    fn only_step(&mut self, selection: &Expr) -> Option<Step> {
        let mut conditions = Vec::new();
        self.conditions(selection, &mut conditions)?;
        steps(&self.names, conditions)?.pop()
    }

    pub(super) fn insert(&mut self, insert: &Insert) -> Option<Action> {
        let TableObject::TableName(name) = &insert.table else { return None };
        let source = insert.source.as_ref()?;
        let SetExpr::Values(values) = source.body.as_ref() else { return None };
        // Nothing else stands there.
        let mut rest = insert.clone();
        (rest.source, rest.columns) = (None, Vec::new());
        let is_plain = rest.to_string().trim_end() == format!("INSERT INTO {name} DEFAULT VALUES")
            && source.to_string() == values.to_string()
            && !values.explicit_row;
        if !is_plain {
            return None;
        }
        self.source(name, None)?;
        let source = &self.names.sources[0];
        source.table.check_written().ok()?;
        let columns: Vec<usize> = match insert.columns.as_slice() {
            [] => (0..source.stored.columns.len()).collect(),
            named => {
                let position = |name: &ObjectName| match name.0.as_slice() {
                    [name] => source.column(&name.as_ident()?.value),
                    _ => None,
                };
                named.iter().map(position).collect::<Option<_>>()?
            }
        };
        let has_default = |column: usize| source.stored.columns[column].default.is_some();
        let all = 0..source.stored.columns.len();
        let is_once = all.clone().all(|column| columns.iter().filter(|own| **own == column).count() <= 1);
        if !is_once || all.clone().any(|column| !columns.contains(&column) && has_default(column)) {
            return None;
        }
        let mut rows = Vec::new();
        for row in &values.rows {
            if row.len() != columns.len() {
                return None;
            }
            let mut stored = Vec::new();
            for column in all.clone() {
                let value = match columns.iter().position(|own| *own == column) {
                    Some(at) => self.stored(&row[at], column)?,
                    None => self.null(column)?,
                };
                // There is no row whose columns could be meant.
                stored.push(value.value.needs_only(&|_| false).then_some(value)?);
            }
            rows.push(stored);
        }
        Some(Action::Insert { table: self.names.sources[0].table.clone(), rows })
    }

    /// A new value for a column of the only table.
    fn stored(&mut self, value: &Expr, column: usize) -> Option<Stored> {
        if is_null(value) {
            return self.null(column);
        }
        let value = self.expression(value)?;
        let source = &self.names.sources[0];
        let value = literal_as(value, source.logical(column));
        let (logical, is_not_null) = (source.logical(column).clone(), source.is_not_null(column));
        let fits = source.is_plain(column) && value.kind.is_stored_as(&logical);
        fits.then_some(Stored { value, logical, is_not_null })
    }

    fn null(&self, column: usize) -> Option<Stored> {
        let source = &self.names.sources[0];
        let (logical, is_not_null) = (source.logical(column).clone(), source.is_not_null(column));
        let value = Typed { expression: Expression::Literal(Datum::Null), kind: Kind::Other(logical.clone()) };
        source.is_plain(column).then_some(Stored { value, logical, is_not_null })
    }
}

/// A literal as a column of another type gets it, where that is known for certain; anything else as it is.
fn literal_as(value: Typed, logical: &LogicalType) -> Typed {
    let Typed { expression: Expression::Literal(literal), kind } = &value else { return value };
    let stored = match (literal, kind, logical) {
        (Datum::Integer(int), Kind::Integer(_) | Kind::Decimal(_), LogicalType::Float64) => {
            float(*int, kind.scale()).map(|float| canonical_f64(float).to_bits().into())
        }
        (Datum::Bytes(text), Kind::Text, LogicalType::Date) => {
            std::str::from_utf8(text).ok().and_then(day).map(Into::into)
        }
        (Datum::Bytes(text), Kind::Text, LogicalType::Timestamp { unit: TimeUnit::Micro, zone: None }) => {
            std::str::from_utf8(text).ok().and_then(microseconds).map(Into::into)
        }
        _ => None,
    };
    match stored {
        Some(stored) => {
            Typed { expression: Expression::Literal(Datum::Integer(stored)), kind: Kind::Other(logical.clone()) }
        }
        None => value,
    }
}

/// A number without its point, and the digits behind that, as a float; `None` where a step on the way would round.
fn float(int: i128, scale: u8) -> Option<f64> {
    /// Powers of ten up to this one are floats, and integers up to this one.
    const MOST_SCALE: u8 = 22;
    const MOST: u128 = 1 << f64::MANTISSA_DIGITS;
    let is_exact = int.unsigned_abs() <= MOST && scale <= MOST_SCALE;
    is_exact.then(|| int as f64 / 10_f64.powi(scale.into()))
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Null, .. }))
}
