//! Which copy of a table's rows a scan reads, the table's own or one of its projections: the one that is predicted to take the least
//! time (HippogriffDB §4.2).
//!
//! Counted are the bytes that are read of needed columns, chunk by chunk: of those that have a block which neither zones nor facts
//! rule out, as they are stored, in part where the scan would read them in part. Times are modelled by the rates of this machine, for
//! reading and inflating side by side (HPCache §4.1). No chunk is read for it. Invariants: no answer depends on the choice; a copy
//! that lacks a needed column, or whose footers cannot be read, is not chosen; nobody is told what was asked. Must not know: SQL,
//! plans, who scans.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_base::{Error, ProjectionId, Result};
use forebay_block::{BlockSet, Scheme};
use forebay_pipeline::ColumnPredicate;
use forebay_prune::blocks::BlockBits;
use forebay_store::{BlockLayout, TableSnapshot, names_equal};

use crate::chunks::{Extent, Place};
use crate::facts::{PartnerTest, RuledOut};
use crate::plans::Environment;
use crate::run::decision;
use crate::{Engine, ScanSettings};

/// Another copy is read instead of the table's own rows where that is predicted to take no more than this part of the time: what
/// is closer is not known so exactly.
const WORTH_IT: f64 = 0.95;

/// Which copies of their tables' rows scans may read; `SET projections`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CopyUse {
    /// The one that is predicted to take the least time.
    #[default]
    Cheapest,
    /// The table's own.
    TableOnly,
    /// The projection of this name, of tables that have one with all columns that are needed.
    Named(String),
}

/// What a scan asks of a table.
#[derive(Debug)]
pub struct ScanNeeds<'n> {
    /// The positions of all columns that may be read, of rows that pass or of some of these later.
    pub columns: BTreeSet<usize>,
    /// What rows must pass, as codes answer it.
    pub tests: &'n [ColumnPredicate],
}

/// What reading a copy is predicted to take.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyCost {
    /// The projection; `None` for the table's own rows.
    pub name: Option<String>,
    /// Blocks that may have rows which pass.
    pub blocks: u64,
    /// Bytes that are read of the needed columns, if none is in memory.
    pub read_bytes: u64,
    /// How long that and inflating them takes.
    pub seconds: f64,
}

/// What was chosen, and among what.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyChoice {
    /// The copies with all columns that are needed, the table's own rows first.
    pub costs: Vec<CopyCost>,
    /// Which of them is read.
    pub chosen: usize,
}

/// How a choice is made.
#[derive(Debug, Clone, Copy)]
pub struct CopyOptions<'o> {
    /// Which copies may be read.
    pub copies: &'o CopyUse,
    /// How the scan will run.
    pub scan: ScanSettings,
    /// Workers.
    pub threads: usize,
}

/// The copy of a table's rows that a scan reads by tests of its own columns, and what others would take; `None` where there is
/// nothing to choose.
pub fn choose(
    engine: &Engine,
    table: &Arc<TableSnapshot>,
    needs: &ScanNeeds<'_>,
    options: &CopyOptions<'_>,
) -> Option<(Arc<TableSnapshot>, CopyChoice)> {
    let own: Vec<_> =
        needs.tests.iter().map(|test| PartnerTest::own(table.columns[test.column].id, &test.test)).collect();
    let catalog = engine.store().catalog();
    let facts = options.scan.facts;
    let ruled_out = |copy: &TableSnapshot| engine.known_facts().rule_out((&catalog, facts), copy, &own, &|_| None);
    choose_by(engine, table, needs, options, &ruled_out)
}

