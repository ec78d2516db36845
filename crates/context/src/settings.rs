//! Settings of a session: what SET changes, and who asks finds in the session's configuration.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::prelude::SessionConfig;
use forebay_base::units::parse_bytes;
use forebay_base::{Error, Result, limits};
use forebay_engine::{
    CacheForms, CopyUse, DEFAULT_POLICY, DeviceChoice, EncodeOptions, Encoding, Engine, FactUse, Goal, LoadOptions,
    Model, PolicyKind, RateSource, ReadPath, ScanSettings, SimdLevel, VECTOR_ROWS,
};

use crate::durability::SessionDurability;
use crate::error::from_datafusion;
use crate::identifier_case::IdentifierCase;
use crate::inert_settings::{SetValues, is_inert};
use crate::late_rows::LateRows;
use crate::row_changes::RowChangeMode;
pub use crate::switches::{KeepsPlans, LogsQueries, PointAccess};
use crate::waiting::{DefaultIsolation, IdleTimeout, LockTimeout};

/// SET variable = value.
pub fn set(base: &mut SessionState, engine: &Arc<Engine>, variable: &str, value: &str) -> Result<()> {
    match variable {
        "device" | "forebay.device" => {
            let device: DeviceChoice = value.parse()?;
            engine.accelerators().check_available(device)?;
            base.config_mut().set_extension(Arc::new(device));
        }
        "threads" => {
            let threads: usize =
                value.parse().ok().filter(|threads| (1..=1024).contains(threads)).ok_or_else(|| {
                    Error::input(format!("threads = {value} is not possible")).hint("Give a number from 1 to 1024")
                })?;
            base.config_mut().options_mut().execution.target_partitions = threads;
        }
        "execution" | "forebay.execution" => {
            base.config_mut().set_extension(Arc::new(Execution::parse(value)?));
        }
        "plan_cache" | "forebay.plan_cache" => {
            base.config_mut().set_extension(Arc::new(KeepsPlans(switch("plan_cache", value)?)));
        }
        "point_access" | "forebay.point_access" => {
            base.config_mut().set_extension(Arc::new(PointAccess::parse(value)?));
        }
        "projections" | "forebay.projections" => {
            base.config_mut().set_extension(Arc::new(copy_use(value)));
        }
        "row_changes" | "forebay.row_changes" => {
            base.config_mut().set_extension(Arc::new(RowChangeMode::parse(value)?));
        }
        "query_log" | "forebay.query_log" => {
            base.config_mut().set_extension(Arc::new(LogsQueries(switch("query_log", value)?)));
        }
        "cache_policy" | "forebay.cache_policy" => engine.set_cache_policy(PolicyKind::parse(value)?),
        "cache_size" | "forebay.cache_size" => engine.set_cache_bytes(cache_bytes(value)?),
        "cache_forms" | "forebay.cache_forms" => engine.set_cache_forms(cache_forms(value)?),
        "cache_model" | "forebay.cache_model" => engine.column_shares().set_model(cache_model(value)?),
        "memory_goal" | "forebay.memory_goal" => engine.set_memory_goal(memory_goal(value)?),
        SessionDurability::NAME | "forebay.durability" => SessionDurability::set(base.config_mut(), value)?,
        LockTimeout::NAME => LockTimeout::set(base.config_mut(), value)?,
        IdleTimeout::NAME => IdleTimeout::set(base.config_mut(), value)?,
        DefaultIsolation::NAME => DefaultIsolation::set(base.config_mut(), value)?,
        LateRows::NAME => LateRows::set(base.config_mut(), value)?,
        "memory_limit" | "max_memory" => {
            let bytes = parse_bytes(value)?;
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            base.config_mut().set_extension(Arc::new(StateMemory(bytes)));
        }
        _ if set_scans(base, variable.trim_start_matches("forebay."), value)? => {}
        _ if variable.starts_with("datafusion.") => {
            base.config_mut().options_mut().set(variable, value).map_err(from_datafusion)?;
        }
        _ if is_inert(variable) => {}
        _ => {
            let error = Error::input(format!("there is no setting {variable}"));
            return Err(match crate::error::suggestion(variable, NAMES.into_iter()) {
                Some(other) => error.hint(format!("Did you mean {other}?")),
                None => error.hint(
                    "Settings are cache_forms, cache_model, cache_policy, cache_size, compression, compression_rates, default_null_order, default_order, device, durability, error_on_division_by_zero, \
                     execution, ieee_floating_point_ops, integer_division, io, late_materialization_max_rows, memory_goal, memory_limit, plan_cache, point_access, preserve_identifier_case, query_log, row_changes, simd and threads, \
                     and more for experiments: SELECT name FROM duckdb_settings() gives all",
                ),
            });
        }
    }
    SetValues::set(base.config_mut(), variable.trim_start_matches("forebay."), Some(value));
    Ok(())
}

