//! UPDATE and DELETE. Segments do not change: those that hold rows that a statement concerns are written anew, without these rows
//! or with their new values, and take the places of the old ones in one commit; all others stay. Rows keep their order.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, ObjectName, ObjectNamePart, SelectItem, TableFactor,
    TableWithJoins, Update, UpdateTableFromKind, With,
};
use forebay_base::{Error, LogicalType, Result};
use forebay_engine::types::arrow_type;
use forebay_store::{Replaced, SealedSegment, Table, TableSnapshot};
use forebay_syntax::parse::parse_plan;
use forebay_tables::nested_columns;

use crate::answer::Answer;
use crate::insert::{default_expr, is_default};
use crate::lookup::{find_name, find_table};
use crate::named::unknown_column;
use crate::of_one_row::other_than_of_one_row;
use crate::qualified_name::ident;
use crate::returning::Returning;
use crate::run::Run;

/// What a column is called that tells whether a row is to be changed.
const CONCERNED: &str = "\" is concerned\"";

/// What the rows are called that an UPDATE … FROM finds.
const FOUND: &str = "\" found\"";

/// What the column of the places of rows is called.
const PLACE: &str = "\" place\"";

/// What a statement does with the rows of a table.
struct Change {
    table: Arc<TableSnapshot>,
    /// What the statement calls the table.
    alias: String,
    /// The statement's WITH, if it has one.
    with: String,
    /// The condition of the rows that are concerned; `None` of all.
    concerned: Option<String>,
    /// The columns that get values, and these; `None` where rows go.
    values: Option<BTreeMap<usize, String>>,
    /// Where values come from, and what has to hold of it.
    from: Option<Source>,
}

/// Tables beside the one that is changed.
struct Source {
    tables: String,
    condition: String,
}

impl Change {
    fn of_delete(run: &Run<'_>, delete: &Delete, with: Option<&With>) -> Result<Self> {
        if delete.limit.is_some() || !delete.order_by.is_empty() || !delete.tables.is_empty() {
            return Err(Error::unsupported("DELETE with ORDER BY or LIMIT is not supported"));
        }
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [target] = from.as_slice() else { return Err(Error::input("DELETE takes one table")) };
        let (table, alias) = target_of(run, target)?;
        let from = delete.using.as_deref().map(|tables| Source::of(tables, delete.selection.as_ref()));
        let concerned = match &from {
            Some(source) => Some(source.exists()),
            None => delete.selection.as_ref().map(ToString::to_string),
        };
        Ok(Self { table, alias, with: shown(with), concerned, values: None, from: None })
    }

