//! One statement on its way from its parsed form to an answer.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, Statement as PlanStatementNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{
    AlterTable, CreateTable, ObjectName, ObjectType, Query, SchemaName, SetExpr, Statement as Ast, TableObject,
    Truncate,
};
use forebay_base::{Error, ErrorKind, Result};
use forebay_carve::node::{LeavesRoom, is_breach};
use forebay_changes::inserted_query;
use forebay_changes::locking::Locking;
use forebay_context::error::{from_datafusion, worker_error};
use forebay_context::lock::lock;
use forebay_context::settings::{KeepsPlans, ReadsInOrder};
use forebay_context::statement::StatementContext;
use forebay_grammar::collations;
use forebay_joins::reading_order;
use forebay_names::qualified_name::QualifiedName;
use forebay_names::search_path::is_temporary;
use forebay_planning::short::{is_short, is_short_text};
use forebay_plans::kept::PlanKey;
use forebay_plans::operators;
use forebay_plans::send::{Begun, SentRows, begin};
use forebay_store::{DEFAULT_SCHEMA, TableOptions};
use forebay_syntax::parse::{Command, parse_plan};
use forebay_system::schema::check_free;
use forebay_system::{ALL_TABLES, SCHEMAS, TABLES, answers, tables_of};
use forebay_tables::load::{self, Loaded};
use forebay_tables::nested_columns;
use forebay_types::sums;
use futures::FutureExt;

use crate::answer::{Answer, ResultKind, Source};
use crate::catalog::Planner;
use crate::ddl;
use crate::lookup::{find_name, find_table};
use crate::options;
use crate::session::Session;

/// A statement that DataFusion's parser knows, planned.
enum Planned {
    /// A query, which has begun.
    Rows(Begun),
    /// What has no rows.
    Other(LogicalPlan),
}

/// One statement on its way.
pub(crate) struct Run<'a> {
    pub(crate) session: &'a Session,
    pub(crate) planner: Arc<Planner>,
    pub(crate) statement: Arc<StatementContext>,
    /// What a query's plan is kept for.
    key: PlanKey,
    /// A plan was kept for it that the rows of now do not fit: the next one leaves room for those to come.
    pub(crate) leaves_room: bool,
}

impl<'a> Run<'a> {
    /// A statement of `session` that is planned with `planner`.
    pub(crate) fn new(
        session: &'a Session,
        planner: Arc<Planner>,
        statement: Arc<StatementContext>,
        key: PlanKey,
    ) -> Self {
        Self { session, planner, statement, key, leaves_room: false }
    }

    /// Runs the query that was planned before; `None` if the rows of now are not as its plan assumes.
    pub(crate) fn known(&self, plan: Arc<LogicalPlan>) -> Result<Option<Answer>> {
        let (state, statement) = (self.state(), Arc::clone(&self.statement));
        let is_here = is_short_text(&self.key.text);
        let begun = self.session.wait_at(is_here, async move {
            match forebay_carve::operators(&plan, &state).await {
                Ok(physical) => begin(&state, statement, physical).await.map(Some),
                Err(error) if is_breach(&error) => Ok(None),
                Err(error) => Err(from_datafusion(error)),
            }
        })?;
        begun.map(|begun| self.rows(begun)).transpose()
    }

