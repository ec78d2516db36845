//! The types of sums as SQL tells them: HUGEINT of whole numbers, DECIMAL of 38 digits of decimals. What is computed with has as many
//! digits as are needed; only `typeof` and DESCRIBE ask for these types, and CREATE TABLE AS makes columns of them.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, WindowFunctionDefinition,
    cast, lit,
};
use forebay_syntax::types::shown_type;

/// The type of sums of whole numbers.
const HUGEINT: DataType = DataType::Decimal128(38, 0);

/// The plan with `typeof` of sums told.
///
/// # Errors
/// If DataFusion cannot make the plan anew.
pub fn told(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !asks(&plan)? {
        return Ok(plan);
    }
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let inputs = node.inputs();
        let [input] = inputs.as_slice() else { return Ok(Transformed::no(node)) };
        let (input, names) = ((*input).clone(), NamePreserver::new(&node));
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|part| {
                Ok(match &part {
                    Expr::ScalarFunction(call) if call.name() == "typeof" => {
                        match call.args.first().and_then(|arg| of_expr(arg, &input)) {
                            Some(sum) => Transformed::yes(lit(shown_type(&sum))),
                            None => Transformed::no(part),
                        }
                    }
                    _ => Transformed::no(part),
                })
            })?;
            Ok(Transformed::new(name.restore(expr.data), expr.transformed, expr.tnr))
        })
    });
    rewritten.map(|done| done.data)
}

fn asks(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                found |= matches!(part, Expr::ScalarFunction(call) if call.name() == "typeof");
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The plan whose columns have the types that SQL tells of sums, for a table that is to hold its rows.
///
/// # Errors
/// If DataFusion cannot make the plan.
pub fn widened(plan: LogicalPlan) -> Result<LogicalPlan> {
    let types: Vec<Option<DataType>> =
        (0..plan.schema().fields().len()).map(|column| told_type(&plan, column)).collect();
    if types.iter().all(Option::is_none) {
        return Ok(plan);
    }
    let columns: Vec<Expr> = plan
        .schema()
        .iter()
        .zip(types)
        .map(|((qualifier, field), told)| {
            let column = Expr::Column((qualifier, field).into());
            match told {
                Some(told) => cast(column, told).alias_qualified(qualifier.cloned(), field.name()),
                None => column,
            }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// The name of the type of a column of a plan, if it is a sum.
pub fn shown(plan: &LogicalPlan, column: usize) -> Option<String> {
    told_type(plan, column).map(|told| shown_type(&told))
}

/// The type of a column of a plan, if it is a sum.
fn told_type(plan: &LogicalPlan, column: usize) -> Option<DataType> {
    match plan {
        LogicalPlan::Projection(node) => of_expr(node.expr.get(column)?, &node.input),
        LogicalPlan::Aggregate(node) => {
            let groups = node.schema.fields().len() - node.aggr_expr.len();
            match column.checked_sub(groups) {
                Some(place) => of_expr(node.aggr_expr.get(place)?, &node.input),
                None => node.group_expr.get(column).and_then(|expr| of_expr(expr, &node.input)),
            }
        }
        LogicalPlan::Window(node) => match column.checked_sub(node.input.schema().fields().len()) {
            Some(place) => of_expr(node.window_expr.get(place)?, &node.input),
            None => told_type(&node.input, column),
        },
        LogicalPlan::SubqueryAlias(node) => told_type(&node.input, column),
        LogicalPlan::Filter(node) => told_type(&node.input, column),
        LogicalPlan::Sort(node) => told_type(&node.input, column),
        LogicalPlan::Limit(node) => told_type(&node.input, column),
        LogicalPlan::Distinct(Distinct::All(input)) => told_type(input, column),
        LogicalPlan::Union(node) => {
            let data_type = node.schema.field(column).data_type();
            let is_exact = data_type.is_integer() || data_type.is_decimal();
            node.inputs.iter().filter(|_| is_exact).find_map(|input| told_type(input, column))
        }
        _ => None,
    }
}

/// The type of an expression over the rows of a plan, if it is a sum, or computed of one.
fn of_expr(expr: &Expr, input: &LogicalPlan) -> Option<DataType> {
    match expr {
        Expr::Alias(alias) => of_expr(&alias.expr, input),
        Expr::Column(column) => told_type(input, input.schema().maybe_index_of_column(column)?),
        Expr::AggregateFunction(AggregateFunction { func, params }) if func.name() == "sum" => {
            of_sum(params.args.first()?, input)
        }
        Expr::WindowFunction(window) => match window.as_ref() {
            WindowFunction { fun: WindowFunctionDefinition::AggregateUDF(func), params } if func.name() == "sum" => {
                of_sum(params.args.first()?, input)
            }
            _ => None,
        },
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus | Operator::Multiply, right }) => {
            let sides = [left, right].map(|side| of_expr(side, input));
            let is_whole = |side: &Expr| side.get_type(input.schema()).is_ok_and(|kind| kind.is_integer());
            let fits = |side: &Expr, told: &Option<DataType>| told.as_ref().map_or(is_whole(side), |it| *it == HUGEINT);
            let is_huge = sides.iter().flatten().next().is_some() && fits(left, &sides[0]) && fits(right, &sides[1]);
            is_huge.then_some(HUGEINT)
        }
        Expr::Negative(value) => of_expr(value, input),
        Expr::ScalarSubquery(rows) => told_type(&rows.subquery, 0),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, result)| result.as_ref());
            of_any(results.chain(case.else_expr.as_deref()), input)
        }
        Expr::ScalarFunction(call) if matches!(call.name(), "coalesce" | "greatest" | "least") => {
            of_any(call.args.iter(), input)
        }
        Expr::ScalarFunction(call) if call.name() == "nullif" => of_expr(call.args.first()?, input),
        _ => None,
    }
}

/// The type of what is one of several values, if some are sums of one type and the others fit into it.
fn of_any<'a>(values: impl Iterator<Item = &'a Expr>, input: &LogicalPlan) -> Option<DataType> {
    let (mut told, mut others) = (None, Vec::new());
    for value in values {
        match of_expr(value, input) {
            Some(own) if told.as_ref().is_none_or(|known| *known == own) => told = Some(own),
            Some(_) => return None,
            None => others.push(value.get_type(input.schema()).ok()?),
        }
    }
    let fits = |other: &DataType| match (other, &told) {
        (DataType::Decimal128(_, scale), Some(DataType::Decimal128(_, most))) => *most > 0 && scale <= most,
        (other, _) => other.is_integer() || other.is_null(),
    };
    told.clone().filter(|_| others.iter().all(fits))
}

fn of_sum(argument: &Expr, input: &LogicalPlan) -> Option<DataType> {
    match argument.get_type(input.schema()).ok()? {
        whole if whole.is_integer() => Some(HUGEINT),
        DataType::Boolean | DataType::Decimal128(38, 0) => Some(HUGEINT),
        DataType::Decimal128(_, scale) => Some(DataType::Decimal128(38, scale)),
        _ => None,
    }
}
