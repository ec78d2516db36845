//! Which statements are programs, and which program each is.
//!
//! What is not known for certain to mean the same is not recognized: clauses, functions and types that are not named here.
//!
//! Must not know: how programs run.

mod changes;
mod expressions;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, Expr, JoinConstraint, JoinOperator, LimitClause, ObjectName, OrderByKind, Query,
    Select, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins,
};
use forebay_engine::types::arrow_type;
use forebay_keyed::KeyedTable;
use forebay_store::{Catalog, names_equal};

use crate::access::steps;
use crate::expression::{Expression, Typed};
use crate::names::{Names, Source, TableFinder};
use crate::output::{Aggregate, AggregateFunction, OutputColumn, is_output};
use crate::program::{Access, Action, OrderedBy, Output, Program, Select as SelectProgram, Step};
use crate::values::{Kind, parameter_kind};

/// Functions that programs know.
const FUNCTIONS: [&str; 6] = ["count", "sum", "min", "max", "left", "now"];

/// The program of a statement, whose tables are found in a catalog by `finder`, whose parameters have these names and whose values these types.
/// `schema` is that of its rows, where it gives some. `None` where it has to be planned.
pub fn recognize(
    statement: &Statement,
    catalog: &Catalog,
    finder: TableFinder<'_>,
    parameters: (&[String], &[DataType]),
    schema: Option<&SchemaRef>,
) -> Option<Program> {
    // A macro may have the name of a function.
    if catalog.macros().any(|own| FUNCTIONS.iter().any(|name| names_equal(&own.name, name))) {
        return None;
    }
    let kinds: Vec<Kind> = parameters.1.iter().map(parameter_kind).collect::<Option<_>>()?;
    let mut reader =
        Reader { catalog, finder, parameters: parameters.0, kinds, names: Names::default(), needs_now: false };
    let action = match statement {
        Statement::Query(query) => Action::Select(reader.select(query, schema?)?),
        Statement::Update(update) => reader.update(update)?,
        Statement::Delete(delete) => reader.delete(delete)?,
        Statement::Insert(insert) => reader.insert(insert)?,
        _ => return None,
    };
    Some(Program { action, needs_now: reader.needs_now })
}

struct Reader<'r> {
    catalog: &'r Catalog,
    finder: TableFinder<'r>,
    /// Names and kinds of the parameters.
    parameters: &'r [String],
    kinds: Vec<Kind>,
    names: Names,
    needs_now: bool,
}

