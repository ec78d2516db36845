//! SELECT … FOR UPDATE: rows that belong to the transaction until it ends, and then are read.

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{Query, Statement as Ast};
use forebay_base::{Error, ErrorKind, Result};
use forebay_changes::locking::Locking;
use forebay_syntax::parse::parse_plan;

use crate::answer::Answer;
use crate::execute::SCANNING;
use crate::lookup::{find_name, find_table};
use crate::run::Run;

impl Run<'_> {
    /// Runs a query that locks the rows that it gives.
    ///
    /// # Errors
    /// Those of UPDATE; `Busy` with NOWAIT where another transaction has them.
    pub(crate) fn locked_rows(&self, query: &Query) -> Result<Answer> {
        let locking = Locking::of(query)?;
        let transaction = self.planner.transaction();
        let table = find_table(&self.planner, &find_name(&self.planner, locking.table())?)?;
        transaction.check_writable()?;
        // A statement of its own ends before anybody else could wait for it.
        if transaction.is_block() {
            let update = parse_plan(&locking.update(&table)?)?;
            let locked = match self.changed_by_key(&update) {
                Ok(None) => self.plan_statement(update).map(drop),
                other => other.map(drop),
            };
            locked.map_err(|error| match error.kind() {
                ErrorKind::Conflict if locking.is_nowait => {
                    Error::new(ErrorKind::Busy, format!("rows of table {} are locked", table.full_name()))
                        .hint("Leave NOWAIT out to wait for the transaction that has them")
                }
                _ => error,
            })?;
        }
        // It sees the rows where they lie now. Its plan is of this run alone.
        let run = self.session.begin_untold(transaction, SCANNING);
        let state = run.state();
        let statement = PlanStatement::Statement(Box::new(Ast::Query(Box::new(locking.query))));
        let plan = run.plan(&state, statement)?;
        run.stream(&state, plan)
    }
}
