//! Rules that rewrite expressions by the types of their parts go through a plan together: to know the columns of a node's
//! expressions costs more than such a rule does with most nodes, and most have something for few of them.
//!
//! Invariant: a node comes to a rule after those below it went through all rules, and after the rules before went through it;
//! types of columns are those that they have after that.

use std::cell::Cell;
use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use crate::typed::{self, ChildTypes, is_ordered_by_parts};

/// A rule that rewrites expressions.
pub trait ExpressionRule: fmt::Debug + Send + Sync {
    /// Whether it may have something to do in a node with expressions of these kinds.
    fn concerns(&self, kinds: Kinds) -> bool;

    /// Rewrites an expression whose children are rewritten and have these types, over columns of this schema: see
    /// [`typed::Rewrite`].
    fn rewrite(&self, expr: Expr, types: &ChildTypes, schema: &DFSchema) -> Result<Transformed<Expr>>;

    /// Rewrites an expression of a node as a whole.
    fn rewrite_whole(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        typed::transform_up(expr, schema, &|expr, types| self.rewrite(expr, types, schema))
    }

    /// Rewrites what else a node has, after its expressions.
    fn rewrite_node(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        Ok(Transformed::no(plan))
    }
}

/// Kinds of expressions that rules look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kinds(u16);

impl Kinds {
    /// Calls of scalar functions.
    pub const CALL: Self = Self(1);
    /// `+`, `-`, `*`, `/`, `%` and unary minus, and aggregates.
    pub const ARITHMETIC: Self = Self(2);
    /// Casts.
    pub const CAST: Self = Self(4);
    /// What compares or unites several values, and literals whose type is not SQL's.
    pub const COMMON_TYPE: Self = Self(8);
    /// What may be an interval: literals, casts and columns that are one, differences, and what only its type tells.
    pub const INTERVAL: Self = Self(16);
    /// Comparisons with patterns that ignore case.
    pub const LIKE: Self = Self(32);
    /// Window functions.
    pub const WINDOW: Self = Self(64);
    /// IN of a list.
    pub const IN_LIST: Self = Self(128);
    /// What may be a list or a struct: literals, casts and columns that are one, and what only its type tells.
    pub const NESTED: Self = Self(256);
    /// Aggregates in an order.
    pub const ORDERED: Self = Self(512);

