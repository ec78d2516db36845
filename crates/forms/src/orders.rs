//! What ORDER BY may not be, and its direction where none is written: `SET default_order`.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArgumentClause, FunctionArguments, NamedWindowExpr, OrderBy, OrderByExpr, OrderByKind, Query, Select,
    UnaryOperator, Value, ValueWithSpan, WindowType,
};
use forebay_base::{Error, Result};

/// Checks what a query is ordered by.
///
/// # Errors
/// Texts and NULL, which order nothing, and numbers that are no positions.
pub fn check(query: &Query) -> Result<()> {
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return Ok(());
    };
    for order in orders {
        match &order.expr {
            Expr::Value(ValueWithSpan {
                value: Value::SingleQuotedString(_) | Value::Null | Value::Boolean(_),
                ..
            }) => {
                return Err(Error::input(format!("ORDER BY {} has no effect", order.expr))
                    .hint("Write a name without quotes, or with \", or the position of a column"));
            }
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } if matches!(expr.as_ref(), Expr::Value(_)) => {
                return Err(Error::input(format!("ORDER BY {} is the position of no column", order.expr))
                    .hint("Positions begin with 1"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes orders without a direction descending.
pub fn descend(orders: &mut [OrderByExpr]) {
    orders.iter_mut().for_each(|order| order.options.asc = order.options.asc.or(Some(false)));
}

/// As [`descend`], for the order of a query.
pub fn descend_query(order: &mut OrderBy) {
    match &mut order.kind {
        OrderByKind::Expressions(orders) => descend(orders),
        OrderByKind::All(options) => options.asc = options.asc.or(Some(false)),
    }
}

/// As [`descend`], for named windows.
pub fn descend_windows(select: &mut Select) {
    for window in &mut select.named_window {
        if let NamedWindowExpr::WindowSpec(window) = &mut window.1 {
            descend(&mut window.order_by);
        }
    }
}

/// As [`descend`], for the window of a function and the order of its arguments.
pub fn descend_call(expr: &mut Expr) {
    let Expr::Function(call) = expr else { return };
    if let Some(WindowType::WindowSpec(window)) = &mut call.over {
        descend(&mut window.order_by);
    }
    descend(&mut call.within_group);
    if let FunctionArguments::List(list) = &mut call.args {
        for clause in &mut list.clauses {
            if let FunctionArgumentClause::OrderBy(orders) = clause {
                descend(orders);
            }
        }
    }
}
