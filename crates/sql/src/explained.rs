//! EXPLAIN of statements that change a table: the query whose rows they write.

use datafusion::sql::parser::{ExplainStatement, Statement as PlanStatement};
use datafusion::sql::sqlparser::ast::{SetExpr, Statement as Ast, With};
use forebay_base::{Error, Result};

use crate::run::Run;
use forebay_changes::inserted_query::with_tables;

impl Run<'_> {
    /// `explain`, of a query where it was of a statement that changes a table.
    ///
    /// # Errors
    /// EXPLAIN ANALYZE of such a statement, which would have to change it.
    pub(crate) fn explained(&self, mut explain: ExplainStatement) -> Result<ExplainStatement> {
        let PlanStatement::Statement(ast) = explain.statement.as_ref() else { return Ok(explain) };
        let query = match ast.as_ref() {
            Ast::Query(query) => match query.body.as_ref() {
                SetExpr::Update(changes) | SetExpr::Delete(changes) | SetExpr::Insert(changes) => {
                    self.query_of(changes, query.with.as_ref())?
                }
                _ => None,
            },
            other => self.query_of(other, None)?,
        };
        let Some(query) = query else { return Ok(explain) };
        if explain.options.analyze {
            return Err(Error::unsupported("EXPLAIN ANALYZE runs queries only")
                .hint("EXPLAIN shows what the statement would do"));
        }
        explain.statement = Box::new(query);
        Ok(explain)
    }

    /// The query whose rows a statement writes; `None` of one that writes none.
    fn query_of(&self, ast: &Ast, with: Option<&With>) -> Result<Option<PlanStatement>> {
        match ast {
            Ast::Insert(insert) => {
                let source = with_tables(insert, with).source;
                Ok(source.map(|source| PlanStatement::Statement(Box::new(Ast::Query(source)))))
            }
            Ast::Update(update) => self.query_of_update(update, with).map(Some),
            Ast::Delete(delete) => self.query_of_delete(delete, with).map(Some),
            Ast::CreateTable(create) => {
                let query = create.query.clone();
                Ok(query.map(|query| PlanStatement::Statement(Box::new(Ast::Query(query)))))
            }
            _ => Ok(None),
        }
    }
}