    /// Runs it.
    pub(crate) fn command(&self, command: Command) -> Result<Answer> {
        let catalog = self.planner.snapshot();
        match command {
            Command::Plan(statement) => match self.changed_by_key(&statement)? {
                Some(answer) => Ok(answer),
                None => self.plan_statement(*statement),
            },
            Command::Copy(copy) => self.copy(*copy),
            Command::Checkpoint => self.checkpoint(),
            Command::Optimize(text) => self.optimize(&text),
            Command::Analyze(text) => self.analyze(&text),
            Command::ClusterBy(text) => self.cluster_by(&text),
            Command::AlterProjection(text) => self.alter_projection(&text),
            Command::AlterOptions(alter) => {
                options::alter(&self.planner, &alter)?;
                self.done("ALTER TABLE")
            }
            Command::CheckDatabase => self.check_database(),
            Command::BackUp(directory) => self.back_up(&directory),
            Command::Describe(text) => self.describe(&text),
            Command::Summarize(text) => self.summarize(&text),
            Command::ShowTables { all: true } => self.answer_of(ALL_TABLES),
            Command::ShowTables { all: false } => self.answer_of(TABLES),
            Command::ShowTablesOf(schema) => match self.planner.path().schemas(catalog, &schema, true).is_empty() {
                true => Err(Error::new(ErrorKind::NotFound, format!("schema {schema} does not exist"))),
                false => self.answer_of(&tables_of(&schema)),
            },
            Command::ShowStatistics(text) => self.show_statistics(&text),
            Command::ShowSchemas => self.answer_of(SCHEMAS),
            Command::AlterField(text) => self.alter_field(&text),
            Command::ShowDatabases => {
                self.batch(answers::databases(&self.planner.engine().store().path_description())?)
            }
            Command::ShowMemory => self.batch(forebay_system::memory::shown(self.planner.engine())?),
            Command::SetVariable { name, value } => self.set_variable(&name, &value),
            Command::ResetVariable(name) => self.reset_variable(&name),
            Command::CreateMacro(text) => self.create_macro(&text),
            Command::CreateType(text) => self.create_type(&text),
            Command::DropMacro(text) => self.drop_macro(&text),
            Command::Merge(text) => self.merge(&text),
            Command::Transaction(control) => self.control(&control),
            Command::Pragma(pragma) => self.pragma(pragma),
            Command::Reset(variable) => self.reset(&variable),
            Command::Use(name) => self.use_schema(name.trim_matches('"')),
            Command::Prepare { name, statement } => self.prepare(&name, &statement),
            Command::Execute { name, arguments } => self.execute(&name, arguments),
            Command::Deallocate(name) => self.deallocate(&name),
        }
    }

    pub(crate) fn plan_statement(&self, mut statement: PlanStatement) -> Result<Answer> {
        self.known_types(&mut statement)?;
        let ast = match &statement {
            PlanStatement::Statement(ast) => ast.as_ref(),
            PlanStatement::CreateExternalTable(_) => {
                return Err(Error::unsupported("CREATE EXTERNAL TABLE is not supported")
                    .hint("Query the file by its name: SELECT * FROM 'file.parquet'"));
            }
            PlanStatement::Explain(explain) => {
                let explained = self.explained(explain.clone())?;
                return self.query(PlanStatement::Explain(explained));
            }
            PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => return self.query(statement),
        };
        match ast {
            Ast::CreateTable(create) => self.create_table(create),
            Ast::CreateView(view) => {
                let mut view = view.clone();
                no_collations(&view.query)?;
                self.answer_in_view(&mut view.query)?;
                self.session.wait(ddl::create_view(&self.state(), &self.planner, &view))?;
                self.tell_plans_apart(view.temporary);
                self.done("CREATE VIEW")
            }
            Ast::CreateSchema { schema_name, if_not_exists, .. } => self.create_schema(schema_name, *if_not_exists),
            Ast::CreateSequence { .. } => self.create_sequence(ast),
            Ast::CreateIndex(index) => self.create_index(index),
            Ast::Drop { object_type, names, if_exists, cascade, .. } => {
                self.drop_objects(object_type, names, *if_exists, *cascade)
            }
            Ast::AlterTable(alter) => self.alter_table(alter),
            Ast::Truncate(truncate) => self.truncate(truncate),
            Ast::Comment { object_type, object_name, comment, .. } => {
                self.comment(object_type, object_name, comment.as_deref())
            }
            Ast::Cache { table_flag: None, table_name, options, query: None, .. } if options.is_empty() => {
                self.pin(table_name, true, false)
            }
            Ast::UNCache { table_name, if_exists } => self.pin(table_name, false, *if_exists),
            Ast::Insert(insert) => {
                let TableObject::TableName(name) = &insert.table else {
                    return Err(Error::unsupported("INSERT into a function is not supported"));
                };
                let name = name.clone();
                self.insert(statement, &name)
            }
            Ast::ShowVariable { variable } => match variable.as_slice() {
                [name] if self.is_relation(name) => self.describe(&name.to_string()),
                _ => self.query(statement),
            },
            Ast::Update(update) => self.update(update, None),
            Ast::Delete(delete) => self.delete(delete, None),
            Ast::Query(query) => match query.body.as_ref() {
                SetExpr::Update(Ast::Update(update)) => self.update(update, query.with.as_ref()),
                SetExpr::Delete(Ast::Delete(delete)) => self.delete(delete, query.with.as_ref()),
                SetExpr::Insert(Ast::Insert(insert)) => {
                    let insert = inserted_query::with_tables(insert, query.with.as_ref());
                    self.plan_statement(PlanStatement::Statement(Box::new(Ast::Insert(insert))))
                }
                SetExpr::Merge(_) => {
                    let text = query.to_string();
                    self.merge(&text)
                }
                _ if Locking::is_of(query) => self.locked_rows(query),
                _ => self.query(statement),
            },
            _ => self.query(statement),
        }
    }

