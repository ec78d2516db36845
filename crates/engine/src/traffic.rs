//! Where the chunks of columns came from: the cache, in one of its two forms, or the disk.
//!
//! Must not know: what becomes of the figures.

use std::collections::BTreeMap;

use forebay_cache::ColumnKey;

/// Where a chunk was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkSource {
    /// In the cache, inflated.
    Inflated,
    /// In the cache, as it is stored.
    Stored,
    /// On disk.
    Disk,
}

/// What came from one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Chunks, and parts of chunks.
    pub chunks: u64,
    /// Their bytes as they are stored.
    pub stored_bytes: u64,
    /// Their bytes once inflated.
    pub inflated_bytes: u64,
}

/// What came of a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColumnTraffic {
    /// From the cache, inflated.
    pub inflated: Arrived,
    /// From the cache, as it is stored.
    pub stored: Arrived,
    /// From disk.
    pub disk: Arrived,
    /// Time of one core to inflate what was not.
    pub inflate_ns: u64,
}

/// What came, by column.
pub type Traffic = BTreeMap<ColumnKey, ColumnTraffic>;

impl ColumnTraffic {
    /// Counts a chunk with its stored and its inflated bytes.
    pub(crate) fn add(&mut self, source: ChunkSource, (stored, inflated): (u64, u64), inflate_ns: u64) {
        let arrived = match source {
            ChunkSource::Inflated => &mut self.inflated,
            ChunkSource::Stored => &mut self.stored,
            ChunkSource::Disk => &mut self.disk,
        };
        arrived.chunks += 1;
        arrived.stored_bytes += stored;
        arrived.inflated_bytes += inflated;
        self.inflate_ns += inflate_ns;
    }

    /// The same, so many times.
    pub(crate) fn times(&self, factor: f64) -> Self {
        let times = |count: u64| (count as f64 * factor) as u64;
        let arrived = |arrived: &Arrived| Arrived {
            chunks: times(arrived.chunks),
            stored_bytes: times(arrived.stored_bytes),
            inflated_bytes: times(arrived.inflated_bytes),
        };
        let [inflated, stored, disk] = [&self.inflated, &self.stored, &self.disk].map(arrived);
        Self { inflated, stored, disk, inflate_ns: times(self.inflate_ns) }
    }

    fn sum(&self, of: fn(&Arrived) -> u64) -> u64 {
        of(&self.inflated) + of(&self.stored) + of(&self.disk)
    }

    /// Bytes of all that came, as they are stored.
    pub fn stored_bytes(&self) -> u64 {
        self.sum(|arrived| arrived.stored_bytes)
    }

    /// Bytes of all that came, once inflated.
    pub fn inflated_bytes(&self) -> u64 {
        self.sum(|arrived| arrived.inflated_bytes)
    }

    /// The shares of it, by inflated bytes, that came from the cache inflated, from there as it is stored, and from disk.
    pub fn shares(&self) -> [f64; 3] {
        let all = self.inflated_bytes().max(1) as f64;
        [self.inflated, self.stored, self.disk].map(|arrived| arrived.inflated_bytes as f64 / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_inflated_bytes() {
        let mut column = ColumnTraffic::default();
        assert_eq!(column.shares(), [0.0; 3]);
        column.add(ChunkSource::Inflated, (10, 50), 0);
        column.add(ChunkSource::Stored, (10, 25), 7);
        column.add(ChunkSource::Disk, (20, 25), 8);
        assert_eq!((column.shares(), column.inflate_ns), ([0.5, 0.25, 0.25], 15));
        assert_eq!((column.stored_bytes(), column.inflated_bytes()), (40, 100));
        let twice = column.times(2.0);
        assert_eq!((twice.shares(), twice.inflate_ns, twice.disk.chunks), ([0.5, 0.25, 0.25], 30, 2));
    }
}
