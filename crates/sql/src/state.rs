//! What a session starts with: DataFusion's state with our rules, functions and planner.

use std::sync::Arc;

use datafusion::config::{Dialect, SqlParserOptions};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::prelude::SessionConfig;
use forebay_aggregates::framed::FramePlanner;
use forebay_aggregates::{averages, collected, framed, moments, neighbours, sliding};
use forebay_carve::CarvingPlanner;
use forebay_context::functions::Functions;
use forebay_files::{read_functions, told_files};
use forebay_functions::extrema;
use forebay_rules::arithmetic::bits;
use forebay_rules::arithmetic::division::Division;
use forebay_rules::derived_tables::DerivedTables;
use forebay_rules::operators::Operators;
use forebay_rules::{list, text_functions, texts_beside, volatile};
use forebay_store::DEFAULT_SCHEMA;
use forebay_subqueries::{rounds, row_values};
use forebay_types::operands::Operands;
use forebay_types::planned::Types;
use forebay_types::zoned_functions::ZonedTimes;

use forebay_system::CATALOG;

/// Build sides up to this size are built once and shared, rather than both sides being repartitioned.
const SHARED_BUILD_BYTES: usize = 256 << 20;

/// Rows of a shared build side.
const SHARED_BUILD_ROWS: usize = 4 << 20;

/// Keys up to which a join tells the scan of its probe side every one of them, so that they are tested on codes.
const PUSHED_KEYS: usize = 1 << 17;

/// The functions of `state`, and those of our own, `nested` ones among them; the later of two of one name holds.
fn scalar_functions(state: &SessionState, nested: Vec<Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    let mut scalars: Vec<_> = state.scalar_functions().values().cloned().collect();
    scalars.push(Arc::new(volatile::volatile_call()));
    scalars.push(Arc::new(row_values::row_values()));
    scalars.extend(rounds::functions().map(Arc::new));
    scalars.extend(forebay_joins::conditions::functions().map(Arc::new));
    scalars.extend(text_functions::functions());
    scalars.push(texts_beside::coalesce());
    scalars.extend(forebay_functions::functions());
    scalars.extend(forebay_scalars::functions());
    scalars.extend(bits::functions().map(Arc::new));
    scalars.extend(forebay_types::functions::functions());
    scalars.extend(forebay_types::bit_functions::calls::functions().map(Arc::new));
    scalars.extend(nested);
    scalars.push(Arc::new(forebay_types::type_of::function()));
    scalars
}

/// What DataFusion's planner makes of a text.
fn say_how_to_plan(options: &mut SqlParserOptions) {
    options.dialect = Dialect::DuckDB;
    options.collect_spans = true;
    options.parse_float_as_decimal = true;
    // `forebay_subqueries::orders` knows which ones matter.
    options.enable_subquery_sort_elimination = false;
    options.default_null_ordering = forebay_settings::NULLS_LAST.to_owned();
}

/// DataFusion's state for a new session that runs on so many threads.
pub(crate) fn base_state(threads: usize, environment: &Arc<RuntimeEnv>) -> SessionState {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_batch_size(forebay_base::limits::BATCH_ROWS)
        .with_default_catalog_and_schema(CATALOG, DEFAULT_SCHEMA)
        .with_create_default_catalog_and_schema(false);
    let division = Arc::new(Division::default());
    config.set_extension(Arc::clone(&division));
    let options = config.options_mut();
    say_how_to_plan(&mut options.sql_parser);
    options.optimizer.hash_join_single_partition_threshold = SHARED_BUILD_BYTES;
    options.optimizer.hash_join_single_partition_threshold_rows = SHARED_BUILD_ROWS;
    options.optimizer.hash_join_inlist_pushdown_max_size = PUSHED_KEYS * size_of::<i64>();
    options.optimizer.hash_join_inlist_pushdown_max_distinct_values = PUSHED_KEYS;
    // The rules' order makes one pass of them enough.
    options.optimizer.max_passes = 1;
    // Filters that aggregates make of their least and greatest values so far leave out rows that other aggregates beside them need.
    // No issue known; least_beside.test.
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    options.execution.parquet.pushdown_filters = true;
    // Behind the analysis nothing depends on the marks of fields, which not all operators of ours keep.
    options.execution.skip_physical_aggregate_schema_check = true;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(Arc::clone(environment))
        .with_default_features()
        .build();
    let mut expressions: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(Operators::new(division))];
    let nested = forebay_nested::functions();
    if let Some(access) = forebay_nested::MapAccess::new(&nested) {
        expressions.push(Arc::new(access));
    }
    expressions.insert(0, Arc::new(forebay_nested::JsonOperators));
    expressions.insert(0, Arc::new(ZonedTimes));
    expressions.insert(0, Arc::new(Operands));
    expressions.extend(state.expr_planners().iter().cloned());
    let mut aggregates: Vec<_> = state.aggregate_functions().values().cloned().collect();
    // The later of two functions of one name holds.
    aggregates.retain(|function| function.name() != "avg");
    aggregates.push(averages::function());
    aggregates.extend(extrema::functions());
    aggregates.extend(collected::functions());
    aggregates.extend(moments::functions());
    aggregates.extend(forebay_types::bit_functions::aggregates::functions(&aggregates));
    aggregates.extend(sliding::functions(&aggregates));
    let mut windows: Vec<_> = state.window_functions().values().cloned().collect();
    windows.extend(neighbours::functions());
    windows.push(framed::placeholder());
    expressions.push(Arc::new(FramePlanner::new(&aggregates)));
    let scalars = scalar_functions(&state, nested);
    let mut of_lambdas: Vec<_> = state.higher_order_functions().values().cloned().collect();
    of_lambdas.extend(forebay_nested::higher_order_functions());
    let state = SessionStateBuilder::new_from_existing(state)
        .with_analyzer_rules(list::analyzer())
        .with_expr_planners(expressions)
        .with_aggregate_functions(aggregates)
        .with_window_functions(windows)
        .with_scalar_functions(scalars)
        .with_higher_order_functions(of_lambdas)
        .with_optimizer_rules(list::logical())
        .with_physical_optimizer_rules(forebay_physical::list::physical())
        .with_query_planner(Arc::new(CarvingPlanner))
        .with_relation_planners(vec![Arc::new(DerivedTables)])
        .build();
    let mut state = Functions::shared(state, Arc::new(Types));
    read_functions::register(&mut state);
    told_files::register(&mut state);
    forebay_nested::time_series::register(&mut state);
    state
}
