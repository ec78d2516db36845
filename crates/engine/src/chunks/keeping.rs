//! What stays of the chunks that were read, and in which form.
//!
//! Invariant: what is kept is in memory of the inflated chunks' pool, whatever its form: read buffers go back to reads. Must not
//! know: what the policy decides by.

use std::sync::Arc;

use forebay_base::limits;
use forebay_block::InflatedChunk;
use forebay_cache::{Facts, Form};
use forebay_placement::Forms;
use forebay_store::Table;

use super::{ChunkKey, Engine, StoredBytes, WantedChunk};

/// The fractional part of the golden ratio: its multiples fall between one another as evenly as can be.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// The forms in which chunks stay in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheForms {
    /// Those of the policy: of one with goals both, of others the inflated one.
    #[default]
    Automatic,
    /// Inflated alone.
    Inflated,
    /// Stored alone: what is used is inflated for every use.
    Stored,
    /// Both. Without goals what was used lately is inflated, and its stored bytes stay for a while when that goes.
    Both,
}

impl CacheForms {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Automatic, Self::Inflated, Self::Stored, Self::Both];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::Inflated => "inflated",
            Self::Stored => "stored",
            Self::Both => "both",
        }
    }

    /// Those that goals may be for.
    pub(super) fn of_goals(self) -> Forms {
        match self {
            Self::Automatic | Self::Both => Forms::BOTH,
            Self::Inflated => Forms::INFLATED,
            Self::Stored => Forms::STORED,
        }
    }

    /// Those of chunks that there is no goal for.
    fn without_goal(self) -> Forms {
        match self {
            Self::Automatic | Self::Inflated => Forms::INFLATED,
            Self::Stored => Forms::STORED,
            Self::Both => Forms::BOTH,
        }
    }
}

/// Whether all of a table may be kept at the first look.
pub(crate) fn is_small(table: &Table) -> bool {
    table.segments.file_bytes() <= limits::KEPT_AT_ONCE_BYTES as u64
}

impl ChunkKey {
    /// Where its row group stands in a fixed order by chance: in [0, 1), the same for all columns. Neighbours are far from each
    /// other, and the first row groups of any share lie evenly over the segment.
    fn fraction(&self) -> f64 {
        (f64::from(self.group) * GOLDEN + self.segment.0 as f64 * GOLDEN * GOLDEN).fract()
    }
}

impl WantedChunk<'_> {
    fn facts(&self, bytes: usize, make_ns: u64) -> Facts {
        let key = &self.place.key;
        Facts {
            column: key.column_key(),
            fraction: key.fraction(),
            ordinal: self.ordinal as u64,
            form: Form::Inflated,
            bytes,
            make_ns,
        }
    }
}

impl Engine {
    /// Bytes that the cache may hold while a column's chunks are kept at their first read: those of columns that the same
    /// query reads again up to half of the cache, those of small tables as long as they are few, others not at all.
    pub(crate) fn kept_at_once_bytes(&self, table: &Table, is_read_again: bool) -> usize {
        let of_small_table = if is_small(table) { limits::KEPT_AT_ONCE_BYTES } else { 0 };
        let read_again = if is_read_again { self.cache().budget_bytes() / 2 } else { 0 };
        of_small_table.max(read_again)
    }

    /// The form in which a chunk is to stay for sure, if that is somebody's goal.
    pub(super) fn goal_of(&self, wanted: &WantedChunk<'_>) -> Option<Form> {
        self.cache().wants(&wanted.facts(0, 0))
    }

    /// Keeps a chunk that was read or inflated, which took `make_ns`: in the form that is the policy's goal; where it has none for
    /// it inflated, at once or from the second time on that it is read (as 2Q's cache admits pages, Johnson & Shasha, VLDB
    /// 1994): to keep chunks takes fresh memory, which costs a scan that nobody repeats as much as its reads.
    pub(super) fn keep(
        &self,
        wanted: &WantedChunk<'_>,
        chunk: &Arc<InflatedChunk>,
        stored: Option<&StoredBytes>,
        make_ns: u64,
    ) {
        let (key, bytes) = (wanted.place.key, chunk.memory_bytes());
        let facts = wanted.facts(bytes, make_ns);
        let goal = self.cache().wants(&facts);
        if goal == Some(Form::Stored) {
            stored.into_iter().for_each(|stored| self.keep_stored(wanted, stored, make_ns));
            return;
        }
        let forms = if goal.is_some() { Forms::INFLATED } else { self.cache_forms().without_goal() };
        // Either somebody else read this meanwhile, or the whole chunk takes the place of a part that was worth keeping.
        let is_known = if forms.inflated { self.cache().peek(&key).is_some() } else { self.cache().contains(&key) };
        if !chunk.may_be_kept() || (is_known && !chunk.is_whole()) {
            return;
        }
        // Where its stored bytes are there and it may have one form, that is theirs.
        let may_be_kept = stored.is_some() || forms == Forms::BOTH;
        let has_room = self.cache().held_bytes() + bytes <= wanted.kept_at_once_bytes;
        let is_awaited = || self.running_scans().are_several_of(key.column_key());
        let is_worth_it = || has_room || is_known || is_awaited() || self.read_before.note(key);
        if goal.is_none() && !(may_be_kept && is_worth_it()) {
            return;
        }
        let is_kept = !forms.inflated || self.cache().keep(key, Arc::clone(chunk), facts);
        if is_kept && forms.stored {
            stored.into_iter().for_each(|stored| self.keep_stored(wanted, stored, make_ns));
        }
    }

    /// Keeps the stored bytes of a chunk.
    fn keep_stored(&self, wanted: &WantedChunk<'_>, stored: &StoredBytes, make_ns: u64) {
        let key = wanted.place.key;
        let is_known = self.cache().peek_stored(&key).is_some();
        if is_known && !stored.is_whole() {
            return;
        }
        if let Some(copy) = stored.copy_to(|bytes| self.memory.kept(bytes)) {
            let facts = wanted.facts(copy.memory_bytes(), make_ns);
            self.cache().keep_stored(key, Arc::new(copy), facts);
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::{ColumnId, SegmentId, TableId};

    use super::*;

    /// Of the row groups of a segment those below a share are about as many, and none of the rest is far from one of them.
    #[test]
    fn row_groups_of_a_share_lie_evenly() {
        for segment in 1..20 {
            let key = |group| ChunkKey {
                table: TableId(1),
                column: ColumnId(1),
                segment: SegmentId(segment),
                group,
                chunk: 0,
            };
            for share in [0.1, 0.25, 0.5, 0.9] {
                let chosen: Vec<u32> = (0..1000).filter(|group| key(*group).fraction() < share).collect();
                let expected = 1000.0 * share;
                assert!((chosen.len() as f64 - expected).abs() <= 5.0, "{} of {expected}", chosen.len());
                let gap = chosen.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
                assert!(f64::from(gap) <= 3.0 / share, "{gap} between row groups of {share}");
            }
        }
    }
}