/// Settings of our own, which a misspelt one is compared with.
pub const NAMES: [&str; 40] = [
    "cache_forms",
    "cache_model",
    "cache_policy",
    "cache_size",
    "chunk_blocks",
    "compression",
    "compression_rates",
    "default_null_order",
    "default_order",
    DefaultIsolation::NAME,
    "device",
    SessionDurability::NAME,
    "error_on_division_by_zero",
    "execution",
    "fold_rows",
    "force_encoding",
    IdleTimeout::NAME,
    "ieee_floating_point_ops",
    "integer_division",
    "io",
    LateRows::NAME,
    LockTimeout::NAME,
    "memory_goal",
    "memory_limit",
    "partition_wise_rows",
    "plan_cache",
    "point_access",
    IdentifierCase::NAME,
    "projections",
    "pruning",
    "psma",
    "query_log",
    "read_ahead",
    "read_blocks",
    "row_changes",
    "sargs",
    "simd",
    "sma",
    "threads",
    "vector_rows",
];

/// RESET variable, where the session began with so many threads.
pub fn reset(base: &mut SessionState, engine: &Arc<Engine>, threads: usize, variable: &str) -> Result<()> {
    if matches!(variable, "memory_limit" | "max_memory") {
        base.config_mut().set_extension(Arc::new(StateMemory(usize::MAX)));
        return Ok(());
    }
    if is_inert(variable) {
        SetValues::set(base.config_mut(), variable, None);
        return Ok(());
    }
    let value = if variable == "threads" { threads.to_string() } else { default_value(variable) };
    set(base, engine, variable, &value)
}

/// The value of a setting that was not set, as text.
pub fn default_value(variable: &str) -> String {
    match variable.trim_start_matches("forebay.") {
        "fold_rows" => ScanSettings::default().fold_rows.to_string(),
        "partition_wise_rows" => ScanSettings::default().partition_wise_rows.to_string(),
        "vector_rows" => ScanSettings::default().vector_rows.to_string(),
        "compression" => Goal::default().name().to_owned(),
        "device" | "simd" | "chunk_blocks" | "row_changes" => "auto".to_owned(),
        SessionDurability::NAME => "full".to_owned(),
        LockTimeout::NAME => "10s".to_owned(),
        IdleTimeout::NAME => "0".to_owned(),
        DefaultIsolation::NAME => "snapshot".to_owned(),
        "execution" => "compiled".to_owned(),
        "io" => "direct".to_owned(),
        "compression_rates" => "measured".to_owned(),
        "cache_policy" => DEFAULT_POLICY.name().to_owned(),
        "cache_model" => Model::default().name().to_owned(),
        "memory_goal" => "off".to_owned(),
        "cache_size" => "all".to_owned(),
        "cache_forms" => CacheForms::default().name().to_owned(),
        "force_encoding" => "none".to_owned(),
        "pruning" => "all".to_owned(),
        LateRows::NAME => LateRows::default().0.to_string(),
        _ => "on".to_owned(),
    }
}

/// The model by which columns get their shares of the cache.
fn cache_model(value: &str) -> Result<Model> {
    let known = Model::ALL.into_iter().find(|model| model.name().eq_ignore_ascii_case(value));
    known.ok_or_else(|| Error::input(format!("the cache model {value} does not exist")).hint("Use physical or paper"))
}

/// The forms in which the cache keeps chunks.
fn cache_forms(value: &str) -> Result<CacheForms> {
    let known = CacheForms::ALL.into_iter().find(|forms| forms.name().eq_ignore_ascii_case(value));
    known.ok_or_else(|| {
        let names = CacheForms::ALL.map(CacheForms::name).join(", ");
        Error::input(format!("cache_forms = {value} is not possible")).hint(format!("Use one of {names}"))
    })
}

/// Bytes that the cache may keep; `None` for as many as it was given.
fn cache_bytes(value: &str) -> Result<Option<usize>> {
    match value.eq_ignore_ascii_case("all") {
        true => Ok(None),
        false => Ok(Some(usize::try_from(parse_bytes(value)?).unwrap_or(usize::MAX))),
    }
}

