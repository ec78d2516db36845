//! Which statements are planned, and perhaps run, by the thread that asks for them.
//!
//! To hand a statement to another thread and to be woken when it is done takes as long as planning a short one. But who computes does not
//! see that it is cancelled, and needs a stack. So only short queries over stored tables are planned by their own thread, whose planning
//! takes milliseconds and waits for nobody's files; and it runs only pipelines, which look for themselves whether they are cancelled.

use std::ops::ControlFlow;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{Expr, Query, Statement as Ast, TableFactor, Visitor};
use forebay_grammar::walk::Tree;
use forebay_store::names_equal;
use tokio::runtime::Handle;

use crate::catalog::Planner;
use crate::lookup::find_name;

/// How many expressions and tables a short query has at most. TPC-H's have up to 150.
const MOST_PARTS: usize = 400;

/// The text of a query that was planned before is no longer than this.
const MOST_BYTES: usize = 4096;

/// The stack that planning may need: half of what workers have.
const STACK_BYTES: usize = 4 << 20;

/// Operators of which each poll takes milliseconds, or looks for itself whether its query was cancelled.
const LIGHT: [&str; 6] =
    ["ForebayPipelines", "CooperativeExec", "ProjectionExec", "PlaceholderRowExec", "EmptyExec", "ExplainExec"];

/// Whether this thread may plan: it has the stack for it, and no tasks of its own that would have to wait.
pub(crate) fn can_plan_here() -> bool {
    Handle::try_current().is_err() && stacker::remaining_stack().is_some_and(|left| left >= STACK_BYTES)
}

/// Whether a query that was planned before is run by the thread that asks for it.
pub(crate) fn is_short_text(text: &str) -> bool {
    text.len() <= MOST_BYTES && can_plan_here()
}

/// Whether a query is planned by the thread that asks for it.
pub(crate) fn is_short(planner: &Planner, query: &PlanStatement) -> bool {
    if !can_plan_here() {
        return false;
    }
    let ast = match query {
        PlanStatement::Statement(ast) => ast.as_ref(),
        PlanStatement::Explain(explain) => match explain.statement.as_ref() {
            PlanStatement::Statement(ast) => ast.as_ref(),
            _ => return false,
        },
        _ => return false,
    };
    let mut parts = Parts { planner, left: MOST_PARTS, with: Vec::new() };
    matches!(ast, Ast::Query(_)) && ast.walk(&mut parts).is_continue()
}

/// Whether these operators may be run by the thread that asks for their rows.
pub(crate) fn is_light(plan: &dyn ExecutionPlan) -> bool {
    LIGHT.contains(&plan.name()) && plan.children().into_iter().all(|child| is_light(child.as_ref()))
}

/// Counts the parts of a query, until there are too many, or one that is no stored table.
struct Parts<'a> {
    planner: &'a Planner,
    left: usize,
    /// The names of WITH so far.
    with: Vec<String>,
}

impl Parts<'_> {
    fn part(&mut self) -> ControlFlow<()> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    }
}

impl Visitor for Parts<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let Some(with) = &query.with else { return ControlFlow::Continue(()) };
        // A recursive one may have no end.
        if with.recursive {
            return ControlFlow::Break(());
        }
        self.with.extend(with.cte_tables.iter().map(|table| table.alias.name.value.clone()));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.part()?;
        let is_stored = match factor {
            TableFactor::Table { name, args: None, .. } => {
                let is_with = || match name.0.as_slice() {
                    [part] => {
                        part.as_ident().is_some_and(|name| self.with.iter().any(|with| names_equal(with, &name.value)))
                    }
                    _ => false,
                };
                let found = find_name(self.planner, name);
                found.is_ok_and(|name| self.planner.snapshot().table(&name.schema, &name.name).is_some()) || is_with()
            }
            TableFactor::Derived { .. } | TableFactor::NestedJoin { .. } => true,
            _ => false,
        };
        if is_stored { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.part()
    }
}
