//! What tables and queries have for columns and values, and whether the database is whole.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::Ident;
use forebay_base::{Error, Result};
use forebay_context::error::from_datafusion;
use forebay_names::qualified_name::ident;
use forebay_syntax::tokens::parse_name;
use forebay_system::{answers, summary};
use forebay_types::sums;

use crate::answer::Answer;
use crate::lookup::{find_name, find_table};
use crate::run::Run;

/// Words that begin queries.
const BEGINNINGS: [&str; 8] = ["SELECT", "FROM", "WITH", "VALUES", "PIVOT", "PIVOT_WIDER", "UNPIVOT", "PIVOT_LONGER"];

impl Run<'_> {
    /// CHECK DATABASE.
    pub(crate) fn check_database(&self) -> Result<Answer> {
        let statement = Arc::clone(&self.statement);
        let mut reported = 0;
        let report = self.planner.engine().store().check(&mut |done, total| {
            statement.expect(total);
            statement.advance(done - reported);
            reported = done;
            statement.cancel.check()
        })?;
        match report.errors.first() {
            None => self.batch(answers::check_report(&report)?),
            Some(only) if report.error_count == 1 => Err(only.clone()),
            Some(first) => Err(first.clone().context(format!("the first of {} errors", report.error_count))),
        }
    }

    /// DESCRIBE of a table or query.
    pub(crate) fn describe(&self, text: &str) -> Result<Answer> {
        let name = text.trim().trim_end_matches(';');
        if let Ok(parsed) = parse_name(name) {
            let name = find_name(&self.planner, &parsed)?;
            if let Some(table) = self.planner.snapshot().table(&name.schema, &name.name) {
                return self.batch(answers::describe_table(table)?);
            }
        }
        let (plan, _) = self.plan_source(name)?;
        let plan = forebay_types::applied(plan).map_err(from_datafusion)?;
        let sums: Vec<_> = (0..plan.schema().fields().len()).map(|column| sums::shown(&plan, column)).collect();
        self.batch(answers::describe_schema(plan.schema().as_arrow(), &sums)?)
    }

    /// Whether a table or view of the session's schema is called so.
    pub(crate) fn is_relation(&self, name: &Ident) -> bool {
        let (snapshot, path, name) = (self.planner.snapshot(), self.planner.path(), ident(name));
        path.hides(snapshot, &name)
            || snapshot.table(&path.schema, &name).is_some()
            || snapshot.view(&path.schema, &name).is_some()
    }

    /// SHOW STATS of a table.
    pub(crate) fn show_statistics(&self, text: &str) -> Result<Answer> {
        let name = find_name(&self.planner, &parse_name(text.trim().trim_end_matches(';'))?)?;
        self.batch(answers::statistics(&*find_table(&self.planner, &name)?)?)
    }

    /// The plan of all rows of a table or query, and what it is in a FROM clause.
    pub(crate) fn plan_source(&self, text: &str) -> Result<(LogicalPlan, String)> {
        let first = text.split_whitespace().next().unwrap_or("").to_ascii_uppercase();
        let is_query = first.starts_with('(') || BEGINNINGS.contains(&first.as_str());
        let source = if is_query { format!("({text})") } else { text.to_owned() };
        let state = self.state();
        let query = format!("SELECT * FROM {source}");
        let plan = self.plan_text(&state, &query)?;
        Ok((plan, source))
    }

    /// SUMMARIZE of a table or query.
    pub(crate) fn summarize(&self, text: &str) -> Result<Answer> {
        let (plan, source) = self.plan_source(text)?;
        let schema = plan.schema().as_arrow().clone();
        let state = self.state();
        let query = summary::query(&source, &schema);
        let plan = self.plan_text(&state, &query)?;
        let mut answer = self.stream(&state, plan)?;
        let mut row = Vec::new();
        while let Some(batch) = answer.next_batch()? {
            for column in batch.columns() {
                let texts = datafusion::arrow::compute::cast(column, &DataType::Utf8)
                    .map_err(|error| Error::internal(error.to_string()))?;
                row.push(texts.as_string::<i32>().iter().next().flatten().map(str::to_owned));
            }
        }
        self.batch(summary::answer(&schema, &row)?)
    }
}
