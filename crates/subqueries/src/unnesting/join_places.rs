//! Subqueries in the condition of a join. That of an inner join is a filter; that of another is computed for the rows of one
//! side where it reads no other, and else for pairs of numbered rows, which then are what the sides are joined by.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, Join, JoinConstraint, LogicalPlan, Operator, Projection};

use super::binding::{columns, joined, renamed};
use super::places::Unnester;
use super::push::numbered;
use super::push_join::swapped;
use crate::references::{has_subquery, outer_references, subquery_of};
use crate::shared_rows::Shared;

/// Which sides of a join an expression reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sides {
    left: bool,
    right: bool,
}

impl Unnester<'_> {
    pub(super) fn join(&mut self, node: &Join, all: bool) -> Result<LogicalPlan> {
        let plan = LogicalPlan::Join(node.clone());
        let (mut parts, mut plain) = (Vec::new(), Vec::new());
        let nulls_are_equal = node.null_equality == NullEquality::NullEqualsNull;
        let op = if nulls_are_equal { Operator::IsNotDistinctFrom } else { Operator::Eq };
        let mut on = Vec::new();
        for (left, right) in node.on.iter().cloned() {
            match has_subquery(&left) || has_subquery(&right) {
                true => parts.push(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))),
                false => on.push((left, right)),
            }
        }
        for part in node.filter.clone().map_or_else(Vec::new, split_conjunction_owned) {
            if has_subquery(&part) { parts.push(part) } else { plain.push(part) }
        }
        let rest = Join { on, filter: conjunction(plain), ..node.clone() };
        match node.join_type {
            JoinType::Inner => self.filtered(LogicalPlan::Join(rest), parts, all),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => self.outer_join(rest, parts, all, &plan),
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => {
                let rows = self.outer_join(swapped(&rest)?, parts, all, &plan)?;
                renamed(rows, columns(&plan), &plan, [])
            }
            _ => self.outer_join(rest, parts, all, &plan),
        }
    }

    fn filtered(&mut self, plan: LogicalPlan, parts: Vec<Expr>, all: bool) -> Result<LogicalPlan> {
        match conjunction(parts) {
            Some(predicate) => self.filter(&Filter::try_new(predicate, Arc::new(plan))?, all),
            None => Ok(plan),
        }
    }

    /// A left, semi, anti or full join, whose result has the columns of `named`.
    fn outer_join(&mut self, mut node: Join, parts: Vec<Expr>, all: bool, named: &LogicalPlan) -> Result<LogicalPlan> {
        let mut pairs = Vec::new();
        for part in parts {
            let sides = sides(&part, &node)?;
            match (sides.left, sides.right) {
                (true, true) => pairs.push(part),
                (false, _) if node.join_type != JoinType::Full => {
                    let right = self.filtered(node.right.as_ref().clone(), vec![part], all)?;
                    node.right = Arc::new(right);
                }
                (false, true) => {
                    let (right, value) = self.with_value(&node.right, part, all)?;
                    (node.right, node.filter) = (Arc::new(right), conjunction(node.filter.into_iter().chain([value])));
                }
                _ => {
                    let (left, value) = self.with_value(&node.left, part, all)?;
                    (node.left, node.filter) = (Arc::new(left), conjunction(node.filter.into_iter().chain([value])));
                }
            }
        }
        let rows = match pairs.is_empty() {
            true => {
                let Join { left, right, on, filter, join_type, null_equality, .. } = node;
                let constraint = JoinConstraint::On;
                let join = Join::try_new(left, right, on, filter, join_type, constraint, null_equality, false)?;
                LogicalPlan::Join(join)
            }
            false => self.join_of_pairs(&node, pairs, all)?,
        };
        let own = columns(named);
        renamed(rows, own, named, [])
    }

    /// `plan` with the value of an expression, and the column that has it.
    fn with_value(&mut self, plan: &LogicalPlan, expr: Expr, all: bool) -> Result<(LogicalPlan, Expr)> {
        let name = self.names.name("condition");
        let exprs = columns(plan).into_iter().chain([expr.alias(&name)]).collect();
        let projection = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan.clone()))?);
        Ok((self.unary(&projection, all)?, Expr::Column(Column::from_name(name))))
    }

    /// A join by the pairs of rows that meet all conditions.
    fn join_of_pairs(&mut self, node: &Join, parts: Vec<Expr>, all: bool) -> Result<LogicalPlan> {
        let is_full = node.join_type == JoinType::Full;
        let (left, left_rows, left_number) = self.with_numbers(&node.left)?;
        let (right, right_rows, right_number) = self.with_numbers(&node.right)?;
        let (inner_left, inner_right) = (
            Arc::new(left.reader()?),
            match is_full {
                true => Arc::new(right.reader()?),
                false => Arc::clone(&node.right),
            },
        );
        let (on, filter, constraint) = (node.on.clone(), node.filter.clone(), JoinConstraint::On);
        let inner =
            Join::try_new(inner_left, inner_right, on, filter, JoinType::Inner, constraint, node.null_equality, false)?;
        let inner = self.filtered(LogicalPlan::Join(inner), parts, all)?;
        let (first, second) = (self.names.name("pair"), self.names.name("pair"));
        let number = |name: &str| Expr::Column(Column::from_name(name));
        let mut exprs = vec![number(&left_number).alias(&first)];
        match is_full {
            true => exprs.push(number(&right_number).alias(&second)),
            false => exprs.extend(columns(&node.right)),
        }
        let pairs = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(inner))?);
        let on = vec![(number(&left_number), number(&first), true)];
        let join_type = if is_full { JoinType::Left } else { node.join_type };
        let rows = joined(left.reader()?, pairs, join_type, on, Vec::new())?;
        if !is_full {
            return Ok(left.over(left_rows, rows));
        }
        let on = vec![(number(&second), number(&right_number), true)];
        let rows = joined(rows, right.reader()?, JoinType::Full, on, Vec::new())?;
        Ok(left.over(left_rows, right.over(right_rows, rows)))
    }

    /// Numbered rows to be shared, and the column of their numbers.
    fn with_numbers(&mut self, plan: &LogicalPlan) -> Result<(Shared, LogicalPlan, String)> {
        let name = self.names.name("number");
        let (rows, _) = numbered(plan.clone(), Vec::new(), Vec::new(), name.clone())?;
        Ok((Shared { number: self.names.number(), schema: Arc::clone(rows.schema()) }, rows, name))
    }
}

fn sides(expr: &Expr, node: &Join) -> Result<Sides> {
    let mut columns: Vec<Column> = expr.column_refs().into_iter().cloned().collect();
    let mut failed = None;
    expr.exists(|expr| {
        if let Some(subquery) = subquery_of(expr) {
            match outer_references(&subquery.subquery) {
                Ok(references) => columns.extend(references.into_iter().map(|(_, column)| column)),
                Err(error) => failed = Some(error),
            }
        }
        Ok(false)
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(Sides {
            left: columns.iter().any(|column| node.left.schema().has_column(column)),
            right: columns.iter().any(|column| node.right.schema().has_column(column)),
        }),
    }
}
