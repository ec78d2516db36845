//! Statements that are prepared once and run with values: PREPARE, EXECUTE and DEALLOCATE, and the same for programs.
//!
//! What is kept is the statement's text and what was found out about it. A run puts values in the places of the parameters, so
//! that its plan is the one that these values have: by the catalog of its own time, by their types and by statistics; and it is
//! kept like that of any other statement. So commits do not invalidate what was prepared, and neither does DDL: a table that is
//! gone is told by the run.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DmlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use forebay_base::{Error, ErrorKind, Result};
use forebay_changes::insert;
use forebay_changes::inserted_query::inserted_table;
use forebay_context::error::from_datafusion;
use forebay_context::lock::lock;
use forebay_engine::types::logical_type;
use forebay_planning::parameters::parameter_types;
use forebay_point::Named;
use forebay_syntax::parameters::{Argument, Template};
use forebay_syntax::parse::{self, Command};
use forebay_syntax::types::shown_column_type;

use crate::answer::{Answer, renamed};
use crate::lookup::{find_name, find_table};
use crate::prepared::{Parameter, Prepared};
use crate::run::Run;
use crate::session::Session;

impl Session {
    /// Prepares a statement.
    pub fn prepare(&self, text: &str) -> Result<Prepared> {
        let template = Template::of(text)?;
        let command = parse::parse(&template.numbered())?;
        self.on_snapshot(|run| run.prepared(template, command))
    }

    /// Runs a statement with values for its parameters, by name or in their order. `texts` gives the same as SQL.
    pub fn execute_prepared(
        &self,
        prepared: &Prepared,
        values: &[Named],
        texts: impl FnOnce() -> Result<Vec<Argument>>,
    ) -> Result<Answer> {
        if let Some(control) = prepared.control.as_ref().filter(|_| values.is_empty()) {
            return self.execute_control(prepared, control);
        }
        match self.by_key(prepared, values)? {
            Some(answer) => Ok(answer),
            None => self.execute_filled(prepared, texts()?),
        }
    }

    /// Runs a statement with values for its parameters, each written as SQL.
    fn execute_filled(&self, prepared: &Prepared, arguments: Vec<Argument>) -> Result<Answer> {
        let values = prepared.template.ordered(arguments)?;
        let answer = self.execute(&prepared.template.filled(&values))?;
        Ok(match &prepared.columns {
            Some(columns) if !prepared.parameters.is_empty() => answer.named_as(columns),
            _ => answer,
        })
    }
}

