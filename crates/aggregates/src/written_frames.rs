//! Calls over frames that the planner does not know, written as calls of [`FRAMED`] with what the frame needs as arguments:
//!
//! ```text
//! sum(x) FILTER (WHERE c) OVER (ORDER BY y ROWS BETWEEN a PRECEDING AND CURRENT ROW EXCLUDE TIES)
//!   →   framed('sum …', x, c, CAST(a AS BIGINT)) OVER (ORDER BY y ROWS …)
//! ```
//!
//! These are frames with EXCLUDE, with bounds that are no literals, or that end before they begin; ORDER BY within the arguments
//! beside an order or a frame of the window; `fill`, and `nth_value` and `ntile` whose number differs from row to row. All
//! others are DataFusion's.

use std::ops::ControlFlow;

use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArgumentList, FunctionArguments, Ident, NullTreatment, ObjectName, OrderByExpr,
    Value, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};
use forebay_grammar::walk::visit_expressions_mut;
use forebay_grammar::windows::take_exclusion;

use crate::frame_text::{Bound, Exclusion, FRAMED, FrameSpec, KeyOrder, Units};

/// Functions that look at the whole partition, unless their arguments have an order.
const OF_PARTITIONS: [&str; 8] =
    ["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"];

/// Those of them that cannot leave out rows, and have no order of their own.
const WITHOUT_ORDER: [&str; 1] = ["dense_rank"];

/// Writes all such calls of a statement anew. `nulls_first` tells where NULLs are that an order says nothing of, by whether it
/// ascends. Errors: frames that mean nothing.
pub fn write_out(statement: &mut PlanStatement, nulls_first: &dyn Fn(bool) -> bool) -> Result<()> {
    match statement {
        PlanStatement::Statement(ast) => {
            let written = visit_expressions_mut(ast.as_mut(), |expr| match expr {
                Expr::Function(call) => match rewrite(call, nulls_first) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => ControlFlow::Break(error),
                },
                _ => ControlFlow::Continue(()),
            });
            match written {
                ControlFlow::Break(error) => Err(error),
                ControlFlow::Continue(()) => Ok(()),
            }
        }
        PlanStatement::Explain(explain) => write_out(&mut explain.statement, nulls_first),
        PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => Ok(()),
    }
}

fn rewrite(call: &mut Function, nulls_first: &dyn Fn(bool) -> bool) -> Result<()> {
    let Some(WindowType::WindowSpec(window)) = &mut call.over else { return Ok(()) };
    let exclusion = match take_exclusion(window) {
        None => Exclusion::Nothing,
        Some("current row") => Exclusion::CurrentRow,
        Some("group") => Exclusion::Group,
        Some(_) => Exclusion::Ties,
    };
    let FunctionArguments::List(list) = &mut call.args else { return Ok(()) };
    let name = call.name.to_string().to_lowercase();
    let is_ordered = list.clauses.iter_mut().any(is_order);
    let is_of_partition = OF_PARTITIONS.contains(&name.as_str());
    if is_of_partition && is_ordered && (exclusion != Exclusion::Nothing || WITHOUT_ORDER.contains(&name.as_str())) {
        let what = if WITHOUT_ORDER.contains(&name.as_str()) { "ORDER BY" } else { "EXCLUDE" };
        return plan_err!("{what} is not supported for the window function {name}");
    }
    let has_plain_frame = window.window_frame.as_ref().is_none_or(|frame| is_plain(frame, &window.order_by));
    let is_framed = match name.as_str() {
        "fill" => true,
        _ if is_ordered => true,
        "ntile" => !list.args.first().is_some_and(is_whole),
        _ if is_of_partition => {
            if !has_plain_frame {
                window.window_frame = None;
            }
            false
        }
        "nth_value" if !list.args.get(1).is_some_and(is_whole) => true,
        _ => !has_plain_frame || exclusion != Exclusion::Nothing,
    };
    if is_framed { write_framed(call, name, exclusion, nulls_first) } else { Ok(()) }
}

fn is_order(clause: &mut FunctionArgumentClause) -> bool {
    matches!(clause, FunctionArgumentClause::OrderBy(_))
}

/// Takes the order out of a call's arguments.
fn take_order(list: &mut FunctionArgumentList) -> Vec<OrderByExpr> {
    let mut orders = Vec::new();
    for clause in list.clauses.extract_if(.., is_order) {
        if let FunctionArgumentClause::OrderBy(keys) = clause {
            orders.extend(keys);
        }
    }
    orders
}

