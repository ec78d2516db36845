//! A subquery's rows for all rows of the query around it at once: each with the values that it was made for, its keys.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprSchemable, Filter, Join, JoinConstraint, LogicalPlan, Operator, Projection, not,
};

use crate::recursion::recursive_name;
use crate::references::{Reference, canonical, correlation, outer_references, refers_to};
use crate::shared_rows::{Shared, scanned};

/// Names that no user gives, for one plan.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Rc<Cell<usize>>);

impl Names {
    /// A number that was not given before.
    pub(super) fn number(&self) -> usize {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }

    /// A name that was not given before.
    pub(super) fn name(&self, of: &str) -> String {
        format!("__{of}_{}", self.number())
    }
}

/// A value from outside that rows were made for.
#[derive(Debug, Clone)]
pub(super) struct Key {
    /// The value as seen from inside of the subquery.
    pub(super) outer: Expr,
    /// The column that has it.
    pub(super) column: Column,
    pub(super) never_null: bool,
}

/// Rows for all values from outside.
#[derive(Debug, Clone)]
pub(super) struct Pushed {
    /// The columns of the subquery's plan, and others.
    pub(super) plan: LogicalPlan,
    /// None: the rows are the same whatever the row outside is.
    pub(super) keys: Vec<Key>,
}

/// What a subquery's plan reads from outside, and where that comes from.
pub(super) struct Binding<'a> {
    /// The columns that are read.
    pub(super) columns: Vec<Reference>,
    /// The rows outside.
    pub(super) outside: &'a Shared,
    pub(super) names: Names,
    /// Whether a plan was made that reads the rows outside.
    pub(super) reads_outside: bool,
    /// Shared rows that have keys now: their old number, what they are now, and the keys.
    pub(super) rows: Vec<(usize, Shared, Vec<Key>)>,
    /// Recursive queries whose rows have keys now: their name, their rows' columns, and the keys.
    pub(super) tables: Vec<(String, SchemaRef, Vec<Key>)>,
}

impl Binding<'_> {
    /// Whether `plan` has other rows for other rows outside.
    pub(super) fn is_bound(&self, plan: &LogicalPlan) -> Result<bool> {
        if outer_references(plan)?.iter().any(|(_, column)| self.columns.iter().any(|(_, known)| known == column)) {
            return Ok(true);
        }
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found = scanned(node).is_some_and(|number| self.rows.iter().any(|(known, ..)| *known == number))
                || recursive_name(node).is_some_and(|name| self.tables.iter().any(|(known, ..)| *known == name));
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(found)
    }

    /// All values from outside, each combination once.
    pub(super) fn domain(&mut self) -> Result<Pushed> {
        self.reads_outside = true;
        let mut keys = Vec::new();
        let mut columns = Vec::new();
        for (field, column) in &self.columns {
            let name = self.names.name("outer");
            columns.push(Expr::Column(column.clone()).alias(&name));
            let outer = Expr::OuterReferenceColumn(Arc::clone(field), column.clone());
            keys.push(Key { outer, column: Column::from_name(name), never_null: !field.is_nullable() });
        }
        let values = Projection::try_new(columns, Arc::new(self.outside.reader()?))?;
        let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(LogicalPlan::Projection(values))));
        Ok(Pushed { plan, keys })
    }

    /// The same rows with all values from outside as keys.
    pub(super) fn with_domain(&mut self, rows: Pushed) -> Result<Pushed> {
        match self.has_all(&rows.keys) {
            true => Ok(rows),
            false => self.by_domain(rows),
        }
    }

    /// The same rows with all values from outside as keys, and no expressions of them.
    pub(super) fn by_domain(&mut self, rows: Pushed) -> Result<Pushed> {
        if self.has_all(&rows.keys) && rows.keys.len() == self.columns.len() {
            return Ok(rows);
        }
        let domain = self.domain()?;
        let on = rows.keys.iter().map(|key| {
            let value = self.inside(key.outer.clone(), &domain.keys)?;
            Ok((value, Expr::Column(key.column.clone()), key.never_null))
        });
        let on = on.collect::<Result<Vec<_>>>()?;
        let plan = joined(domain.plan, rows.plan, JoinType::Inner, on, Vec::new())?;
        Ok(Pushed { plan, keys: domain.keys })
    }

    /// Whether all values from outside are keys.
    pub(super) fn has_all(&self, keys: &[Key]) -> bool {
        self.columns.iter().all(|(_, column)| {
            keys.iter().any(|key| matches!(&key.outer, Expr::OuterReferenceColumn(_, known) if known == column))
        })
    }

    /// `expr` with keys in the place of what they are; others stay references.
    pub(super) fn inside(&self, expr: Expr, keys: &[Key]) -> Result<Expr> {
        let expr = canonical(expr, &self.columns)?;
        expr.transform_down(|expr| match keys.iter().find(|key| key.outer == expr) {
            Some(key) => Ok(Transformed::new(Expr::Column(key.column.clone()), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(expr)),
        })
        .data()
    }

    /// Whether `expr` has no reference left that this binding is for.
    pub(super) fn is_inside(&self, expr: &Expr) -> bool {
        !refers_to(expr, &self.columns)
    }

    /// The rows with the keys that `expressions` need, and the expressions over them.
    pub(super) fn reaching(&mut self, rows: Pushed, expressions: Vec<Expr>) -> Result<(Pushed, Vec<Expr>)> {
        let replaced = |binding: &Self, rows: &Pushed, expressions: Vec<Expr>| {
            expressions.into_iter().map(|expr| binding.inside(expr, &rows.keys)).collect::<Result<Vec<_>>>()
        };
        let expressions = replaced(self, &rows, expressions)?;
        if expressions.iter().all(|expr| self.is_inside(expr)) {
            return Ok((rows, expressions));
        }
        let rows = self.with_domain(rows)?;
        let expressions = replaced(self, &rows, expressions)?;
        Ok((rows, expressions))
    }

    /// The rows that pass all `parts` of a filter. An equality with a value from outside makes a key of its other side, where
    /// no part needs another value: then nothing has to be read outside.
    pub(super) fn filtered(&mut self, rows: Pushed, parts: Vec<Expr>) -> Result<Pushed> {
        let parts = parts.into_iter().map(|part| self.inside(part, &rows.keys)).collect::<Result<Vec<_>>>()?;
        let mut keys = rows.keys.clone();
        let mut sides = Vec::new();
        let mut rest = Vec::new();
        for part in &parts {
            match correlation(part) {
                Some((inner, outer, nulls_are_equal))
                    if self.is_own(outer) && !keys.iter().any(|key| key.outer == *outer) =>
                {
                    let is_nullable = inner.nullable(rows.plan.schema())?;
                    if is_nullable && !nulls_are_equal {
                        rest.push(inner.clone().is_not_null());
                    }
                    let column = Column::from_name(self.names.name("key"));
                    sides.push(inner.clone().alias(column.name()));
                    let never_null = !nulls_are_equal || !is_nullable;
                    keys.push(Key { outer: outer.clone(), column, never_null });
                }
                _ => rest.push(part.clone()),
            }
        }
        let inside = rest.into_iter().map(|part| self.inside(part, &keys)).collect::<Result<Vec<_>>>()?;
        if !inside.iter().all(|part| self.is_inside(part)) {
            let (rows, parts) = self.reaching(rows, parts)?;
            return Ok(Pushed { plan: filter(rows.plan, parts)?, keys: rows.keys });
        }
        let plan = match sides.is_empty() {
            true => rows.plan,
            false => {
                let columns = columns(&rows.plan).into_iter().chain(sides).collect();
                LogicalPlan::Projection(Projection::try_new(columns, Arc::new(rows.plan))?)
            }
        };
        Ok(Pushed { plan: filter(plan, inside)?, keys })
    }

    /// Whether all that an expression without columns reads is bound here.
    fn is_own(&self, outer: &Expr) -> bool {
        let mut own = true;
        outer
            .apply(|expr| {
                if let Expr::OuterReferenceColumn(_, column) = expr {
                    own = own && self.columns.iter().any(|(_, known)| known == column);
                }
                Ok(TreeNodeRecursion::Continue)
            })
            .expect("the closure cannot fail");
        own
    }
}

