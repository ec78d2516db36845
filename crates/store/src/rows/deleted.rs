//! Rows of deleted rows: one per block that has such rows, under the id of its segment and its number in that.

use std::collections::BTreeMap;

use forebay_base::{Error, Result, SegmentId};

use super::{ROW_DELETED, Rows, key, seal, unseal};
use crate::deleted::{DeletedRows, RowBits, decode_block, encode_block, of_stored_blocks};
use crate::segment::Segment;
use crate::serial::Reader;

/// Bits of a key's id that are the block's number: a segment has fewer blocks than that.
const BLOCK_BITS: u32 = 24;

/// The id in the key of the row of a block.
///
/// # Panics
/// If the segment has 2^24 blocks (10^12 rows), or 2^40 segments were written before it.
fn deleted_id(segment: SegmentId, block: u32) -> u64 {
    assert!(segment.0 < 1 << (u64::BITS - BLOCK_BITS) && block < 1 << BLOCK_BITS, "a key holds both numbers");
    segment.0 << BLOCK_BITS | u64::from(block)
}

/// Adds the rows of a segment's deleted rows, but for those of blocks that are `unchanged`.
pub(super) fn seal_deleted(rows: &mut Rows, segment: &Segment, unchanged: impl Fn(u32) -> bool) {
    for (block, deleted) in segment.deleted().blocks().filter(|(block, _)| !unchanged(*block)) {
        seal(rows, key(ROW_DELETED, deleted_id(segment.id(), block)), encode_block(deleted));
    }
}

/// An error where these segments, which have deleted rows, are not there.
pub(super) fn check_none_left(deleted: &BTreeMap<SegmentId, DeletedRows>) -> Result<()> {
    match deleted.keys().next() {
        None => Ok(()),
        Some(segment) => {
            Err(Error::corrupt(format!("the manifest has deleted rows of segment {segment}, which it does not have")))
        }
    }
}

/// The deleted rows of every segment that has such rows.
pub(super) fn decode_deleted(rows: &Rows) -> Result<BTreeMap<SegmentId, DeletedRows>> {
    let mut segments: BTreeMap<SegmentId, BTreeMap<u32, RowBits>> = BTreeMap::new();
    for (key, row) in rows.iter().filter(|(key, _)| key[0] == ROW_DELETED) {
        let what = format!("manifest row {key:02x?}");
        let mut reader = Reader::new(unseal(key, row)?, &what);
        let id = u64::from_be_bytes(*key.last_chunk().ok_or_else(|| Error::internal("a key is shorter than an id"))?);
        let block = (id & ((1 << BLOCK_BITS) - 1)) as u32;
        segments.entry(SegmentId(id >> BLOCK_BITS)).or_default().insert(block, decode_block(&mut reader)?);
        reader.finish()?;
    }
    Ok(segments.into_iter().map(|(segment, blocks)| (segment, of_stored_blocks(blocks))).collect())
}
