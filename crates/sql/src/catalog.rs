//! Snapshots of the store's catalog as DataFusion's catalogs, and everything one statement is planned with.

mod databases;

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::DFSchema;
use datafusion::datasource::{MemTable, ViewTable};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart, Statement as Ast};
use forebay_aggregates::{written_calls, written_frames};
use forebay_base::{ColumnId, Error, Result, TableId};
use forebay_changes::inserted_query::{Inserted, inserted_table};
use forebay_changes::{checks, stored_expression};
use forebay_context::error::{from_datafusion, with_nearest_function};
use forebay_context::functions::Functions;
use forebay_context::lock::lock;
use forebay_context::settings::FirstRows;
use forebay_context::statement::StatementContext;
use forebay_context::told_settings::{Setting, setting, told};
use forebay_engine::Engine;
use forebay_files::files;
use forebay_forms::file_options::Options;
use forebay_forms::names_apart::are_apart;
use forebay_grammar::walk::visit_relations;
use forebay_grammar::{arrows, function_columns, row_ids};
use forebay_macros::{current_settings, table_calls};
use forebay_names::named::table_of;
use forebay_names::search_path::{SearchPath, is_temporary};
use forebay_planning::trees;
use forebay_store::{Catalog, Table, TableSnapshot, View};
use forebay_subqueries::shared_rows::materialized::written_out;
use forebay_subqueries::{bare_subqueries, first_rows};
use forebay_syntax::dialect::ForebayDialect;
use forebay_syntax::{names, parse};
use forebay_tables::table::ForebayTable;
use forebay_tables::{narrow, nested_columns};
use forebay_transactions::OpenTransaction;
use forebay_types::collated;

use self::databases::Databases;
use crate::called_macros;
use crate::named_types;

/// Views within views.
const VIEW_DEPTH: usize = 32;

/// What one statement is planned with: a snapshot of the catalog and the session's settings.
pub struct Planner {
    base: Arc<SessionState>,
    engine: Arc<Engine>,
    transaction: Arc<OpenTransaction>,
    snapshot: Arc<Catalog>,
    statement: Arc<StatementContext>,
    path: SearchPath,
    /// Those that were asked for.
    tables: Mutex<HashMap<TableId, Arc<ForebayTable>>>,
    /// Tables are asked for with their DEFAULT clauses.
    fills_defaults: AtomicBool,
    /// By schema and name.
    views: Mutex<HashMap<(String, String), PlannedView>>,
    files: Mutex<HashMap<String, Arc<dyn TableProvider>>>,
    /// Answers of statements that the statement reads, by names that no table has.
    answers: Mutex<HashMap<String, Arc<dyn TableProvider>>>,
    /// Tables of which the statement has some rows only, by names that no table has.
    parts: Mutex<HashMap<String, Arc<TableSnapshot>>>,
}

/// A view that a statement has come upon. Each is planned once: views upon views would be planned over and over.
#[derive(Clone)]
enum PlannedView {
    /// Being planned further up: it must not be met again.
    Begun,
    Done(Result<Arc<dyn TableProvider>>),
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner").field("commit", &self.snapshot.commit_number()).finish_non_exhaustive()
    }
}

impl Planner {
    /// A planner over what a transaction sees. `base` holds the settings and functions.
    pub fn new(
        base: Arc<SessionState>,
        engine: Arc<Engine>,
        statement: Arc<StatementContext>,
        transaction: Arc<OpenTransaction>,
        path: SearchPath,
    ) -> Arc<Self> {
        let snapshot = transaction.catalog();
        let (tables, views, files) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (answers, parts, fills_defaults) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        Arc::new(Self {
            base,
            engine,
            transaction,
            snapshot,
            statement,
            path,
            tables,
            fills_defaults,
            views,
            files,
            answers,
            parts,
        })
    }

    /// The catalog of this statement.
    pub fn snapshot(&self) -> &Arc<Catalog> {
        &self.snapshot
    }

    /// The transaction that the statement belongs to.
    pub fn transaction(&self) -> &Arc<OpenTransaction> {
        &self.transaction
    }