/// Writes a call as one of [`FRAMED`].
fn write_framed(
    call: &mut Function,
    function: String,
    exclusion: Exclusion,
    nulls_first: &dyn Fn(bool) -> bool,
) -> Result<()> {
    let (Some(WindowType::WindowSpec(window)), FunctionArguments::List(list)) = (&mut call.over, &mut call.args) else {
        return Ok(());
    };
    let orders = take_order(list);
    let ignores = |treatment: &NullTreatment| matches!(treatment, NullTreatment::IgnoreNulls);
    let ignores_nulls = call.null_treatment.as_ref().is_some_and(ignores)
        || list.clauses.iter().any(|clause| match clause {
            FunctionArgumentClause::IgnoreOrRespectNulls(treatment) => ignores(treatment),
            _ => false,
        });
    check(&function, list, call.filter.is_some(), !orders.is_empty(), window)?;
    let mut arguments = own_arguments(&function, list);
    let own = arguments.len();
    let filter = call.filter.take();
    let has_filter = filter.is_some();
    arguments.extend(filter.map(|filter| *filter));
    let is_whole = OF_PARTITIONS.contains(&function.as_str()) && orders.is_empty() || function == "fill";
    let (units, start, end) = bounds(window, is_whole)?;
    let order = |key: &OrderByExpr| KeyOrder {
        descending: key.options.asc == Some(false),
        nulls_first: key.options.nulls_first.unwrap_or_else(|| nulls_first(key.options.asc != Some(false))),
    };
    let spec = FrameSpec {
        function,
        arguments: own,
        is_distinct: matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct)),
        ignores_nulls,
        has_filter,
        orders: orders.iter().map(order).collect(),
        units,
        start: start.0,
        end: end.0,
        exclusion,
        is_descending: window.order_by.first().is_some_and(|key| key.options.asc == Some(false)),
    };
    arguments.extend(orders.into_iter().map(|key| key.expr));
    arguments.extend(start.1.into_iter().chain(end.1));
    let text = Expr::Value(Value::SingleQuotedString(spec.to_text()).into());
    let args = std::iter::once(text).chain(arguments);
    let args = args.map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).collect();
    window.window_frame = Some(WindowFrame {
        units: WindowFrameUnits::Rows,
        start_bound: WindowFrameBound::Preceding(None),
        end_bound: Some(WindowFrameBound::Following(None)),
    });
    call.name = ObjectName::from(vec![Ident::new(FRAMED)]);
    call.null_treatment = None;
    call.args = FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() });
    Ok(())
}

/// Errors: what a function has no use for.
fn check(
    name: &str,
    list: &FunctionArgumentList,
    has_filter: bool,
    is_ordered: bool,
    window: &WindowSpec,
) -> Result<()> {
    let is_value = OF_PARTITIONS.contains(&name) || ["fill", "first_value", "last_value", "nth_value"].contains(&name);
    if is_value && has_filter {
        return plan_err!("FILTER is not supported for the window function {name}");
    }
    if is_value && list.duplicate_treatment.is_some() {
        return plan_err!("DISTINCT is not supported for the window function {name}");
    }
    if name == "fill" && !is_ordered && window.order_by.len() != 1 {
        return plan_err!("fill takes one ORDER BY expression: write fill(x) OVER (ORDER BY y)");
    }
    Ok(())
}

/// The function's own arguments. Functions of no arguments have an order in their parentheses behind a NULL.
fn own_arguments(name: &str, list: &mut FunctionArgumentList) -> Vec<Expr> {
    if OF_PARTITIONS.contains(&name) && !["ntile", "lag", "lead"].contains(&name) {
        return Vec::new();
    }
    let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
    let plain = |argument: FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => expr,
        FunctionArg::Named { arg: FunctionArgExpr::Expr(expr), .. } => expr,
        _ => one(),
    };
    let arguments: Vec<Expr> = std::mem::take(&mut list.args).into_iter().map(plain).collect();
    if arguments.is_empty() && name == "count" { vec![one()] } else { arguments }
}

/// A bound and its distance.
type Written = (Bound, Option<Expr>);