impl Run<'_> {
    /// PREPARE name AS statement.
    pub(crate) fn prepare(&self, name: &str, statement: &str) -> Result<Answer> {
        let template = Template::of(statement)?;
        let command = parse::parse(&template.numbered())?;
        let is_preparable = match &command {
            Command::Plan(plan) => match plan.as_ref() {
                PlanStatement::Statement(ast) => {
                    matches!(**ast, Ast::Query(_) | Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_))
                }
                _ => false,
            },
            _ => false,
        };
        if !is_preparable {
            return Err(Error::unsupported("PREPARE takes a query, INSERT, UPDATE or DELETE")
                .hint("Other statements have no parameters: run them as they are"));
        }
        let prepared = self.prepared(template, command)?;
        lock(&self.session.prepared).insert(name.to_lowercase(), Arc::new(prepared));
        self.done("PREPARE")
    }

    /// EXECUTE name (values).
    pub(crate) fn execute(&self, name: &str, arguments: Vec<Argument>) -> Result<Answer> {
        let prepared = lock(&self.session.prepared).get(&name.to_lowercase()).cloned();
        let prepared = prepared.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("prepared statement {name} does not exist"))
                .hint("PREPARE name AS … makes one, for this session")
        })?;
        self.session.execute_filled(&prepared, arguments)
    }

    /// DEALLOCATE name; of one that is not there, too, as in DuckDB.
    pub(crate) fn deallocate(&self, name: &str) -> Result<Answer> {
        lock(&self.session.prepared).remove(&name.to_lowercase());
        self.done("DEALLOCATE")
    }

    /// `command`, which is `template` with its parameters by name, with what can be known of it before it runs.
    fn prepared(&self, template: Template, command: Command) -> Result<Prepared> {
        let names = template.names().to_vec();
        let nothing = || Some(Arc::new(Schema::empty()));
        let control = match &command {
            Command::Transaction(control) => Some(control.clone()),
            _ => None,
        };
        let (types, columns) = match command {
            Command::Plan(statement) => match *statement {
                PlanStatement::Statement(ref ast) if is_planned(ast) => self.described(&template, *statement)?,
                PlanStatement::Explain(_) => self.described(&template, *statement)?,
                PlanStatement::Statement(ref ast) if returns_rows(ast) => (HashMap::new(), None),
                _ => (HashMap::new(), nothing()),
            },
            Command::Describe(_)
            | Command::Summarize(_)
            | Command::ShowTables { .. }
            | Command::ShowStatistics(_)
            | Command::ShowSchemas
            | Command::ShowDatabases
            | Command::ShowMemory
            | Command::CheckDatabase
            | Command::BackUp(_)
            | Command::Pragma(_)
            | Command::Execute { .. } => (HashMap::new(), None),
            _ => (HashMap::new(), nothing()),
        };
        let parameter = |name: String| Parameter { data_type: types.get(&name).cloned().flatten(), name };
        let is_numbered = names.iter().enumerate().all(|(at, name)| name.parse() == Ok(at + 1));
        let parameters = names.into_iter().map(parameter).collect();
        Ok(Prepared { template, parameters, columns, is_numbered, control, point: Arc::default() })
    }

    /// Types of the parameters by name, and columns, of a statement that DataFusion plans.
    fn described(&self, template: &Template, statement: PlanStatement) -> Result<Description> {
        let state = self.state();
        let (mut statement, mut ids) = (statement, template.names().to_vec());
        if let Some(name) = inserted_table(&statement) {
            // DataFusion knows numbers alone there.
            statement = parse::parse_plan(&template.indexed())?;
            ids = (1..=ids.len()).map(|index| index.to_string()).collect();
            let name = find_name(&self.planner, &name)?;
            let table = find_table(&self.planner, &name)?;
            insert::taken_conflict(&mut statement, &table)?;
            insert::fill_defaults(&mut statement, &table)?;
        }
        let returns_rows = insert::taken_returning(&mut statement).is_some();
        let plan = self.plan(&state, statement)?;
        let by_id = parameter_types(&plan)?;
        let type_of = |id: &String| by_id.get(&format!("${id}")).cloned();
        let types: HashMap<String, Option<DataType>> =
            template.names().iter().cloned().zip(ids.iter().map(type_of)).collect();
        if matches!(plan, LogicalPlan::Dml(DmlStatement { .. })) {
            return Ok((types, (!returns_rows).then(|| Arc::new(Schema::empty()))));
        }
        // Rules find the types that columns have at last; they know values, not parameters.
        let nulls = template.names().iter().map(|name| null_of(types.get(name).cloned().flatten().as_ref()));
        let analysed = self.plan_text(&state, &template.filled(&nulls.collect::<Vec<_>>()));
        let analysed = analysed.and_then(|filled| analysed_plan(&state, filled));
        let last = analysed.or_else(|_| analysed_plan(&state, plan.clone()))?;
        Ok((types, Some(renamed(last.schema().as_arrow(), plan.schema().as_arrow()))))
    }
}

/// Types of parameters by name, and columns.
type Description = (HashMap<String, Option<DataType>>, Option<SchemaRef>);

/// Whether DataFusion plans a statement for its rows or parameters.
fn is_planned(ast: &Ast) -> bool {
    matches!(ast, Ast::Query(_) | Ast::Insert(_))
}

/// Whether an UPDATE or DELETE has RETURNING.
fn returns_rows(ast: &Ast) -> bool {
    match ast {
        Ast::Update(update) => update.returning.is_some(),
        Ast::Delete(delete) => delete.returning.is_some(),
        _ => false,
    }
}

fn analysed_plan(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let options = state.config_options();
    state.analyzer().execute_and_check(plan, options, |_, _| {}).map_err(from_datafusion)
}

/// NULL of this type, as SQL.
fn null_of(data_type: Option<&DataType>) -> String {
    match data_type.map(|data_type| logical_type(data_type, "a parameter")) {
        Some(Ok(logical)) => format!("CAST(NULL AS {})", shown_column_type(&logical)),
        _ => ScalarValue::Null.to_string(),
    }
}
