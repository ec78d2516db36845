//! How tables lie on disk, and what it would cost to store them otherwise: `forebay inspect`.
//!
//! Must not know: how figures are shown.

use std::path::PathBuf;

use forebay_base::{Error, ErrorKind, Result};
use forebay_engine::choose::{Cost, Objective, Plan};
use forebay_engine::goal::COMPRESSION_OPTION;
use forebay_engine::plans::{Environment, Sample, Share, choose};
use forebay_engine::{CancelToken, RateSource, inspect};
use forebay_store::{Catalog, Projection, Table};

use crate::Database;

/// How a table is stored.
#[derive(Debug, Clone)]
pub struct TableStorage {
    /// Schema of the table.
    pub schema: String,
    /// Table.
    pub table: String,
    /// Rows.
    pub rows: u64,
    /// What the table's option asks of compression, if it has one.
    pub compression: Option<String>,
    /// Columns in their order.
    pub columns: Vec<InspectedColumn>,
    /// Its projections.
    pub projections: Vec<InspectedProjection>,
    /// What the plans were compared on; `None` for a table without rows.
    pub sample: Option<SampleInfo>,
}

/// A further copy of a table's rows.
#[derive(Debug, Clone)]
pub struct InspectedProjection {
    /// Its name.
    pub name: String,
    /// What its rows are ordered by, as SQL writes it.
    pub order: String,
    /// Its columns.
    pub columns: Vec<String>,
    /// Bytes of its files.
    pub file_bytes: u64,
}

/// What plans were compared on.
#[derive(Debug, Clone)]
pub struct SampleInfo {
    /// Row groups that were sealed by every plan.
    pub groups: usize,
    /// Row groups of the table.
    pub of_groups: usize,
    /// Bytes per second of the drive that times are modelled with.
    pub disk_bytes_per_s: f64,
    /// Cores that times are modelled with.
    pub cores: usize,
    /// The file that the rates of this machine are kept in; none where they are fixed, or where there is no place for it.
    pub rates_file: Option<PathBuf>,
}