    /// Where the session looks for tables.
    pub fn path(&self) -> &SearchPath {
        &self.path
    }

    /// The engine that runs this statement.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The functions that the statement may call.
    pub fn functions(&self) -> Arc<Functions> {
        Functions::of(self.base.config())
    }

    /// The statement.
    pub fn statement(&self) -> &Arc<StatementContext> {
        &self.statement
    }

    /// A DataFusion session that sees this snapshot.
    pub fn state(self: &Arc<Self>) -> SessionState {
        self.state_seeing(true)
    }

    /// The same, which sees the session's temporary tables or does not.
    fn state_seeing(self: &Arc<Self>, sees_temporary: bool) -> SessionState {
        let mut state = SessionState::clone(&self.base);
        state.mark_start_execution();
        // The time that current_date and now() tell.
        state.execution_props_mut().query_execution_start_time = Some(self.transaction.started().into());
        state.config_mut().set_extension(Arc::clone(&self.statement));
        // Where scans find their rows.
        state.config_mut().set_extension(Arc::clone(&self.snapshot));
        state.register_catalog_list(Arc::new(Databases { planner: Arc::clone(self), sees_temporary }));
        state
    }

    /// `table`, which is of this snapshot, as DataFusion sees it.
    pub fn provider(self: &Arc<Self>, table: &Table) -> Result<Arc<ForebayTable>> {
        let known = lock(&self.tables).get(&table.id).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let mut defaults = HashMap::new();
        let filled = if self.fills_defaults.load(Ordering::Relaxed) { table.columns.as_slice() } else { &[] };
        for column in filled {
            if let Some(text) = &column.default {
                let expr = self.default_expr(text)?;
                defaults.insert(column.name.clone(), expr);
            }
        }
        let provider = Arc::new(ForebayTable::new(Arc::clone(&self.engine), table, defaults));
        lock(&self.tables).insert(table.id, Arc::clone(&provider));
        Ok(provider)
    }

    /// Has queries find `part`, a table of this snapshot with some of its segments. Returns its name.
    pub fn add_part(&self, part: Table) -> String {
        let mut parts = lock(&self.parts);
        let name = format!(" {} of {}", parts.len(), part.name);
        parts.insert(name.clone(), Arc::new(part.into()));
        name
    }

    /// Has queries find these rows. Returns the name of the table that they are.
    pub fn add_answer(&self, schema: SchemaRef, rows: Vec<RecordBatch>) -> Result<String> {
        let table = MemTable::try_new(schema, vec![rows]).map_err(from_datafusion)?;
        let mut answers = lock(&self.answers);
        let name = format!(" answer {}", answers.len());
        answers.insert(name.clone(), Arc::new(table));
        Ok(name)
    }

    /// The settings of the session.
    fn settings(&self) -> Vec<Setting> {
        let mut more = forebay_settings::told(&self.base);
        more.push(setting("schema", self.path.schema.clone(), "VARCHAR", "The schema of names without one"));
        more.push(setting("search_path", self.path.told(), "VARCHAR", "The schemas in which names are looked for"));
        told(self.base.config(), &self.engine, more)
    }

    /// A part of a table, as [`Planner::add_part`] named it.
    fn part(&self, name: &str) -> Option<Arc<TableSnapshot>> {
        lock(&self.parts).get(name).cloned()
    }

    /// The expression of a DEFAULT clause, which may not name columns.
    pub fn default_expr(self: &Arc<Self>, text: &str) -> Result<Expr> {
        stored_expression::planned(&self.base, text, &DFSchema::empty())
    }

    /// Whether a name is that of a table of the database.
    pub(crate) fn is_stored(&self, name: &ObjectName) -> bool {
        let found = self.path.find(&self.snapshot, name);
        found.is_ok_and(|name| self.snapshot.table(&name.schema, &name.name).is_some())
    }

