//! A database as plain values: what the tests of crashes and of flipped bytes compare a store with.
//!
//! Every table has a column `id` and a column `note` that follows from it, so that a row is one number.

#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod version_2;

use std::collections::BTreeMap;

use forebay_base::{ColumnId, Error, LogicalType, PhysicalType, ProjectionId, Result};
use forebay_block::{
    Access, ChunkOptions, EncodeOptions, EncodedBlock, Inflate, InflatedChunk, PlainColumn, PlainValues, ValueRef,
    Values, encode_block, inflate_chunk, seal_chunk,
};
use forebay_store::{
    ColumnDefinition, FactDefinition, FactSource, OrderKey, ProjectionDefinition, SealedColumn, SealedFact,
    SealedGroup, SealedSegment, Segment, Store, Table, TableDefinition, TableSnapshot,
};

const COLUMNS: [(ColumnId, PhysicalType); 2] = [(ColumnId(0), PhysicalType::I64), (ColumnId(1), PhysicalType::Bytes)];

/// Rows of a block in these tests.
const BLOCK_ROWS: usize = 3;
/// Blocks of a row group in these tests.
const GROUP_BLOCKS: usize = 3;
/// 2^this blocks make a chunk of the column `note`.
const NOTE_BLOCKS_LOG2: u8 = 1;

/// Tables with their rows in order, views with their texts, and the contents of the facts about a table, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) tables: BTreeMap<String, Vec<Vec<i64>>>,
    /// Hot rows of tables that have some.
    pub(crate) hot: BTreeMap<String, Vec<i64>>,
    pub(crate) views: BTreeMap<String, String>,
    /// Of tables that have facts.
    pub(crate) facts: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Model {
    /// The same with the cuts between segments forgotten.
    pub(crate) fn flat(&self) -> (BTreeMap<String, Vec<i64>>, BTreeMap<String, String>) {
        let tables = self.tables.iter().map(|(name, segments)| (name.clone(), segments.concat()));
        (tables.collect(), self.views.clone())
    }
}

impl Model {
    /// The same with the order of rows, and which segment they are in or whether they are hot, forgotten.
    pub(crate) fn unordered(mut self) -> Self {
        for (name, rows) in std::mem::take(&mut self.hot) {
            self.tables.entry(name).or_default().push(rows);
        }
        for segments in self.tables.values_mut() {
            let mut rows = segments.concat();
            rows.sort_unstable();
            *segments = vec![rows];
        }
        self
    }
}

/// SplitMix64: the same numbers for the same seed, everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// The definition that every table here has.
pub(crate) fn definition(name: &str) -> TableDefinition {
    let column = |name: &str, logical, nullable| ColumnDefinition {
        name: name.into(),
        logical,
        nullable,
        default: None,
        missing: None,
    };
    let columns = vec![column("id", LogicalType::Int64, false), column("note", LogicalType::Varchar, true)];
    TableDefinition { schema: "main".into(), name: name.into(), columns, constraints: vec![] }
}

pub(crate) fn note(id: i64) -> Option<String> {
    (id % 5 != 0).then(|| format!("note {}", id % 7))
}

/// Writes a segment file with these rows.
pub(crate) fn write_segment(store: &Store, ids: &[i64]) -> Result<SealedSegment> {
    let writer = store.segment_writer(COLUMNS.to_vec())?;
    for (index, rows) in ids.chunks(BLOCK_ROWS * GROUP_BLOCKS).enumerate() {
        writer.append_group(index as u64, group(rows)?)?;
    }
    writer.finish()
}

/// Writes segment files with these rows, one in each data directory that gets some of them.
pub(crate) fn write_striped(store: &Store, ids: &[i64]) -> Result<Vec<SealedSegment>> {
    write_striped_with(store, ids, || {})
}

/// The same, with something done when all rows are written and no segment is finished.
pub(crate) fn write_striped_with(store: &Store, ids: &[i64], before: impl FnOnce()) -> Result<Vec<SealedSegment>> {
    let writer = store.striped_writer(COLUMNS.to_vec(), usize::MAX)?;
    for (index, rows) in (0..).zip(ids.chunks(BLOCK_ROWS * GROUP_BLOCKS)) {
        writer.append_group(index, index, group(rows)?)?;
    }
    before();
    writer.finish()
}

