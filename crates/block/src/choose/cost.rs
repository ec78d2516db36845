//! What a plan costs: bytes that are counted, and seconds that are modelled from them.
//!
//! The model is that of a pipeline which reads, decodes and scans at the same time (HPCache §4.1 with nothing in memory, GOLAP
//! §6.3): the slower of drive and processor says how long it takes. It knows no cost of a single read and nothing of
//! pruning, so it prefers the largest chunks by the bytes that they spare; who reads selectively offers it smaller ones.
//! Must not know: how sections become frames.

use std::cmp::Ordering;

use forebay_base::limits::IO_ALIGN;
use forebay_base::{PhysicalType, Result};

use super::{EncodedGroup, Plan, Rates};
use crate::chunk::directory::Directory;
use crate::chunk::{DIRECTORY_FIXED_BYTES, DIRECTORY_FRAME_BYTES, FRAME_ALIGN, SealedChunk};
use crate::frame::{Compression, Scheme};
use crate::header::BLOCK_HEADER_BYTES;

/// What a column is read and decoded with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Bytes per second that the drive reads, above 0.
    pub disk_bytes_per_s: f64,
    /// Cores that decode and scan, at least one.
    pub cores: usize,
}

/// What some blocks of a column cost by a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Bytes of chunks and directories.
    pub stored_bytes: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// Modelled time to read the bytes.
    pub read_seconds: f64,
    /// Modelled time to decode them by all cores.
    pub decode_seconds: f64,
    /// Modelled time to look at the decoded bytes by all cores: HippogriffDB's time of the query.
    pub scan_seconds: f64,
}

impl Cost {
    /// Time of the cores.
    pub fn compute_seconds(&self) -> f64 {
        self.decode_seconds + self.scan_seconds
    }

    /// Time of a scan that reads and computes at once.
    pub fn seconds(&self) -> f64 {
        self.read_seconds.max(self.compute_seconds())
    }

    /// The faster one first, then the smaller one, then the one that is cheaper to decode.
    pub(super) fn by_time(&self, other: &Self) -> Ordering {
        self.seconds().total_cmp(&other.seconds()).then_with(|| self.by_bytes(other))
    }

    /// The smaller one first, then the one that is cheaper to decode.
    pub(super) fn by_bytes(&self, other: &Self) -> Ordering {
        self.stored_bytes.cmp(&other.stored_bytes).then(self.compute_seconds().total_cmp(&other.compute_seconds()))
    }
}