    fn alter_table(&self, alter: &AlterTable) -> Result<Answer> {
        if let Some(answer) = self.retype(alter)? {
            return Ok(answer);
        }
        if let Some(answer) = self.add_key(alter)? {
            return Ok(answer);
        }
        self.check_not_null(alter)?;
        ddl::alter_table(&self.planner, alter)?;
        self.done("ALTER TABLE")
    }

    fn drop_objects(&self, kind: &ObjectType, names: &[ObjectName], if_exists: bool, cascade: bool) -> Result<Answer> {
        match kind {
            ObjectType::Sequence => self.drop_sequences(names, if_exists),
            ObjectType::Index => self.drop_indexes(names, if_exists),
            ObjectType::Type => self.drop_types(names, if_exists),
            other => {
                ddl::drop(&self.planner, other, names, if_exists, cascade)?;
                self.done(&format!("DROP {other}"))
            }
        }
    }

    fn truncate(&self, truncate: &Truncate) -> Result<Answer> {
        let mut rows = 0;
        for target in &truncate.table_names {
            let table = find_table(&self.planner, &find_name(&self.planner, &target.name)?)?;
            self.check_written(&[], &table, &vec![(table.segments.versions(), Vec::new())].into())?;
            rows += ddl::truncate(&self.planner, table.id)?;
        }
        self.changed(rows)
    }

    pub(crate) fn state(&self) -> SessionState {
        self.planner.state()
    }

    pub(crate) fn plan(&self, state: &SessionState, mut statement: PlanStatement) -> Result<LogicalPlan> {
        self.answer_inner(&mut statement)?;
        let (planner, state) = (Arc::clone(&self.planner), state.clone());
        self.session.wait_apart(async move { planner.plan(&state, statement).await })
    }

    pub(crate) fn plan_text(&self, state: &SessionState, text: &str) -> Result<LogicalPlan> {
        self.plan(state, parse_plan(text)?)
    }

    /// The rows of a query of our own.
    pub(crate) fn answer_of(&self, text: &str) -> Result<Answer> {
        let state = self.state();
        self.stream(&state, self.plan_text(&state, text)?)
    }

    fn query(&self, mut query: PlanStatement) -> Result<Answer> {
        let reads_answers = self.answer_inner(&mut query)?;
        let (planner, mut state) = (Arc::clone(&self.planner), self.state());
        if self.leaves_room {
            state.config_mut().set_extension(Arc::new(LeavesRoom));
        }
        let schema = self.planner.transaction().schema_number();
        let is_query = matches!(&query, PlanStatement::Statement(ast) if matches!(**ast, Ast::Query(_)));
        let kept_for = (is_query && !reads_answers && KeepsPlans::of(state.config())).then(|| self.key.clone());
        let plans = Arc::clone(&self.session.shared.plans);
        let statement = Arc::clone(&self.statement);
        let is_here = is_short(&query, &|name| self.planner.is_stored(name));
        // All in one go: each change of threads takes as long as some rules of the optimiser.
        let planned = self.session.wait_at(is_here, async move {
            let plan = planner.plan(&state, query).await?;
            let state = reading_order::state_for(state, &plan).map_err(from_datafusion)?;
            // A plan that is kept runs with the session's threads, and reads any projections.
            let kept_for = kept_for.filter(|_| !ReadsInOrder::of(state.config()));
            let kept_for = kept_for.zip(schema);
            if let LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Statement(_) = plan {
                statement.planned();
                return Ok(Planned::Other(plan));
            }
            let physical = plans.operators(kept_for, &plan, &state).await.map_err(from_datafusion)?;
            statement.planned();
            begin(&state, statement, physical).await.map(Planned::Rows)
        })?;
        match planned {
            Planned::Rows(begun) => self.rows(begun),
            Planned::Other(LogicalPlan::Statement(PlanStatementNode::SetVariable(set))) => {
                self.set(&set.variable, &set.value)
            }
            Planned::Other(plan) => {
                let shown = plan.display().to_string();
                let name = shown.split([':', ' ']).next().unwrap_or(&shown);
                // `CreateIndex` as it is written.
                let words = name
                    .char_indices()
                    .flat_map(|(at, c)| (at > 0 && c.is_uppercase()).then_some(' ').into_iter().chain([c]));
                let name: String = words.flat_map(char::to_uppercase).collect();
                Err(Error::unsupported(format!("{name} is not supported")))
            }
        }
    }

