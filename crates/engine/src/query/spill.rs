//! Rows of a state that do not fit the memory of a query: on disk, by partition of their hash, in a file without a name.
//!
//! Invariants: what is read is what was written, or an error; the file ends with the query, also by `kill -9`. Must not
//! know: what the rows are for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_base::checksum::crc32c;
use forebay_base::{Context, Error, Result, units};
use forebay_cpu::rows::RowBuffer;
use forebay_cpu::runs::{Partitions, Run, RunLayout};
use forebay_disk::DiskFile;

use crate::CancelToken;

/// Rows on disk. Workers write and read them side by side.
#[derive(Debug)]
pub(super) struct Spill {
    layout: RunLayout,
    partitions: Partitions,
    file: Arc<dyn DiskFile>,
    /// Where the file ends.
    end: AtomicU64,
    read_bytes: AtomicU64,
    /// By partition.
    places: Vec<Mutex<Vec<Place>>>,
}

/// Where a run lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    offset: u64,
    length: usize,
    rows: usize,
    /// Bytes that its rows refer to.
    bytes: usize,
    checksum: u32,
}

impl Spill {
    /// Nothing yet, in an empty file.
    pub(super) fn new(file: Arc<dyn DiskFile>, layout: RunLayout, partitions: Partitions) -> Self {
        let places = (0..partitions.count()).map(|_| Mutex::default()).collect();
        let (end, read_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { layout, partitions, file, end, read_bytes, places }
    }

    /// Which rows are where.
    pub(super) fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    /// Adds a run to its partition.
    pub(super) fn write(&self, partition: usize, run: &Run) -> Result<()> {
        let packed = run.pack(&self.layout);
        let (length, checksum) = (packed.len(), crc32c(&packed));
        let offset = self.end.fetch_add(length as u64, Ordering::Relaxed);
        self.file.write_at(offset, &packed).context(|| "rows of a query that do not fit its memory")?;
        let (rows, bytes) = (self.layout.rows_of(run), run.bytes.len());
        self.places(partition).push(Place { offset, length, rows, bytes, checksum });
        Ok(())
    }

    /// The runs of a partition, in the order in which they were written.
    pub(super) fn runs(&self, partition: usize) -> Vec<Place> {
        self.places(partition).clone()
    }

    /// Reads a run.
    pub(super) fn read(&self, place: &Place) -> Result<RowBuffer> {
        let mut packed = vec![0; place.length];
        self.file.read_at(place.offset, &mut packed)?;
        self.read_bytes.fetch_add(place.length as u64, Ordering::Relaxed);
        let run = (crc32c(&packed) == place.checksum)
            .then(|| Run::unpack(&self.layout, place.rows, place.bytes, &packed))
            .flatten();
        match run {
            Some(run) => Ok(RowBuffer::of_run(&self.layout, run)),
            None => {
                Err(Error::corrupt(format!("rows at {} of a temporary file are not what was written", place.offset)))
            }
        }
    }

    /// Bytes of a run in memory.
    pub(super) fn run_bytes(&self, place: &Place) -> u64 {
        (place.rows * self.layout.row_bytes() + place.bytes) as u64
    }

    /// Bytes of the rows of a partition in memory.
    pub(super) fn partition_bytes(&self, partition: usize) -> u64 {
        self.places(partition).iter().map(|place| self.run_bytes(place)).sum()
    }

    /// Number of all rows.
    pub(super) fn rows(&self) -> u64 {
        (0..self.places.len()).flat_map(|partition| self.runs(partition)).map(|place| place.rows as u64).sum()
    }

    /// Divides partitions that take more than so many bytes, as long as that helps: rows with one hash stay together.
    pub(super) fn divide(&mut self, partition_bytes: u64, cancel: &CancelToken) -> Result<()> {
        let mut open: Vec<usize> = (0..self.partitions.count()).collect();
        while let Some(partition) = open.pop() {
            let before = self.partition_bytes(partition);
            if before <= partition_bytes {
                continue;
            }
            // Some more than fit exactly, since partitions are not equal.
            let wanted = (before + before / 4).div_ceil(partition_bytes.max(1));
            let parts = self.partitions.split(partition, wanted);
            if parts.is_empty() {
                continue;
            }
            self.places.resize_with(self.partitions.count(), Mutex::default);
            let places = std::mem::take(&mut *self.places(partition));
            for place in places {
                cancel.check()?;
                let mut rows = self.read(&place)?;
                rows.take_runs(&self.layout, &self.partitions, &mut |part, run| self.write(part, run))?;
            }
            let largest =
                parts.clone().map(|part| self.partition_bytes(part)).fold(self.partition_bytes(partition), u64::max);
            if largest < before {
                open.push(partition);
                open.extend(parts);
            }
        }
        Ok(())
    }

    /// What it cost, for EXPLAIN ANALYZE.
    pub(super) fn note(&self) -> String {
        let used = (0..self.places.len()).filter(|partition| !self.places(*partition).is_empty()).count();
        format!("on disk: {used} partitions, {} written", units::format_bytes(self.written_bytes()))
    }

    /// Bytes that were written.
    pub(super) fn written_bytes(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// Bytes that were read.
    pub(super) fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    fn places(&self, partition: usize) -> MutexGuard<'_, Vec<Place>> {
        // A place is pushed whole.
        self.places[partition].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
