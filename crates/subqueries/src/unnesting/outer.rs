//! The rows that expressions with subqueries are evaluated on, and what is joined to them so that none is left.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, ExprSchema, JoinType, Result, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, Join, LogicalPlan, Projection, SubqueryAlias, lit};

use super::binding::{Binding, Key, Names, Pair, Pushed, columns, equal, filter, joined, key_columns};
use super::push::either;
use crate::references::{Reference, as_columns, has_subquery, may_be_lateral, outer_references, refers_to};
use crate::shared_rows::{Shared, is_reader};
use crate::single_row::SingleValues;

/// Rows to which subqueries are joined.
pub(super) struct Outer {
    base: LogicalPlan,
    shared: Shared,
    /// A reader of the base, and what was joined to it.
    current: LogicalPlan,
    /// Whether something else reads the base.
    is_read: bool,
    names: Names,
    /// Subqueries that stand in several places are joined once.
    known: Vec<(LogicalPlan, Expr)>,
}

/// Rows of a subquery beside those that they belong to.
struct Matches {
    right: LogicalPlan,
    on: Vec<Pair>,
    parts: Vec<Expr>,
}

impl Outer {
    pub(super) fn new(base: LogicalPlan, names: Names) -> Result<Self> {
        let shared = Shared { number: names.number(), schema: Arc::clone(base.schema()) };
        let current = shared.reader()?;
        Ok(Self { base, shared, current, is_read: false, names, known: Vec::new() })
    }

    /// The columns of the rows.
    pub(super) fn schema(&self) -> &DFSchemaRef {
        self.base.schema()
    }

    /// The rows with all that was joined to them.
    pub(super) fn finish(self) -> Result<LogicalPlan> {
        if self.is_read {
            return Ok(self.shared.over(self.base, self.current));
        }
        let (number, mut base) = (self.shared.number, Some(self.base));
        self.current
            .transform_down(|node| match is_reader(&node, number).then(|| base.take()).flatten() {
                Some(base) => Ok(Transformed::new(base, true, TreeNodeRecursion::Jump)),
                None => Ok(Transformed::no(node)),
            })
            .data()
    }

    /// A column that says whether `plan` has rows.
    pub(super) fn exists(&mut self, plan: &LogicalPlan) -> Result<Expr> {
        if let Some((_, known)) = self.known.iter().find(|(known, _)| known == plan) {
            return Ok(known.clone());
        }
        let (name, matches) = self.matches(plan)?;
        self.attach(matches, JoinType::LeftMark)?;
        let mark = Expr::Column(Column::new(Some(name), "mark"));
        self.known.push((plan.clone(), mark.clone()));
        Ok(mark)
    }

    /// Keeps the rows for which `plan` has rows, or those for which it has none.
    pub(super) fn keep(&mut self, plan: &LogicalPlan, negated: bool) -> Result<()> {
        let (_, matches) = self.matches(plan)?;
        self.attach(matches, if negated { JoinType::LeftAnti } else { JoinType::LeftSemi })
    }

    fn attach(&mut self, matches: Matches, join_type: JoinType) -> Result<()> {
        let Matches { right, on, parts } = matches;
        self.current = joined(self.current.clone(), right, join_type, on, parts)?;
        Ok(())
    }

    /// What `plan` reads of these rows.
    fn bound(&self, plan: &LogicalPlan) -> Result<Vec<Reference>> {
        let schema = self.base.schema();
        let own = outer_references(plan)?.into_iter().filter(|(_, column)| schema.has_column(column));
        own.map(|(_, column)| Ok((Arc::clone(schema.field_from_column(&column)?), column))).collect()
    }

