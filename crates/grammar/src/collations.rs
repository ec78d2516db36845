//! `x COLLATE NOCASE` where texts are compared and put in order: as the texts that the collation compares instead.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, OrderByExpr, OrderByKind, Query, WindowType};
use forebay_base::{Error, Result};

use crate::expressions::call;

/// What a collation compares in the place of a text.
fn key(expr: &Expr, collation: &str) -> Result<Expr> {
    let mut key = expr.clone();
    for part in collation.split('.') {
        match part.trim_matches('"').to_uppercase().as_str() {
            "NOCASE" => key = lower(key),
            "BINARY" | "C" | "POSIX" => {}
            other => {
                return Err(
                    Error::unsupported(format!("the collation {other} is not supported")).hint("NOCASE and BINARY are")
                );
            }
        }
    }
    Ok(key)
}

fn lower(expr: Expr) -> Expr {
    call("lower", vec![expr])
}

/// Both sides of a comparison, where one of them has a collation.
pub fn compared(expr: &mut Expr) -> Result<()> {
    use BinaryOperator as B;
    let Expr::BinaryOp { left, op, right } = expr else { return Ok(()) };
    if !matches!(op, B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq) {
        return Ok(());
    }
    let collation = [&*left, &*right].into_iter().find_map(|side| match side.as_ref() {
        Expr::Collate { collation, .. } => Some(collation.to_string()),
        _ => None,
    });
    let Some(collation) = collation else { return Ok(()) };
    for side in [left, right] {
        let plain = match side.as_ref() {
            Expr::Collate { expr, .. } => expr.as_ref(),
            other => other,
        };
        **side = key(plain, &collation)?;
    }
    Ok(())
}

/// The keys of ORDER BY.
pub fn ordered(query: &mut Query) -> Result<()> {
    match query.order_by.as_mut().map(|order| &mut order.kind) {
        Some(OrderByKind::Expressions(orders)) => keys(orders),
        _ => Ok(()),
    }
}

/// The keys of a window.
pub fn windowed(window: &mut WindowType) -> Result<()> {
    let WindowType::WindowSpec(window) = window else { return Ok(()) };
    for part in &mut window.partition_by {
        plain(part)?;
    }
    keys(&mut window.order_by)
}

fn keys(orders: &mut [OrderByExpr]) -> Result<()> {
    orders.iter_mut().try_for_each(|order| plain(&mut order.expr))
}

/// An expression without its collation: as the texts that this compares.
pub(crate) fn plain(expr: &mut Expr) -> Result<()> {
    if let Expr::Collate { expr: inner, collation } = expr {
        *expr = key(inner, &collation.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    #[test]
    fn both_sides_of_a_comparison_are_folded() {
        let parsed = Parser::new(&DuckDbDialect {}).try_with_sql("a COLLATE NOCASE = 'X'");
        let mut expr = parsed.and_then(|mut parser| parser.parse_expr()).expect("parses");
        compared(&mut expr).expect("known");
        assert_eq!(expr.to_string(), "lower(a) = lower('X')");
    }
}
