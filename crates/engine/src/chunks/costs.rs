//! Where it is noted what chunks cost.
//!
//! Must not know: how chunks are made.

use forebay_base::Result;
use forebay_block::InflatedChunk;
use forebay_store::Segment;

use super::WantedChunk;
use crate::Metrics;
use crate::timeline::SourceTimeline;
use crate::traffic::ChunkSource;

/// Where it is noted what chunks cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs<'a> {
    pub(crate) metrics: &'a Metrics,
    pub(crate) timeline: Option<&'a SourceTimeline>,
}

impl Costs<'_> {
    /// Takes note of where a chunk came from.
    pub(super) fn note(
        &self,
        segment: &Segment,
        wanted: &WantedChunk<'_>,
        source: ChunkSource,
        chunk: &InflatedChunk,
        inflate_ns: u64,
    ) -> Result<()> {
        let (group, column, number) = wanted.place.in_segment();
        let location = segment.groups()?[group].columns[column].chunks[number];
        let inflated_bytes = chunk.as_bytes().len() as u64;
        // Of a part of a chunk, its part of the stored bytes.
        let part = inflated_bytes as f64 / location.encoded_bytes.max(1) as f64;
        let stored_bytes = (location.stored_bytes as f64 * part.min(1.0)) as u64;
        let key = wanted.place.key.column_key();
        self.metrics.note_chunk(key, source, (stored_bytes, inflated_bytes), inflate_ns);
        Ok(())
    }
}