    /// Has tables know the expressions of their DEFAULT clauses if the statement is an INSERT: nobody else asks for them.
    fn fill_defaults(&self, statement: &PlanStatement) {
        let is_insert = matches!(statement, PlanStatement::Statement(ast) if matches!(**ast, Ast::Insert(_)));
        if is_insert && !self.fills_defaults.swap(true, Ordering::Relaxed) {
            lock(&self.tables).clear();
        }
    }

    /// Plans a query or INSERT, with names of columns in any case.
    pub async fn plan(self: &Arc<Self>, state: &SessionState, mut statement: PlanStatement) -> Result<LogicalPlan> {
        self.fill_defaults(&statement);
        called_macros::expand(&self.snapshot, &self.path, &mut statement)?;
        if let PlanStatement::Statement(ast) = &mut statement {
            arrows::known(ast.as_mut());
            bare_subqueries::take_out(ast.as_mut());
            if FirstRows::of(state.config()) {
                first_rows::write_out(ast.as_mut());
            }
            table_calls::write_out(ast.as_mut(), &ForebayDialect)?;
            function_columns::write_out(ast.as_mut());
            let columns = self.collated(ast);
            if !columns.is_empty() {
                collated::write_out(ast.as_mut(), &columns);
            }
            row_ids::write_out(ast.as_mut(), &|name| self.numbers_rows(name), &ForebayDialect);
        }
        current_settings::replace(&|| self.settings(), &mut statement)?;
        named_types::replace_in_query(&self.snapshot, &self.path, &mut statement)?;
        self.path.tell_apart(&self.snapshot, &mut statement);
        names::resolve(state, &mut statement).await?;
        let null_order = state.config_options().sql_parser.default_null_ordering.clone();
        let nulls_first = |ascends: bool| forebay_settings::are_nulls_first(&null_order, ascends);
        written_calls::write_out(&mut statement).map_err(from_datafusion)?;
        written_frames::write_out(&mut statement, &nulls_first).map_err(from_datafusion)?;
        let target = inserted_table(&statement);
        let inserted = Inserted::taken_from(&mut statement);
        if let Some(inserted) = &inserted {
            statement = PlanStatement::Statement(Box::new(Ast::Query(inserted.query.clone())));
        }
        let plan = trees::plan(state, statement, &narrow::narrowed).await.map_err(|error| {
            let own = state.scalar_functions().keys().map(String::as_str);
            with_nearest_function(from_datafusion(error), own.chain(self.functions().names()))
        })?;
        let Some(target) = target else { return Ok(plan) };
        let part = target.0.last().and_then(ObjectNamePart::as_ident).and_then(|name| self.part(&name.value));
        let (table, provider) = match part {
            Some(part) => {
                let provider = ForebayTable::of_part(Arc::clone(&self.engine), Arc::clone(&part));
                (part, Arc::new(provider))
            }
            None => {
                let table = table_of(&self.snapshot, &self.path.find(&self.snapshot, &target)?)?;
                let provider = self.provider(&table)?;
                (table, provider)
            }
        };
        let plan = match inserted {
            None => plan,
            Some(inserted) => {
                let provider = nested_columns::provider(provider, &table, &self.base);
                let provider = provider.map_err(from_datafusion)?;
                inserted.plan(&table, provider, plan)?
            }
        };
        match plan {
            LogicalPlan::Dml(mut changed) => {
                let input = checks::checked(state, &table, LogicalPlan::clone(&changed.input))?;
                changed.input = Arc::new(input);
                Ok(LogicalPlan::Dml(changed))
            }
            other => Ok(other),
        }
    }

