//! What stands behind other tables in FROM and may read them: subqueries, and `unnest`, which becomes one.

use datafusion::sql::sqlparser::ast::{FunctionArg, FunctionArgExpr, Join, JoinOperator, Select, TableFactor};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::Parser;

/// Subqueries behind other tables in FROM may read these, as if they said LATERAL, where that has a meaning.
pub fn make_lateral(select: &mut Select, dialect: &dyn Dialect) {
    for (place, table) in select.from.iter_mut().enumerate() {
        unnest(&mut table.relation, dialect);
        table.joins.iter_mut().for_each(|join| unnest(&mut join.relation, dialect));
        let may_read = |join: &&mut Join| {
            matches!(
                join.join_operator,
                JoinOperator::Join(_)
                    | JoinOperator::Inner(_)
                    | JoinOperator::Left(_)
                    | JoinOperator::LeftOuter(_)
                    | JoinOperator::CrossJoin(_)
            )
        };
        let first = (place > 0).then_some(&mut table.relation);
        let joined = table.joins.iter_mut().filter(may_read).map(|join| &mut join.relation);
        for relation in first.into_iter().chain(joined) {
            if let TableFactor::Derived { lateral, .. } = relation {
                *lateral = true;
            }
        }
    }
}

/// `unnest(list)` as the subquery `(SELECT unnest(list) AS "unnest")`.
fn unnest(table: &mut TableFactor, dialect: &dyn Dialect) {
    let TableFactor::Table { name, alias, args: Some(args), with_ordinality: false, .. } = table else { return };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] = &args.args[..] else { return };
    if !name.to_string().eq_ignore_ascii_case("unnest") {
        return;
    }
    let text = format!("SELECT unnest({list}) AS \"unnest\"");
    let parsed = Parser::new(dialect).try_with_sql(&text).and_then(|mut parser| parser.parse_query());
    if let Ok(subquery) = parsed {
        *table = TableFactor::Derived { lateral: false, subquery, alias: alias.take(), sample: None };
    }
}
