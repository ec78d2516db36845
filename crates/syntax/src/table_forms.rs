//! Tables in forms that the planner does not know, as ones that mean the same to it: `unnest(list)`, joins that keep or leave
//! out the rows of their left side, joins in parentheses under a name, VALUES. What functions give is named as in DuckDB.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, Join, JoinConstraint, JoinOperator, Query, Select, SetExpr, Statement,
    TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, TableWithJoins,
};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, Result};
use forebay_grammar::expressions::call;
use forebay_grammar::joins::{POSITIONAL_CONDITION, keep_order, name_nearest};
use forebay_grammar::walk::{Tree, visit_expressions};
use forebay_grammar::{json_rows, samples};

use crate::dialect::ForebayDialect;
use crate::outputs::value_names;
use crate::sides::constraint;

/// Functions that give a table of one column, which is called as they are.
const OF_ONE_COLUMN: [&str; 2] = ["range", "generate_series"];

/// Rewrites the tables of a SELECT. Errors: calls that mean nothing.
pub(crate) fn rewrite(select: &mut Select) -> Result<()> {
    samples::write_out(select, &ForebayDialect)?;
    select.from.iter_mut().try_for_each(rewrite_joins)
}

fn rewrite_joins(table: &mut TableWithJoins) -> Result<()> {
    if table.joins.iter().any(|join| matches!(join.join_operator, JoinOperator::CrossApply)) {
        let factors = std::iter::once(&mut table.relation).chain(table.joins.iter_mut().map(|join| &mut join.relation));
        factors.for_each(keep_order);
    }
    rewrite_factor(&mut table.relation)?;
    for Join { relation, join_operator, .. } in &mut table.joins {
        rewrite_factor(relation)?;
        *join_operator = match std::mem::replace(join_operator, JoinOperator::OuterApply) {
            JoinOperator::Semi(constraint) => JoinOperator::LeftSemi(constraint),
            JoinOperator::Anti(constraint) => JoinOperator::LeftAnti(constraint),
            // What POSITIONAL JOIN was made; CROSS APPLY means nothing else.
            JoinOperator::CrossApply => {
                JoinOperator::FullOuter(JoinConstraint::On(call(POSITIONAL_CONDITION, Vec::new())))
            }
            other => other,
        };
        if let Some(JoinConstraint::On(condition)) = constraint(join_operator) {
            name_nearest(condition)?;
        }
    }
    Ok(())
}

fn rewrite_factor(table: &mut TableFactor) -> Result<()> {
    if let TableFactor::Function { name, args, with_ordinality, alias, .. } = table
        && (is_function_of_lists(&name.to_string().to_lowercase())
            || json_rows::is_one(&name.to_string().to_lowercase()))
    {
        // LATERAL is understood.
        *table = TableFactor::Table {
            name: name.clone(),
            alias: alias.take(),
            args: Some(TableFunctionArgs { args: std::mem::take(args), settings: None }),
            with_hints: Vec::new(),
            version: None,
            with_ordinality: *with_ordinality,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        };
    }
    match table {
        TableFactor::Table { name, alias, args: Some(arguments), with_ordinality, .. } => {
            let (function, is_numbered) = (name.to_string().to_lowercase(), *with_ordinality);
            if json_rows::is_one(&function) && !is_numbered {
                let lateral = arguments.args.iter().any(|argument| has_columns(argument));
                let subquery = Box::new(query(&json_rows::query(&function, &arguments.args))?);
                let name = || TableAlias { explicit: true, name: Ident::new(&function), columns: Vec::new(), at: None };
                let alias = Some(alias.take().unwrap_or_else(name));
                *table = TableFactor::Derived { lateral, subquery, alias, sample: None };
            } else if is_function_of_lists(&function) {
                let list = list_of(&function, &arguments.args)?;
                let lateral = arguments.args.iter().any(|argument| has_columns(argument));
                name_only_column(alias, &function);
                if function == "unnest" || lateral || is_numbered {
                    *table = elements(&function, &list, alias.take(), lateral, is_numbered)?;
                }
            } else if is_numbered {
                return Err(Error::unsupported(format!("WITH ORDINALITY of {function} is not supported"))
                    .hint("Write row_number() OVER () in the SELECT list"));
            }
        }
        TableFactor::Derived { subquery, alias, .. } => {
            if let SetExpr::Values(values) = subquery.body.as_ref() {
                let width = values.rows.first().map_or(0, |row| row.len());
                name_values(alias, width);
            }
        }
        TableFactor::NestedJoin { table_with_joins, alias } => match alias.take() {
            None => rewrite_joins(table_with_joins)?,
            Some(name) => {
                let mut subquery = Box::new(query("SELECT * FROM unnest")?);
                if let SetExpr::Select(select) = subquery.body.as_mut() {
                    select.from = vec![table_with_joins.as_ref().clone()];
                }
                *table = TableFactor::Derived { lateral: false, subquery, alias: Some(name), sample: None };
            }
        },
        _ => {}
    }
    Ok(())
}

/// Whether a function of tables gives the elements of a list.
fn is_function_of_lists(name: &str) -> bool {
    name == "unnest" || OF_ONE_COLUMN.contains(&name)
}

