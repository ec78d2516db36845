//! Subqueries pushed apart from the rows around them: operator by operator, a plan that names values from outside becomes one
//! that computes the rows for all of these values at once, each row with its keys (Neumann, Kemper: Unnesting Arbitrary
//! Queries, BTW 2015, section 3; Neumann: Improving Unnesting of Complex Queries, BTW 2025).

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result, ScalarValue};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{Case, GroupingSet, Sort as SortExpr};
use datafusion::logical_expr::utils::{grouping_set_to_exprlist, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Cast, Distinct, EmptyRelation, Expr, ExprFunctionExt, ExprSchemable, Limit, LogicalPlan, Operator,
    Projection, Sort, SubqueryAlias, Union, Unnest, Values, Window, binary_expr, lit,
};
use forebay_base::Error;
use forebay_context::error::into_datafusion;

use super::binding::{Binding, Key, Pair, Pushed, columns, filter, joined, key_columns, renamed};
use crate::shared_rows::SharedRows;

impl Binding<'_> {
    /// The rows of `plan` for all values from outside.
    pub(super) fn push(&mut self, plan: &LogicalPlan) -> Result<Pushed> {
        if !self.is_bound(plan)? {
            return Ok(Pushed { plan: plan.clone(), keys: Vec::new() });
        }
        match plan {
            LogicalPlan::Projection(node) => {
                let below = self.push(&node.input)?;
                let (below, exprs) = self.reaching(below, node.expr.clone())?;
                self.closed(below, exprs, plan)
            }
            LogicalPlan::Filter(node) => {
                let below = self.push(&node.input)?;
                self.filtered(below, split_conjunction_owned(node.predicate.clone()))
            }
            LogicalPlan::SubqueryAlias(node) => {
                let below = self.push(&node.input)?;
                let inner = self.closed(below, columns(&node.input), &node.input)?;
                let plan = SubqueryAlias::try_new(Arc::new(inner.plan), node.alias.clone())?;
                let called = |key: Key| Key { column: Column::new(Some(node.alias.clone()), key.column.name), ..key };
                let keys = inner.keys.into_iter().map(called).collect();
                Ok(Pushed { plan: LogicalPlan::SubqueryAlias(plan), keys })
            }
            LogicalPlan::Subquery(node) => self.push(&node.subquery),
            LogicalPlan::Aggregate(node) => self.aggregate(node, plan),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let below = self.push(input)?;
                let below = self.closed(below, columns(input), input)?;
                Ok(Pushed { plan: LogicalPlan::Distinct(Distinct::All(Arc::new(below.plan))), keys: below.keys })
            }
            LogicalPlan::Sort(node) => self.sort(node),
            LogicalPlan::Limit(node) => self.limit(node),
            LogicalPlan::Union(node) => self.union(node, plan),
            LogicalPlan::Window(node) => self.window(node, plan),
            LogicalPlan::Unnest(node) => {
                let below = self.push(&node.input)?;
                let below = self.closed(below, columns(&node.input), &node.input)?;
                let unnest = Unnest::try_new(Arc::new(below.plan), node.exec_columns.clone(), node.options.clone())?;
                Ok(Pushed { plan: LogicalPlan::Unnest(unnest), keys: below.keys })
            }
            LogicalPlan::Values(node) => self.push(&rows_apart(node, plan)?),
            LogicalPlan::Join(node) => self.join(node, plan),
            LogicalPlan::TableScan(_) => self.scan(plan),
            LogicalPlan::RecursiveQuery(node) => self.recursive(node, plan),
            LogicalPlan::Extension(_) => match SharedRows::of(plan) {
                Some(rows) => self.shared(rows),
                None => Err(unknown(plan)),
            },
            _ => Err(unknown(plan)),
        }
    }

    /// The columns of `named`, computed by `exprs`, with keys and nothing else. Keys that a table's name stands before get new
    /// names: the same name with the table's and without it in one plan is ambiguous to rules that join projections.
    pub(super) fn closed(&mut self, rows: Pushed, exprs: Vec<Expr>, named: &LogicalPlan) -> Result<Pushed> {
        let mut called = Vec::new();
        let mut keys = Vec::new();
        for key in rows.keys {
            if key.column.relation.is_none() {
                called.push(Expr::Column(key.column.clone()));
                keys.push(key);
                continue;
            }
            let column = Column::from_name(self.names.name("key"));
            called.push(Expr::Column(key.column).alias(column.name()));
            keys.push(Key { column, ..key });
        }
        Ok(Pushed { plan: renamed(rows.plan, exprs, named, called)?, keys })
    }

    /// Groups by the keys, too. Without GROUP BY there is a row also where none is aggregated.
    fn aggregate(&mut self, node: &Aggregate, plan: &LogicalPlan) -> Result<Pushed> {
        let below = self.push(&node.input)?;
        let exprs = node.group_expr.iter().chain(&node.aggr_expr).cloned().collect();
        let (below, mut groups) = self.reaching(below, exprs)?;
        let aggregates = groups.split_off(node.group_expr.len());
        let (below, groups) = self.groups_apart(below, groups)?;
        let keys = key_columns(&below.keys);
        let groups = match groups.as_slice() {
            [Expr::GroupingSet(set)] => vec![Expr::GroupingSet(GroupingSet::GroupingSets(
                sets_of(set).into_iter().map(|set| keys.iter().cloned().chain(set).collect()).collect(),
            ))],
            others => keys.iter().chain(others).cloned().collect(),
        };
        let defaults = self.defaults_without_rows(node, plan)?;
        let aggregate = Aggregate::try_new(Arc::new(below.plan), groups, aggregates)?;
        let aggregate = LogicalPlan::Aggregate(aggregate);
        let own = aggregate.schema().columns().into_iter().skip(keys.len()).map(Expr::Column).collect();
        let rows = self.closed(Pushed { plan: aggregate, keys: below.keys }, own, plan)?;
        match defaults {
            Some(defaults) => self.completed(rows, defaults, plan),
            None => Ok(rows),
        }
    }

    /// Groups by a value from outside are groups by a copy of its key: the key itself groups already, and no grouping set leaves it
    /// out.
    fn groups_apart(&mut self, rows: Pushed, groups: Vec<Expr>) -> Result<(Pushed, Vec<Expr>)> {
        let keys = key_columns(&rows.keys);
        let mut copies: Vec<(Expr, String)> = Vec::new();
        let groups = groups.into_iter().map(|group| {
            let copied = group.transform_down(|expr| {
                if !keys.contains(&expr) {
                    return Ok(Transformed::no(expr));
                }
                let known = copies.iter().find(|(key, _)| *key == expr).map(|(_, name)| name.clone());
                let name = known.unwrap_or_else(|| {
                    let name = self.names.name("group");
                    copies.push((expr, name.clone()));
                    name
                });
                Ok(Transformed::new(Expr::Column(Column::from_name(name)), true, TreeNodeRecursion::Jump))
            });
            copied.data()
        });
        let groups = groups.collect::<Result<Vec<_>>>()?;
        if copies.is_empty() {
            return Ok((rows, groups));
        }
        let copies = copies.into_iter().map(|(key, name)| key.alias(name));
        let exprs = columns(&rows.plan).into_iter().chain(copies).collect();
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(rows.plan))?);
        Ok((Pushed { plan, keys: rows.keys }, groups))
    }

    /// What an aggregation gives where it has no rows, if it gives a row there.
    fn defaults_without_rows(&self, node: &Aggregate, plan: &LogicalPlan) -> Result<Option<Vec<ScalarValue>>> {
        let groups = grouping_set_to_exprlist(&node.group_expr)?.len();
        let sets = match node.group_expr.as_slice() {
            [] => vec![Vec::new()],
            [Expr::GroupingSet(set)] => sets_of(set),
            _ => Vec::new(),
        };
        if !sets.iter().any(Vec::is_empty) {
            return Ok(None);
        }
        let fields = plan.schema().fields();
        let mut defaults = Vec::new();
        for (place, field) in fields.iter().enumerate() {
            let of = place.checked_sub(fields.len() - node.aggr_expr.len()).map(|at| &node.aggr_expr[at]);
            defaults.push(match of.cloned().map(Expr::unalias) {
                Some(Expr::AggregateFunction(call)) => {
                    call.func.default_value(field.data_type())?.cast_to(field.data_type())?
                }
                _ if field.name() == Aggregate::INTERNAL_GROUPING_ID => {
                    ScalarValue::UInt64(Some((1 << groups) - 1)).cast_to(field.data_type())?
                }
                _ => ScalarValue::try_from(field.data_type())?,
            });
        }
        Ok(Some(defaults))
    }

    /// The rows, and one of `defaults` for all values from outside that have none.
    fn completed(&mut self, rows: Pushed, defaults: Vec<ScalarValue>, named: &LogicalPlan) -> Result<Pushed> {
        let found = self.names.name("found");
        let all = columns(&rows.plan).into_iter().chain([lit(true).alias(&found)]).collect();
        let marked = LogicalPlan::Projection(Projection::try_new(all, Arc::new(rows.plan))?);
        let domain = self.domain()?;
        let on = self.pairs(&domain.keys, &rows.keys)?;
        let joined = joined(domain.plan, marked, JoinType::Left, on, Vec::new())?;
        let is_missing = Expr::Column(Column::from_name(&found)).is_null();
        let values =
            named.schema().columns().into_iter().map(Expr::Column).zip(defaults).map(|(value, default)| match default
                .is_null()
            {
                true => value,
                false => either(is_missing.clone(), Expr::Literal(default, None), value),
            });
        self.closed(Pushed { plan: joined, keys: domain.keys }, values.collect(), named)
    }

    /// What must be equal where rows of both sides are made for one row outside: keys of the right side that those of the left
    /// side tell.
    pub(super) fn pairs(&self, left: &[Key], right: &[Key]) -> Result<Vec<Pair>> {
        let mut pairs = Vec::new();
        for key in right {
            let value = self.inside(key.outer.clone(), left)?;
            if self.is_inside(&value) {
                let known = left.iter().find(|known| known.outer == key.outer);
                let never_null = key.never_null || known.is_some_and(|known| known.never_null);
                pairs.push((value, Expr::Column(key.column.clone()), never_null));
            }
        }
        Ok(pairs)
    }

    fn sort(&mut self, node: &Sort) -> Result<Pushed> {
        if let Some(fetch) = node.fetch {
            return self.first_rows(&node.input, &node.expr, None, Some(lit(fetch as i64)));
        }
        let below = self.push(&node.input)?;
        let (below, orders) = self.reaching(below, node.expr.iter().map(|sort| sort.expr.clone()).collect())?;
        let expr = node.expr.iter().zip(orders).map(|(sort, expr)| SortExpr { expr, ..sort.clone() }).collect();
        let plan = LogicalPlan::Sort(Sort { expr, input: Arc::new(below.plan), fetch: None });
        Ok(Pushed { plan, keys: below.keys })
    }

    fn limit(&mut self, node: &Limit) -> Result<Pushed> {
        let below = |input: &Arc<LogicalPlan>| {
            let (skip, fetch) = (node.skip.clone(), node.fetch.clone());
            Arc::new(LogicalPlan::Limit(Limit { skip, fetch, input: Arc::clone(input) }))
        };
        let plain = |expr: &Option<Box<Expr>>| expr.as_deref().filter(|expr| !is_null(expr)).cloned();
        match node.input.as_ref() {
            // Below, where the order is.
            LogicalPlan::Projection(inner) => {
                let (exprs, schema) = (inner.expr.clone(), Arc::clone(&inner.schema));
                let projection = Projection::try_new_with_schema(exprs, below(&inner.input), schema)?;
                self.push(&LogicalPlan::Projection(projection))
            }
            LogicalPlan::SubqueryAlias(inner) => {
                let alias = SubqueryAlias::try_new(below(&inner.input), inner.alias.clone())?;
                self.push(&LogicalPlan::SubqueryAlias(alias))
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                self.first_rows(&sort.input, &sort.expr, plain(&node.skip), plain(&node.fetch))
            }
            _ => self.first_rows(&node.input, &[], plain(&node.skip), plain(&node.fetch)),
        }
    }

    /// The rows of each row outside from `skip` on, `fetch` at most, in an order.
    fn first_rows(
        &mut self,
        input: &LogicalPlan,
        order: &[SortExpr],
        skip: Option<Expr>,
        fetch: Option<Expr>,
    ) -> Result<Pushed> {
        if skip.iter().chain(&fetch).any(Expr::contains_outer) {
            let error = Error::unsupported("LIMIT and OFFSET by a column of the query around are not supported");
            return Err(into_datafusion(error.hint("Number the rows by row_number() and test the number")));
        }
        let below = self.push(input)?;
        let (below, orders) = self.reaching(below, order.iter().map(|sort| sort.expr.clone()).collect())?;
        let order = order.iter().zip(orders).map(|(sort, expr)| SortExpr { expr, ..sort.clone() }).collect();
        let (plan, number) = numbered(below.plan, key_columns(&below.keys), order, self.names.name("number"))?;
        Ok(Pushed { plan: filter(plan, within(&number, skip, fetch))?, keys: below.keys })
    }

    fn union(&mut self, node: &Union, plan: &LogicalPlan) -> Result<Pushed> {
        let mut inputs = node.inputs.iter().map(|input| self.push(input)).collect::<Result<Vec<_>>>()?;
        let same = |left: &[Key], right: &[Key]| {
            left.len() == right.len() && left.iter().all(|key| right.iter().any(|other| other.outer == key.outer))
        };
        if !inputs.iter().all(|input| !input.keys.is_empty() && same(&input.keys, &inputs[0].keys)) {
            inputs = inputs.into_iter().map(|input| self.by_domain(input)).collect::<Result<Vec<_>>>()?;
        }
        let mut keys: Vec<Key> = inputs[0].keys.clone();
        for key in &mut keys {
            key.column = Column::from_name(self.names.name("key"));
            let same = |other: &&Key| other.outer == key.outer;
            key.never_null = inputs.iter().all(|input| input.keys.iter().find(same).is_some_and(|key| key.never_null));
        }
        let mut aligned = Vec::new();
        for (input, original) in inputs.into_iter().zip(&node.inputs) {
            let mut own = Vec::new();
            for key in &keys {
                let found = input.keys.iter().find(|other| other.outer == key.outer);
                own.extend(found.map(|found| Expr::Column(found.column.clone()).alias(key.column.name())));
            }
            let values = columns(original).into_iter().enumerate().map(|(at, expr)| expr.alias(format!("column {at}")));
            let exprs = values.chain(own).collect();
            aligned.push(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input.plan))?)));
        }
        let union = LogicalPlan::Union(Union::try_new_with_loose_types(aligned)?);
        let own = union.schema().columns().into_iter().take(plan.schema().fields().len()).map(Expr::Column).collect();
        self.closed(Pushed { plan: union, keys }, own, plan)
    }

    /// Windows of the rows that are made for one row outside.
    fn window(&mut self, node: &Window, plan: &LogicalPlan) -> Result<Pushed> {
        let below = self.push(&node.input)?;
        let (below, exprs) = self.reaching(below, node.window_expr.clone())?;
        let keys = key_columns(&below.keys);
        let apart = |expr: Expr| {
            expr.transform_up(|expr| match expr {
                Expr::WindowFunction(mut call) => {
                    call.params.partition_by.extend(keys.iter().cloned());
                    Ok(Transformed::yes(Expr::WindowFunction(call)))
                }
                other => Ok(Transformed::no(other)),
            })
            .data()
        };
        let exprs = exprs.into_iter().map(apart).collect::<Result<Vec<_>>>()?;
        let before = below.plan.schema().fields().len();
        let window = LogicalPlan::Window(Window::try_new(exprs, Arc::new(below.plan))?);
        let computed = window.schema().columns().into_iter().skip(before).map(Expr::Column);
        let own = columns(&node.input).into_iter().chain(computed).collect();
        self.closed(Pushed { plan: window, keys: below.keys }, own, plan)
    }
}

