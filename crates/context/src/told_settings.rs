//! What the settings of a session are: `current_setting('threads')`, `duckdb_settings()`.

use datafusion::prelude::SessionConfig;
use forebay_base::units::format_bytes;
use forebay_engine::{CopyUse, Engine};

use crate::durability::SessionDurability;
use crate::identifier_case::IdentifierCase;
use crate::inert_settings::{SetValues, inert};
use crate::late_rows::LateRows;
use crate::settings::{
    DescendingOrder, KeepsPlans, LogsQueries, NAMES, PointAccess, copies, default_value, memory_limit,
};
use crate::waiting::{DefaultIsolation, IdleTimeout, LockTimeout};

/// A setting of a session.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value; `None` where it has none.
    pub value: Option<String>,
    /// What it is for.
    pub description: &'static str,
    /// The type of its values in SQL's words.
    pub input_type: &'static str,
}

/// All settings of a session, by their names; `more` are those that others know.
pub fn told(config: &SessionConfig, engine: &Engine, more: Vec<Setting>) -> Vec<Setting> {
    let mut all = of_queries(config);
    all.extend(more);
    let is_new =
        |name: &&str| all.iter().all(|setting| setting.name != **name) && !matches!(*name, "memory_limit" | "threads");
    let of_work = NAMES.into_iter().filter(is_new);
    let of_work: Vec<Setting> = of_work
        .map(|name| setting(name, of_engine(config, engine, name), "VARCHAR", "How Forebay does its work"))
        .collect();
    all.extend(of_work);
    let inert = inert(config).into_iter();
    all.extend(inert.map(|(name, value, kind)| setting(name, value, kind, "Taken, and without effect")));
    all.sort_by_cached_key(|setting| setting.name.to_lowercase());
    all
}

/// A setting.
pub fn setting(name: &str, value: String, input_type: &'static str, description: &'static str) -> Setting {
    Setting { name: name.to_owned(), value: Some(value), description, input_type }
}

/// Settings that change what queries mean, and how much they may take.
fn of_queries(config: &SessionConfig) -> Vec<Setting> {
    let threads = || config.target_partitions().to_string();
    let memory = || match memory_limit(config) {
        usize::MAX => "none".to_owned(),
        bytes => format_bytes(bytes as u64),
    };
    let zone = config.options().execution.time_zone.clone().unwrap_or_else(|| "UTC".to_owned());
    let order = match config.options().sql_parser.default_null_ordering.as_str() {
        "nulls_first" => "NULLS_FIRST",
        "nulls_min" => "NULLS_FIRST_ON_ASC_LAST_ON_DESC",
        "nulls_max" => "NULLS_LAST_ON_ASC_FIRST_ON_DESC",
        _ => "NULLS_LAST",
    };
    let direction = if DescendingOrder::of(config) { "DESC" } else { "ASCENDING" };
    let mut all = vec![
        setting("threads", threads(), "BIGINT", "The threads that a query may use"),
        setting("worker_threads", threads(), "BIGINT", "The threads that a query may use"),
        setting(
            "memory_limit",
            memory(),
            "VARCHAR",
            "What joins and groups of a query may take before they go to disk",
        ),
        setting("max_memory", memory(), "VARCHAR", "What joins and groups of a query may take before they go to disk"),
        setting("TimeZone", zone, "VARCHAR", "The time zone in which instants are read and shown"),
        setting("default_null_order", order.to_owned(), "VARCHAR", "Where NULLs stand in an order"),
        setting("null_order", order.to_owned(), "VARCHAR", "Where NULLs stand in an order"),
        setting(
            IdentifierCase::NAME,
            IdentifierCase::of(config).shown().to_owned(),
            "VARCHAR",
            "The letters of aliases without quotes",
        ),
        setting("default_order", direction.to_owned(), "VARCHAR", "The direction of an order"),
    ];
    let access = PointAccess::of(config).name().to_owned();
    all.push(setting("point_access", access, "VARCHAR", "Which statements find rows by key without a plan"));
    for (name, is_on) in [("plan_cache", KeepsPlans::of(config)), ("query_log", LogsQueries::of(config))] {
        all.push(setting(name, is_on.to_string(), "BOOLEAN", "How Forebay does its work"));
    }
    let durability = SessionDurability::shown(config);
    all.push(setting(SessionDurability::NAME, durability, "VARCHAR", "When commits are acknowledged"));
    let (timeout, level) = (LockTimeout::shown(config), DefaultIsolation::of(config).to_owned());
    all.push(setting(LockTimeout::NAME, timeout, "VARCHAR", "How long a statement waits for who has changed its rows"));
    let idle = IdleTimeout::shown(config);
    all.push(setting(IdleTimeout::NAME, idle, "VARCHAR", "How long a transaction waits for its next statement"));
    all.push(setting(
        DefaultIsolation::NAME,
        level,
        "VARCHAR",
        "The isolation level of transactions whose BEGIN names none",
    ));
    let late = LateRows::of(config).to_string();
    all.push(setting(LateRows::NAME, late, "UBIGINT", "The rows of a limit behind which columns are fetched"));
    all.push(match copies(config) {
        CopyUse::Cheapest => setting("projections", "true".to_owned(), "BOOLEAN", "Which copies of rows are read"),
        CopyUse::TableOnly => setting("projections", "false".to_owned(), "BOOLEAN", "Which copies of rows are read"),
        CopyUse::Named(name) => setting("projections", name, "VARCHAR", "Which copies of rows are read"),
    });
    all
}

/// The value of a setting that says how work is done. Those of the cache are the database's, others the session's.
fn of_engine(config: &SessionConfig, engine: &Engine, name: &str) -> String {
    match name {
        "cache_policy" => engine.cache().policy_kind().name().to_owned(),
        "cache_model" => engine.column_shares().model().name().to_owned(),
        "memory_goal" => {
            engine.column_shares().slowdown().map_or_else(|| "off".to_owned(), |factor| format!("{factor}x"))
        }
        "cache_forms" => engine.cache_forms().name().to_owned(),
        "cache_size" => format_bytes(engine.cache().budget_bytes() as u64),
        other => SetValues::of(config, other).unwrap_or_else(|| default_value(other)),
    }
}