    /// Plans `plan` for execution.
    pub(crate) fn physical(&self, state: &SessionState, plan: Arc<LogicalPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let state = state.clone();
        self.session.wait_apart(async move { operators(&plan, &state).await.map_err(from_datafusion) })
    }

    pub(crate) fn stream(&self, state: &SessionState, plan: LogicalPlan) -> Result<Answer> {
        let (state, statement) = (state.clone(), Arc::clone(&self.statement));
        let begun = self.session.wait_apart(async move {
            let physical = operators(&Arc::new(plan), &state).await.map_err(from_datafusion)?;
            begin(&state, statement, physical).await
        })?;
        self.rows(begun)
    }

    /// The answer that has these rows.
    fn rows(&self, begun: Begun) -> Result<Answer> {
        let rows = match begun {
            Begun::Rows(rows) => rows,
            Begun::Task(task) => {
                self.session.wait(task.join().map(|rows| rows.unwrap_or_else(|e| Err(worker_error(&e)))))?
            }
        };
        let running = Arc::clone(&self.session.running);
        *lock(&running.task) = rows.rest.as_ref().map(SentRows::abort_handle);
        // Who cancelled before found no task to abort; dropped, the rows stop.
        self.statement.cancel.check()?;
        let (schema, is_renamed) = (Arc::clone(&rows.schema), rows.is_renamed);
        let source = Source::Query { rows, runtime: Arc::clone(&self.session.shared.runtime), running };
        let mut answer = self.answer(ResultKind::Rows, schema, source);
        answer.is_renamed = is_renamed;
        Ok(answer)
    }

    fn answer(&self, kind: ResultKind, schema: SchemaRef, source: Source) -> Answer {
        Answer {
            kind,
            schema,
            is_renamed: false,
            statement: Arc::clone(&self.statement),
            rows: 0,
            elapsed: None,
            transaction: None,
            working: None,
            logged: None,
            source,
        }
    }

    pub(crate) fn batch(&self, batch: RecordBatch) -> Result<Answer> {
        let schema = batch.schema();
        Ok(self.answer(ResultKind::Rows, schema, Source::Batches(vec![batch].into_iter())))
    }