    /// Does `work` with a binding of what `plan` reads.
    fn with_binding<T>(&mut self, plan: &LogicalPlan, work: impl FnOnce(&mut Binding<'_>) -> Result<T>) -> Result<T> {
        let columns = self.bound(plan)?;
        let names = self.names.clone();
        let mut binding = Binding {
            columns,
            outside: &self.shared,
            names,
            reads_outside: false,
            rows: Vec::new(),
            tables: Vec::new(),
        };
        let done = work(&mut binding)?;
        self.is_read |= binding.reads_outside;
        Ok(done)
    }

    /// A name for the rows of `plan`, and those that belong to each row.
    fn matches(&mut self, plan: &LogicalPlan) -> Result<(String, Matches)> {
        let name = self.names.name("subquery");
        if let Some(matches) = self.filtered(plan, &name)? {
            return Ok((name, matches));
        }
        let rows = self.with_binding(plan, |binding| binding.push(plan))?;
        let exprs = match rows.keys.is_empty() {
            true => vec![lit(true).alias("found")],
            false => key_columns(&rows.keys),
        };
        let right = aliased(Projection::try_new(exprs, Arc::new(rows.plan))?, &name)?;
        let on = self.pairs(rows.keys, Some(&name))?;
        Ok((name, Matches { right, on, parts: Vec::new() }))
    }

    /// As [`Outer::matches`], where filters alone read these rows: they become the condition of the join.
    fn filtered(&mut self, plan: &LogicalPlan, name: &str) -> Result<Option<Matches>> {
        let bound = self.bound(plan)?;
        let (mut plan, mut parts, mut free) = (plan, Vec::new(), Vec::new());
        loop {
            match plan {
                LogicalPlan::Projection(node) if parts.is_empty() && free.is_empty() => plan = &node.input,
                LogicalPlan::Sort(node) if node.fetch.is_none() => plan = &node.input,
                LogicalPlan::Filter(node) => {
                    let all = split_conjunction_owned(node.predicate.clone());
                    let (ours, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|part| refers_to(part, &bound));
                    parts.extend(ours);
                    free.extend(others);
                    plan = &node.input;
                }
                _ => break,
            }
        }
        let reads = |plan: &LogicalPlan| -> Result<bool> {
            Ok(outer_references(plan)?.iter().any(|(_, column)| bound.iter().any(|(_, known)| known == column)))
        };
        if reads(plan)? || parts.iter().chain(&free).any(has_subquery) || parts.iter().any(Expr::is_volatile) {
            return Ok(None);
        }
        let mut used = Vec::new();
        for column in parts.iter().flat_map(Expr::column_refs) {
            if !used.contains(column) {
                used.push(column.clone());
            }
        }
        used.sort();
        let place = |column: &Column| used.iter().position(|known| known == column);
        let called = |place: usize| format!("column_{place}");
        let exprs = match used.is_empty() {
            true => vec![lit(true).alias("found")],
            false => (0..).zip(&used).map(|(at, column)| Expr::Column(column.clone()).alias(called(at))).collect(),
        };
        let plan = filter(plan.clone(), free)?;
        let right = aliased(Projection::try_new(exprs, Arc::new(plan))?, name)?;
        let schema = self.base.schema();
        let seen = |part: Expr| {
            let part = part.transform(|expr| match &expr {
                Expr::Column(column) => Ok(match place(column) {
                    Some(at) => Transformed::yes(Expr::Column(Column::new(Some(name), called(at)))),
                    None => Transformed::no(expr),
                }),
                _ => Ok(Transformed::no(expr)),
            });
            as_columns(part.data()?, schema)
        };
        let parts = parts.into_iter().map(seen).collect::<Result<Vec<_>>>()?;
        Ok(Some(Matches { right, on: Vec::new(), parts }))
    }

    /// The values of these rows beside the keys of rows that were made for them.
    fn pairs(&self, keys: Vec<Key>, name: Option<&str>) -> Result<Vec<Pair>> {
        let schema = self.base.schema();
        let pair = |key: Key| {
            let value = as_columns(key.outer, schema)?;
            let never_null = key.never_null || !value.nullable(schema)?;
            let column = match name {
                Some(name) => Column::new(Some(name), key.column.name),
                None => key.column,
            };
            Ok((value, Expr::Column(column), never_null))
        };
        keys.into_iter().map(pair).collect()
    }

    /// The only value of `plan`.
    pub(super) fn value(&mut self, plan: &LogicalPlan, single: &SingleValues) -> Result<Expr> {
        if let Some((_, known)) = self.known.iter().find(|(known, _)| known == plan) {
            return Ok(known.clone());
        }
        let value = match aggregated(plan)? {
            Some(aggregated) => self.aggregated(plan, aggregated)?,
            None => self.only(plan, single)?,
        };
        self.known.push((plan.clone(), value.clone()));
        Ok(value)
    }

    /// Joins rows, one for a row at most.
    fn beside(&mut self, right: LogicalPlan, keys: Vec<Key>) -> Result<()> {
        let on = self.pairs(keys, None)?;
        let current = self.current.clone();
        self.current = match self.is_read {
            // There are as many of them as different values outside at most: the better side to look up in.
            true => {
                let on = on.into_iter().map(|(left, right, never_null)| (right, left, never_null)).collect();
                joined(right, current, JoinType::Right, on, Vec::new())?
            }
            false => joined(current, right, JoinType::Left, on, Vec::new())?,
        };
        Ok(())
    }

    /// The value of the only row, checked to be the only one.
    fn only(&mut self, plan: &LogicalPlan, single: &SingleValues) -> Result<Expr> {
        let rows = self.with_binding(plan, |binding| {
            let rows = binding.push(plan)?;
            let own = columns(plan);
            binding.closed(rows, own, plan)
        })?;
        let (value, keys) = (columns(plan).remove(0), key_columns(&rows.keys));
        let name = self.names.name("value");
        let value_of = |expr: Expr| expr.alias(&name);
        let is_single = plan.max_rows().is_some_and(|rows| rows <= 1);
        let right = match is_single {
            true => {
                let exprs = keys.iter().cloned().chain([value_of(value)]).collect();
                LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(rows.plan))?)
            }
            false => {
                let few = value_of(single.few(value));
                LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(rows.plan), keys.clone(), vec![few])?)
            }
        };
        self.beside(right, rows.keys)?;
        let value = Expr::Column(Column::from_name(name));
        if is_single {
            return Ok(value);
        }
        // Here, not where it is used: each row is checked.
        let name = self.names.name("value");
        let all = columns(&self.current).into_iter().chain([single.only(value).alias(&name)]).collect();
        self.current = LogicalPlan::Projection(Projection::try_new(all, Arc::new(self.current.clone()))?);
        Ok(Expr::Column(Column::from_name(name)))
    }

    /// The value of an aggregation of all rows, which is there for no rows, too.
    fn aggregated(&mut self, plan: &LogicalPlan, aggregated: Aggregated<'_>) -> Result<Expr> {
        let Aggregated { aggregate, value } = aggregated;
        let (rows, calls) = self.with_binding(plan, |binding| {
            let rows = binding.push(&aggregate.input)?;
            binding.reaching(rows, aggregate.aggr_expr.clone())
        })?;
        let Pushed { plan: input, keys } = rows;
        let computed = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), key_columns(&keys), calls)?);
        let fields = aggregate.schema.iter().zip(&aggregate.aggr_expr);
        let found = self.names.name("found");
        let is_missing = Expr::Column(Column::from_name(&found)).is_null();
        let mut exprs = key_columns(&keys);
        exprs.push(lit(true).alias(&found));
        let mut values = Vec::new();
        let results = computed.schema().columns().into_iter().skip(keys.len());
        for (((qualifier, field), call), result) in fields.zip(results) {
            let name = self.names.name("value");
            exprs.push(Expr::Column(result).alias(&name));
            let default = match call.clone().unalias() {
                Expr::AggregateFunction(call) => call.func.default_value(field.data_type())?,
                _ => ScalarValue::Null,
            };
            let column = Expr::Column(Column::from_name(name));
            let value = match default.is_null() || keys.is_empty() {
                true => column,
                false => {
                    let default = Expr::Literal(default.cast_to(field.data_type())?, None);
                    either(is_missing.clone(), default, column)
                }
            };
            values.push((Column::new(qualifier.cloned(), field.name()), value));
        }
        let right = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(computed))?);
        self.beside(right, keys)?;
        as_columns(substituted(value, &values)?, self.base.schema())
    }

    /// Joins the right side of a join, which reads the left side, these rows.
    pub(super) fn lateral(mut self, join: &Join, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let right = unwrapped(&join.right)?;
        let rows = self.with_binding(&right, |binding| {
            let rows = binding.push(&right)?;
            let own = columns(&right);
            binding.closed(rows, own, &right)
        })?;
        let on = self.pairs(rows.keys, None)?;
        let mut parts = join.filter.clone().map_or_else(Vec::new, split_conjunction_owned);
        parts.extend(join.on.iter().cloned().map(|pair| equal((pair.0, pair.1, true))));
        self.current = joined(self.current.clone(), rows.plan, join.join_type, on, parts)?;
        let rows = self.finish()?;
        Ok(LogicalPlan::Projection(Projection::try_new(columns(plan), Arc::new(rows))?))
    }
}

