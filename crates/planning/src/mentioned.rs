//! The columns that a query may read, by their names. Planning a query takes the schemas of its tables along through every operator,
//! which costs more than all else where tables are wide; tables of the columns that are mentioned would do.
//!
//! Invariant: a column whose name is not among those that [`mentioned`] finds is read by no part of the query.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement as Ast, TableFactor, TableWithJoins, Visitor,
};
use forebay_grammar::walk::Tree;

/// The names, in lower case, of all columns that a query or its EXPLAIN may read; `None` where it may read others, too, or is no query.
/// Names of tables that stand for their rows are written out by then.
pub fn mentioned(statement: &PlanStatement) -> Option<HashSet<String>> {
    let ast = match statement {
        PlanStatement::Statement(ast) => ast,
        PlanStatement::Explain(explain) => return mentioned(&explain.statement),
        PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => return None,
    };
    let Ast::Query(query) = ast.as_ref() else { return None };
    let mut names = Mentioned::default();
    query.walk(&mut names).is_continue().then_some(names.columns)
}

#[derive(Default)]
struct Mentioned {
    columns: HashSet<String>,
    /// Queries of EXISTS that are yet to come: what they select is not read.
    exists: usize,
}

impl Mentioned {
    fn column(&mut self, name: &Ident) {
        self.columns.insert(name.value.to_lowercase());
    }

    fn parts(&mut self, name: &ObjectName) {
        name.0.iter().filter_map(ObjectNamePart::as_ident).for_each(|part| self.column(part));
    }

    /// Breaks at what stands for columns without naming them.
    fn table(&mut self, table: &TableWithJoins) -> ControlFlow<()> {
        for Join { join_operator, .. } in &table.joins {
            match constraint(join_operator) {
                Some(JoinConstraint::Using(names)) => names.iter().for_each(|name| self.parts(name)),
                Some(JoinConstraint::On(_) | JoinConstraint::None) => {}
                Some(JoinConstraint::Natural) | None => return ControlFlow::Break(()),
            }
        }
        ControlFlow::Continue(())
    }
}

/// The condition of a join of a usual kind.
fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    use JoinOperator as J;
    match operator {
        J::Join(constraint)
        | J::Inner(constraint)
        | J::Left(constraint)
        | J::LeftOuter(constraint)
        | J::Right(constraint)
        | J::RightOuter(constraint)
        | J::FullOuter(constraint)
        | J::CrossJoin(constraint)
        | J::Semi(constraint)
        | J::LeftSemi(constraint)
        | J::RightSemi(constraint)
        | J::Anti(constraint)
        | J::LeftAnti(constraint)
        | J::RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}

/// Whether a query is a plain SELECT, of which EXISTS asks for rows alone.
fn asks_for_rows(query: &Query) -> bool {
    match query.body.as_ref() {
        SetExpr::Select(select) if query.with.is_none() => {
            select.distinct.is_none() && matches!(*select.projection, [SelectItem::Wildcard(_)])
        }
        _ => false,
    }
}

impl Visitor for Mentioned {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if !query.pipe_operators.is_empty() {
            return ControlFlow::Break(());
        }
        let mut parts = vec![query.body.as_ref()];
        while let Some(part) = parts.pop() {
            match part {
                SetExpr::Select(_) | SetExpr::Values(_) | SetExpr::Query(_) => {}
                SetExpr::SetOperation { left, right, .. } => parts.extend([left.as_ref(), right.as_ref()]),
                _ => return ControlFlow::Break(()),
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let is_all = |item: &SelectItem| !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
        match self.exists.checked_sub(1) {
            Some(left) => self.exists = left,
            None if select.projection.iter().any(is_all) => return ControlFlow::Break(()),
            None => {}
        }
        select.from.iter().try_for_each(|table| self.table(table))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            // Columns that get names by their places are all of them.
            TableFactor::Table { alias: Some(alias), .. } if !alias.columns.is_empty() => ControlFlow::Break(()),
            TableFactor::Table { .. } | TableFactor::Derived { .. } => ControlFlow::Continue(()),
            TableFactor::NestedJoin { table_with_joins, .. } => self.table(table_with_joins),
            _ => ControlFlow::Break(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => self.column(name),
            // Which of them is the column, and which a table or a field, nobody knows here.
            Expr::CompoundIdentifier(parts) => parts.iter().for_each(|part| self.column(part)),
            Expr::Exists { subquery, .. } if asks_for_rows(subquery) => self.exists += 1,
            Expr::Wildcard(_) | Expr::QualifiedWildcard(..) => return ControlFlow::Break(()),
            Expr::Function(call) => {
                let FunctionArguments::List(list) = &call.args else { return ControlFlow::Continue(()) };
                let is_counted = call.name.to_string().eq_ignore_ascii_case("count");
                for arg in &list.args {
                    let (FunctionArg::Unnamed(arg)
                    | FunctionArg::Named { arg, .. }
                    | FunctionArg::ExprNamed { arg, .. }) = arg;
                    match arg {
                        FunctionArgExpr::Expr(_) => {}
                        FunctionArgExpr::Wildcard if is_counted => {}
                        _ => return ControlFlow::Break(()),
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::parser::DFParserBuilder;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;

    /// The columns, in their order, or `None`.
    fn found(text: &str) -> Option<Vec<String>> {
        let mut parser = DFParserBuilder::new(text).with_dialect(&DuckDbDialect {}).build().expect("these are tokens");
        let names = mentioned(&parser.parse_statement().expect("it is a statement"))?;
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort();
        Some(names)
    }

    #[test]
    fn columns_are_found_wherever_they_stand() {
        let all = |text: &str| found(text).expect(text).join(" ");
        assert_eq!(
            all("SELECT A, t.b FROM t WHERE c > 1 GROUP BY d HAVING max(e) > 1 ORDER BY f LIMIT 1"),
            "a b c d e f t"
        );
        assert_eq!(all("EXPLAIN SELECT s.x.y FROM t"), "s x y");
        assert_eq!(all("SELECT sum(a) FILTER (WHERE b) OVER (PARTITION BY c ORDER BY d) FROM t"), "a b c d");
        assert_eq!(all("SELECT 1 FROM t JOIN u USING (a, b) LEFT JOIN v ON v.c = t.d"), "a b c d t v");
        assert_eq!(all("SELECT a FROM t UNION ALL SELECT b FROM u WHERE c IN (SELECT d FROM v)"), "a b c d");
        assert_eq!(all("WITH q(x) AS (SELECT a FROM t) SELECT x FROM q"), "a x");
        assert_eq!(all("SELECT DISTINCT ON (a) b FROM t"), "a b");
        assert_eq!(all("SELECT count(*) FROM t"), "");
        assert_eq!(all("SELECT a FROM t WHERE EXISTS (SELECT * FROM u WHERE b = c)"), "a b c");
    }

    #[test]
    fn what_stands_for_columns_without_naming_them_is_seen() {
        for text in [
            "SELECT * FROM t",
            "SELECT t.* FROM t",
            "SELECT a FROM (SELECT * FROM t)",
            "SELECT a FROM t NATURAL JOIN u",
            "SELECT x FROM t AS q(x, y)",
            "SELECT a FROM t WHERE EXISTS (WITH w AS (SELECT * FROM v) SELECT * FROM w)",
            "SELECT a FROM t WHERE EXISTS (SELECT * FROM (SELECT * FROM u) WHERE b)",
            "SELECT a FROM t WHERE EXISTS (SELECT DISTINCT * FROM u)",
            "SELECT a FROM t WHERE (1, 2) IN (SELECT * FROM u)",
            "INSERT INTO t SELECT a FROM u",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
