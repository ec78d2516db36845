//! RETURNING: what INSERT, UPDATE and DELETE answer of the rows that they concern. The answer is there before the change is
//! committed, so that an expression that fails changes nothing.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::SelectItem;
use forebay_base::{Error, Result};
use forebay_changes::merge_action;
use forebay_changes::of_one_row::other_than_of_one_row;
use forebay_store::{Segment, Table};

use crate::answer::Answer;
use crate::run::Run;

/// A RETURNING clause and its answer so far.
#[derive(Debug)]
pub(crate) struct Returning {
    list: Vec<SelectItem>,
    /// What `merge_action` is of the rows that are added.
    action: Option<&'static str>,
    schema: Option<SchemaRef>,
    rows: Vec<RecordBatch>,
}

impl Returning {
    /// The clause of this list, if there is one.
    ///
    /// # Errors
    /// Aggregates and windows, which are of several rows.
    pub(crate) fn of(run: &Run<'_>, list: Option<&Vec<SelectItem>>) -> Result<Option<Self>> {
        let Some(list) = list else { return Ok(None) };
        for item in list {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                && let Some(call) = other_than_of_one_row(&run.state(), expr)
            {
                return Err(Error::input(format!("{call} is no value of one row, as RETURNING gives them")));
            }
        }
        Ok(Some(Self { list: list.clone(), action: None, schema: None, rows: Vec::new() }))
    }

    /// Has `merge_action` mean this of the rows that are added from now on.
    pub(crate) fn of_merge(&mut self, action: &'static str) {
        self.action = Some(action);
    }

    /// Adds what it says of the rows of `source`, which stands in FROM.
    ///
    /// # Errors
    /// Columns that are not there, and expressions that fail.
    pub(crate) fn add(&mut self, run: &Run<'_>, with: &str, source: &str) -> Result<()> {
        let mut state = run.state();
        // One thread reads rows in their order.
        state.config_mut().options_mut().execution.target_partitions = 1;
        let list =
            self.action.map_or_else(|| self.list.clone(), |action| merge_action::with_action(&self.list, action));
        let list: Vec<String> = list.iter().map(ToString::to_string).collect();
        let plan = run.plan_text(&state, &format!("{with}SELECT {} FROM {source}", list.join(", ")))?;
        let mut answer = run.stream(&state, plan)?;
        while let Some(batch) = answer.next_batch()? {
            self.rows.push(batch);
        }
        self.schema.get_or_insert(answer.schema());
        Ok(())
    }

    /// Adds what it says of the rows of segments of `table`, which the statement calls `alias`.
    ///
    /// # Errors
    /// As [`Returning::add`].
    pub(crate) fn add_segments(
        &mut self,
        run: &Run<'_>,
        table: &Table,
        alias: &str,
        segments: Vec<Arc<Segment>>,
    ) -> Result<()> {
        let part = run.planner.add_part(table.with_rows(segments));
        self.add(run, "", &format!("\"{}\" AS {alias}", part.replace('"', "\"\"")))
    }

    /// All of it.
    pub(crate) fn answer(self, run: &Run<'_>) -> Result<Answer> {
        match self.schema {
            Some(schema) => run.batches(schema, self.rows),
            None => Err(Error::internal("RETURNING was not asked of any rows")),
        }
    }
}
