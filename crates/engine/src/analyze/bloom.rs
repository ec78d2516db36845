//! Makes Bloom filters of the values of a column's chunks.
//!
//! Filters of some chunks are made at a time, and are a fact of their own, so that all of them need not fit into memory.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use forebay_base::{ColumnId, Error, LogicalType, PhysicalType, Result, Value};
use forebay_cpu::pool;
use forebay_cpu::vector::Vector;
use forebay_pipeline::ir::{Register, SourceColumn, TableSource, Typed, ValueType};
use forebay_prune::bloom::{FilterShape, LINE_WORDS, hash_of, hash_of_bytes, hash_of_integer};
use forebay_store::{Catalog, FactDefinition, FactSource, SealedFact, TableSnapshot};

use super::build::Builder;
use super::columns::each_integer;
use crate::facts::{BLOOM_KIND, BloomFilters, FilteredBlocks};
use crate::query::source::{EqualRows, VectorLoader};
use crate::{CancelToken, Engine, Morsel, Scan};

/// Bytes of the filters that are made at a time, about.
const FACT_BYTES: u64 = 64 << 20;

/// Chunks whose different values are counted to tell how many the others have.
const COUNTED_UNITS: usize = 16;

/// A chunk's filter is larger than what was counted asks for by this part, since others may have more values.
const MARGIN: f64 = 1.05;

/// A chunk of a column.
#[derive(Debug, Clone, Copy)]
struct Unit {
    segment: usize,
    blocks: FilteredBlocks,
    rows: u64,
}

impl Unit {
    fn morsel(&self) -> Morsel {
        let FilteredBlocks { group, blocks: (from, to), .. } = self.blocks;
        Morsel::new((self.segment, group as usize), from as usize..to as usize)
    }
}

/// A column that is to have filters, and their bits for each different value of a chunk.
pub type WantedFilter = (ColumnId, u32);

/// Makes Bloom filters of columns of a table, which nobody knows of before a transaction publishes them.
///
/// # Errors
/// Those of reading and writing.
pub fn build_filters(
    engine: &Arc<Engine>,
    catalog: &Catalog,
    table: &Arc<TableSnapshot>,
    wanted: &[WantedFilter],
    (threads, cancel): (usize, &CancelToken),
) -> Result<Vec<SealedFact>> {
    let builder = Builder { engine, catalog, threads, cancel };
    let of_columns = wanted.iter().map(|(column, bits)| builder.bloom(table, *column, *bits));
    Ok(of_columns.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Whether filters can say something of such values.
pub(super) fn can_filter(logical: &LogicalType) -> bool {
    !matches!(logical, LogicalType::Bool) && !matches!(logical.physical(), PhysicalType::F32 | PhysicalType::F64)
}

impl Builder<'_> {
    /// Bloom filters of a column with so many bits for each different value of a chunk.
    pub(super) fn bloom(&self, table: &Arc<TableSnapshot>, column: ColumnId, bits: u32) -> Result<Vec<SealedFact>> {
        let units = units_of(table, column)?;
        if units.is_empty() {
            return Ok(Vec::new());
        }
        let source = column_of(table, column)?;
        let step = units.len().div_ceil(COUNTED_UNITS);
        let mut shares: f64 = 0.0;
        let counted: Vec<Unit> = units.iter().step_by(step).copied().collect();
        let scan = self.scan_of(table, &source, morsels_of(&counted))?;
        for unit in counted {
            let mut different = HashSet::new();
            each_hash(&scan, &source, unit, |hash| {
                different.insert(hash);
            })?;
            shares = shares.max(different.len() as f64 / unit.rows.max(1) as f64);
        }
        let most_rows = units.iter().map(|unit| unit.rows).max().unwrap_or(0);
        let different = (most_rows as f64 * (shares * MARGIN).min(1.0)).ceil() as u64;
        let shape = FilterShape::of(different, bits);
        let at_a_time = (FACT_BYTES / shape.bytes()).max(1) as usize;
        units.chunks(at_a_time).map(|units| self.bloom_of(table, (column, &source), shape, units)).collect()
    }

    fn bloom_of(
        &self,
        table: &Arc<TableSnapshot>,
        (column, source): (ColumnId, &TableSource),
        shape: FilterShape,
        units: &[Unit],
    ) -> Result<SealedFact> {
        let filter_words = shape.lines as usize * LINE_WORDS;
        let words: Vec<AtomicU64> = (0..units.len() * filter_words).map(|_| AtomicU64::new(0)).collect();
        let (next, scan) = (AtomicUsize::new(0), self.scan_of(table, source, morsels_of(units))?);
        let work = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(unit) = units.get(number) else { return Ok(()) };
                self.cancel.check()?;
                let filter = &words[number * filter_words..(number + 1) * filter_words];
                each_hash(&scan, source, *unit, |hash| {
                    let bits = shape.bits_of(hash);
                    let line = &filter[bits.line as usize * LINE_WORDS..];
                    for (word, bits) in line.iter().zip(bits.words).filter(|(_, bits)| *bits != 0) {
                        // A filter has one worker.
                        word.store(word.load(Ordering::Relaxed) | bits, Ordering::Relaxed);
                    }
                })?;
            }
        };
        for end in pool::run(self.threads, work) {
            end.unwrap_or_else(|_| Err(Error::internal("a worker that made a filter panicked")))?;
        }
        let words: Vec<u64> = words.into_iter().map(AtomicU64::into_inner).collect();
        let units = units.iter().map(|unit| unit.blocks).collect();
        let content = BloomFilters::to_bytes(column, shape, units, &words);
        let (kind, version) = BLOOM_KIND;
        let sources = vec![FactSource { table: table.id, version: table.version }];
        let definition =
            FactDefinition { kind, version, optional: true, table: table.id, columns: vec![column], sources };
        self.engine.store().write_fact(definition, &content)
    }
}

