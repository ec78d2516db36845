//! Joins of subqueries, pushed: rows of both sides meet where they were made for one row outside.

use std::sync::Arc;

use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, JoinConstraint, LogicalPlan, Operator, Projection};

use super::binding::{Binding, Key, Pair, Pushed, columns, equal};

/// What a join asks of a pair of rows.
struct Condition {
    /// Keys, left and right.
    on: Vec<(Expr, Expr)>,
    null_equality: NullEquality,
    /// All else.
    parts: Vec<Expr>,
}

impl Condition {
    /// Keys that name columns from outside are conditions like others.
    fn of(join: &Join) -> Self {
        let nulls_are_equal = join.null_equality == NullEquality::NullEqualsNull;
        let op = if nulls_are_equal { Operator::IsNotDistinctFrom } else { Operator::Eq };
        let mut parts = join.filter.clone().map_or_else(Vec::new, split_conjunction_owned);
        let mut on = Vec::new();
        for (left, right) in join.on.iter().cloned() {
            match left.contains_outer() || right.contains_outer() {
                true => parts.push(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))),
                false => on.push((left, right)),
            }
        }
        Self { on, null_equality: join.null_equality, parts }
    }

    /// With keys, of which some may be NULL, as what can be hashed where that is possible.
    fn with(mut self, pairs: Vec<Pair>) -> Self {
        if self.on.is_empty() && !pairs.iter().all(|(.., never_null)| *never_null) {
            self.null_equality = NullEquality::NullEqualsNull;
        }
        for (left, right, never_null) in pairs {
            match never_null || self.null_equality == NullEquality::NullEqualsNull {
                true => self.on.push((left, right)),
                false => self.parts.push(equal((left, right, never_null))),
            }
        }
        self
    }

    fn join(self, left: LogicalPlan, right: LogicalPlan, join_type: JoinType) -> Result<LogicalPlan> {
        let filter = datafusion::logical_expr::utils::conjunction(self.parts);
        let (left, right, constraint) = (Arc::new(left), Arc::new(right), JoinConstraint::On);
        let join = Join::try_new(left, right, self.on, filter, join_type, constraint, self.null_equality, false)?;
        Ok(LogicalPlan::Join(join))
    }
}

impl Binding<'_> {
    pub(super) fn join(&mut self, node: &Join, plan: &LogicalPlan) -> Result<Pushed> {
        match node.join_type {
            JoinType::Inner => self.inner_join(node),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => self.left_join(node),
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                let swapped = self.left_join(&swapped(node)?)?;
                self.closed(swapped, columns(plan), plan)
            }
            JoinType::Full => self.full_join(node, plan),
        }
    }

    fn inner_join(&mut self, node: &Join) -> Result<Pushed> {
        let (left, right) = (self.push(&node.left)?, self.push(&node.right)?);
        let mut pairs = self.pairs(&left.keys, &right.keys)?;
        let mut keys = left.keys.clone();
        for key in &right.keys {
            if !keys.iter().any(|known| known.outer == key.outer) {
                keys.push(key.clone());
            }
        }
        // What the right side has whole, the left side may have a part of.
        for key in &left.keys {
            let value = self.inside(key.outer.clone(), &right.keys)?;
            if self.is_inside(&value) && !right.keys.iter().any(|other| other.outer == key.outer) {
                pairs.push((Expr::Column(key.column.clone()), value, key.never_null));
            }
        }
        let mut condition = Condition::of(node);
        let (bound, free): (Vec<_>, Vec<_>) = condition.parts.into_iter().partition(|part| !self.is_inside(part));
        condition.parts = free;
        let joined = condition.with(pairs).join(left.plan, right.plan, JoinType::Inner)?;
        self.filtered(Pushed { plan: joined, keys }, bound)
    }

    /// A join that keeps rows of the left side: they have all the keys.
    fn left_join(&mut self, node: &Join) -> Result<Pushed> {
        let (mut left, right) = (self.push(&node.left)?, self.push(&node.right)?);
        let mut condition = Condition::of(node);
        let tells = |binding: &Self, keys: &[Key], parts: &[Expr]| -> Result<bool> {
            let outers = right.keys.iter().map(|key| &key.outer).chain(parts);
            let inside = outers.map(|expr| binding.inside(expr.clone(), keys)).collect::<Result<Vec<_>>>()?;
            Ok(inside.iter().all(|expr| binding.is_inside(expr)))
        };
        if !tells(self, &left.keys, &condition.parts)? {
            left = self.with_domain(left)?;
        }
        let pairs = self.pairs(&left.keys, &right.keys)?;
        condition.parts =
            condition.parts.into_iter().map(|part| self.inside(part, &left.keys)).collect::<Result<Vec<_>>>()?;
        let joined = condition.with(pairs).join(left.plan, right.plan, node.join_type)?;
        Ok(Pushed { plan: joined, keys: left.keys })
    }

    /// A full join: each side has all the keys, and a row those of the sides that it has.
    fn full_join(&mut self, node: &Join, plan: &LogicalPlan) -> Result<Pushed> {
        let (left, right) = (self.push(&node.left)?, self.push(&node.right)?);
        let (left, right) = (self.with_domain(left)?, self.with_domain(right)?);
        let mut condition = Condition::of(node);
        condition.parts =
            condition.parts.into_iter().map(|part| self.inside(part, &left.keys)).collect::<Result<Vec<_>>>()?;
        let pairs = self.pairs(&left.keys, &right.keys)?;
        let joined = condition.with(pairs.clone()).join(left.plan, right.plan, JoinType::Full)?;
        let (mut values, mut keys) = (columns(plan), Vec::new());
        for (key, (value, other, _)) in right.keys.into_iter().zip(pairs) {
            let column = Column::from_name(self.names.name("key"));
            values.push(coalesce(vec![value, other]).alias(column.name()));
            let is_known = |known: &Key| known.outer == key.outer && known.never_null;
            let never_null = key.never_null && left.keys.iter().any(is_known);
            keys.push(Key { column, outer: key.outer, never_null });
        }
        let plan = LogicalPlan::Projection(Projection::try_new(values, Arc::new(joined))?);
        Ok(Pushed { plan, keys })
    }
}

/// The same join from the other side.
pub(super) fn swapped(node: &Join) -> Result<Join> {
    let join_type = match node.join_type {
        JoinType::Right => JoinType::Left,
        JoinType::RightSemi => JoinType::LeftSemi,
        JoinType::RightAnti => JoinType::LeftAnti,
        JoinType::RightMark => JoinType::LeftMark,
        other => other,
    };
    let on = node.on.iter().map(|(left, right)| (right.clone(), left.clone())).collect();
    let (left, right, filter) = (Arc::clone(&node.right), Arc::clone(&node.left), node.filter.clone());
    Join::try_new(left, right, on, filter, join_type, node.join_constraint, node.null_equality, false)
}