/// What the blocks of a column of type `physical` cost by a plan: they are sealed by it.
pub fn estimate(
    plan: &Plan,
    groups: &[EncodedGroup<'_>],
    physical: PhysicalType,
    rates: &Rates,
    machine: &Machine,
) -> Result<Cost> {
    let mut counts = Counts::default();
    for group in groups {
        for sealed in plan.fitting(group).seal(group)? {
            counts.add_chunk(&sealed, physical)?;
        }
    }
    Ok(counts.cost(rates, machine))
}

/// The same for several plans, in their order. Blocks are sealed once for all plans of a compression that differ in the
/// blocks of a chunk alone, where frames do not depend on those.
pub fn estimate_all(
    plans: &[Plan],
    groups: &[EncodedGroup<'_>],
    physical: PhysicalType,
    rates: &Rates,
    machine: &Machine,
) -> Result<Vec<Cost>> {
    let mut sealed: Vec<(Compression, Vec<Vec<BlockCounts>>)> = Vec::new();
    let mut costs = Vec::with_capacity(plans.len());
    for plan in plans {
        // Symbols of text are handed on from frame to frame.
        if physical == PhysicalType::Bytes || plan.compression == Compression::Force(Scheme::Fsst) {
            costs.push(estimate(plan, groups, physical, rates, machine)?);
            continue;
        }
        let known = sealed.iter().position(|(compression, _)| *compression == plan.compression);
        let known = match known {
            Some(known) => known,
            None => {
                let blocks = groups.iter().map(|group| blocks_of(plan.compression, group, physical));
                sealed.push((plan.compression, blocks.collect::<Result<_>>()?));
                sealed.len() - 1
            }
        };
        let mut counts = Counts::default();
        for (group, blocks) in groups.iter().zip(&sealed[known].1) {
            for chunk in blocks.chunks(plan.fitting(group).blocks_per_chunk.max(1).into()) {
                counts.add_blocks(chunk);
            }
        }
        costs.push(counts.cost(rates, machine));
    }
    Ok(costs)
}

/// Plain bytes by scheme, in the order of [`Scheme::ALL`].
type PlainBytes = [u64; Scheme::ALL.len()];

/// What blocks take in a chunk.
struct BlockCounts {
    /// Bytes of the frames, each with what aligns it.
    frame_bytes: usize,
    frames: usize,
    plain_bytes: PlainBytes,
}

/// The blocks of a group, each sealed by itself.
fn blocks_of(compression: Compression, group: &EncodedGroup<'_>, physical: PhysicalType) -> Result<Vec<BlockCounts>> {
    let alone = Plan { compression, blocks_per_chunk: 1 };
    let sealed = alone.seal(group)?;
    sealed.iter().map(|sealed| BlockCounts::of(sealed, physical)).collect()
}

impl BlockCounts {
    /// Of all blocks of a chunk.
    fn of(sealed: &SealedChunk, physical: PhysicalType) -> Result<Self> {
        let directory = Directory::read(&sealed.directory, physical)?;
        let mut counts = Self { frame_bytes: 0, frames: directory.frames.len(), plain_bytes: [0; Scheme::ALL.len()] };
        for (frame, plain_bytes) in directory.frames.iter().zip(directory.plain_bytes()) {
            counts.frame_bytes += frame.stored_bytes.next_multiple_of(FRAME_ALIGN);
            counts.plain_bytes[frame.form.scheme.index()] += plain_bytes as u64;
        }
        Ok(counts)
    }
}

/// What is counted of the chunks of a plan.
#[derive(Default)]
struct Counts {
    stored_bytes: u64,
    chunks: u64,
    plain_bytes: PlainBytes,
}

impl Counts {
    fn add_chunk(&mut self, sealed: &SealedChunk, physical: PhysicalType) -> Result<()> {
        let counts = BlockCounts::of(sealed, physical)?;
        self.add(sealed.bytes.len() + sealed.directory.len(), &[counts]);
        Ok(())
    }

    /// Adds the chunk that these blocks make: `docs/format.md`, "Chunk and frames".
    fn add_blocks(&mut self, blocks: &[BlockCounts]) {
        let frame_bytes: usize = blocks.iter().map(|block| block.frame_bytes).sum();
        let frames: usize = blocks.iter().map(|block| block.frames).sum();
        let directory_bytes =
            DIRECTORY_FIXED_BYTES + blocks.len() * BLOCK_HEADER_BYTES + frames * DIRECTORY_FRAME_BYTES;
        self.add(frame_bytes.next_multiple_of(IO_ALIGN).max(IO_ALIGN) + directory_bytes, blocks);
    }

    fn add(&mut self, stored_bytes: usize, blocks: &[BlockCounts]) {
        self.stored_bytes += stored_bytes as u64;
        self.chunks += 1;
        for block in blocks {
            for (sum, bytes) in self.plain_bytes.iter_mut().zip(block.plain_bytes) {
                *sum += bytes;
            }
        }
    }

    fn cost(&self, rates: &Rates, machine: &Machine) -> Cost {
        let cores = machine.cores.max(1) as f64;
        let decode_seconds = |(scheme, bytes): (Scheme, u64)| bytes as f64 / rates.of(scheme);
        let one_core: f64 = Scheme::ALL.into_iter().zip(self.plain_bytes).map(decode_seconds).sum();
        Cost {
            stored_bytes: self.stored_bytes,
            chunks: self.chunks,
            read_seconds: self.stored_bytes as f64 / machine.disk_bytes_per_s,
            decode_seconds: one_core / cores,
            scan_seconds: self.plain_bytes.iter().sum::<u64>() as f64 / rates.scan() / cores,
        }
    }
}