    /// Whether some of `others` is among them.
    pub fn has(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Of an expression and all of its parts.
    fn of_all(expr: &Expr) -> Result<Self> {
        let mut kinds = Self::default();
        expr.apply(|part| {
            kinds |= Self::of(part);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(kinds)
    }

    /// Of an expression without its children.
    fn of(expr: &Expr) -> Self {
        match expr {
            Expr::ScalarFunction(_) => Self::CALL | Self::INTERVAL | Self::COMMON_TYPE | Self::NESTED,
            Expr::AggregateFunction(call) if !call.params.order_by.is_empty() => {
                Self::ARITHMETIC | Self::INTERVAL | Self::NESTED | Self::ORDERED
            }
            Expr::AggregateFunction(_) => Self::ARITHMETIC | Self::INTERVAL,
            Expr::WindowFunction(_) => Self::ARITHMETIC | Self::INTERVAL | Self::WINDOW | Self::NESTED,
            Expr::Negative(_) => Self::ARITHMETIC,
            Expr::BinaryExpr(BinaryExpr { op, .. }) => match op {
                Operator::And | Operator::Or => Self::default(),
                Operator::Minus => Self::ARITHMETIC | Self::INTERVAL | Self::COMMON_TYPE,
                Operator::Plus | Operator::Multiply | Operator::Divide | Operator::Modulo => Self::ARITHMETIC,
                _ => Self::COMMON_TYPE,
            },
            Expr::Cast(cast) => Self::CAST | Self::COMMON_TYPE | Self::of_type(cast.field.data_type()),
            Expr::TryCast(cast) => Self::CAST | Self::COMMON_TYPE | Self::of_type(cast.field.data_type()),
            Expr::Literal(value, _) => match value {
                ScalarValue::Binary(_) => Self::COMMON_TYPE,
                value => Self::of_type(&value.data_type()),
            },
            Expr::Like(like) if like.case_insensitive => Self::LIKE,
            Expr::Column(_) | Expr::Alias(_) | Expr::Like(_) | Expr::Not(_) => Self::default(),
            Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::Exists(_) => Self::default(),
            Expr::InList(_) => Self::COMMON_TYPE | Self::IN_LIST,
            Expr::Between(_) | Expr::InSubquery(_) | Expr::Case(_) | Expr::SimilarTo(_) => Self::COMMON_TYPE,
            _ => Self::COMMON_TYPE | Self::INTERVAL | Self::NESTED,
        }
    }

    fn of_type(data_type: &DataType) -> Self {
        match data_type {
            DataType::Interval(_) => Self::INTERVAL,
            other if is_ordered_by_parts(other) => Self::NESTED,
            _ => Self::default(),
        }
    }
}

impl BitOr for Kinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Kinds {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOrAssign for Kinds {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Several rules, in their order, as one.
#[derive(Debug)]
pub struct ExpressionRules {
    name: &'static str,
    rules: Vec<Box<dyn ExpressionRule>>,
}

impl ExpressionRules {
    /// The rules under one name.
    pub fn new(name: &'static str, rules: Vec<Box<dyn ExpressionRule>>) -> Self {
        Self { name, rules }
    }

    /// Rewrites a node. `is_retyped` is set once columns of a node have other types than before: those above it have them, too.
    fn rewrite(&self, plan: LogicalPlan, is_retyped: &Cell<bool>) -> Result<Transformed<LogicalPlan>> {
        let plan = if is_retyped.get() { plan.recompute_schema()? } else { plan };
        let before = Arc::clone(plan.schema());
        let kinds = kinds_of(&plan)?;
        let mut done = match self.rules.iter().any(|rule| rule.concerns(kinds)) {
            true => self.rewrite_expressions(plan, kinds)?,
            false => Transformed::no(plan),
        };
        for rule in &self.rules {
            done = done.transform_data(|plan| rule.rewrite_node(plan))?;
        }
        if !done.transformed {
            return Ok(done);
        }
        let done = done.map_data(LogicalPlan::recompute_schema)?;
        let types =
            |schema: &DFSchema| schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        if !Arc::ptr_eq(&before, done.data.schema()) && types(&before) != types(done.data.schema()) {
            is_retyped.set(true);
        }
        Ok(done)
    }

    /// Rewrites the expressions of a node, which keep their names.
    fn rewrite_expressions(&self, plan: LogicalPlan, of_node: Kinds) -> Result<Transformed<LogicalPlan>> {
        let (schema, names) = (scope_of(&plan)?, NamePreserver::new(&plan));
        let of_columns = of_node & (Kinds::INTERVAL | Kinds::NESTED);
        plan.map_expressions(|expr| {
            let kinds = Kinds::of_all(&expr)? | of_columns;
            if !self.rules.iter().any(|rule| rule.concerns(kinds)) {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            let mut done = Transformed::no(expr);
            for rule in &self.rules {
                // What a rule puts in may concern those behind it.
                if done.transformed || rule.concerns(kinds) {
                    done = done.transform_data(|expr| rule.rewrite_whole(expr, &schema))?;
                }
            }
            Ok(if done.transformed { done.update_data(|expr| name.restore(expr)) } else { done })
        })
    }
}

impl AnalyzerRule for ExpressionRules {
    fn name(&self) -> &str {
        self.name
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let is_retyped = Cell::new(false);
        plan.transform_up_with_subqueries(|node| self.rewrite(node, &is_retyped)).data()
    }
}

/// The kinds of all expressions of a node.
fn kinds_of(plan: &LogicalPlan) -> Result<Kinds> {
    let mut kinds = Kinds::default();
    let mut has_columns = false;
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            kinds |= Kinds::of(part);
            has_columns |= matches!(part, Expr::Column(_));
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if has_columns {
        for schema in plan.inputs().into_iter().map(LogicalPlan::schema).chain([plan.schema()]) {
            schema.fields().iter().for_each(|field| kinds |= Kinds::of_type(field.data_type()));
        }
    }
    Ok(kinds)
}

/// The columns that expressions of a node may name.
pub(crate) fn scope_of(plan: &LogicalPlan) -> Result<DFSchemaRef> {
    let inputs = plan.inputs();
    Ok(match (plan, inputs.as_slice()) {
        (
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_),
            [input],
        ) => Arc::clone(input.schema()),
        (LogicalPlan::TableScan(scan), _) => {
            let mut schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
            schema.merge(plan.schema());
            Arc::new(schema)
        }
        _ => {
            let mut schema = merge_schema(&inputs);
            schema.merge(plan.schema());
            Arc::new(schema)
        }
    })
}