    fn of_update(run: &Run<'_>, update: &Update, with: Option<&With>) -> Result<Self> {
        if update.limit.is_some() || !update.order_by.is_empty() || update.or.is_some() {
            return Err(Error::unsupported("UPDATE with ORDER BY, LIMIT or OR is not supported"));
        }
        let (table, alias) = target_of(run, &update.table)?;
        let from = update.from.as_ref().map(|from| {
            let (UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables)) = from;
            Source::of(tables, update.selection.as_ref())
        });
        let concerned = match &from {
            Some(source) => Some(source.exists()),
            None => update.selection.as_ref().map(ToString::to_string),
        };
        let values = Some(assigned(&table, &update.assignments)?);
        Ok(Self { table, alias, with: shown(with), concerned, values, from })
    }

    /// The table in a query.
    fn whole_table(&self) -> String {
        format!("{}.{}", quoted(&self.table.schema), quoted(&self.table.name))
    }

    /// The query that counts the rows of a part of the table that are concerned; `None` where all of them are.
    fn count(&self, part: &str) -> Option<String> {
        let concerned = self.concerned.as_ref()?;
        Some(format!("{}SELECT count(*) FROM {part} AS {} WHERE {concerned}", self.with, self.alias))
    }

    /// The query of the rows that stand in the place of a part.
    fn rows(&self, part: &str) -> String {
        let (alias, with) = (&self.alias, &self.with);
        let concerned = self.concerned.as_deref().unwrap_or("TRUE");
        let Some(values) = &self.values else {
            return format!(
                "{with}SELECT {} FROM {part} AS {alias} WHERE CASE WHEN {concerned} THEN FALSE ELSE TRUE END",
                self.items(&|_, old| old)
            );
        };
        let Some(source) = &self.from else {
            let items = self.items(&|index, old| match values.get(&index) {
                Some(value) => self.chosen(&format!("{alias}.{CONCERNED}"), value, index, &old),
                None => old,
            });
            let marked = format!("SELECT {alias}.*, ({concerned}) AS {CONCERNED} FROM {part} AS {alias}");
            return format!("{with}SELECT {items} FROM ({marked}) AS {alias}");
        };
        let items = self.items(&|index, old| match values.contains_key(&index) {
            true => self.chosen(&format!("{FOUND}.{CONCERNED}"), &format!("{FOUND}.{}", new(index)), index, &old),
            false => old,
        });
        let found: Vec<String> = values.iter().map(|(index, value)| format!("({value}) AS {}", new(*index))).collect();
        let (found, tables, condition) = (found.join(", "), &source.tables, &source.condition);
        let found = format!("SELECT {found}, TRUE AS {CONCERNED} FROM {tables} WHERE {condition} LIMIT 1");
        // A join leaves no order.
        let placed = format!("(SELECT *, row_number() OVER () AS {PLACE} FROM {part})");
        format!(
            "{with}SELECT {items} FROM {placed} AS {alias} LEFT JOIN LATERAL ({found}) AS {FOUND} ON TRUE ORDER BY {alias}.{PLACE}"
        )
    }

    /// A SELECT list of what is made of each column, by its place and its old value.
    fn items(&self, made: &dyn Fn(usize, String) -> String) -> String {
        let item = |(index, column): (usize, &forebay_store::Column)| {
            let name = quoted(&column.name);
            format!("{} AS {name}", made(index, format!("{}.{name}", self.alias)))
        };
        self.table.columns.iter().enumerate().map(item).collect::<Vec<_>>().join(", ")
    }

    /// The new value of a column where a condition holds, else the old one.
    fn chosen(&self, condition: &str, value: &str, index: usize, old: &str) -> String {
        let column = &self.table.columns[index];
        let cast = match &column.logical {
            // SQL has one type for all zones.
            LogicalType::Timestamp { zone: Some(_), .. } => {
                format!("arrow_cast({value}, '{}')", arrow_type(&column.logical))
            }
            _ => format!("CAST(({value}) AS {})", nested_columns::shown(&self.table, column)),
        };
        format!("CASE WHEN {condition} THEN {cast} ELSE {old} END")
    }
}

impl Source {
    fn of(tables: &[TableWithJoins], condition: Option<&Expr>) -> Self {
        let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
        Self { tables: tables.join(", "), condition: condition.map_or("TRUE".to_owned(), ToString::to_string) }
    }

    /// The condition that a row has a partner there.
    fn exists(&self) -> String {
        format!("EXISTS (SELECT 1 FROM {} WHERE {})", self.tables, self.condition)
    }
}