impl Reader<'_> {
    fn select(&mut self, query: &Query, schema: &SchemaRef) -> Option<SelectProgram> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        if !has_known_clauses(query, select) {
            return None;
        }
        for table in &select.from {
            self.from(table)?;
        }
        if self.names.sources.is_empty() {
            return None;
        }
        let mut conditions = Vec::new();
        for joined in select.from.iter().flat_map(|table| &table.joins) {
            let (JoinOperator::Join(JoinConstraint::On(on)) | JoinOperator::Inner(JoinConstraint::On(on))) =
                &joined.join_operator
            else {
                return None;
            };
            self.conditions(on, &mut conditions)?;
        }
        if let Some(selection) = &select.selection {
            self.conditions(selection, &mut conditions)?;
        }
        let output = self.output(&select.projection, schema)?;
        let order = match &query.order_by {
            None => Vec::new(),
            Some(order) if order.interpolate.is_none() => match &order.kind {
                OrderByKind::Expressions(all) => {
                    let ordered = all.iter().map(|by| {
                        let is_plain = by.with_fill.is_none() && by.options.nulls_first.is_none();
                        let is_descending = by.options.asc == Some(false);
                        is_plain.then(|| self.ordered_by(&by.expr, is_descending, &select.projection))?
                    });
                    ordered.collect::<Option<_>>()?
                }
                OrderByKind::All(_) => return None,
            },
            Some(_) => return None,
        };
        let limit = match &query.limit_clause {
            None => None,
            Some(LimitClause::LimitOffset { limit, offset: None, limit_by }) if limit_by.is_empty() => {
                limit.as_ref().map(|limit| self.limit(limit)).map_or(Some(None), |limit| limit.map(Some))?
            }
            Some(_) => return None,
        };
        let is_aggregated = matches!(output, Output::Aggregates(_));
        // Rows of several tables come in no order that a plan would have, too.
        let has_order = self.names.sources.len() == 1 || !order.is_empty();
        if is_aggregated && (!order.is_empty() || limit.is_some()) || !is_aggregated && !has_order {
            return None;
        }
        let steps = steps(&self.names, conditions)?;
        let is_in_order = is_in_order(&steps, &order, &output, limit.is_some());
        let (schema, physical) = (SchemaRef::clone(schema), output.physical());
        Some(SelectProgram { steps, schema, physical, output, order, limit, is_in_order })
    }

    /// Takes in the tables of FROM.
    fn from(&mut self, from: &TableWithJoins) -> Option<()> {
        for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
            let TableFactor::Table { name, alias, .. } = factor else { return None };
            let alias = match alias {
                Some(alias) if alias.columns.is_empty() => Some(&alias.name.value),
                Some(_) => return None,
                None => None,
            };
            // Nothing else stands there.
            let shown = match alias {
                Some(alias) => [format!("{name} {alias}"), format!("{name} AS {alias}")],
                None => [name.to_string(), String::new()],
            };
            if !shown.contains(&factor.to_string()) {
                return None;
            }
            self.source(name, alias.cloned())?;
        }
        Some(())
    }

    fn source(&mut self, name: &ObjectName, alias: Option<String>) -> Option<()> {
        // A table with projections has no hot rows.
        let stored = (self.finder)(name).filter(|stored| stored.projections.is_empty())?;
        let alias = alias.unwrap_or_else(|| stored.name.clone());
        if self.names.sources.iter().any(|source| names_equal(&source.alias, &alias)) {
            return None;
        }
        let table = KeyedTable::of(&stored, self.catalog);
        self.names.sources.push(Source { alias, stored, table, reads: Vec::new() });
        Some(())
    }

    fn output(&mut self, items: &[SelectItem], schema: &Schema) -> Option<Output> {
        let mut columns: Vec<(usize, usize)> = Vec::new();
        let mut aggregates = Vec::new();
        for item in items {
            match item {
                SelectItem::Wildcard(options) if options.to_string().is_empty() => {
                    let sources = self.names.sources.iter().enumerate();
                    columns.extend(sources.flat_map(|(number, source)| {
                        (0..source.stored.columns.len()).map(move |column| (number, column))
                    }));
                }
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    match self.names.column(expr) {
                        Some(column) => columns.push(column),
                        None => {
                            let field = schema.fields().get(aggregates.len())?;
                            aggregates.push(self.aggregate(expr, field.data_type())?);
                        }
                    }
                }
                _ => return None,
            }
        }
        if !aggregates.is_empty() {
            let is_all = columns.is_empty() && schema.fields().len() == aggregates.len();
            return is_all.then_some(Output::Aggregates(aggregates));
        }
        if schema.fields().len() != columns.len() {
            return None;
        }
        let mut output = Vec::new();
        for ((table, column), field) in columns.into_iter().zip(schema.fields()) {
            let source = &self.names.sources[table];
            let is_given = source.is_plain(column) && arrow_type(source.logical(column)) == *field.data_type();
            output.push(is_given.then(|| self.output_column(table, column))?);
        }
        Some(Output::Rows(output))
    }

    fn output_column(&mut self, table: usize, column: usize) -> OutputColumn {
        let source = &mut self.names.sources[table];
        let physical = source.logical(column).physical();
        OutputColumn { table, slot: source.slot(column), physical }
    }

    /// An aggregate, whose result is of this type.
    fn aggregate(&mut self, expr: &Expr, data_type: &DataType) -> Option<Aggregate> {
        let call = match expr {
            // To a type that the result is converted to without rounding, or the statement is planned.
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type: SqlType::Decimal(_),
                array: false,
                format: None,
            } => expr,
            other => other,
        };
        let Expr::Function(function) = call else { return None };
        let name = function.name.to_string().to_lowercase();
        let shown = call.to_string();
        let behind = shown.get(function.name.to_string().len()..)?;
        let argument = behind.strip_prefix('(')?.strip_suffix(')')?;
        let (is_distinct, argument) = match argument.strip_prefix("DISTINCT ") {
            Some(argument) => (true, argument),
            None => (false, argument),
        };
        let function = match (name.as_str(), is_distinct) {
            ("count", false) => AggregateFunction::Count,
            ("count", true) => AggregateFunction::CountDistinct,
            ("sum", false) => AggregateFunction::Sum,
            ("min", _) => AggregateFunction::Min,
            ("max", _) => AggregateFunction::Max,
            _ => return None,
        };
        let is_count = matches!(function, AggregateFunction::Count | AggregateFunction::CountDistinct);
        if argument == "*" {
            let is_known = function == AggregateFunction::Count && *data_type == DataType::Int64;
            return is_known.then_some(Aggregate { function, column: None, scale: 0 });
        }
        // The argument is a name and nothing else.
        let (table, column) = self.column_shown(argument)?;
        let source = &self.names.sources[table];
        let kind = source.kind(column)?;
        let is_known = match function {
            _ if !kind.has_order() => false,
            _ if is_count => *data_type == DataType::Int64,
            AggregateFunction::Sum => {
                matches!(kind, Kind::Integer(_) | Kind::Decimal(_)) && matches!(data_type, DataType::Decimal128(..))
            }
            _ => arrow_type(source.logical(column)) == *data_type,
        };
        (is_known && is_output(data_type)).then(|| Aggregate {
            function,
            column: Some(self.output_column(table, column)),
            scale: kind.scale(),
        })
    }

    /// The column that is written like this.
    fn column_shown(&self, text: &str) -> Option<(usize, usize)> {
        let mut found = self.names.sources.iter().enumerate().flat_map(|(number, source)| {
            let columns = source.stored.columns.iter().enumerate();
            columns.filter_map(move |(column, own)| {
                let names = [own.name.clone(), format!("{}.{}", source.alias, own.name)];
                names.iter().any(|name| names_equal(name, text)).then_some((number, column))
            })
        });
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    fn ordered_by(&mut self, expr: &Expr, is_descending: bool, items: &[SelectItem]) -> Option<OrderedBy> {
        let is_named = |name: &str| {
            items
                .iter()
                .any(|item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if names_equal(&alias.value, name)))
        };
        if matches!(expr, Expr::Identifier(name) if is_named(&name.value)) {
            return None;
        }
        let (table, column) = self.names.column(expr)?;
        let source = &self.names.sources[table];
        // Where there are no NULLs nobody asks where they come.
        (source.is_not_null(column) && source.kind(column)?.has_order()).then(|| {
            let OutputColumn { slot, physical, .. } = self.output_column(table, column);
            OrderedBy { table, slot, physical, is_descending }
        })
    }

    fn limit(&mut self, limit: &Expr) -> Option<Typed> {
        let limit = self.expression(limit)?;
        let is_known = matches!(limit.expression, Expression::Parameter(_) | Expression::Literal(_));
        (is_known && limit.kind == Kind::Integer(None)).then_some(limit)
    }
}