/// A slowdown, as `1.1x`, for which the cache is to take the least memory; `off` where it is to take all.
fn memory_goal(value: &str) -> Result<Option<f64>> {
    if value.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let factor = value.strip_suffix(['x', 'X']).and_then(|factor| factor.trim().parse::<f64>().ok());
    factor.filter(|factor| (1.0..=1000.0).contains(factor)).map(Some).ok_or_else(|| {
        Error::input(format!("memory_goal = {value} is not possible"))
            .hint("Give the slowdown that least memory is taken for, as '1.1x', or off")
    })
}

fn rows(variable: &str, value: &str) -> Result<usize> {
    value.parse().map_err(|_| {
        Error::input(format!("{variable} = {value} is not possible")).hint("Give a number of rows, 0 or more")
    })
}

/// SET variable = value for what scans and loads do; false where the variable is another.
fn set_scans(base: &mut SessionState, variable: &str, value: &str) -> Result<bool> {
    let mut scans = of_scans(base.config());
    match variable {
        "simd" => scans.simd = level(value)?,
        "sma" => scans.sma = switch(variable, value)?,
        "psma" => scans.psma = switch(variable, value)?,
        "pruning" => (scans.sma, scans.facts) = pruning(value)?,
        "fold_rows" => scans.fold_rows = rows(variable, value)?,
        "partition_wise_rows" => scans.partition_wise_rows = rows(variable, value)?,
        "vector_rows" => {
            let rows = value.parse().ok().filter(|rows| (1..=VECTOR_ROWS).contains(rows));
            scans.vector_rows = rows.ok_or_else(|| {
                Error::input(format!("vector_rows = {value} is not possible"))
                    .hint(format!("Give a number from 1 to {VECTOR_ROWS}"))
            })?;
        }
        "sargs" => {
            let on_codes = switch(variable, value)?;
            base.config_mut().set_extension(Arc::new(Sargs { on_codes }));
        }
        "io" => scans.read_path = read_path(value)?,
        "read_ahead" => scans.read_ahead_bytes = read_ahead(value)?,
        "read_blocks" => scans.read_blocks = switch(variable, value)?,
        "chunk_blocks" => {
            let options = LoadOptions { chunk_blocks: chunk_blocks(value)?, ..of_loads(base.config()) };
            base.config_mut().set_extension(Arc::new(options));
        }
        "compression_rates" => {
            let options = LoadOptions { rates: rate_source(value)?, ..of_loads(base.config()) };
            base.config_mut().set_extension(Arc::new(options));
        }
        "compression" => {
            let options = LoadOptions { goal: Goal::parse(value)?, ..of_loads(base.config()) };
            base.config_mut().set_extension(Arc::new(options));
        }
        "force_encoding" => {
            let encode = EncodeOptions { force: encoding(value)? };
            let options = LoadOptions { encode, ..of_loads(base.config()) };
            base.config_mut().set_extension(Arc::new(options));
        }
        _ => return Ok(false),
    }
    base.config_mut().set_extension(Arc::new(scans));
    Ok(true)
}

/// Which copies of tables' rows the scans of a session may read.
pub fn copies(config: &SessionConfig) -> CopyUse {
    if ReadsInOrder::of(config) {
        return CopyUse::TableOnly;
    }
    config.get_extension::<CopyUse>().map_or_else(CopyUse::default, |copies| CopyUse::clone(&copies))
}

/// The answer of a statement depends on the order in which tables are read: it reads their own rows.
#[derive(Debug, Clone, Copy)]
pub struct ReadsInOrder;

impl ReadsInOrder {
    /// Whether it is so for a statement.
    pub fn of(config: &SessionConfig) -> bool {
        config.get_extension::<Self>().is_some()
    }
}

/// on, off, or the projection of this name.
fn copy_use(value: &str) -> CopyUse {
    match switch("projections", value) {
        Ok(true) => CopyUse::Cheapest,
        Ok(false) => CopyUse::TableOnly,
        Err(_) => CopyUse::Named(value.to_owned()),
    }
}

/// Bytes that the joins and groups of one query may take, where a session wants less than the database gives.
struct StateMemory(usize);

/// Bytes that the joins and groups of one query of a session may take at most, before they go to disk.
pub fn memory_limit(config: &SessionConfig) -> usize {
    config.get_extension::<StateMemory>().map_or(usize::MAX, |limit| limit.0)
}

