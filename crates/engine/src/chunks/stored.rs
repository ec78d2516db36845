//! A chunk, or a part of one, as it is stored: on its way from the disk, and then in memory.
//!
//! Must not know: who needs it.

use std::time::Instant;

use forebay_base::{Error, PhysicalType, Result};
use forebay_block::{BlockSet, ChunkPart, Inflate, InflatedChunk, inflate_blocks, inflate_chunk};
use forebay_disk::{AlignedBuffer, ReadTicket};
use forebay_store::Segment;

use super::{Extent, Place};

/// A chunk or a part of it on its way from the disk.
#[derive(Debug)]
pub(crate) struct StoredChunk {
    ticket: ReadTicket,
    extent: Extent,
    /// When it was begun, where somebody notes that.
    begun: Option<Instant>,
    /// When it was seen to be complete.
    complete: Option<Instant>,
    /// Whether somebody saw that it is complete.
    is_done: bool,
}

impl StoredChunk {
    /// What is read by `ticket`.
    pub(crate) fn new(ticket: ReadTicket, extent: Extent) -> Self {
        Self { ticket, extent, begun: None, complete: None, is_done: false }
    }

    /// The same, which was begun at this time.
    pub(crate) fn begun(self, begun: Option<Instant>) -> Self {
        Self { begun, ..self }
    }

    /// Takes note of the time if it is complete and nobody saw that before, where somebody noted when it was begun.
    pub(crate) fn look(&mut self, now: Instant) {
        if self.begun.is_some() && self.complete.is_none() && self.ticket.is_done() {
            self.complete = Some(now);
        }
    }

    /// Whether it is complete. Never blocks.
    pub(crate) fn is_done(&mut self) -> bool {
        self.is_done = self.is_done || self.ticket.is_done();
        self.is_done
    }

    /// When it was begun, where somebody noted that, and when it was seen to be complete, if it was.
    pub(crate) fn times(&self) -> Option<(Instant, Option<Instant>)> {
        Some((self.begun?, self.complete))
    }

    /// The blocks whose frames it has.
    pub(super) fn blocks(&self) -> BlockSet {
        self.extent.blocks
    }

    /// Its bytes on disk.
    pub(crate) fn bytes(&self) -> usize {
        self.extent.bytes()
    }

    /// Its bytes, once they have been read.
    pub(crate) fn wait(self) -> Result<StoredBytes> {
        let buffers: Vec<_> = self.ticket.wait()?.into_iter().map(|read| read.buffer).collect();
        match buffers.len() == self.extent.runs.len() {
            true => Ok(StoredBytes { extent: self.extent, buffers }),
            false => Err(Error::internal("a read gave another number of buffers")),
        }
    }
}

/// The stored bytes of a chunk or of a part of it.
#[derive(Debug)]
pub struct StoredBytes {
    extent: Extent,
    /// One for each of the extent's runs.
    buffers: Vec<AlignedBuffer>,
}

impl StoredBytes {
    /// Their number.
    pub(crate) fn len(&self) -> usize {
        self.extent.bytes()
    }

    /// Whether they are all of the chunk.
    pub(crate) fn is_whole(&self) -> bool {
        self.extent.is_whole
    }

    /// Whether they have the frames of all these blocks.
    pub(crate) fn has_all(&self, blocks: &BlockSet) -> bool {
        self.extent.blocks.contains_all(blocks)
    }

    /// Bytes of memory that they take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.buffers.iter().map(AlignedBuffer::capacity).sum::<usize>() + size_of::<Self>()
    }

    /// The same bytes in memory that `take` gives; `None` where it has none.
    pub(crate) fn copy_to(&self, take: impl Fn(usize) -> Option<AlignedBuffer>) -> Option<Self> {
        let copy = |buffer: &AlignedBuffer| {
            let mut copy = take(buffer.len())?;
            copy.copy_from_slice(buffer);
            Some(copy)
        };
        let buffers = self.buffers.iter().map(copy).collect::<Option<_>>()?;
        Some(Self { extent: self.extent.clone(), buffers })
    }

    /// Verifies and inflates the blocks, which have the type `physical`. The chunk of `segment` is the one at `place`.
    pub(crate) fn inflate(
        &self,
        segment: &Segment,
        place: &Place,
        physical: PhysicalType,
        inflate: &Inflate<'_>,
    ) -> Result<InflatedChunk> {
        let directory = segment.directory(place.group, place.column, place.chunk)?;
        match &self.buffers[..] {
            [whole] if self.extent.is_whole => inflate_chunk(directory, whole, physical, inflate),
            buffers => {
                let parts = self.extent.runs.iter().zip(buffers);
                let parts: Vec<_> = parts.map(|(run, bytes)| ChunkPart { start: run.start, bytes }).collect();
                inflate_blocks(directory, &parts, &self.extent.blocks, physical, inflate)
            }
        }
    }
}