/// Whether a query has no other clauses than FROM, WHERE, ORDER BY and LIMIT.
fn has_known_clauses(query: &Query, select: &Select) -> bool {
    let mut rest = query.clone();
    (rest.order_by, rest.limit_clause) = (None, None);
    let mut select = select.clone();
    (select.projection, select.from, select.selection) = (Vec::new(), Vec::new(), None);
    *rest.body = SetExpr::Select(Box::new(select));
    rest.to_string().trim_end() == "SELECT"
}

/// Whether the first rows that are found are all that is asked for.
fn is_in_order(steps: &[Step], order: &[OrderedBy], output: &Output, has_limit: bool) -> bool {
    let [step] = steps else { return false };
    let Access::Range { columns, values, .. } = &step.access else { return false };
    if !step.conditions.is_empty() {
        return false;
    }
    let next = &columns.positions()[values.len()..];
    match output {
        Output::Rows(_) => {
            let is_next =
                |(at, by): (usize, &OrderedBy)| next.get(at) == Some(&step.reads[by.slot]) && !by.is_descending;
            has_limit && !order.is_empty() && order.iter().enumerate().all(is_next)
        }
        Output::Aggregates(all) => match all.as_slice() {
            [Aggregate { function: AggregateFunction::Min, column: Some(column), .. }] => {
                // NULL would come first.
                step.table.key().contains(&step.reads[column.slot]) && next.first() == Some(&step.reads[column.slot])
            }
            _ => false,
        },
    }
}