pub(super) fn unknown(plan: &LogicalPlan) -> datafusion::common::DataFusionError {
    let what = plan.display().to_string();
    let error = Error::unsupported(format!("a column of the query around is not supported below {what}"));
    into_datafusion(error.hint("A join often says the same"))
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

/// `CASE WHEN condition THEN yes ELSE no END`.
pub(super) fn either(condition: Expr, yes: Expr, no: Expr) -> Expr {
    let when_then_expr = vec![(Box::new(condition), Box::new(yes))];
    Expr::Case(Case { expr: None, when_then_expr, else_expr: Some(Box::new(no)) })
}

/// `plan` with the number of each row, from 1, among those with the same `keys`, in an order.
pub(super) fn numbered(
    plan: LogicalPlan,
    keys: Vec<Expr>,
    order: Vec<SortExpr>,
    name: String,
) -> Result<(LogicalPlan, Expr)> {
    let number = row_number().partition_by(keys).order_by(order).build()?.alias(&name);
    let window = LogicalPlan::Window(Window::try_new(vec![number], Arc::new(plan))?);
    let number = Expr::Cast(Cast::new(Box::new(Expr::Column(Column::from_name(name))), DataType::Int64));
    Ok((window, number))
}

/// Tests of a row's number for OFFSET and LIMIT.
pub(super) fn within(number: &Expr, skip: Option<Expr>, fetch: Option<Expr>) -> Vec<Expr> {
    let whole = |expr: Expr| Expr::Cast(Cast::new(Box::new(expr), DataType::Int64));
    let mut parts = Vec::new();
    if let Some(skip) = &skip {
        parts.push(number.clone().gt(whole(skip.clone())));
    }
    if let Some(fetch) = fetch {
        let last = match skip {
            Some(skip) => binary_expr(whole(skip), Operator::Plus, whole(fetch)),
            None => whole(fetch),
        };
        parts.push(number.clone().lt_eq(last));
    }
    parts
}

/// The sets of GROUPING SETS, ROLLUP or CUBE.
fn sets_of(set: &GroupingSet) -> Vec<Vec<Expr>> {
    match set {
        GroupingSet::GroupingSets(sets) => sets.clone(),
        GroupingSet::Rollup(exprs) => (0..=exprs.len()).rev().map(|length| exprs[..length].to_vec()).collect(),
        GroupingSet::Cube(exprs) => (0..1_usize << exprs.len())
            .map(|mask| {
                exprs.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, expr)| expr.clone()).collect()
            })
            .collect(),
    }
}

/// VALUES as a union of its rows, each of which is projected from nothing.
pub(super) fn rows_apart(node: &Values, plan: &LogicalPlan) -> Result<LogicalPlan> {
    let mut rows = Vec::new();
    for row in &node.values {
        let empty = EmptyRelation { produce_one_row: true, schema: Arc::new(datafusion::common::DFSchema::empty()) };
        let empty = LogicalPlan::EmptyRelation(empty);
        let exprs = row.iter().zip(plan.schema().fields()).map(|(expr, field)| {
            let expr = match expr.get_type(empty.schema())? == *field.data_type() {
                true => expr.clone(),
                false => Expr::Cast(Cast::new(Box::new(expr.clone()), field.data_type().clone())),
            };
            Ok(expr.alias(field.name()))
        });
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        rows.push(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(empty))?)));
    }
    match <[Arc<LogicalPlan>; 1]>::try_from(rows) {
        Ok([row]) => Ok(Arc::unwrap_or_clone(row)),
        Err(rows) => Ok(LogicalPlan::Union(Union::try_new_with_loose_types(rows)?)),
    }
}
