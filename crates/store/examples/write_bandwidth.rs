//! How fast row groups become a durable segment file: `cargo run --release -p forebay-store --example write_bandwidth --
//! DIRECTORY [MIB] [THREADS]`. Makes a database in DIRECTORY and leaves it there.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use forebay_base::{ColumnId, Error, PhysicalType, Result};
use forebay_block::{ChunkOptions, EncodeOptions, PlainColumn, PlainValues, encode_block, seal_chunk};
use forebay_disk::{IoMode, LocalDisk};
use forebay_store::{OpenMode, SealedColumn, SealedGroup, Store};

/// Rows of a block, blocks of a group and columns of the table that is written.
const ROWS: usize = 65_536;
const BLOCKS: usize = 8;
const COLUMNS: u32 = 8;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| -> Result<u64> {
        let Some(text) = arguments.get(index) else { return Ok(default) };
        text.parse().map_err(|_| Error::input(format!("{text} is not a number")))
    };
    let directory =
        arguments.first().ok_or_else(|| Error::input("usage: write_bandwidth DIRECTORY [MIB] [THREADS]"))?;
    let (mebibytes, threads) = (number(1, 2048)?, number(2, 2)?);
    let disk = LocalDisk::open(Path::new(directory), IoMode::Auto)?;
    let store = Store::open(Arc::new(disk), OpenMode::ReadWrite, "write_bandwidth")?;
    let columns = (0..COLUMNS).map(|id| (ColumnId(id), PhysicalType::I64)).collect();
    let writer = store.segment_writer(columns)?;
    let template = column()?;
    let group_bytes: u64 =
        template.chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum::<u64>() * u64::from(COLUMNS);
    let groups = (mebibytes << 20) / group_bytes;
    let next = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let write = || -> Result<()> {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= groups {
                    return Ok(());
                }
                let columns = (0..COLUMNS).map(|_| column_again(&template)).collect();
                writer.append_group(index, SealedGroup { block_rows: vec![ROWS as u32; BLOCKS], columns })?;
            }
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(write)).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    let written = start.elapsed();
    let sealed = writer.finish()?;
    let durable = start.elapsed();
    let rate = |elapsed: std::time::Duration| sealed.file_bytes() as f64 / elapsed.as_secs_f64() / 1e9;
    println!(
        "{} MiB in groups of {} KiB, {threads} threads: {:.2} GB/s accepted, {:.2} GB/s durable",
        sealed.file_bytes() >> 20,
        group_bytes >> 10,
        rate(written),
        rate(durable)
    );
    Ok(())
}

/// A column of numbers that do not compress.
fn column() -> Result<SealedColumn> {
    let mut column = SealedColumn {
        chunks: vec![],
        blocks_log2: 1,
        plain_bytes: (BLOCKS * ROWS * 8) as u64,
        zones: vec![],
        statistics: Default::default(),
    };
    let mut state = 1u64;
    for _ in 0..BLOCKS / 2 {
        let (mut encoded, mut offsets) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let mut bytes = Vec::with_capacity(ROWS * 8);
            for _ in 0..ROWS {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                bytes.extend_from_slice(&(state ^ state >> 29).to_le_bytes());
            }
            let values = PlainValues::Fixed(&bytes);
            let plain = PlainColumn { physical: PhysicalType::I64, rows: ROWS, validity: None, values };
            offsets.push(encoded.len() as u32);
            column.zones.push(encode_block(&plain, &EncodeOptions::default(), &mut encoded)?);
        }
        column.chunks.push(seal_chunk(&encoded, &offsets, &ChunkOptions::default())?);
    }
    Ok(column)
}

fn column_again(template: &SealedColumn) -> SealedColumn {
    let chunks = template.chunks.iter().map(|chunk| forebay_block::SealedChunk {
        bytes: chunk.bytes.clone(),
        encoded_bytes: chunk.encoded_bytes,
        directory: chunk.directory.clone(),
    });
    let SealedColumn { blocks_log2, plain_bytes, ref zones, ref statistics, .. } = *template;
    SealedColumn {
        chunks: chunks.collect(),
        blocks_log2,
        plain_bytes,
        zones: zones.clone(),
        statistics: statistics.clone(),
    }
}