    /// The columns with a collation of tables that a statement may name, in lower case.
    fn collated(&self, statement: &Ast) -> HashMap<String, String> {
        let options = |table: &Arc<TableSnapshot>| {
            let of = |(id, name, text): (Option<ColumnId>, &str, &str)| {
                let column = table.columns.iter().find(|column| name == collated::OPTION && Some(column.id) == id)?;
                Some((column.name.to_lowercase(), text.to_owned()))
            };
            table.options.iter().filter_map(of).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.snapshot.tables().map(|table| (table.name.to_lowercase(), options(table))).collect();
        all.retain(|(_, columns)| !columns.is_empty());
        let mut named = HashMap::new();
        if !all.is_empty() {
            let _: ControlFlow<()> = visit_relations(statement, |name| {
                let last = name.0.last().and_then(ObjectNamePart::as_ident).map(|last| last.value.to_lowercase());
                // Statements that change rows read parts of a table.
                let is_it = |table: &String| {
                    let of_part = format!(" of {table}");
                    last.as_ref().is_some_and(|last| last == table || last.ends_with(&of_part))
                };
                let found = all.iter().filter(|(table, _)| is_it(table));
                named.extend(found.flat_map(|(_, columns)| columns.clone()));
                ControlFlow::Continue(())
            });
        }
        named
    }

    /// Whether this is a table whose rows have places: no view, and without a column of that name.
    fn numbers_rows(&self, name: &ObjectName) -> bool {
        let table = self.path.find(&self.snapshot, name).and_then(|found| table_of(&self.snapshot, &found));
        table.is_ok_and(|table| table.column(row_ids::ROW_ID).is_none())
    }

    /// As [`Planner::plan`], from text.
    pub async fn plan_text(self: &Arc<Self>, state: &SessionState, text: &str) -> Result<LogicalPlan> {
        self.plan(state, parse::parse_plan(text)?).await
    }

    /// The file or files of a query, opened once per statement.
    async fn file(self: &Arc<Self>, path: &str) -> Result<Arc<dyn TableProvider>> {
        let known = lock(&self.files).get(path).cloned();
        if let Some(opened) = known {
            return Ok(opened);
        }
        let opened = files::open(&self.state(), path, &Options::default()).await?;
        lock(&self.files).insert(path.to_owned(), Arc::clone(&opened));
        Ok(opened)
    }

    async fn view(self: &Arc<Self>, view: &View) -> Result<Arc<dyn TableProvider>> {
        let key = (view.schema.clone(), view.name.clone());
        if let Some(known) = self.begin_view(&key) {
            return known;
        }
        // Other sessions must see the same rows.
        let state = self.state_seeing(is_temporary(&view.schema));
        let planned = Box::pin(self.plan_text(&state, &view.sql)).await;
        let provider = planned
            .and_then(|plan| written_out(plan, |_| true).map_err(from_datafusion))
            .and_then(apart)
            .map(|plan| Arc::new(ViewTable::new(plan, Some(view.sql.clone()))) as Arc<dyn TableProvider>)
            .map_err(|error| error.context(format!("view {}", view.name)));
        lock(&self.views).insert(key, PlannedView::Done(provider.clone()));
        provider
    }

    /// What is known of a view; if nothing is, planning it has begun.
    fn begin_view(&self, key: &(String, String)) -> Option<Result<Arc<dyn TableProvider>>> {
        let mut views = lock(&self.views);
        let name = &key.1;
        let wrong = match views.get(key) {
            Some(PlannedView::Done(provider)) => return Some(provider.clone()),
            Some(PlannedView::Begun) => format!("view {name} refers to itself"),
            None => {
                let begun = views.values().filter(|view| matches!(view, PlannedView::Begun)).count();
                if begun < VIEW_DEPTH {
                    views.insert(key.clone(), PlannedView::Begun);
                    return None;
                }
                format!("view {name} is more than {VIEW_DEPTH} views deep")
            }
        };
        Some(Err(Error::input(wrong).hint("Create it anew with CREATE OR REPLACE VIEW")))
    }
}

/// The rows of a query whose columns have names of their own: the second `k` is `k_1`, as in a table that is made of them.
fn apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    let names: Vec<&str> = plan.schema().fields().iter().map(|field| field.name().as_str()).collect();
    let Some(names) = are_apart(&names) else { return Ok(plan) };
    let columns: Vec<Expr> = plan.schema().iter().map(|field| Expr::Column(field.into())).collect();
    let columns = columns.into_iter().zip(names).map(|(column, name)| column.alias(name));
    LogicalPlanBuilder::from(plan).project(columns).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}