/// What runs the pipelines of a session besides the CPU.
pub fn device(config: &SessionConfig) -> DeviceChoice {
    config.get_extension::<DeviceChoice>().map_or_else(DeviceChoice::default, |device| *device)
}

/// How the scans of a session run.
pub fn of_scans(config: &SessionConfig) -> ScanSettings {
    config.get_extension::<ScanSettings>().map_or_else(ScanSettings::default, |settings| *settings)
}

/// How the loads of a session encode and compress.
pub fn of_loads(config: &SessionConfig) -> LoadOptions {
    config.get_extension::<LoadOptions>().map_or_else(LoadOptions::default, |options| *options)
}

/// Where tests of columns with constants (search arguments) are evaluated.
#[derive(Debug, Clone, Copy)]
pub struct Sargs {
    /// By the scan on codes; otherwise by the pipelines, as far as they can.
    pub on_codes: bool,
}

impl Sargs {
    /// Those of a session.
    pub fn of(config: &SessionConfig) -> Self {
        config.get_extension::<Self>().map_or(Self { on_codes: true }, |sargs| *sargs)
    }
}

/// What runs the parts of a query that pipelines can run; `SET execution`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Execution {
    /// Machine code.
    #[default]
    Compiled,
    /// The interpreter of the pipeline IR.
    Interpreter,
    /// DataFusion's operators: nothing is carved.
    DataFusion,
}

