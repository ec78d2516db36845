//! Requests cut into pieces that the kernel, or several threads, fill apart from each other.
//!
//! Invariants: no two pieces share a byte; as long as one of them exists, its bytes are reached through it alone, and the
//! buffers live. So who has a piece may fill it, whatever becomes of those who wait for it.
//! Must not know: files, and how pieces are filled.

use std::sync::Arc;

use forebay_base::limits::READ_PIECE_BYTES;

use super::registered::Place;
use crate::ReadRequest;

/// Requests whose buffers are being filled. They come out again when the last piece is gone.
#[derive(Debug)]
pub(crate) struct Transfer {
    requests: Vec<ReadRequest>,
}

impl Transfer {
    /// Cuts the requests into pieces of up to [`READ_PIECE_BYTES`], in order.
    pub(crate) fn new(mut requests: Vec<ReadRequest>) -> (Arc<Self>, Vec<Piece>) {
        let mut parts = Vec::new();
        for request in &mut requests {
            let mut offset = request.offset;
            let mut place =
                request.buffer.pages().place().map(|(region, end)| Place { region: Arc::clone(region), end });
            for part in request.buffer.chunks_mut(READ_PIECE_BYTES) {
                if let Some(place) = &mut place {
                    place.end += part.len();
                }
                parts.push((offset, part.as_mut_ptr(), part.len(), place.clone()));
                offset = offset.saturating_add(part.len() as u64);
            }
        }
        // From here on nobody looks at the buffers but through the pieces: they are private, and leave by `into_requests`.
        let transfer = Arc::new(Self { requests });
        let piece = |(offset, start, len, place)| {
            let _transfer = Arc::clone(&transfer);
            Piece { offset, start, len, place, _transfer }
        };
        let pieces = parts.into_iter().map(piece).collect();
        (transfer, pieces)
    }

    /// The requests; `None` if a piece is left, or another owner of this.
    pub(crate) fn into_requests(transfer: Arc<Self>) -> Option<Vec<ReadRequest>> {
        Arc::into_inner(transfer).map(|transfer| transfer.requests)
    }
}

/// A part of a request that is still to be filled.
#[derive(Debug)]
pub(crate) struct Piece {
    offset: u64,
    start: *mut u8,
    len: usize,
    /// Where in a region it lies, if it does.
    place: Option<Place>,
    /// Keeps the memory behind `start`.
    _transfer: Arc<Transfer>,
}

// SAFETY: a piece owns its bytes like a `&mut [u8]` does, and the transfer that it keeps is `Send` and `Sync`.
unsafe impl Send for Piece {}

impl Piece {
    /// Where in the file, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that are missing.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where in a region of memory it lies, if it does.
    pub(super) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// The bytes that are missing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `start` is valid for `len` initialised bytes of a buffer that the transfer keeps; pieces are disjoint
        // and not `Clone`, and the buffer is out of reach until all of them are gone.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// Notes that the first `bytes` are filled.
    pub(crate) fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.len, "no more is read than was asked for");
        self.offset = self.offset.saturating_add(bytes as u64);
        // SAFETY: within the piece, or one past it.
        self.start = unsafe { self.start.add(bytes) };
        self.len -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::limits::IO_ALIGN;

    use super::*;
    use crate::{AlignedBuffer, BufferPool};

    #[test]
    fn pieces_cover_the_requests_and_keep_their_buffers() {
        let pool = BufferPool::new(8 << 20);
        let lens = [READ_PIECE_BYTES + IO_ALIGN, 0, IO_ALIGN];
        let request = |len| ReadRequest { offset: 1 << 20, buffer: pool.take(len).expect("in budget") };
        let (transfer, mut pieces) = Transfer::new(lens.map(request).into());
        assert_eq!(pieces.iter().map(Piece::len).collect::<Vec<_>>(), [READ_PIECE_BYTES, IO_ALIGN, IO_ALIGN]);
        assert_eq!(pieces.iter().map(Piece::offset).collect::<Vec<_>>(), [1 << 20, 2 << 20, 1 << 20]);
        for (number, piece) in pieces.iter_mut().enumerate() {
            piece.bytes_mut().fill(9);
            piece.advance(100);
            piece.bytes_mut().fill(number as u8);
        }
        pieces.truncate(1);
        let keeper = Arc::clone(&transfer);
        assert!(Transfer::into_requests(transfer).is_none(), "two owners and a piece");
        pieces.clear();
        let requests = Transfer::into_requests(keeper).expect("the last owner");
        for (at, number) in [(0, 0), (READ_PIECE_BYTES, 1)] {
            assert!(requests[0].buffer[at..at + 100].iter().all(|byte| *byte == 9));
            assert!(requests[0].buffer[at + 100..at + IO_ALIGN].iter().all(|byte| *byte == number));
        }
        assert_eq!(requests.iter().map(|request| request.buffer.len()).collect::<Vec<_>>(), lens);
        drop(requests);
        assert_eq!(pool.in_use_bytes(), 0);
        let (transfer, pieces) = Transfer::new(vec![ReadRequest { offset: 0, buffer: AlignedBuffer::zeroed(4096) }]);
        drop(transfer);
        let mut last = pieces.into_iter().next().expect("one");
        last.bytes_mut().fill(1);
    }
}