/// The same, where `ruled_out` tells which blocks of a copy facts rule out.
pub(crate) fn choose_by(
    engine: &Engine,
    table: &Arc<TableSnapshot>,
    needs: &ScanNeeds<'_>,
    options: &CopyOptions<'_>,
    ruled_out: &dyn Fn(&TableSnapshot) -> RuledOut,
) -> Option<(Arc<TableSnapshot>, CopyChoice)> {
    if table.projections.is_empty() || table.copy_id() != ProjectionId::TABLE || *options.copies == CopyUse::TableOnly {
        return None;
    }
    let environment = Environment::kept(engine, options.threads);
    let has_all = |copy: &&Arc<TableSnapshot>| needs.columns.iter().all(|column| copy.has_column(*column));
    let mut known: Vec<(&Arc<TableSnapshot>, CopyCost)> = Vec::new();
    for copy in std::iter::once(table).chain(table.copies()).filter(has_all) {
        match cost(copy, needs, options.scan, &ruled_out(copy), &environment) {
            Ok(cost) => known.push((copy, cost)),
            // Who scans the table is told, and `forebay check` of a projection.
            Err(_) if copy.copy_id() == ProjectionId::TABLE => return None,
            Err(_) => {}
        }
    }
    let is_named = |(_, cost): &(&Arc<TableSnapshot>, CopyCost)| match (options.copies, &cost.name) {
        (CopyUse::Named(wanted), Some(name)) => names_equal(wanted, name),
        _ => false,
    };
    let cheapest = || {
        let by_time = |a: &usize, b: &usize| known[*a].1.seconds.total_cmp(&known[*b].1.seconds);
        let others = (1..known.len()).min_by(by_time);
        others.filter(|other| known[*other].1.seconds <= known[0].1.seconds * WORTH_IT).unwrap_or(0)
    };
    let chosen = match options.copies {
        CopyUse::Cheapest => cheapest(),
        CopyUse::TableOnly => 0,
        CopyUse::Named(_) => known.iter().position(is_named).unwrap_or(0),
    };
    let copy = Arc::clone(known[chosen].0);
    Some((copy, CopyChoice { costs: known.into_iter().map(|(_, cost)| cost).collect(), chosen }))
}

/// What reading the needed columns of a copy takes.
fn cost(
    copy: &TableSnapshot,
    needs: &ScanNeeds<'_>,
    settings: ScanSettings,
    ruled_out: &RuledOut,
    environment: &Environment,
) -> Result<CopyCost> {
    let (mut read_bytes, mut encoded_bytes) = (0, 0.0);
    let layout = copy.layout().ok_or_else(|| Error::internal("a copy's footers cannot be read"))?;
    let left = left(copy, layout, needs.tests, settings, ruled_out);
    for (number, segment) in copy.segments.iter().enumerate() {
        let index = |column: &usize| Some((*column, segment.column_index(copy.columns[*column].id)?));
        let columns: Vec<(usize, usize)> = needs.columns.iter().filter_map(index).collect();
        for (group, of_group) in segment.groups()?.iter().enumerate() {
            let first = layout.of_group((number, group)).start;
            for (column, index) in columns.iter().copied() {
                let chunks = &of_group.columns[index];
                for (chunk, location) in chunks.chunks.iter().enumerate() {
                    let all = chunks.blocks_of(chunk);
                    let count = all.len();
                    let needed = BlockSet::of_range(all, |block| left.contains(first + block));
                    if needed.is_empty() {
                        continue;
                    }
                    let place = Place::new(copy, column, (number, group), (index, chunk), needed);
                    let extent = match settings.read_blocks {
                        true => Extent::of(segment, &place)?,
                        false => Extent::whole(segment, &place)?,
                    };
                    read_bytes += extent.bytes() as u64;
                    encoded_bytes += location.encoded_bytes as f64 * extent.blocks.len() as f64 / count as f64;
                }
            }
        }
    }
    let Environment { rates, machine } = environment;
    let core_bytes_per_s = 1.0 / (1.0 / rates.of(Scheme::BitPacked) + 1.0 / rates.scan());
    let compute_seconds = encoded_bytes / core_bytes_per_s / machine.cores as f64;
    let seconds = compute_seconds.max(read_bytes as f64 / machine.disk_bytes_per_s);
    let name = copy.projection().map(|projection| projection.name.clone());
    Ok(CopyCost { name, blocks: left.len() as u64, read_bytes, seconds })
}

/// The blocks that neither zones nor facts rule out.
fn left(
    copy: &TableSnapshot,
    layout: &BlockLayout,
    tests: &[ColumnPredicate],
    settings: ScanSettings,
    ruled_out: &RuledOut,
) -> BlockBits {
    let mut out = BlockBits::none(layout.blocks());
    out.add_at(0, &ruled_out.blocks);
    for decision in tests.iter().filter(|_| settings.sma).filter_map(|test| decision(copy, layout, test)) {
        out.add_at(0, &decision.may.complement());
    }
    out.complement()
}