impl Execution {
    /// All of them, with their names in SQL.
    pub const ALL: [(&'static str, Self); 3] =
        [("compiled", Self::Compiled), ("interpreter", Self::Interpreter), ("datafusion", Self::DataFusion)];

    /// The execution of this name.
    pub fn parse(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map(|(_, execution)| execution).ok_or_else(|| {
            Error::input(format!("execution {name} does not exist")).hint("Use compiled, interpreter or datafusion")
        })
    }

    /// That of a session.
    pub fn of(config: &SessionConfig) -> Self {
        config.get_extension::<Self>().map_or_else(Self::default, |execution| *execution)
    }
}

/// Whether ORDER BY without a direction is descending; `SET default_order`.
#[derive(Debug, Clone, Copy)]
pub struct DescendingOrder(pub bool);

impl DescendingOrder {
    /// Of a session.
    pub fn of(config: &SessionConfig) -> bool {
        config.get_extension::<Self>().is_some_and(|order| order.0)
    }
}

/// Whether a subquery in the place of a value gives its first row, and several are no error;
/// `SET scalar_subquery_error_on_multiple_rows`.
#[derive(Debug, Clone, Copy)]
pub struct FirstRows(pub bool);

impl FirstRows {
    /// Of a session.
    pub fn of(config: &SessionConfig) -> bool {
        config.get_extension::<Self>().is_some_and(|first| first.0)
    }
}

/// The values of a session's variables, as SQL, by their names in lower case; `SET VARIABLE`.
#[derive(Debug, Clone, Default)]
pub struct Variables(pub HashMap<String, String>);

impl Variables {
    /// Of a session.
    pub fn of(config: &SessionConfig) -> Arc<Self> {
        config.get_extension::<Self>().unwrap_or_default()
    }

    /// All of them, by their names.
    pub fn sorted(&self) -> Vec<(String, String)> {
        let mut all: Vec<_> = self.0.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        all.sort();
        all
    }
}

/// on or off.
pub fn switch(setting: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(Error::input(format!("{setting} = {value} is not possible")).hint("Use on or off")),
    }
}

/// Whether zones rule blocks out, and which facts do.
fn pruning(value: &str) -> Result<(bool, FactUse)> {
    match value.to_ascii_lowercase().as_str() {
        "none" => Ok((false, FactUse::None)),
        "minmax" => Ok((true, FactUse::None)),
        "bloom" => Ok((true, FactUse::BloomFilters)),
        "histogram" => Ok((true, FactUse::Histograms)),
        "all" => Ok((true, FactUse::All)),
        _ => Err(Error::input(format!("pruning = {value} is not possible"))
            .hint("Use none, minmax, bloom, histogram or all")),
    }
}

/// The encoding of this name; `None` for the smallest.
fn encoding(name: &str) -> Result<Option<Encoding>> {
    if name.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let known = Encoding::ALL.into_iter().find(|encoding| encoding.name().eq_ignore_ascii_case(name));
    known.map(Some).ok_or_else(|| {
        Error::input(format!("encoding {name} does not exist"))
            .hint("Use none, single_value, truncation, dictionary or uncompressed")
    })
}

/// The rates of this name.
fn rate_source(name: &str) -> Result<RateSource> {
    let known = RateSource::ALL.into_iter().find(|source| source.name().eq_ignore_ascii_case(name));
    known.ok_or_else(|| {
        Error::input(format!("compression_rates = {name} is not possible")).hint("Use measured, remeasured or fixed")
    })
}

/// Bytes that reads run ahead by.
fn read_ahead(value: &str) -> Result<usize> {
    match (switch("read_ahead", value), parse_bytes(value)) {
        (Ok(true), _) => Ok(limits::READ_AHEAD_BYTES),
        (Ok(false), _) => Ok(0),
        (_, Ok(bytes)) => Ok(usize::try_from(bytes).unwrap_or(usize::MAX)),
        _ => Err(Error::input(format!("read_ahead = {value} is not possible"))
            .hint("Use on or off, or a size such as '4MB'")),
    }
}

/// Blocks of the chunks that loads make; `None` for what suits each column.
fn chunk_blocks(value: &str) -> Result<Option<usize>> {
    if value.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    let most = limits::GROUP_BLOCKS_MAX;
    let blocks = value.parse().ok().filter(|blocks: &usize| blocks.is_power_of_two() && *blocks <= most);
    blocks.map(Some).ok_or_else(|| {
        Error::input(format!("chunk_blocks = {value} is not possible"))
            .hint(format!("Use auto, or a power of two up to {most}"))
    })
}

/// How chunks are read by this name.
fn read_path(name: &str) -> Result<ReadPath> {
    match name.to_ascii_lowercase().as_str() {
        "direct" => Ok(ReadPath::Direct),
        "buffered" => Ok(ReadPath::PageCache),
        _ => Err(Error::input(format!("io = {name} is not possible")).hint("Use direct or buffered")),
    }
}

/// The vector instructions of this name.
fn level(name: &str) -> Result<SimdLevel> {
    if name.eq_ignore_ascii_case("auto") {
        return Ok(SimdLevel::best());
    }
    let known = SimdLevel::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name));
    let level = known.ok_or_else(|| {
        Error::input(format!("simd {name} does not exist")).hint("Use auto, avx512, avx2 or portable")
    })?;
    match level.is_available() {
        true => Ok(level),
        false => Err(Error::unsupported(format!("this processor does not have the instructions of simd = {name}"))
            .hint(format!("SET simd = auto, which is {} here", SimdLevel::best().name()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_known_by_name() {
        for (name, execution) in Execution::ALL {
            assert_eq!(Execution::parse(&name.to_uppercase()).expect("its own name"), execution);
        }
        assert!(Execution::parse("gpu").is_err());
    }

    #[test]
    fn encodings_are_known_by_name() {
        for known in Encoding::ALL {
            assert_eq!(encoding(&known.name().to_uppercase()).expect("its own name"), Some(known));
        }
        assert_eq!(encoding("none").expect("always"), None);
        assert!(encoding("zstd").is_err());
        assert!(switch("psma", "ON").expect("on") && !switch("psma", "false").expect("off"));
        assert!(switch("psma", "1").is_err());
    }

    #[test]
    fn loads_and_reads_are_told_by_name_or_number() {
        for source in RateSource::ALL {
            assert_eq!(rate_source(&source.name().to_uppercase()).expect("its own name"), source);
        }
        assert!(rate_source("guessed").expect_err("unknown").to_string().contains("remeasured"));
        assert_eq!(read_ahead("on").expect("a switch"), limits::READ_AHEAD_BYTES);
        assert_eq!([read_ahead("off"), read_ahead("4MiB")].map(|bytes| bytes.expect("known")), [0, 4 << 20]);
        assert!(read_ahead("often").is_err());
        assert_eq!([chunk_blocks("auto"), chunk_blocks("32")].map(|blocks| blocks.expect("known")), [None, Some(32)]);
        assert!(["0", "3", "512", "-1"].iter().all(|wrong| chunk_blocks(wrong).is_err()));
    }

    #[test]
    fn simd_levels_are_known_by_name() {
        for known in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
            assert_eq!(level(&known.name().to_uppercase()).expect("it is available"), known);
        }
        assert_eq!(level("auto").expect("always"), SimdLevel::best());
        assert!(level("neon").is_err());
    }
}