/// Writes a fact file about a table as it is, of a kind that nobody knows.
pub(crate) fn write_fact(store: &Store, table: &Table, content: &[u8]) -> Result<SealedFact> {
    let sources = vec![FactSource { table: table.id, version: table.version }];
    let columns = vec![ColumnId(0)];
    let definition = FactDefinition { kind: 900, version: 1, optional: true, table: table.id, columns, sources };
    store.write_fact(definition, content)
}

fn group(ids: &[i64]) -> Result<SealedGroup> {
    let blocks: Vec<&[i64]> = ids.chunks(BLOCK_ROWS).collect();
    let ids = seal(&blocks, 0, |block, encoded| {
        let bytes: Vec<u8> = block.iter().flat_map(|id| id.to_le_bytes()).collect();
        let values = PlainValues::Fixed(&bytes);
        let plain = PlainColumn { physical: PhysicalType::I64, rows: block.len(), validity: None, values };
        encode_block(&plain, &EncodeOptions::default(), encoded)
    })?;
    let notes = seal(&blocks, NOTE_BLOCKS_LOG2, |block, encoded| {
        let notes: Vec<Option<String>> = block.iter().map(|id| note(*id)).collect();
        let bytes: Vec<&[u8]> = notes.iter().map(|note| note.as_deref().unwrap_or_default().as_bytes()).collect();
        let valid = notes.iter().enumerate().fold(0u8, |bits, (row, note)| bits | u8::from(note.is_some()) << row);
        let (validity, values) = ([valid], PlainValues::Bytes(&bytes));
        let plain = PlainColumn { physical: PhysicalType::Bytes, rows: block.len(), validity: Some(&validity), values };
        encode_block(&plain, &EncodeOptions::default(), encoded)
    })?;
    let block_rows = blocks.iter().map(|block| block.len() as u32).collect();
    Ok(SealedGroup { block_rows, columns: vec![ids, notes] })
}

fn seal(
    blocks: &[&[i64]],
    blocks_log2: u8,
    encode: impl Fn(&[i64], &mut Vec<u8>) -> Result<forebay_block::Zone>,
) -> Result<SealedColumn> {
    let mut column =
        SealedColumn { chunks: vec![], blocks_log2, plain_bytes: 0, zones: vec![], statistics: Default::default() };
    for chunk in blocks.chunks(1 << blocks_log2) {
        let (mut encoded, mut offsets) = (Vec::new(), Vec::new());
        for block in chunk {
            offsets.push(encoded.len() as u32);
            column.zones.push(encode(block, &mut encoded)?);
        }
        column.chunks.push(seal_chunk(&encoded, &offsets, &ChunkOptions::default())?);
    }
    Ok(column)
}

/// Reads everything that the current catalog names, the way queries do.
pub(crate) fn observe(store: &Store) -> Result<Model> {
    let catalog = store.catalog();
    let mut model = Model::default();
    for table in catalog.tables() {
        let segments = table.segments.iter().map(|segment| read_segment(segment)).collect::<Result<Vec<_>>>()?;
        check_copies(table, &segments)?;
        let (hot, segments): (Vec<_>, Vec<_>) =
            segments.into_iter().zip(&table.segments).partition(|(_, segment)| segment.is_hot());
        let rows = |segments: Vec<(Vec<i64>, _)>| segments.into_iter().map(|(rows, _)| rows).collect::<Vec<_>>();
        let (hot, segments) = (rows(hot).concat(), rows(segments));
        if !hot.is_empty() {
            model.hot.insert(table.name.clone(), hot);
        }
        model.tables.insert(table.name.clone(), segments);
        let facts = catalog.facts_of(table.id).map(|fact| fact.read()).collect::<Result<Vec<_>>>()?;
        if !facts.is_empty() {
            model.facts.insert(table.name.clone(), facts);
        }
    }
    for view in catalog.views() {
        model.views.insert(view.name.clone(), view.sql.clone());
    }
    Ok(model)
}

/// All copies of a table have its rows.
fn check_copies(table: &TableSnapshot, segments: &[Vec<i64>]) -> Result<()> {
    let sorted = |segments: &[Vec<i64>]| {
        let mut rows = segments.concat();
        rows.sort_unstable();
        rows
    };
    for copy in table.copies() {
        let own = copy.segments.iter().map(|segment| read_segment(segment)).collect::<Result<Vec<_>>>()?;
        assert_eq!(sorted(&own), sorted(segments), "projection {:?} of {}", copy.projection(), table.name);
    }
    Ok(())
}

