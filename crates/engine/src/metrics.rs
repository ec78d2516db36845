//! What a statement cost: counted where the work is done, never estimated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use forebay_cache::ColumnKey;

use crate::facts::Asked;
use crate::traffic::{ChunkSource, Traffic};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Counters of one statement, shared by its workers.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $($(#[$doc])* pub $name: Counter,)+
            /// What its scans were asked.
            asked: Mutex<Vec<Asked>>,
            /// Where its chunks came from, as far as nobody has taken that.
            traffic: Mutex<Traffic>,
        }

        /// The counters at one moment.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct MetricsSnapshot { $($(#[$doc])* pub $name: u64),+ }

        impl Metrics {
            /// The counters now.
            pub fn snapshot(&self) -> MetricsSnapshot {
                MetricsSnapshot { $($name: self.$name.get()),+ }
            }

            /// Adds the counters of `other`.
            pub fn add_all(&self, other: &MetricsSnapshot) {
                $(self.$name.add(other.$name);)+
            }
        }
    };
}

impl Metrics {
    /// Takes note of what a scan was asked, if it was asked something.
    pub(crate) fn note_asked(&self, asked: Option<Asked>) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).extend(asked);
    }

    /// Takes note of where a chunk came from, with its stored and its inflated bytes.
    pub(crate) fn note_chunk(&self, column: ColumnKey, source: ChunkSource, bytes: (u64, u64), inflate_ns: u64) {
        let mut traffic = self.traffic.lock().unwrap_or_else(PoisonError::into_inner);
        traffic.entry(column).or_default().add(source, bytes, inflate_ns);
    }

    /// Where chunks came from since this was asked last.
    pub(crate) fn take_traffic(&self) -> Traffic {
        std::mem::take(&mut *self.traffic.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Where chunks came from, as far as nobody has taken that; it stays there to be taken.
    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What scans were asked.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A count that several threads add to.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

counters! {
    /// Bytes of chunks read from disk.
    read_bytes,
    /// Encoded bytes of the chunks that scans looked at, from cache or disk.
    scanned_bytes,
    /// Bytes of the codes and plain values that scans touched: of every row that a test looked at, and of the rows of the
    /// other columns that were loaded. What memory must deliver at least.
    code_bytes,
    /// Plain bytes of the touched columns of all rows of the scanned tables.
    plain_bytes,
    /// Chunks of the touched columns.
    chunks,
    /// Chunks of the touched columns that were never needed.
    chunks_pruned,
    /// Chunks that were read in part: only those of their blocks that were needed.
    chunks_in_part,
    /// Blocks of the scanned tables.
    blocks,
    /// Blocks that min and max ruled out.
    blocks_pruned,
    /// Morsels finished.
    morsels_done,
    /// Rows of blocks that were not ruled out.
    rows_in,
    /// Rows of those that positional aggregates (PSMA) left out before any test.
    psma_rows,
    /// Rows that passed all tests on codes, where filters on rows follow.
    rows_filtered,
    /// Rows that left the scan.
    rows_out,
    /// Nanoseconds spent waiting for reads.
    read_ns,
    /// Nanoseconds spent inflating.
    inflate_ns,
    /// Nanoseconds that pipelines were expected to take ([`crate::column_shares`]).
    expected_ns,
    /// Nanoseconds that these pipelines took.
    expected_of_ns,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_add_up() {
        let (a, b) = (Metrics::default(), Metrics::default());
        a.read_bytes.add(3);
        b.add_all(&a.snapshot());
        b.add_all(&a.snapshot());
        assert_eq!(b.snapshot(), MetricsSnapshot { read_bytes: 6, ..Default::default() });
    }
}
