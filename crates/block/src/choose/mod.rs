//! The plan chooser (GOLAP §3.4): by what compression, and in chunks of how many blocks, a column is stored. A sample of the
//! column is sealed by every plan of a grid; its bytes are counted, the time to decode them is modelled, and an objective
//! picks the plan.
//!
//! What `Compression::Balanced` and `BestRatio` choose for each frame stays their own matter: they are two plans among the
//! others here. Invariants: the same sample, rates and machine give the same choice; costs are what sealing gives, not
//! guesses. Pure: no clock, no I/O. Must not know: drives and processors beyond what the caller measured.

mod balance;
mod cost;
mod rates;
mod sample;

use std::fmt;

use forebay_base::limits::{CHUNK_MAX_BYTES, GROUP_BLOCKS_MAX};
use forebay_base::{PhysicalType, Result};

pub use balance::{balance, balance_gfc};
pub use cost::{Cost, Machine, estimate, estimate_all};
pub use rates::{Rates, Timing};
pub use sample::sample;

use crate::chunk::{ChunkOptions, SealedChunk, seal_chunk};
use crate::frame::{Compression, Scheme};

/// How a column is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// What is asked of the compression of its frames.
    pub compression: Compression,
    /// Blocks of a chunk, a power of two.
    pub blocks_per_chunk: u16,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.compression.name(), self.blocks_per_chunk)
    }
}

/// The encoded blocks of one column of a row group, of which a plan makes chunks.
#[derive(Debug, Clone, Copy)]
pub struct EncodedGroup<'a> {
    /// The blocks, one after the other.
    pub bytes: &'a [u8],
    /// Where each of them starts: at least one.
    pub block_offsets: &'a [u32],
}

impl Plan {
    /// The plans for a column of this type in row groups of `group_blocks` blocks, of which a chunk can have
    /// `limits::GROUP_BLOCKS_MAX` at most: the compressions that make sense for one of its sections, each with every number
    /// of blocks per chunk. Those come first that choose for every frame: they are taken where a forced scheme is no better.
    pub fn grid(physical: PhysicalType, group_blocks: usize) -> Vec<Self> {
        let largest = group_blocks.clamp(1, GROUP_BLOCKS_MAX).ilog2();
        compressions(physical)
            .flat_map(|compression| (0..=largest).map(move |log2| Self { compression, blocks_per_chunk: 1 << log2 }))
            .collect()
    }

    /// This plan with so few blocks per chunk that no chunk of `group` is too large to be one.
    pub fn fitting(self, group: &EncodedGroup<'_>) -> Self {
        let mut plan = self;
        let fits = |plan: &Self| plan.chunks(group).all(|chunk| chunk.bytes.len() <= CHUNK_MAX_BYTES);
        while plan.blocks_per_chunk > 1 && !fits(&plan) {
            plan.blocks_per_chunk /= 2;
        }
        plan
    }

    /// The chunks of a row group by this plan.
    pub fn seal(&self, group: &EncodedGroup<'_>) -> Result<Vec<SealedChunk>> {
        let options = ChunkOptions { compression: self.compression };
        self.chunks(group)
            .map(|chunk| {
                let start = chunk.block_offsets[0];
                let offsets: Vec<u32> = chunk.block_offsets.iter().map(|offset| offset - start).collect();
                seal_chunk(chunk.bytes, &offsets, &options)
            })
            .collect()
    }

    /// The blocks of each chunk, with their starts in the group.
    fn chunks<'a>(&self, group: &EncodedGroup<'a>) -> impl Iterator<Item = EncodedGroup<'a>> + use<'a> {
        let (EncodedGroup { bytes, block_offsets }, blocks) = (*group, usize::from(self.blocks_per_chunk.max(1)));
        block_offsets.chunks(blocks).enumerate().map(move |(index, offsets)| {
            let end = block_offsets.get((index + 1) * blocks).map_or(bytes.len(), |end| *end as usize);
            EncodedGroup { bytes: &bytes[offsets[0] as usize..end], block_offsets: offsets }
        })
    }
}

/// The compressions that make sense for a column of this type. Cascades are inside the schemes of integers, and every
/// column may have integers: codes, or offsets of strings.
fn compressions(physical: PhysicalType) -> impl Iterator<Item = Compression> {
    let is_float = matches!(physical, PhysicalType::F32 | PhysicalType::F64);
    let forced = Scheme::ALL.into_iter().filter(move |scheme| match scheme {
        Scheme::Fsst => physical == PhysicalType::Bytes,
        Scheme::Alp => is_float,
        Scheme::Plain
        | Scheme::Lz4
        | Scheme::Zstd
        | Scheme::Snappy
        | Scheme::Deflate
        | Scheme::BitPacked
        | Scheme::Patched
        | Scheme::Delta
        | Scheme::RunLength
        | Scheme::Rans => true,
    });
    [Compression::Balanced, Compression::BestRatio].into_iter().chain(forced.map(Compression::Force))
}

/// What a plan is chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// The fastest scan of what is on disk.
    BestTime,
    /// The fewest bytes.
    BestRatio,
    /// Few bytes, but decoding must not outrun reading (HippogriffDB §3.2).
    #[default]
    Balanced,
}

impl Objective {
    /// All objectives.
    pub const ALL: [Self; 3] = [Self::BestTime, Self::BestRatio, Self::Balanced];

    /// Its name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::BestTime => "best_time",
            Self::BestRatio => "best_ratio",
            Self::Balanced => "balanced",
        }
    }
}

/// The index of the cost that meets the objective best; of equal ones the first. `None` where there is none.
pub fn choose(objective: Objective, costs: &[Cost]) -> Option<usize> {
    let least = |order: fn(&Cost, &Cost) -> std::cmp::Ordering| {
        costs.iter().enumerate().min_by(|one, other| order(one.1, other.1)).map(|(index, _)| index)
    };
    match objective {
        Objective::BestTime => least(Cost::by_time),
        Objective::BestRatio => least(Cost::by_bytes),
        Objective::Balanced => balance(&[costs]).map(|chosen| chosen[0]),
    }
}

#[cfg(test)]
mod tests;