/// The list whose elements a function gives.
fn list_of(function: &str, arguments: &[FunctionArg]) -> Result<String> {
    match (function, arguments) {
        ("unnest", [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))]) => Ok(list.to_string()),
        ("unnest", _) => Err(Error::input("unnest in FROM takes one list").hint("Write FROM unnest(list) AS t(x)")),
        _ => {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            Ok(format!("{function}({})", arguments.join(", ")))
        }
    }
}

/// The elements of a list as a table, with their numbers where these are asked for.
fn elements(
    function: &str,
    list: &str,
    mut alias: Option<TableAlias>,
    lateral: bool,
    is_numbered: bool,
) -> Result<TableFactor> {
    let mut numbers = String::new();
    if is_numbered {
        numbers = format!(", unnest(range(1, len({list}) + 1)) AS ordinality");
        name_ordinality(&mut alias);
    }
    let subquery = Box::new(query(&format!("SELECT unnest({list}) AS {function}{numbers}"))?);
    Ok(TableFactor::Derived { lateral, subquery, alias, sample: None })
}

/// Whether an argument of a function names columns.
fn has_columns(argument: &dyn Tree) -> bool {
    visit_expressions(argument, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Names the numbers of rows where the alias does not.
fn name_ordinality(alias: &mut Option<TableAlias>) {
    let columns = alias.iter_mut().map(|alias| &mut alias.columns).filter(|columns| columns.len() == 1);
    columns.for_each(|columns| columns.push(TableAliasColumnDef::from_name("ordinality")));
}

/// Calls the column as the table where the alias does not say how.
fn name_only_column(alias: &mut Option<TableAlias>, function: &str) {
    let unnamed = || TableAlias { explicit: true, name: Ident::new(function), columns: Vec::new(), at: None };
    let alias = alias.get_or_insert_with(unnamed);
    if alias.columns.is_empty() {
        alias.columns = vec![TableAliasColumnDef { name: alias.name.clone(), data_type: None }];
    }
}

/// Names the columns of VALUES that the alias does not name.
fn name_values(alias: &mut Option<TableAlias>, width: usize) {
    let unnamed = || TableAlias { explicit: true, name: Ident::new("unnamed_subquery"), columns: Vec::new(), at: None };
    let alias = alias.get_or_insert_with(unnamed);
    let named = alias.columns.len();
    alias.columns.extend(value_names(width).into_iter().skip(named).map(TableAliasColumnDef::from_name));
}

/// Makes VALUES as a query of its own, or of a set operation, a SELECT that names their columns. Errors: none that a user makes.
pub(crate) fn name_body(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Values(_) => {
            let mut named = query("SELECT * FROM (VALUES (0))")?;
            if let SetExpr::Select(select) = named.body.as_mut()
                && let Some(TableFactor::Derived { subquery, .. }) =
                    select.from.first_mut().map(|table| &mut table.relation)
            {
                std::mem::swap(body, subquery.body.as_mut());
                *body = *named.body;
            }
            Ok(())
        }
        SetExpr::SetOperation { left, right, .. } => {
            name_body(left)?;
            name_body(right)
        }
        _ => Ok(()),
    }
}

fn query(text: &str) -> Result<Query> {
    let failed = |why: String| Error::internal(format!("{text} could not be written out: {why}"));
    let parsed = Parser::new(&ForebayDialect).try_with_sql(text).and_then(|mut parser| parser.parse_statement());
    match parsed {
        Ok(Statement::Query(query)) => Ok(*query),
        Ok(_) => Err(failed("it is no query".to_owned())),
        Err(error) => Err(failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let mut parsed = query(text).expect("parses");
        name_body(&mut parsed.body).expect("rewritten");
        if let SetExpr::Select(select) = parsed.body.as_mut() {
            rewrite(select).expect("rewritten");
        }
        assert_eq!(parsed.to_string(), expect);
    }

    #[test]
    fn columns_of_functions_are_called_as_they_are() {
        check("SELECT * FROM range(3)", "SELECT * FROM range(3) AS range (range)");
        check("SELECT * FROM range(3) q", "SELECT * FROM range(3) q (q)");
        check("SELECT * FROM generate_series(3) q(x)", "SELECT * FROM generate_series(3) q (x)");
    }

    #[test]
    fn lists_are_tables() {
        check("SELECT * FROM unnest([1]) AS q", "SELECT * FROM (SELECT unnest([1]) AS unnest) AS q (q)");
        check(
            "SELECT * FROM t, unnest(t.l)",
            "SELECT * FROM t, LATERAL (SELECT unnest(t.l) AS unnest) AS unnest (unnest)",
        );
        check(
            "SELECT * FROM unnest([1]) WITH ORDINALITY AS q(x)",
            "SELECT * FROM (SELECT unnest([1]) AS unnest, unnest(range(1, len([1]) + 1)) AS ordinality) AS q (x, ordinality)",
        );
    }

    #[test]
    fn joins_of_one_side_and_under_a_name() {
        check("SELECT * FROM t SEMI JOIN u USING (a)", "SELECT * FROM t LEFT SEMI JOIN u USING(a)");
        check("SELECT * FROM (t JOIN u USING (a)) x", "SELECT * FROM (SELECT * FROM t JOIN u USING(a)) x");
    }

    #[test]
    fn columns_of_values_have_names() {
        check("VALUES (1, 2)", "SELECT * FROM (VALUES (1, 2)) AS unnamed_subquery (col0, col1)");
        check("SELECT * FROM (VALUES (1, 2)) q(x)", "SELECT * FROM (VALUES (1, 2)) q (x, col1)");
    }
}
