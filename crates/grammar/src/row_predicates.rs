//! `x IN ()`, which is false, or NULL where x is. And `(a, b) IN (SELECT x, y …)`: the planner takes one column of a subquery alone. Both sides become calls of a function that
//! stands for a row, which the rules for IN take apart again:
//!
//! ```text
//! (a, b) IN (SELECT x, y …)   →   row_values(a, b) IN (SELECT row_values(c0, c1) FROM (SELECT x, y …) AS row_of(c0, c1))
//! ```

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr,
};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, Result};

/// The function that stands for a row.
pub const ROW_VALUES: &str = "row_values";

/// Rewrites a predicate on rows, `= ANY` and `<> ALL` among them.
pub fn rewrite(expr: &mut Expr, dialect: &dyn Dialect) -> Result<()> {
    if let Expr::InList { expr: value, list, negated } = &*expr
        && list.is_empty()
    {
        *expr = parsed(&format!("(CASE WHEN ({value}) IS NOT NULL THEN {negated} END)"), dialect)?;
        return Ok(());
    }
    let (row, query, negated) = match &*expr {
        Expr::InSubquery { expr, subquery, negated } => (expr.as_ref(), subquery.as_ref(), *negated),
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => match right.as_ref() {
            Expr::Subquery(query) => (left.as_ref(), query.as_ref(), false),
            _ => return Ok(()),
        },
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => match right.as_ref() {
            Expr::Subquery(query) => (left.as_ref(), query.as_ref(), true),
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    let Some(values) = values(row) else { return Ok(()) };
    if gives_one_column(query.body.as_ref()) {
        return Ok(());
    }
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    let columns: Vec<String> = (0..values.len()).map(|place| format!("c{place}")).collect();
    let (values, columns, not) = (values.join(", "), columns.join(", "), if negated { "NOT " } else { "" });
    let text =
        format!("{ROW_VALUES}({values}) {not}IN (SELECT {ROW_VALUES}({columns}) FROM ({query}) AS row_of({columns}))");
    *expr = Expr::Nested(Box::new(parsed(&text, dialect)?));
    Ok(())
}

fn parsed(text: &str, dialect: &dyn Dialect) -> Result<Expr> {
    let parsed = Parser::new(dialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| Error::internal(format!("{text} could not be written out: {error}")))
}

/// The values of `(a, b)` and `ROW(a, b)`.
fn values(row: &Expr) -> Option<Vec<&Expr>> {
    match row {
        Expr::Tuple(values) if values.len() > 1 => Some(values.iter().collect()),
        Expr::Nested(inner) => values(inner),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if name.to_string().eq_ignore_ascii_case("row") && list.args.len() > 1 =>
        {
            let mut values = Vec::new();
            for argument in &list.args {
                match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => values.push(expr),
                    _ => return None,
                }
            }
            Some(values)
        }
        _ => None,
    }
}

/// Whether a query shows itself to have one column, which then is compared with the whole row.
fn gives_one_column(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            matches!(&select.projection[..], [SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }])
        }
        SetExpr::Query(query) => gives_one_column(&query.body),
        SetExpr::SetOperation { left, .. } => gives_one_column(left),
        SetExpr::Values(values) => values.rows.first().is_some_and(|row| row.len() == 1),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;

    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let parsed = Parser::new(&DuckDbDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
        let mut expr = parsed.expect("parses");
        rewrite(&mut expr, &DuckDbDialect {}).expect("is rewritten");
        assert_eq!(expr.to_string(), expect);
    }

    #[test]
    fn rows_beside_subqueries_are_calls() {
        let both = |not: &str| {
            format!(
                "(row_values(a, b) {not}IN (SELECT row_values(c0, c1) FROM (SELECT x, y FROM s) AS row_of (c0, c1)))"
            )
        };
        check("(a, b) IN (SELECT x, y FROM s)", &both(""));
        check("ROW(a, b) NOT IN (SELECT x, y FROM s)", &both("NOT "));
        check("(a, b) = ANY (SELECT x, y FROM s)", &both(""));
        check("(a, b) <> ALL (SELECT x, y FROM s)", &both("NOT "));
    }

    #[test]
    fn a_row_beside_one_column_is_a_value() {
        check("(a, b) IN (SELECT x FROM s)", "(a, b) IN (SELECT x FROM s)");
        check("a IN (SELECT x, y FROM s)", "a IN (SELECT x, y FROM s)");
    }
}