/// What the frame of a window counts, and its bounds. Errors: bounds in the wrong order.
fn bounds(window: &WindowSpec, is_whole: bool) -> Result<(Units, Written, Written)> {
    if is_whole {
        return Ok((Units::Rows, (Bound::Unbounded, None), (Bound::Unbounded, None)));
    }
    let Some(frame) = &window.window_frame else {
        return Ok((Units::Range, (Bound::Unbounded, None), (Bound::Current, None)));
    };
    let units = match frame.units {
        WindowFrameUnits::Rows => Units::Rows,
        WindowFrameUnits::Range => Units::Range,
        WindowFrameUnits::Groups => Units::Groups,
    };
    let end = frame.end_bound.as_ref().unwrap_or(&WindowFrameBound::CurrentRow);
    match (&frame.start_bound, end) {
        (WindowFrameBound::Following(None), _) => return plan_err!("a frame cannot begin at UNBOUNDED FOLLOWING"),
        (_, WindowFrameBound::Preceding(None)) => return plan_err!("a frame cannot end at UNBOUNDED PRECEDING"),
        (WindowFrameBound::CurrentRow, WindowFrameBound::Preceding(_)) => {
            return plan_err!("a frame that begins at CURRENT ROW cannot end at a row before it");
        }
        (WindowFrameBound::Following(_), WindowFrameBound::Preceding(_) | WindowFrameBound::CurrentRow) => {
            return plan_err!("a frame that begins at a row behind the current one cannot end before it");
        }
        _ => {}
    }
    Ok((units, bound(&frame.start_bound, units, window)?, bound(end, units, window)?))
}

fn bound(bound: &WindowFrameBound, units: Units, window: &WindowSpec) -> Result<Written> {
    let (kind, distance) = match bound {
        WindowFrameBound::CurrentRow => return Ok((Bound::Current, None)),
        WindowFrameBound::Preceding(None) | WindowFrameBound::Following(None) => return Ok((Bound::Unbounded, None)),
        WindowFrameBound::Preceding(Some(distance)) => (Bound::Preceding, distance),
        WindowFrameBound::Following(Some(distance)) => (Bound::Following, distance),
    };
    let nested = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
    if units != Units::Range {
        let count = Expr::Cast {
            kind: CastKind::Cast,
            expr: nested(distance),
            data_type: DataType::BigInt(None),
            array: false,
            format: None,
        };
        return Ok((kind, Some(count)));
    }
    let [key] = window.order_by.as_slice() else {
        return plan_err!("RANGE with a distance takes one ORDER BY expression, not {}", window.order_by.len());
    };
    let is_less = (kind == Bound::Preceding) == (key.options.asc != Some(false));
    let op = if is_less { BinaryOperator::Minus } else { BinaryOperator::Plus };
    Ok((kind, Some(Expr::BinaryOp { left: nested(&key.expr), op, right: nested(distance) })))
}

/// Whether DataFusion knows a frame.
fn is_plain(frame: &WindowFrame, order_by: &[OrderByExpr]) -> bool {
    use WindowFrameBound as B;
    let is_known = |bound: &B| match bound {
        B::CurrentRow | B::Preceding(None) | B::Following(None) => true,
        B::Preceding(Some(distance)) | B::Following(Some(distance)) => match frame.units {
            WindowFrameUnits::Range => {
                matches!(**distance, Expr::Interval(_)) || number(distance).is_some() && order_by.len() == 1
            }
            WindowFrameUnits::Rows | WindowFrameUnits::Groups => {
                number(distance).is_some_and(|text| text.parse::<u32>().is_ok())
            }
        },
    };
    let in_order = |first: &Expr, last: &Expr| match (number(first), number(last)) {
        (Some(first), Some(last)) => match (first.parse::<f64>(), last.parse::<f64>()) {
            (Ok(first), Ok(last)) => first <= last,
            _ => false,
        },
        // Which of two intervals is longer is told when they are added.
        _ => false,
    };
    let is_begun_first = match (&frame.start_bound, frame.end_bound.as_ref().unwrap_or(&B::CurrentRow)) {
        (B::Preceding(Some(start)), B::Preceding(Some(end))) => in_order(end, start),
        (B::Following(Some(start)), B::Following(Some(end))) => in_order(start, end),
        _ => true,
    };
    let is_ordered = !order_by.is_empty() || frame.units != WindowFrameUnits::Groups;
    is_ordered && is_begun_first && is_known(&frame.start_bound) && frame.end_bound.as_ref().is_none_or(is_known)
}

fn number(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Whether this is a literal number of rows, from 1 on.
fn is_whole(argument: &FunctionArg) -> bool {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { return false };
    number(expr).is_some_and(|text| text.parse::<u32>().is_ok_and(|count| count > 0))
}
