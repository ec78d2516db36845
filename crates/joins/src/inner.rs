//! Inner joins find their keys: joins without a key, and the keys that a filter above or another join of the region has for
//! them. A region is inner joins that are each other's inputs, and the filter above them.
//!
//! Every region is put together once, in the order in which its inputs are written, but that those which share a key with what
//! is joined already come first. DataFusion's rule of this name makes the joins below each join of a region anew, so that its
//! work grows with the square of their number, and gives all of them one treatment of NULLs.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchemaRef, JoinConstraint, JoinType, NullEquality, Result};
use datafusion::logical_expr::logical_plan::builder::build_join_schema;
use datafusion::logical_expr::utils::{can_hash, conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Filter, Join, LogicalPlan, Operator, Projection};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use recursive::recursive;

/// Finds the keys of inner joins that have none.
#[derive(Debug, Default)]
pub struct InnerJoins;

impl OptimizerRule for InnerJoins {
    fn name(&self) -> &str {
        "inner_joins"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        rewrite(plan)
    }
}

/// Rewrites the regions of a plan and of its subqueries, but for those that ask for columns of queries around them.
#[recursive]
fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let done = plan.map_uncorrelated_subqueries(rewrite)?.transform_sibling(|plan| match has_product(&plan) {
        true => region(plan).map(Transformed::yes),
        false => plan.map_children(rewrite),
    })?;
    if done.transformed { done.map_data(LogicalPlan::recompute_schema) } else { Ok(done) }
}

/// Whether a plan is a region with a join that has no key.
fn has_product(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => has_keyless_join(&filter.input),
        _ => has_keyless_join(plan),
    }
}

fn has_keyless_join(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = plan else { return false };
    is_part(join) && (join.on.is_empty() || has_keyless_join(&join.left) || has_keyless_join(&join.right))
}

/// Whether a join is part of a region. Those that take NULLs for equal are inputs of one: their keys mean something else.
fn is_part(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing
}

/// What a region joins.
#[derive(Default)]
struct Region {
    inputs: Vec<LogicalPlan>,
    /// The keys of its joins.
    keys: Vec<(Expr, Expr)>,
    /// The other conditions of its joins.
    filters: Vec<Expr>,
}

impl Region {
    fn collect(&mut self, plan: LogicalPlan) -> Result<()> {
        match plan {
            LogicalPlan::Join(join) if is_part(&join) => {
                self.keys.extend(join.on);
                self.filters.extend(join.filter);
                self.collect(Arc::unwrap_or_clone(join.left))?;
                self.collect(Arc::unwrap_or_clone(join.right))
            }
            other => {
                self.inputs.push(rewrite(other)?.data);
                Ok(())
            }
        }
    }
}

/// Joins the inputs of a region anew.
fn region(plan: LogicalPlan) -> Result<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    let (joins, predicate) = match plan {
        LogicalPlan::Filter(filter) => (Arc::unwrap_or_clone(filter.input), Some(filter.predicate)),
        joins => (joins, None),
    };
    let mut region = Region::default();
    region.collect(joins)?;
    let own_keys = region.keys.len();
    let mut keys = region.keys;
    predicate.iter().for_each(|predicate| find_keys(predicate, &mut keys));
    let (joined, used) = join_all(region.inputs, &keys)?;
    let joined = with_columns(joined, schema);
    // A key of a join that no join has now holds as a condition.
    let unused = (0..own_keys).filter(|place| !used[*place]).map(|place| {
        let (left, right) = &keys[place];
        left.clone().eq(right.clone())
    });
    let used: Vec<&(Expr, Expr)> = keys.iter().zip(&used).filter(|(_, used)| **used).map(|(key, _)| key).collect();
    let predicate = predicate.and_then(|predicate| without_keys(predicate, &used));
    match conjunction(region.filters.into_iter().chain(unused).chain(predicate)) {
        Some(filter) => Ok(LogicalPlan::Filter(Filter::try_new(filter, Arc::new(joined))?)),
        None => Ok(joined),
    }
}

/// The plan with the columns of `schema`, in its order.
fn with_columns(plan: LogicalPlan, schema: DFSchemaRef) -> LogicalPlan {
    if *plan.schema() == schema {
        return plan;
    }
    LogicalPlan::Projection(Projection::new_from_schema(Arc::new(plan), schema))
}

/// Equalities that hold wherever the predicate does.
fn find_keys(predicate: &Expr, keys: &mut Vec<(Expr, Expr)>) {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = predicate else { return };
    match op {
        Operator::Eq if !left.is_volatile() && !right.is_volatile() => {
            let key = (left.as_ref().clone(), right.as_ref().clone());
            if !keys.iter().any(|other| is_same(other, &key.0, &key.1)) {
                keys.push(key);
            }
        }
        Operator::And => {
            find_keys(left, keys);
            find_keys(right, keys);
        }
        Operator::Or => {
            let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
            find_keys(left, &mut of_left);
            if of_left.is_empty() {
                return;
            }
            find_keys(right, &mut of_right);
            of_left.retain(|key| of_right.iter().any(|other| is_same(other, &key.0, &key.1)));
            of_left.retain(|key| !keys.iter().any(|other| is_same(other, &key.0, &key.1)));
            keys.extend(of_left);
        }
        _ => {}
    }
}

