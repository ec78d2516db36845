//! Rows of a table, counted by segment.
//!
//! Must not know: queries.

use forebay_base::{Error, Result};
use forebay_store::SegmentList;

/// How many rows were counted in each segment of a table.
#[derive(Debug)]
pub struct SegmentCounts {
    /// By segment: the number of stored rows up to its end.
    ends: Vec<u64>,
    counts: Vec<u64>,
}

impl SegmentCounts {
    /// None yet.
    pub fn of(segments: &SegmentList) -> Self {
        let end = |end: &mut u64, rows: u64| {
            *end += rows;
            Some(*end)
        };
        let ends: Vec<u64> = segments.iter().map(|segment| segment.stored_rows()).scan(0, end).collect();
        Self { counts: vec![0; ends.len()], ends }
    }

    /// Counts the rows at these places of the table, as [`forebay_store::TableSnapshot::with_places`] numbers those of its own segments.
    ///
    /// # Errors
    /// A place behind all rows.
    pub fn add(&mut self, places: &[u64]) -> Result<()> {
        for place in places {
            let segment = self.ends.partition_point(|end| end <= place);
            let count = self.counts.get_mut(segment).ok_or_else(|| Error::internal("a place behind all rows"))?;
            *count += 1;
        }
        Ok(())
    }

    /// By segment.
    pub fn into_counts(self) -> Vec<u64> {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_where_they_lie() {
        let mut counts = SegmentCounts { ends: vec![3, 3, 5], counts: vec![0; 3] };
        counts.add(&[4, 0, 2]).expect("rows that are there");
        counts.add(&[3]).expect("a row that is there");
        assert!(counts.add(&[5]).is_err());
        assert_eq!(counts.into_counts(), [2, 0, 2]);
    }
}
