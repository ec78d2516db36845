//! Columns of `range`, `generate_series` and `unnest` in FROM, which are called as the table is: `FROM range(3) r` has the column `r`.
//! They may also be named as the function: `r.range`, and `range` where only one of the tables is such a call.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, Statement, TableFactor, VisitorMut,
};

use crate::walk::Tree;

/// Functions that give a table of one column.
const OF_ONE_COLUMN: [&str; 3] = ["range", "generate_series", "unnest"];

/// Names the columns of a statement as the planner knows them.
pub fn write_out(statement: &mut Statement) {
    let _ = statement.walk_mut(&mut Selects);
}

/// The columns of such a call in FROM, as the planner knows them; `None` of other tables.
pub fn of_call(table: &TableFactor) -> Option<Vec<Ident>> {
    let TableFactor::Table { name, alias, args: Some(call), with_ordinality, .. } = table else { return None };
    let function = name.to_string().to_lowercase();
    if !OF_ONE_COLUMN.contains(&function.as_str()) || (function == "unnest" && call.args.len() != 1) {
        return None;
    }
    let called = match alias {
        Some(alias) if !with_ordinality => alias.name.clone(),
        _ => Ident::new(function),
    };
    let mut columns = vec![called];
    columns.extend(with_ordinality.then(|| Ident::new("ordinality")));
    let given = alias.iter().flat_map(|alias| &alias.columns);
    columns.iter_mut().zip(given).for_each(|(column, given)| *column = given.name.clone());
    Some(columns)
}

struct Selects;

impl VisitorMut for Selects {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = query.body.as_ref() {
            for call in calls(select) {
                rename(&mut query.order_by, &call);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for call in calls(select) {
            keep_name(select, &call);
            rename(select, &call);
        }
        ControlFlow::Continue(())
    }
}

/// A call in FROM with a name that is not the function's.
struct Call {
    alias: Ident,
    function: String,
    /// Names without a table are of it.
    is_only: bool,
}

impl Call {
    /// Whether this expression is its column, by the name of the function.
    fn is_named(&self, expr: &Expr) -> bool {
        let is = |name: &Ident| name.value.eq_ignore_ascii_case(&self.function);
        match expr {
            Expr::Identifier(name) => self.is_only && is(name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => table.value.eq_ignore_ascii_case(&self.alias.value) && is(column),
                _ => false,
            },
            _ => false,
        }
    }
}

/// The calls in the FROM clause of a SELECT.
fn calls(select: &Select) -> Vec<Call> {
    let joined = |table: &'_ datafusion::sql::sqlparser::ast::TableWithJoins| {
        std::iter::once(table.relation.clone())
            .chain(table.joins.iter().map(|join| join.relation.clone()))
            .collect::<Vec<_>>()
    };
    let factors: Vec<TableFactor> = select.from.iter().flat_map(joined).collect();
    let is_only = factors.len() == 1;
    let call = |factor: TableFactor| {
        let (name, alias) = match factor {
            TableFactor::Table { name, alias: Some(alias), args: Some(_), with_ordinality: false, .. }
            | TableFactor::Function { name, alias: Some(alias), with_ordinality: false, .. } => {
                (name.to_string().to_lowercase(), alias)
            }
            TableFactor::UNNEST { alias: Some(alias), with_ordinality: false, .. } => ("unnest".to_owned(), alias),
            _ => return None,
        };
        let is_renamed = alias.columns.is_empty() && !alias.name.value.eq_ignore_ascii_case(&name);
        (is_renamed && OF_ONE_COLUMN.contains(&name.as_str())).then_some(Call {
            alias: alias.name,
            function: name,
            is_only,
        })
    };
    factors.into_iter().filter_map(call).collect()
}

/// Has a column of the SELECT list keep the name of the function.
fn keep_name(select: &mut Select, call: &Call) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && call.is_named(expr)
        {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(&call.function) };
        }
    }
}

/// Names the column as the table is called.
fn rename(tree: &mut dyn Tree, call: &Call) {
    let _ = tree.walk_mut(&mut Rename { call, depth: 0 });
}

struct Rename<'a> {
    call: &'a Call,
    /// Queries around the place, in which names without a table may be of others.
    depth: usize,
}

impl VisitorMut for Rename<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let is_hidden = self.depth > 0 && matches!(expr, Expr::Identifier(_));
        if !is_hidden && self.call.is_named(expr) {
            *expr = Expr::CompoundIdentifier(vec![self.call.alias.clone(), self.call.alias.clone()]);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn check(text: &str, expect: &str) {
        let mut parsed = Parser::parse_sql(&DuckDbDialect {}, text).expect("parses");
        write_out(&mut parsed[0]);
        assert_eq!(parsed[0].to_string(), expect);
    }

    #[test]
    fn columns_are_named_as_functions_and_as_tables() {
        check("SELECT r.range FROM range(3) r", "SELECT r.r AS range FROM range(3) r");
        check("SELECT range + 1 FROM range(3) r ORDER BY range", "SELECT r.r + 1 FROM range(3) r ORDER BY r.r");
        check("SELECT a.range, b FROM range(2) a, range(3) b", "SELECT a.a AS range, b FROM range(2) a, range(3) b");
        check("SELECT range FROM range(3)", "SELECT range FROM range(3)");
        check(
            "SELECT (SELECT max(range) FROM range(5)) FROM range(3) r",
            "SELECT (SELECT max(range) FROM range(5)) FROM range(3) r",
        );
        check("SELECT range FROM range(3) r(x)", "SELECT range FROM range(3) r (x)");
    }
}
