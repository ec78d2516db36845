//! What single-row commits cost: time, syncs, writes and bytes of each, by one client or by several at once.
//!
//! `cargo run --release -p forebay-store --example small_commits -- FOLDER [CLIENTS] [COMMITS] [SYNC_MS]`: each client makes that many commits, of
//! one row each; a sync takes so many milliseconds longer than the drive does. FOLDER must not have a database yet.
#![allow(clippy::print_stdout, reason = "the output of this program")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_base::{ColumnId, LogicalType, PhysicalType, Result, TableId};
use forebay_block::{
    ChunkOptions, ColumnStatistics, EncodeOptions, PlainColumn, PlainValues, encode_block, seal_chunk,
};
use forebay_disk::{Disk, DiskDirectory, DiskFile, IoMode, LocalDisk, LockKind, OpenMode as FileMode};
use forebay_store::{ColumnDefinition, OpenMode, SealedColumn, SealedGroup, Store, TableDefinition};

/// What went to the drive.
#[derive(Debug, Default)]
struct Counts {
    syncs: AtomicU64,
    writes: AtomicU64,
    bytes: AtomicU64,
    files: AtomicU64,
}

impl Counts {
    fn now(&self) -> [u64; 4] {
        [&self.syncs, &self.writes, &self.bytes, &self.files].map(|count| count.load(Ordering::Relaxed))
    }
}

/// A disk that counts.
#[derive(Debug)]
struct Counting {
    disk: LocalDisk,
    counts: Arc<Counts>,
    sync_time: Duration,
}

#[derive(Debug)]
struct CountingFile {
    file: Arc<dyn DiskFile>,
    counts: Arc<Counts>,
    sync_time: Duration,
}

#[derive(Debug)]
struct CountingDirectory {
    directory: Box<dyn DiskDirectory>,
    counts: Arc<Counts>,
    sync_time: Duration,
}

fn count_sync(counts: &Counts, sync_time: Duration) {
    counts.syncs.fetch_add(1, Ordering::Relaxed);
    if !sync_time.is_zero() {
        std::thread::sleep(sync_time);
    }
}

impl Disk for Counting {
    fn open(&self, path: &str, mode: FileMode) -> Result<Arc<dyn DiskFile>> {
        self.counts.files.fetch_add(u64::from(mode == FileMode::Create), Ordering::Relaxed);
        let (file, counts, sync_time) = (self.disk.open(path, mode)?, Arc::clone(&self.counts), self.sync_time);
        Ok(Arc::new(CountingFile { file, counts, sync_time }))
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.disk.exists(path)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.disk.list(directory)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        self.disk.create_directory(path)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn open_directory(&self, path: &str) -> Result<Box<dyn DiskDirectory>> {
        let (directory, counts) = (self.disk.open_directory(path)?, Arc::clone(&self.counts));
        Ok(Box::new(CountingDirectory { directory, counts, sync_time: self.sync_time }))
    }

    fn lock(&self, path: &str, kind: LockKind, holder: &str) -> Result<Box<dyn Send + Sync>> {
        self.disk.lock(path, kind, holder)
    }

    fn elsewhere(&self, path: &str) -> Result<Arc<dyn Disk>> {
        self.disk.elsewhere(path)
    }

    fn canonical_path(&self) -> Result<String> {
        self.disk.canonical_path()
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }
}

impl DiskFile for CountingFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        self.counts.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        count_sync(&self.counts, self.sync_time);
        self.file.sync()
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes)
    }

    fn path(&self) -> &str {
        self.file.path()
    }
}

impl DiskDirectory for CountingDirectory {
    fn sync(&self) -> Result<()> {
        count_sync(&self.counts, self.sync_time);
        self.directory.sync()
    }
}

/// A row group of one row: a number in each column.
fn group(value: i64, columns: usize) -> Result<SealedGroup> {
    let column = || {
        let bytes = value.to_le_bytes();
        let plain =
            PlainColumn { physical: PhysicalType::I64, rows: 1, validity: None, values: PlainValues::Fixed(&bytes) };
        let (mut encoded, mut statistics) = (Vec::new(), ColumnStatistics::default());
        statistics.add(&plain);
        let zones = vec![encode_block(&plain, &EncodeOptions::default(), &mut encoded)?];
        let chunks = vec![seal_chunk(&encoded, &[0], &ChunkOptions::default())?];
        Ok(SealedColumn { chunks, blocks_log2: 0, plain_bytes: bytes.len() as u64, zones, statistics })
    };
    Ok(SealedGroup { block_rows: vec![1], columns: (0..columns).map(|_| column()).collect::<Result<_>>()? })
}

const COLUMNS: [&str; 4] = ["a", "b", "c", "d"];

fn commit_row(store: &Store, table: TableId, value: i64) -> Result<()> {
    let columns = (0..COLUMNS.len() as u32).map(|id| (ColumnId(id), PhysicalType::I64)).collect();
    let writer = store.segment_writer(columns)?;
    writer.append_group(0, group(value, COLUMNS.len())?)?;
    let sealed = writer.finish()?;
    let mut transaction = store.begin()?;
    transaction.publish(table, vec![sealed])?;
    transaction.commit()
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("the first argument is a folder");
    let mut number = |default: u64| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (clients, commits, sync_ms) = (number(1), number(1000), number(0));
    let counts = Arc::new(Counts::default());
    let disk = LocalDisk::open(std::path::Path::new(&folder), IoMode::Pread)?;
    disk.create_directory("")?;
    let disk = Counting { disk, counts: Arc::clone(&counts), sync_time: Duration::from_millis(sync_ms) };
    let store = Store::open(Arc::new(disk), OpenMode::ReadWrite, "small_commits")?;
    let mut transaction = store.begin()?;
    let column = |name: &&str| ColumnDefinition {
        name: (*name).to_owned(),
        logical: LogicalType::Int64,
        nullable: true,
        default: None,
        missing: None,
    };
    let columns = COLUMNS.iter().map(column).collect();
    let definition = TableDefinition { schema: "main".into(), name: "t".into(), columns, constraints: vec![] };
    let table = transaction.create_table(definition)?;
    transaction.commit()?;
    let (before, start) = (counts.now(), Instant::now());
    std::thread::scope(|scope| {
        let commit = |client| {
            let store = &store;
            let first = (client * commits) as i64;
            move || (first..first + commits as i64).try_for_each(|value| commit_row(store, table, value))
        };
        let threads: Vec<_> = (0..clients).map(|client| scope.spawn(commit(client))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let (elapsed, all) = (start.elapsed(), clients * commits);
    let [syncs, writes, bytes, files] = std::array::from_fn(|at| (counts.now()[at] - before[at]) as f64 / all as f64);
    println!(
        "{clients} clients, {all} commits: {:.0}/s, {:.1} µs each; of each {syncs:.3} syncs ({:.1} commits a sync), {writes:.2} writes, {bytes:.0} bytes, {files:.2} files",
        all as f64 / elapsed.as_secs_f64(),
        elapsed.as_secs_f64() * 1e6 / all as f64,
        1.0 / syncs,
    );
    let start = Instant::now();
    drop(store);
    println!("closed in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