/// How a column is stored.
#[derive(Debug, Clone)]
pub struct InspectedColumn {
    /// Column.
    pub column: String,
    /// SQL type.
    pub sql_type: String,
    /// What is asked of its compression by its own option, or else its table's; if by none, the session's setting says.
    pub compression: Option<String>,
    /// Bytes of the plain values: their width, or the strings and four bytes each.
    pub plain_bytes: u64,
    /// Bytes of the encoded blocks in memory.
    pub encoded_bytes: u64,
    /// Bytes of the chunks on disk.
    pub stored_bytes: u64,
    /// Chunks.
    pub chunks: u64,
    /// Blocks of all chunks.
    pub blocks: u64,
    /// Encodings and their blocks.
    pub encodings: Vec<(&'static str, u64)>,
    /// Schemes of frames, with the bytes that they hold and take.
    pub schemes: Vec<StoredScheme>,
    /// What every plan would cost; empty for a table without rows.
    pub plans: Vec<PlanCost>,
    /// By objective, the plan that meets it best: an index into `plans`.
    pub best: Vec<(&'static str, usize)>,
}

/// Frames that are stored by one scheme.
#[derive(Debug, Clone, Copy)]
pub struct StoredScheme {
    /// The scheme's name.
    pub scheme: &'static str,
    /// Frames.
    pub frames: u64,
    /// Bytes in memory.
    pub plain_bytes: u64,
    /// Bytes on disk.
    pub stored_bytes: u64,
}

/// What a plan would cost for all of a column: what it costs for the sample, times the column's share outside of it.
#[derive(Debug, Clone)]
pub struct PlanCost {
    /// What would be asked of compression: a scheme's name, `balanced` or `best_ratio`.
    pub compression: String,
    /// Blocks of a chunk.
    pub chunk_blocks: u16,
    /// Bytes on disk.
    pub stored_bytes: u64,
    /// Modelled seconds to read those.
    pub read_seconds: f64,
    /// Modelled seconds to inflate them, on all cores.
    pub inflate_seconds: f64,
    /// Modelled seconds to look at the inflated bytes, on all cores.
    pub scan_seconds: f64,
}

impl Database {
    /// How the table of this name (`table` or `schema.table`) is stored, and what other plans would cost by a sample of so
    /// many percent of its row groups; of the few that `OPTIMIZE TABLE` takes where none are given. With `fixed_rates`, times are modelled by those of a common machine instead of this
    /// one's, which are measured once and kept.
    pub fn inspect(&self, name: &str, percent: Option<u32>, fixed_rates: bool) -> Result<TableStorage> {
        let engine = &self.shared.engine;
        let catalog = engine.store().catalog();
        let (schema, table) = name.split_once('.').unwrap_or((forebay_store::DEFAULT_SCHEMA, name));
        let Some(table) = catalog.table(schema, table) else {
            let names: Vec<String> = catalog.tables().map(|table| table.full_name()).collect();
            let error = Error::new(ErrorKind::NotFound, format!("table {name} does not exist"));
            return Err(error.hint(match names.as_slice() {
                [] => "The database has no tables".to_owned(),
                names => format!("Its tables are {}", names.join(", ")),
            }));
        };
        let mut columns: Vec<InspectedColumn> = Vec::with_capacity(table.columns.len());
        for (column, stored) in table.columns.iter().zip(inspect::stored_columns(table)?) {
            columns.push(InspectedColumn {
                column: column.name.clone(),
                sql_type: column.logical.to_string(),
                compression: table.options.of_column(column.id, COMPRESSION_OPTION).map(str::to_owned),
                plain_bytes: stored.plain_bytes,
                encoded_bytes: stored.encoded_bytes,
                stored_bytes: stored.stored_bytes,
                chunks: stored.chunks,
                blocks: stored.blocks,
                encodings: stored.encodings.iter().map(|(encoding, blocks)| (encoding.name(), *blocks)).collect(),
                schemes: stored.schemes.iter().map(StoredScheme::of).collect(),
                plans: Vec::new(),
                best: Vec::new(),
            });
        }
        let sample = match table.rows() {
            0 => None,
            _ => {
                let cancel = CancelToken::default();
                let share = percent.map_or_else(Share::default, |percent| Share { percent, most_groups: usize::MAX });
                let sample = Sample::take(engine, table, share, self.threads(), &cancel)?;
                let source = if fixed_rates { RateSource::Fixed } else { RateSource::Measured };
                let environment = sample.environment(source)?;
                compare(&mut columns, &sample, &environment, &cancel)?;
                let (groups, of_groups) = sample.groups();
                let machine = environment.machine;
                let (disk_bytes_per_s, cores) = (machine.disk_bytes_per_s, machine.cores);
                let kept = if fixed_rates { None } else { engine.kept_rates().file(self.threads()) };
                let rates_file = kept.filter(|file| file.exists());
                Some(SampleInfo { groups, of_groups, disk_bytes_per_s, cores, rates_file })
            }
        };
        let (schema, name, rows) = (table.schema.clone(), table.name.clone(), table.rows());
        let compression = table.options.get(None, COMPRESSION_OPTION).map(str::to_owned);
        let projections =
            table.projections.iter().map(|projection| InspectedProjection::of(projection, table, &catalog));
        let projections = projections.collect();
        Ok(TableStorage { schema, table: name, rows, compression, columns, projections, sample })
    }
}

/// Adds what plans cost.
fn compare(
    columns: &mut [InspectedColumn],
    sample: &Sample<'_>,
    environment: &Environment,
    cancel: &CancelToken,
) -> Result<()> {
    let costs = sample.costs(environment, cancel)?;
    let all: Vec<_> = costs.iter().map(Vec::as_slice).collect();
    let chosen: Vec<(Objective, Vec<Plan>)> =
        Objective::ALL.into_iter().map(|objective| (objective, choose(objective, &all))).collect();
    for (index, (column, costs)) in columns.iter_mut().zip(&costs).enumerate() {
        let share = column.stored_bytes as f64 / sample.stored_bytes(index).max(1) as f64;
        column.plans = costs.iter().map(|(plan, cost)| PlanCost::of(plan, cost, share)).collect();
        let best = chosen.iter().filter_map(|(objective, plans)| {
            let at = costs.iter().position(|(plan, _)| *plan == plans[index])?;
            Some((objective.name(), at))
        });
        column.best = best.collect();
    }
    Ok(())
}

impl InspectedProjection {
    fn of(projection: &Projection, table: &Table, catalog: &Catalog) -> Self {
        let Projection { definition, segments } = projection;
        let columns = table.columns.iter().filter(|column| definition.has(column.id));
        Self {
            name: definition.name.clone(),
            order: definition.order_text(table, catalog),
            columns: columns.map(|column| column.name.clone()).collect(),
            file_bytes: segments.file_bytes(),
        }
    }
}

impl StoredScheme {
    fn of(summary: &forebay_engine::SchemeSummary) -> Self {
        Self {
            scheme: summary.scheme.name(),
            frames: summary.frames,
            plain_bytes: summary.plain_bytes,
            stored_bytes: summary.stored_bytes,
        }
    }
}

impl PlanCost {
    fn of(plan: &Plan, cost: &Cost, share: f64) -> Self {
        Self {
            compression: plan.compression.name().to_owned(),
            chunk_blocks: plan.blocks_per_chunk,
            stored_bytes: (cost.stored_bytes as f64 * share) as u64,
            read_seconds: cost.read_seconds * share,
            inflate_seconds: cost.decode_seconds * share,
            scan_seconds: cost.scan_seconds * share,
        }
    }

    /// Modelled seconds of a scan that reads, inflates and looks at once.
    pub fn seconds(&self) -> f64 {
        self.read_seconds.max(self.inflate_seconds + self.scan_seconds)
    }
}
