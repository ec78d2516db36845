//! Every call of the store, on disks in memory: what it does, what it refuses, and what is there after a reopen.

mod beside;
mod bytes;
mod deleting;
mod durability;
mod files;
mod hot;
mod hot_log;
mod images;
mod memory;
mod opening;
mod places;
mod redo;
mod tables;

use std::sync::Arc;

use forebay_base::{ColumnId, Durability, ErrorKind, LogicalType, PhysicalType, Result, TableId, Value};
use forebay_block::{
    ChunkOptions, ColumnStatistics, EncodeOptions, Inflate, PlainColumn, PlainValues, encode_block, inflate_chunk,
    seal_chunk,
};
use forebay_disk::{Disk, FaultKind, Faults, IoMode, LocalDisk, MemoryDisk, OpenMode as FileMode, SimulatedDisk};

use crate::footer::directory;
use crate::{
    data_directories, fact, footer, head, hot_files, manifest, outcome, projection, recovery, redo_log, rows, store,
    volume, *,
};

const INT: (ColumnId, PhysicalType) = (ColumnId(0), PhysicalType::I64);

/// Opens a database in which each segment has a file of its own at once.
pub(crate) fn open(disk: &MemoryDisk) -> Result<Store> {
    let limits = LogLimits { small_bytes: 0, ..LogLimits::default() };
    Store::open_limited(Arc::new(disk.clone()), OpenMode::ReadWrite, "process 1 (test)", limits)
}

pub(crate) fn column(name: &str, logical: LogicalType) -> ColumnDefinition {
    ColumnDefinition { name: name.into(), logical, nullable: true, default: None, missing: None }
}

pub(crate) fn table(name: &str) -> TableDefinition {
    let columns = vec![column("Id", LogicalType::Int64), column("note", LogicalType::Varchar)];
    TableDefinition { schema: "main".into(), name: name.into(), columns, constraints: vec![] }
}

pub(crate) fn change<T>(store: &Store, edit: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
    let mut transaction = store.begin()?;
    let value = edit(&mut transaction)?;
    transaction.commit()?;
    Ok(value)
}

/// A group of one column: one chunk per block.
fn group(blocks: &[&[i64]]) -> SealedGroup {
    let mut sealed = SealedColumn {
        chunks: vec![],
        blocks_log2: 0,
        plain_bytes: 0,
        zones: vec![],
        statistics: ColumnStatistics::default(),
    };
    for values in blocks {
        sealed.plain_bytes += size_of_val(*values) as u64;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let plain = PlainColumn {
            physical: PhysicalType::I64,
            rows: values.len(),
            validity: None,
            values: PlainValues::Fixed(&bytes),
        };
        let mut encoded = Vec::new();
        sealed.statistics.add(&plain);
        sealed.zones.push(encode_block(&plain, &EncodeOptions::default(), &mut encoded).expect("plain values encode"));
        let chunk = seal_chunk(&encoded, &[0], &ChunkOptions::default()).expect("one block seals");
        sealed.chunks.push(chunk);
    }
    SealedGroup { block_rows: blocks.iter().map(|block| block.len() as u32).collect(), columns: vec![sealed] }
}

pub(crate) fn segment(store: &Store, values: &[i64]) -> Result<SealedSegment> {
    let writer = store.segment_writer(vec![INT])?;
    writer.append_group(0, group(&[values]))?;
    writer.finish()
}

/// First value and number of rows of every block of the first column.
fn blocks(segment: &Segment) -> Vec<(Option<Value>, usize)> {
    let mut found = Vec::new();
    for (index, group) in segment.groups().expect("a sound footer").iter().enumerate() {
        for (chunk, _) in group.columns[0].chunks.iter().enumerate() {
            let stored = segment.read_chunk((index, 0, chunk)).expect("a chunk");
            let directory = segment.directory(index, 0, chunk).expect("a directory");
            let inflated =
                inflate_chunk(directory, &stored, PhysicalType::I64, &Inflate::default()).expect("a sound chunk");
            for block in 0..inflated.blocks() {
                let zone = &group.columns[0].zones[found.len() % group.block_rows.len()];
                found.push((zone.min.clone(), inflated.block(block).rows()));
            }
        }
    }
    found
}

pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("this must fail").kind()
}

pub(crate) fn segment_files(disk: &MemoryDisk) -> usize {
    disk.list("segments").expect("the folder is there").len()
}
