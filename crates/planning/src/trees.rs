//! From a syntax tree to DataFusion's plan, with the functions that all statements share
//! ([`forebay_context::functions`]) and those of the session's own.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::catalog::{TableFunctionArgs, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, ResolvedTableReference, Result, TableReference, plan_datafusion_err};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast::ExprWithAlias;
use forebay_context::functions::Functions;

use crate::mentioned::mentioned;
use crate::named_casts::tell_apart;

/// Gives a table with the columns that a query names, of the names in lower case, or as it is.
pub type Narrow = dyn Fn(Arc<dyn TableProvider>, &HashSet<String>) -> Arc<dyn TableProvider> + Send + Sync;

/// The plan of a statement, whose tables have the columns that it names.
///
/// # Errors
/// Names that are not known, and what else DataFusion's planner does not take.
pub async fn plan(state: &SessionState, mut statement: PlanStatement, narrow: &Narrow) -> Result<LogicalPlan> {
    tell_apart(&mut statement);
    let mut context = Context::new(state);
    let (named, mut wide) = (mentioned(&statement), HashMap::new());
    for reference in state.resolve_table_references(&statement)? {
        let resolved = context.resolved(reference);
        // What is not found is said where it is asked for.
        if let Entry::Vacant(place) = context.tables.entry(resolved)
            && let Ok(schema) = state.schema_for_ref(place.key().clone())
            && let Some(table) = schema.table(&place.key().table).await?
        {
            if let Some(named) = &named {
                let narrower = narrow(Arc::clone(&table), named);
                if !Arc::ptr_eq(&narrower, &table) {
                    wide.insert(place.key().clone(), provider_as_source(table));
                }
                place.insert(provider_as_source(narrower));
            } else {
                place.insert(provider_as_source(table));
            }
        }
    }
    let again = (!wide.is_empty()).then(|| statement.clone());
    let planned = SqlToRel::new_with_options(&context, options(state)).statement_to_plan(statement);
    match again {
        // What is wrong is said of the whole tables: which columns they have, for one.
        Some(statement) if planned.is_err() => {
            context.tables.extend(wide);
            SqlToRel::new_with_options(&context, options(state)).statement_to_plan(statement)
        }
        _ => planned,
    }
}

/// The expression over the columns of `schema` that a syntax tree is.
///
/// # Errors
/// As those of [`plan`].
pub fn expression(state: &SessionState, tree: ExprWithAlias, schema: &DFSchema) -> Result<Expr> {
    let context = Context::new(state);
    let planner = SqlToRel::new_with_options(&context, options(state));
    planner.sql_to_expr_with_alias(tree, schema, &mut PlannerContext::new())
}

/// What the session's settings say of reading statements.
fn options(state: &SessionState) -> ParserOptions {
    let said = &state.config_options().sql_parser;
    ParserOptions {
        parse_float_as_decimal: said.parse_float_as_decimal,
        enable_ident_normalization: said.enable_ident_normalization,
        enable_options_value_normalization: said.enable_options_value_normalization,
        support_varchar_with_length: said.support_varchar_with_length,
        map_string_types_to_utf8view: said.map_string_types_to_utf8view,
        collect_spans: said.collect_spans,
        default_null_ordering: said.default_null_ordering.as_str().into(),
    }
}

/// What names in a statement stand for.
struct Context<'a> {
    state: &'a SessionState,
    functions: Arc<Functions>,
    tables: HashMap<ResolvedTableReference, Arc<dyn TableSource>>,
}

impl<'a> Context<'a> {
    fn new(state: &'a SessionState) -> Self {
        Self { state, functions: Functions::of(state.config()), tables: HashMap::new() }
    }

    fn resolved(&self, name: TableReference) -> ResolvedTableReference {
        let catalog = &self.state.config_options().catalog;
        name.resolve(&catalog.default_catalog, &catalog.default_schema)
    }
}

impl ContextProvider for Context<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let name = self.resolved(name);
        self.tables.get(&name).cloned().ok_or_else(|| plan_datafusion_err!("table '{name}' not found"))
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let function = self.state.table_functions().get(name);
        let function = function.ok_or_else(|| plan_datafusion_err!("table function '{name}' not found"))?;
        let context = SimplifyContext::builder()
            .with_config_options(Arc::clone(self.state.config_options()))
            .with_query_execution_start_time(self.state.execution_props().query_execution_start_time)
            .build();
        let (simplifier, schema) = (ExprSimplifier::new(context), DFSchema::empty());
        let simplified = args.into_iter().map(|arg| simplifier.simplify(simplifier.coerce(arg, &schema)?));
        let args = simplified.collect::<Result<Vec<_>>>()?;
        let table = function.create_table_provider_with_args(TableFunctionArgs::new(&args, self.state))?;
        Ok(provider_as_source(table))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        self.functions.types().cloned()
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state.scalar_functions().get(name).or_else(|| self.functions.scalar(name)).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.functions.of_lambda(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.functions.aggregate(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.functions.window(name).cloned()
    }

    /// None: there are no variables of DataFusion's.
    fn get_variable_type(&self, _variable_names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        let own = self.state.scalar_functions().keys().map(String::as_str);
        own.chain(self.functions.scalar_names()).map(str::to_owned).collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.functions.names_of_lambdas().map(str::to_owned).collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.functions.aggregate_names().map(str::to_owned).collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.functions.window_names().map(str::to_owned).collect()
    }
}