/// A pair of expressions, of the left and right side, that must be equal, and whether one of them is never NULL.
pub(super) type Pair = (Expr, Expr, bool);

/// A join of rows with equal keys, NULLs among them, that pass all `parts`.
pub(super) fn joined(
    left: LogicalPlan,
    right: LogicalPlan,
    join_type: JoinType,
    on: Vec<Pair>,
    parts: Vec<Expr>,
) -> Result<LogicalPlan> {
    let null_equality = match on.iter().all(|(.., never_null)| *never_null) {
        true => NullEquality::NullEqualsNothing,
        false => NullEquality::NullEqualsNull,
    };
    let on = on.into_iter().map(|(left, right, _)| (left, right)).collect();
    let (left, right, constraint) = (Arc::new(left), Arc::new(right), JoinConstraint::On);
    let filter = conjunction(parts);
    Ok(LogicalPlan::Join(Join::try_new(left, right, on, filter, join_type, constraint, null_equality, false)?))
}

/// `plan` without the rows that do not pass all `parts`.
pub(super) fn filter(plan: LogicalPlan, parts: Vec<Expr>) -> Result<LogicalPlan> {
    match conjunction(parts) {
        Some(predicate) => Ok(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?)),
        None => Ok(plan),
    }
}

/// The columns of a plan.
pub(super) fn columns(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().columns().into_iter().map(Expr::Column).collect()
}

/// `expressions`, one for each column of `named`, by the names of these, and more.
pub(super) fn renamed(
    plan: LogicalPlan,
    expressions: Vec<Expr>,
    named: &LogicalPlan,
    more: impl IntoIterator<Item = Expr>,
) -> Result<LogicalPlan> {
    let called = expressions.into_iter().zip(named.schema().iter()).map(|(expr, (qualifier, field))| match &expr {
        Expr::Column(column) if column.relation.as_ref() == qualifier && column.name() == field.name() => expr,
        _ => expr.alias_qualified(qualifier.cloned(), field.name()),
    });
    let expressions = called.chain(more).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(plan))?))
}

/// The columns of keys.
pub(super) fn key_columns(keys: &[Key]) -> Vec<Expr> {
    keys.iter().map(|key| Expr::Column(key.column.clone())).collect()
}

/// `left IS NOT DISTINCT FROM right`, as an equality where that means the same.
pub(super) fn equal((left, right, never_null): Pair) -> Expr {
    let op = if never_null { Operator::Eq } else { Operator::IsNotDistinctFrom };
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// `expr` unless it is wanted negated.
pub(super) fn negated(expr: Expr, is_negated: bool) -> Expr {
    if is_negated { not(expr) } else { expr }
}