/// A projection that is ordered by the first column.
pub(crate) fn projection(name: &str) -> ProjectionDefinition {
    let order = vec![OrderKey { hops: Vec::new(), column: ColumnId(0) }];
    ProjectionDefinition { id: ProjectionId(1), name: name.to_owned(), order, columns: None }
}

fn read_segment(segment: &Segment) -> Result<Vec<i64>> {
    Ok(read_places(segment)?.into_iter().map(|(_, id)| id).collect())
}

/// The rows of a segment that are there, with their places in it.
pub(crate) fn read_places(segment: &Segment) -> Result<Vec<(u64, i64)>> {
    let block_rows: Vec<u32> = segment.groups()?.iter().flat_map(|group| group.block_rows.iter().copied()).collect();
    let is_there = (0..).zip(block_rows).flat_map(|(block, rows)| {
        let gone = segment.deleted().of_block(block);
        (0..rows as usize).map(move |row| !gone.is_some_and(|gone| gone.contains(row)))
    });
    let rows = (0..).zip(read_stored(segment)?).zip(is_there);
    let rows: Vec<(u64, i64)> = rows.filter_map(|(row, is_there)| is_there.then_some(row)).collect();
    assert_eq!(rows.len() as u64, segment.rows());
    Ok(rows)
}

fn read_stored(segment: &Segment) -> Result<Vec<i64>> {
    let mut ids = Vec::new();
    let mut notes = Vec::new();
    for (group_index, group) in segment.groups()?.iter().enumerate() {
        for (column_index, column) in group.columns.iter().enumerate() {
            let physical = segment.columns()[column_index].1;
            let inflate = |chunk: usize| {
                let directory = segment.directory(group_index, column_index, chunk)?;
                let stored = segment.read_chunk((group_index, column_index, chunk))?;
                inflate_chunk(directory, &stored, physical, &Inflate::default())
            };
            let chunks = (0..column.chunks.len()).map(inflate).collect::<Result<Vec<InflatedChunk>>>()?;
            for (index, rows) in group.block_rows.iter().enumerate() {
                let chunk = index >> column.blocks_log2;
                let block = chunks[chunk].block(index - (chunk << column.blocks_log2));
                if block.rows() != *rows as usize {
                    return Err(Error::corrupt("a block has other rows than its group"));
                }
                match physical {
                    PhysicalType::I64 => ids.extend(read_ids(&block)),
                    _ => notes.extend(read_notes(&block)),
                }
            }
        }
    }
    assert_eq!(ids.len() as u64, segment.stored_rows());
    assert_eq!(notes, ids.iter().map(|id| note(*id)).collect::<Vec<_>>());
    Ok(ids)
}

fn read_ids(block: &EncodedBlock<'_>) -> Vec<i64> {
    let fixed = |values: &Values<'_>, index: usize| match values {
        Values::Fixed(values) => i64::from_le_bytes(values.get(index).try_into().expect("8-byte values")),
        Values::Strings(_) => panic!("strings in a column of integers"),
    };
    let value = |row: usize| match block.access() {
        Access::AllNull => panic!("NULL in a column without"),
        Access::Constant(ValueRef::Int(value)) => value as i64,
        Access::Constant(_) => panic!("no integer"),
        Access::FrameOfReference { base, codes } => (base + i128::from(codes.get(row))) as i64,
        Access::Dictionary { values, codes } => fixed(&values, codes.get(row) as usize),
        Access::Plain(values) => fixed(&values, row),
        Access::RunLength { ends, values } => fixed(&values, ends.run_of(row)),
    };
    (0..block.rows()).map(value).collect()
}

fn read_notes(block: &EncodedBlock<'_>) -> Vec<Option<String>> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("notes are text");
    let string = |values: &Values<'_>, index: usize| match values {
        Values::Strings(values) => text(values.get(index)),
        Values::Fixed(_) => panic!("integers in a column of text"),
    };
    let value = |row: usize| {
        if block.validity().is_some_and(|bits| bits[row / 8] >> (row % 8) & 1 == 0) {
            return None;
        }
        match block.access() {
            Access::AllNull => None,
            Access::Constant(ValueRef::Bytes(value)) => Some(text(value)),
            Access::Constant(_) | Access::FrameOfReference { .. } => panic!("no text"),
            Access::Dictionary { values, codes } => Some(string(&values, codes.get(row) as usize)),
            Access::Plain(values) => Some(string(&values, row)),
            Access::RunLength { ends, values } => Some(string(&values, ends.run_of(row))),
        }
    };
    (0..block.rows()).map(value).collect()
}