fn aliased(plan: Projection, name: &str) -> Result<LogicalPlan> {
    let alias = SubqueryAlias::try_new(Arc::new(LogicalPlan::Projection(plan)), name)?;
    Ok(LogicalPlan::SubqueryAlias(alias))
}

/// The right side of a join without the mark that it may read the left side.
fn unwrapped(plan: &LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Subquery(subquery) => Ok(subquery.subquery.as_ref().clone()),
        LogicalPlan::SubqueryAlias(alias) => {
            let inner = unwrapped(&alias.input)?;
            Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(inner), alias.alias.clone())?))
        }
        other => Ok(other.clone()),
    }
}

/// Whether the right side of a join reads the left side.
pub(super) fn is_lateral(join: &Join) -> Result<bool> {
    let reads_left = |(_, column): &Reference| join.left.schema().has_column(column);
    Ok(may_be_lateral(join) && outer_references(&join.right)?.iter().any(reads_left))
}

/// An aggregation of all rows, and the value that a subquery makes of its result.
struct Aggregated<'a> {
    aggregate: &'a Aggregate,
    value: Expr,
}

/// A subquery's plan as one, if it is an aggregation without GROUP BY under what changes its only row.
fn aggregated(plan: &LogicalPlan) -> Result<Option<Aggregated<'_>>> {
    let mut value = columns(plan).remove(0);
    let mut plan = plan;
    let mut depth = 0;
    loop {
        depth += 1;
        match plan {
            LogicalPlan::Projection(node) if depth < MOST_OPERATORS => {
                let schema = node.schema.columns();
                let exprs = node.expr.iter().cloned().map(Expr::unalias);
                value = substituted(value, &schema.into_iter().zip(exprs).collect::<Vec<_>>())?;
                plan = &node.input;
            }
            LogicalPlan::SubqueryAlias(node) => {
                let inner = node.input.schema().columns().into_iter().map(Expr::Column);
                value = substituted(value, &node.schema.columns().into_iter().zip(inner).collect::<Vec<_>>())?;
                plan = &node.input;
            }
            LogicalPlan::Filter(node) if !has_subquery(&node.predicate) => {
                let none = Expr::Literal(ScalarValue::try_from(&value.get_type(node.input.schema())?)?, None);
                value = either(node.predicate.clone(), value, none);
                plan = &node.input;
            }
            LogicalPlan::Sort(node) if node.fetch.is_none() => plan = &node.input,
            LogicalPlan::Aggregate(node) if node.group_expr.is_empty() => {
                return Ok((!value.is_volatile()).then_some(Aggregated { aggregate: node, value }));
            }
            _ => return Ok(None),
        }
    }
}

/// Operators above an aggregation whose expressions are put into each other.
const MOST_OPERATORS: usize = 8;

/// `expr` with values in the place of columns.
fn substituted(expr: Expr, values: &[(Column, Expr)]) -> Result<Expr> {
    expr.transform_down(|expr| match &expr {
        Expr::Column(column) => Ok(match values.iter().find(|(known, _)| known == column) {
            Some((_, value)) => Transformed::new(value.clone(), true, TreeNodeRecursion::Jump),
            None => Transformed::no(expr),
        }),
        _ => Ok(Transformed::no(expr)),
    })
    .data()
}