/// Calls `see` with the hash of every value of a chunk, but for a value behind an equal one.
fn each_hash(scan: &Arc<Scan>, source: &TableSource, unit: Unit, mut see: impl FnMut(u64)) -> Result<()> {
    let mut loader = VectorLoader::new(source, &[]);
    let mut last = None;
    let rows = scan.run(unit.morsel(), &mut [], &mut [])?;
    while let Some(loaded) = loader.next(&rows, EqualRows::Ignored)? {
        hashes(&loaded.vectors[0], loaded.rows, source.columns[0].typed.value, |hash| {
            if last.replace(hash) != Some(hash) {
                see(hash);
            }
        });
    }
    Ok(())
}

fn morsels_of(units: &[Unit]) -> Vec<Morsel> {
    units.iter().map(Unit::morsel).collect()
}

/// The chunks of a column.
fn units_of(table: &TableSnapshot, column: ColumnId) -> Result<Vec<Unit>> {
    let mut units = Vec::new();
    for (number, segment) in table.segments.iter().enumerate() {
        let Some(index) = segment.column_index(column) else { continue };
        for (group, layout) in segment.groups()?.iter().enumerate() {
            for chunk in 0..layout.columns[index].chunks.len() {
                let blocks = layout.columns[index].blocks_of(chunk);
                let rows = layout.block_rows[blocks.clone()].iter().map(|rows| u64::from(*rows)).sum();
                let (from, to) = (blocks.start as u32, blocks.end as u32);
                let blocks = FilteredBlocks { segment: segment.id(), group: group as u32, blocks: (from, to) };
                units.push(Unit { segment: number, blocks, rows });
            }
        }
    }
    Ok(units)
}

/// A column as its values are loaded, strings as themselves.
fn column_of(table: &TableSnapshot, id: ColumnId) -> Result<TableSource> {
    let (position, column) = table.column_or_error(id)?;
    let physical = column.logical.physical();
    let typed = Typed { value: SourceColumn::widened(physical), nullable: true };
    let (name, to) = (column.name.clone(), Register(0));
    let column = SourceColumn { column: position, name, physical, typed, dictionary: None, to };
    Ok(TableSource { table: 0, name: table.name.clone(), columns: vec![column], tests: Vec::new() })
}

/// Calls `see` with the hash of each value of a vector that is not NULL.
fn hashes(vector: &Vector, rows: usize, value: ValueType, mut see: impl FnMut(u64)) {
    match value {
        ValueType::I64 => each_integer(vector, rows, |value| see(hash_of_integer(value.into()))),
        ValueType::Bytes => {
            (0..rows).filter(|row| vector.is_valid(*row)).for_each(|row| see(hash_of_bytes(vector.bytes(row))));
        }
        ValueType::I128 | ValueType::F64 | ValueType::Bool => {
            let known = (0..rows).filter(|row| vector.is_valid(*row));
            let values = known.filter_map(|row| vector.scalar(row, value).to_value());
            values.filter_map(|value: Value| hash_of(&value)).for_each(see);
        }
    }
}