fn is_same(key: &(Expr, Expr), left: &Expr, right: &Expr) -> bool {
    (key.0 == *left && key.1 == *right) || (key.0 == *right && key.1 == *left)
}

/// The predicate without equalities that joins have as keys; `None` where nothing is left of it.
fn without_keys(predicate: Expr, used: &[&(Expr, Expr)]) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = predicate else { return Some(predicate) };
    match op {
        Operator::Eq if used.iter().any(|key| is_same(key, &left, &right)) => None,
        Operator::And | Operator::Or => match (without_keys(*left, used), without_keys(*right, used)) {
            (Some(left), Some(right)) => Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))),
            // One of two that always holds.
            _ if op == Operator::Or => None,
            (left, right) => left.or(right),
        },
        _ => Some(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    }
}

/// One side of a key: for each of its columns, which inputs have it.
struct Side(Vec<Vec<bool>>);

impl Side {
    fn of(expr: &Expr, inputs: &[LogicalPlan]) -> Self {
        let columns: HashSet<&Column> = expr.column_refs();
        Self(
            columns
                .into_iter()
                .map(|column| inputs.iter().map(|input| input.schema().is_column_from_schema(column)).collect())
                .collect(),
        )
    }

    /// Whether inputs such as these have all of its columns, of which there is one.
    fn is_of(&self, is_one: impl Fn(usize) -> bool) -> bool {
        let is_there = |inputs: &Vec<bool>| inputs.iter().enumerate().any(|(place, has)| *has && is_one(place));
        !self.0.is_empty() && self.0.iter().all(is_there)
    }
}

/// A key with what its sides are of.
struct Key<'a> {
    left: &'a Expr,
    right: &'a Expr,
    of_left: Side,
    of_right: Side,
}

impl Key<'_> {
    /// The key between what is joined, by the places of the inputs, and one input, turned that way.
    fn between(&self, is_joined: &[bool], place: usize) -> Option<(&Expr, &Expr)> {
        let (is_left, is_right) = (|input: usize| is_joined[input], |input: usize| input == place);
        if self.of_left.is_of(is_left) && self.of_right.is_of(is_right) {
            Some((self.left, self.right))
        } else if self.of_right.is_of(is_left) && self.of_left.is_of(is_right) {
            Some((self.right, self.left))
        } else {
            None
        }
    }
}

/// A join of all inputs by those of the keys that have columns of both sides, and which keys these are.
fn join_all(inputs: Vec<LogicalPlan>, keys: &[(Expr, Expr)]) -> Result<(LogicalPlan, Vec<bool>)> {
    let sides = |left, right| Key { left, right, of_left: Side::of(left, &inputs), of_right: Side::of(right, &inputs) };
    let keys: Vec<Key<'_>> = keys.iter().map(|(left, right)| sides(left, right)).collect();
    let mut used = vec![false; keys.len()];
    let mut is_joined = vec![false; inputs.len()];
    let mut inputs: Vec<Option<LogicalPlan>> = inputs.into_iter().map(Some).collect();
    let Some(mut joined) = inputs.first_mut().and_then(Option::take) else {
        return datafusion::common::internal_err!("a join without inputs");
    };
    is_joined[0] = true;
    while let Some(first) = inputs.iter().position(Option::is_some) {
        let mut next = (first, Vec::new());
        for (place, input) in inputs.iter().enumerate() {
            let Some(input) = input else { continue };
            let on = keys_between(&joined, input, &keys, |key| key.between(&is_joined, place))?;
            if !on.is_empty() {
                next = (place, on);
                break;
            }
        }
        let (place, on) = next;
        on.iter().for_each(|(key, _)| used[*key] = true);
        is_joined[place] = true;
        if let Some(right) = inputs[place].take() {
            joined = inner_join(joined, right, on.into_iter().map(|(_, on)| on).collect())?;
        }
    }
    Ok((joined, used))
}

/// The keys between what is joined and one input, with their places. What no hash table takes stays a condition.
fn keys_between<'a>(
    joined: &LogicalPlan,
    input: &LogicalPlan,
    keys: &'a [Key<'a>],
    between: impl Fn(&'a Key<'a>) -> Option<(&'a Expr, &'a Expr)>,
) -> Result<Vec<(usize, (Expr, Expr))>> {
    let mut found = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        if let Some((left, right)) = between(key)
            && can_hash(&left.get_type(joined.schema())?)
            && can_hash(&right.get_type(input.schema())?)
        {
            found.push((at, (left.clone(), right.clone())));
        }
    }
    Ok(found)
}

fn inner_join(left: LogicalPlan, right: LogicalPlan, on: Vec<(Expr, Expr)>) -> Result<LogicalPlan> {
    let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &JoinType::Inner)?);
    Ok(LogicalPlan::Join(Join {
        left: Arc::new(left),
        right: Arc::new(right),
        on,
        filter: None,
        join_type: JoinType::Inner,
        join_constraint: JoinConstraint::On,
        schema,
        null_equality: NullEquality::NullEqualsNothing,
        null_aware: false,
    }))
}