    /// These rows.
    pub(crate) fn batches(&self, schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Answer> {
        Ok(self.answer(ResultKind::Rows, schema, Source::Batches(batches.into_iter())))
    }

    fn finished(&self, kind: ResultKind) -> Result<Answer> {
        let schema = SchemaRef::new(Schema::empty());
        let mut answer = self.answer(kind, schema, Source::Batches(Vec::new().into_iter()));
        answer.elapsed = Some(self.statement.started.elapsed());
        Ok(answer)
    }

    pub(crate) fn done(&self, what: &str) -> Result<Answer> {
        self.finished(ResultKind::Done(what.to_owned()))
    }

    pub(crate) fn changed(&self, rows: u64) -> Result<Answer> {
        let mut answer = self.finished(ResultKind::Changed(rows))?;
        answer.rows = rows;
        Ok(answer)
    }

    fn create_schema(&self, name: &SchemaName, if_not_exists: bool) -> Result<Answer> {
        let SchemaName::Simple(name) = name else {
            return Err(Error::unsupported("schemas have no owners"));
        };
        let name = QualifiedName::of(name, DEFAULT_SCHEMA)?.name;
        if is_temporary(&name) {
            return Err(Error::input(format!("schema {name} would be one of temporary tables"))
                .hint("Choose a name that does not begin with pg_temp_"));
        }
        self.planner.transaction().change(|transaction| {
            if if_not_exists && transaction.catalog().has_schema(&name) {
                return Ok(());
            }
            check_free(&name, &name)?;
            transaction.create_schema(&name)
        })?;
        self.done("CREATE SCHEMA")
    }

    fn create_table(&self, create: &CreateTable) -> Result<Answer> {
        if create.external || create.like.is_some() || create.clone.is_some() {
            return Err(Error::unsupported("external tables, LIKE and CLONE are not supported"));
        }
        let catalog = self.planner.snapshot();
        let name = self.planner.path().name_new(catalog, &create.name, create.temporary)?;
        let is_temporary = is_temporary(&name.schema);
        let exists = catalog.table(&name.schema, &name.name).is_some();
        if exists && create.if_not_exists {
            return self.done("CREATE TABLE");
        }
        if !is_temporary && !catalog.has_schema(&name.schema) {
            return Err(Error::new(ErrorKind::NotFound, format!("schema {} does not exist", name.schema)));
        }
        if (exists && !create.or_replace) || catalog.view(&name.schema, &name.name).is_some() {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("table {} exists already", name.name))
                .hint("DROP it first, or use CREATE OR REPLACE TABLE or CREATE TABLE IF NOT EXISTS"));
        }
        let (transaction, mut options) = (self.planner.transaction(), options::of_statement(create)?);
        let Some(query) = &create.query else {
            let definition = ddl::table_definition(&self.planner, create, name)?;
            transaction
                .change(|changes| ddl::create_table(changes, definition, &options, Vec::new(), create.or_replace))?;
            self.tell_plans_apart(is_temporary);
            return self.done("CREATE TABLE");
        };
        no_collations(query)?;
        transaction.check_writable()?;
        let state = self.state();
        let query = PlanStatement::Statement(Box::new(Ast::Query(query.clone())));
        let plan =
            forebay_types::applied(self.plan(&state, query)?).and_then(sums::widened).map_err(from_datafusion)?;
        let state = reading_order::state_for(state, &plan).map_err(from_datafusion)?;
        let told = Arc::clone(plan.schema().inner());
        let physical = self.physical(&state, Arc::new(plan))?;
        let definition = ddl::definition_of_query(name, &physical.schema(), create)?;
        nested_columns::add_types(&mut options, &physical.schema(), &told);
        let columns = ddl::stored_columns(&definition);
        let Loaded { segments, rows, .. } = self.load(&state, physical, &columns, &options)?;
        transaction.change(|changes| ddl::create_table(changes, definition, &options, segments, create.or_replace))?;
        self.tell_plans_apart(is_temporary);
        self.changed(rows)
    }

    /// Keeps the plans of a session that has made something temporary from those of other sessions.
    pub(crate) fn tell_plans_apart(&self, has_temporary: bool) {
        if has_temporary {
            self.session.set(|_| ());
        }
    }

    pub(crate) fn load(
        &self,
        state: &SessionState,
        physical: Arc<dyn ExecutionPlan>,
        columns: &[forebay_store::Column],
        options: &TableOptions,
    ) -> Result<Loaded> {
        if let Ok(statistics) = StatisticsContext::new().compute(physical.as_ref(), &StatisticsArgs::new())
            && let Some(rows) = statistics.num_rows.get_value()
        {
            self.statement.expect(*rows as u64);
        }
        let engine = self.planner.engine();
        let running = self.session.shared.runtime.load();
        self.session.wait(load::load(
            engine,
            physical,
            self.statement.task_context(state),
            (columns, options),
            &self.statement,
            &running,
        ))
    }
}

/// Columns of tables and views have no collations.
fn no_collations(query: &Query) -> Result<()> {
    match collations::is_shown(query) {
        true => Err(collations::unknown()),
        false => Ok(()),
    }
}
