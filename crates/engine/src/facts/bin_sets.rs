//! What one fact file says: for some columns of one table, their own or those of a table that they lead to, the bins of the values
//! of every block. `docs/format.md`, "Bin sets".

use forebay_base::{ColumnId, Result, SegmentId, TableId};
use forebay_prune::bins::{BinSet, Bins};
use forebay_store::Hop;
use forebay_store::serial::{Reader, Writer};

/// The kind and version of such facts.
pub const KIND: (u16, u32) = forebay_store::BIN_SETS;

/// Bytes of a hop.
const HOP_BYTES: usize = 16;
/// Bytes of a segment.
const SEGMENT_BYTES: usize = 12;

/// A column, and what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// The column, of the table that the hops end at.
    pub column: ColumnId,
    /// Its bins.
    pub bins: Bins,
    /// One per block of the segments, in their order.
    pub sets: Vec<BinSet>,
}

/// The content of a fact file.
#[derive(Debug, Clone, PartialEq)]
pub struct BinSets {
    /// From the table that the fact is about to the one whose columns these are; none where they are its own.
    pub hops: Vec<Hop>,
    /// The segments that it knows, with the number of their blocks.
    pub segments: Vec<(SegmentId, u32)>,
    /// What it knows.
    pub attributes: Vec<Attribute>,
}

impl BinSets {
    /// The content of its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.count(self.hops.len());
        for hop in &self.hops {
            writer.u32(hop.column.0);
            writer.u64(hop.table.0);
            writer.u32(hop.key.0);
        }
        writer.count(self.segments.len());
        for (segment, blocks) in &self.segments {
            writer.u64(segment.0);
            writer.u32(*blocks);
        }
        writer.count(self.attributes.len());
        for attribute in &self.attributes {
            writer.u32(attribute.column.0);
            writer.count(attribute.bins.ranges().len());
            for (low, high) in attribute.bins.ranges() {
                writer.value(Some(low));
                writer.value(Some(high));
            }
            attribute.sets.iter().for_each(|set| writer.bytes.extend_from_slice(&set.to_bytes()));
        }
        writer.bytes
    }

    /// What these bytes say.
    ///
    /// # Errors
    /// `Corrupt` where they are not the content of such a fact.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, "the fact");
        let hop = |reader: &mut Reader<'_>| {
            let (column, table) = (ColumnId(reader.u32()?), TableId(reader.u64()?));
            Ok(Hop { column, table, key: ColumnId(reader.u32()?) })
        };
        let hops = (0..reader.count(HOP_BYTES)?).map(|_| hop(&mut reader)).collect::<Result<_>>()?;
        let segment = |reader: &mut Reader<'_>| Ok((SegmentId(reader.u64()?), reader.u32()?));
        let segments: Vec<_> =
            (0..reader.count(SEGMENT_BYTES)?).map(|_| segment(&mut reader)).collect::<Result<_>>()?;
        let blocks = segments.iter().map(|(_, blocks)| u64::from(*blocks)).sum::<u64>();
        let set_bytes = usize::try_from(blocks).ok().and_then(|blocks| blocks.checked_mul(BinSet::BYTES));
        let set_bytes = set_bytes.filter(|bytes_of_sets| *bytes_of_sets <= bytes.len());
        let set_bytes = set_bytes.ok_or_else(|| reader.wrong("it counts more blocks than it holds"))?;
        let mut attributes = Vec::new();
        for _ in 0..reader.count(size_of::<u32>())? {
            let column = ColumnId(reader.u32()?);
            let mut ranges = Vec::new();
            for _ in 0..reader.count(2)? {
                let (low, high) = (reader.value()?, reader.value()?);
                let (Some(low), Some(high)) = (low, high) else {
                    return Err(reader.wrong("a bin has no bounds"));
                };
                ranges.push((low, high));
            }
            let bins = Bins::new(ranges).ok_or_else(|| reader.wrong("its bins are in no order"))?;
            let sets = reader.take(set_bytes)?.as_chunks::<{ BinSet::BYTES }>().0.iter().map(BinSet::from_bytes);
            attributes.push(Attribute { column, bins, sets: sets.collect() });
        }
        reader.finish()?;
        Ok(Self { hops, segments, attributes })
    }

    /// Where the sets of a segment are among those of an attribute.
    pub fn sets_of(&self, segment: SegmentId) -> Option<std::ops::Range<usize>> {
        let mut first = 0;
        for (known, blocks) in &self.segments {
            let next = first + *blocks as usize;
            if *known == segment {
                return Some(first..next);
            }
            first = next;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::Value;

    use super::*;

    fn known() -> BinSets {
        let bins = Bins::new(vec![
            (Value::Bytes(b"a".to_vec()), Value::Bytes(b"b".to_vec())),
            (Value::Bytes(b"c".to_vec()), Value::Bytes(b"c".to_vec())),
        ]);
        let mut set = BinSet::default();
        set.insert(1);
        BinSets {
            hops: vec![Hop { column: ColumnId(3), table: TableId(7), key: ColumnId(0) }],
            segments: vec![(SegmentId(5), 2), (SegmentId(2), 1)],
            attributes: vec![Attribute {
                column: ColumnId(4),
                bins: bins.expect("ranges in order"),
                sets: vec![set, BinSet::default(), set],
            }],
        }
    }

    #[test]
    fn what_is_written_is_read_and_cuts_are_errors() {
        let bytes = known().to_bytes();
        assert_eq!(BinSets::from_bytes(&bytes).expect("own bytes"), known());
        for cut in 0..bytes.len() {
            assert!(BinSets::from_bytes(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for place in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 0xFF;
            // An error or another fact; no panic, and no memory beyond what the bytes hold.
            let _ = BinSets::from_bytes(&wrong);
        }
    }

    #[test]
    fn sets_are_found_by_segment() {
        let known = known();
        assert_eq!(known.sets_of(SegmentId(5)), Some(0..2));
        assert_eq!(known.sets_of(SegmentId(2)), Some(2..3));
        assert_eq!(known.sets_of(SegmentId(1)), None);
    }
}