impl Run<'_> {
    /// Runs a DELETE.
    pub(crate) fn delete(&self, delete: &Delete, with: Option<&With>) -> Result<Answer> {
        self.change(&Change::of_delete(self, delete, with)?, delete.returning.as_ref())
    }

    /// Runs an UPDATE.
    pub(crate) fn update(&self, update: &Update, with: Option<&With>) -> Result<Answer> {
        let state = self.state();
        let mut values = update.assignments.iter().map(|assignment| &assignment.value).chain(&update.selection);
        match values.find_map(|value| other_than_of_one_row(&state, value)) {
            Some(call) => Err(Error::input(format!("{call} is no value of one row, as UPDATE sets them"))
                .hint("Write it in a subquery: SET a = (SELECT max(b) FROM t)")),
            None => self.change(&Change::of_update(self, update, with)?, update.returning.as_ref()),
        }
    }

    /// The query of the rows that an UPDATE puts into its table.
    pub(crate) fn query_of_update(&self, update: &Update, with: Option<&With>) -> Result<PlanStatement> {
        let change = Change::of_update(self, update, with)?;
        parse_plan(&change.rows(&change.whole_table()))
    }

    /// The query of the rows that a DELETE leaves in its table.
    pub(crate) fn query_of_delete(&self, delete: &Delete, with: Option<&With>) -> Result<PlanStatement> {
        let change = Change::of_delete(self, delete, with)?;
        parse_plan(&change.rows(&change.whole_table()))
    }

    fn change(&self, change: &Change, returning: Option<&Vec<SelectItem>>) -> Result<Answer> {
        let mut returning = Returning::of(self, returning)?;
        // Only to fail early on a read-only database.
        drop(self.planner.engine().store().begin()?);
        let mut changed = 0;
        let mut rewritten: Vec<Replaced> = Vec::new();
        // What is wrong with the statement is said of an empty table, too.
        if change.table.segments.is_empty() {
            let part = self.planner.add_part(Table::clone(&change.table));
            self.plan_rows(&self.state(), change, &quoted(&part))?;
        }
        if let Some(returning) = &mut returning {
            // Of no row: the columns that there will be.
            returning.add_segments(self, &change.table, &change.alias, Vec::new())?;
        }
        for segment in &change.table.segments {
            let part = change.table.with_rows([Arc::clone(segment)]);
            let part = quoted(&self.planner.add_part(part));
            let rows = match change.count(&part) {
                Some(query) => self.number(&query)?,
                None => segment.rows(),
            };
            if rows == 0 {
                continue;
            }
            changed += rows;
            if let (Some(returning), None) = (&mut returning, &change.values) {
                let concerned = change.concerned.as_deref().unwrap_or("TRUE");
                returning.add(self, &change.with, &format!("{part} AS {} WHERE {concerned}", change.alias))?;
            }
            let new = match change.values.is_none() && rows == segment.rows() {
                true => Vec::new(),
                false => self.rewritten(change, &part)?,
            };
            if let (Some(returning), Some(_)) = (&mut returning, &change.values) {
                self.return_new(returning, change, &part, &new)?;
            }
            rewritten.push((vec![segment.id()], new));
        }
        self.replace(&change.table, rewritten)?;
        match returning {
            Some(returning) => returning.answer(self),
            None => self.changed(changed),
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

    /// The segments that stand in the place of a part of a table.
    fn rewritten(&self, change: &Change, part: &str) -> Result<Vec<SealedSegment>> {
        let mut state = self.state();
        // One thread reads rows in their order.
        state.config_mut().options_mut().execution.target_partitions = 1;
        let table = &change.table;
        let physical = self.physical(&state, self.plan_rows(&state, change, part)?)?;
        self.load(&state, physical, &table.columns, &table.options).map(|(segments, _)| segments)
    }

    /// The plan of the rows that stand in the place of a part, in the types of the table.
    fn plan_rows(&self, state: &SessionState, change: &Change, part: &str) -> Result<Arc<LogicalPlan>> {
        let target = change.whole_table();
        match self.plan_text(state, &format!("INSERT INTO {target} {}", change.rows(part)))? {
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

/// The text of a WITH before a query.
fn shown(with: Option<&With>) -> String {
    with.map(|with| format!("{with} ")).unwrap_or_default()
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

/// What each column is set to, by its place.
fn assigned(table: &Table, assignments: &[Assignment]) -> Result<BTreeMap<usize, String>> {
    let mut values = BTreeMap::new();
    let mut assign = |target: &ObjectName, value: &Expr| {
        let name = target.0.last().and_then(ObjectNamePart::as_ident).map(ident).unwrap_or_default();
        let known = table.columns.iter().map(|column| column.name.as_str());
        let (index, column) = table.column(&name).ok_or_else(|| unknown_column(&name, known))?;
        let value = if is_default(value) { default_expr(column)?.to_string() } else { value.to_string() };
        match values.insert(index, value) {
            None => Ok(()),
            Some(_) => Err(Error::input(format!("column {name} is set twice"))),
        }
    };
    for Assignment { target, value } in assignments {
        match (target, value) {
            (AssignmentTarget::ColumnName(column), value) => assign(column, value)?,
            (AssignmentTarget::Tuple(columns), Expr::Tuple(values)) if columns.len() == values.len() => {
                columns.iter().zip(values).try_for_each(|(column, value)| assign(column, value))?;
            }
            (AssignmentTarget::Tuple(columns), _) => {
                return Err(Error::input(format!("{} columns are not set to as many values", columns.len()))
                    .hint("Write (a, b) = (1, 2)"));
            }
        }
    }
    Ok(values)
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(ObjectNamePart::as_ident).map(ToString::to_string)
}

/// What the new value of a column is called.
fn new(index: usize) -> String {
    format!("\" new {index}\"")
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
