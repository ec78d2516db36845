//! Batches of pieces that are on their way, and what each still waits for; by whom pieces are filled is up to the owner.
//!
//! Invariants: batches are served in the order of their submission, but those that are waited for before the others, in the order in
//! which that began; a batch is done when no piece of it is queued or out.
//! Everything here happens under the owner's lock. Must not know: rings, threads; `S` says where a batch is read from.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use forebay_base::{Error, Result};
use parking_lot::Condvar;

use crate::sys::Piece;

/// Names a batch until it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BatchId(u64);

/// What is on its way.
#[derive(Debug)]
pub(super) struct Batches<S> {
    by_id: BTreeMap<BatchId, Batch<S>>,
    /// Batches that may have queued pieces: those that somebody waits for, and the others, which may be among the former by now.
    urgent: VecDeque<BatchId>,
    backlog: VecDeque<BatchId>,
    next: u64,
}

#[derive(Debug)]
struct Batch<S> {
    source: S,
    queued: VecDeque<Piece>,
    /// Pieces that somebody fills now.
    out: usize,
    rest: Vec<Piece>,
    error: Option<Error>,
    /// Woken when the batch is done.
    done: Arc<Condvar>,
}

impl<S: Clone> Batches<S> {
    pub(super) fn new() -> Self {
        Self { by_id: BTreeMap::new(), urgent: VecDeque::new(), backlog: VecDeque::new(), next: 0 }
    }

    /// Queues `pieces`, to be read from `source`.
    pub(super) fn add(&mut self, source: S, pieces: Vec<Piece>) -> BatchId {
        let id = BatchId(self.next);
        self.next += 1;
        let done = Arc::default();
        self.by_id.insert(id, Batch { source, queued: pieces.into(), out: 0, rest: Vec::new(), error: None, done });
        self.backlog.push_back(id);
        id
    }

    /// Somebody waits for this batch: its pieces come before those of batches that nobody waits for.
    pub(super) fn hurry(&mut self, id: BatchId) {
        if self.by_id.get(&id).is_some_and(|batch| !batch.queued.is_empty()) {
            self.urgent.push_back(id);
        }
    }

    /// The piece that is next. Who takes it gives it back.
    pub(super) fn next_piece(&mut self) -> Option<(BatchId, S, Piece)> {
        loop {
            let id = *self.urgent.front().or(self.backlog.front())?;
            if let Some((source, piece)) = self.piece_of(id) {
                return Some((id, source, piece));
            }
            if self.urgent.pop_front().is_none() {
                self.backlog.pop_front();
            }
        }
    }

    /// The next piece of this batch. Who takes it gives it back.
    pub(super) fn piece_of(&mut self, id: BatchId) -> Option<(S, Piece)> {
        let batch = self.by_id.get_mut(&id)?;
        let piece = batch.queued.pop_front()?;
        batch.out += 1;
        Some((batch.source.clone(), piece))
    }

    /// A piece comes back, perhaps with a rest that is left to who takes the batch. After an error the batch's other
    /// pieces are not begun any more.
    pub(super) fn give_back(&mut self, id: BatchId, outcome: Result<Piece>) {
        let batch = self.by_id.get_mut(&id).expect("a batch stays while pieces of it are out");
        batch.out -= 1;
        match outcome {
            Ok(piece) if piece.len() == 0 => {}
            Ok(piece) => batch.rest.push(piece),
            Err(error) => {
                batch.queued.clear();
                batch.error.get_or_insert(error);
            }
        }
        if batch.is_done() {
            batch.done.notify_all();
        }
    }

    /// Nobody will fill pieces any more: those that are queued are left to who takes their batches, those that are out
    /// are lost and fail theirs with `error`.
    pub(super) fn break_down(&mut self, error: &Error) {
        for batch in self.by_id.values_mut() {
            batch.rest.extend(batch.queued.drain(..));
            if std::mem::take(&mut batch.out) > 0 {
                batch.error.get_or_insert(error.clone());
            }
            batch.done.notify_all();
        }
    }

    /// Whether nothing of it is queued or out.
    pub(super) fn is_done(&self, id: BatchId) -> bool {
        self.by_id.get(&id).is_none_or(Batch::is_done)
    }

    /// What wakes when the batch is done.
    pub(super) fn done(&self, id: BatchId) -> Arc<Condvar> {
        Arc::clone(&self.by_id[&id].done)
    }

    /// Wakes who waits for the batch, to do something else than being done.
    pub(super) fn wake(&self, id: BatchId) {
        self.by_id[&id].done.notify_all();
    }

    /// Drops the batch's pieces that nobody has begun with.
    pub(super) fn withdraw(&mut self, id: BatchId) {
        if let Some(batch) = self.by_id.get_mut(&id) {
            batch.queued.clear();
        }
    }

    /// Ends a batch that is done: what is left to read of it.
    pub(super) fn take(&mut self, id: BatchId) -> Result<Vec<Piece>> {
        let batch = self.by_id.remove(&id).expect("a batch is taken once");
        assert!(batch.is_done(), "pieces of it are on their way");
        batch.error.map_or(Ok(batch.rest), Err)
    }
}

impl<S> Batch<S> {
    fn is_done(&self) -> bool {
        self.out == 0 && self.queued.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::limits::{IO_ALIGN, READ_PIECE_BYTES};

    use super::*;
    use crate::sys::Transfer;
    use crate::{AlignedBuffer, ReadRequest};

    fn pieces(count: usize) -> Vec<Piece> {
        let buffer = AlignedBuffer::zeroed(count * READ_PIECE_BYTES);
        Transfer::new(vec![ReadRequest { offset: 0, buffer }]).1
    }

    fn filled(mut piece: Piece) -> Result<Piece> {
        piece.advance(piece.len());
        Ok(piece)
    }

    #[test]
    fn batches_are_served_in_their_order_and_done_when_all_is_back() {
        let mut batches = Batches::new();
        let ids = [batches.add('a', pieces(2)), batches.add('b', Vec::new()), batches.add('c', pieces(1))];
        assert!(batches.is_done(ids[1]) && !batches.is_done(ids[0]));
        let mut out: Vec<_> = std::iter::from_fn(|| batches.next_piece()).collect();
        assert_eq!(out.iter().map(|(_, source, _)| *source).collect::<String>(), "aac");
        let (id, _, mut short) = out.remove(1);
        short.advance(IO_ALIGN);
        batches.give_back(id, Ok(short));
        assert!(!batches.is_done(ids[0]));
        for (id, _, piece) in out {
            batches.give_back(id, filled(piece));
        }
        assert!(ids.iter().all(|id| batches.is_done(*id)));
        let rest = batches.take(ids[0]).expect("no error");
        assert_eq!(
            rest.iter().map(|piece| (piece.offset(), piece.len())).collect::<Vec<_>>(),
            [((READ_PIECE_BYTES + IO_ALIGN) as u64, READ_PIECE_BYTES - IO_ALIGN)]
        );
        assert!(batches.take(ids[2]).expect("no error").is_empty());
    }

    #[test]
    fn what_is_waited_for_comes_first() {
        let mut batches = Batches::new();
        let ids = ['a', 'b', 'c', 'd'].map(|name| batches.add(name, pieces(2)));
        let (begun, ..) = batches.next_piece().expect("queued");
        assert_eq!(begun, ids[0]);
        batches.hurry(ids[2]);
        batches.hurry(ids[1]);
        batches.hurry(ids[2]);
        let next: String = std::iter::from_fn(|| batches.next_piece()).map(|(_, source, _)| source).collect();
        assert_eq!(next, "ccbbadd");
        batches.hurry(ids[3]);
        assert!(batches.next_piece().is_none(), "nothing of it is queued any more");
    }

    #[test]
    fn an_error_ends_its_batch_alone() {
        let mut batches = Batches::new();
        let [failing, other] = [(); 2].map(|()| batches.add((), pieces(3)));
        let (_, first) = batches.piece_of(failing).expect("queued");
        let (_, second) = batches.piece_of(failing).expect("queued");
        drop(first);
        batches.give_back(failing, Err(Error::corrupt("the first")));
        assert!(!batches.is_done(failing), "one is out");
        assert_eq!(batches.next_piece().map(|(id, ..)| id), Some(other));
        drop(second);
        batches.give_back(failing, Err(Error::corrupt("the second")));
        assert_eq!(batches.take(failing).expect_err("failed").message(), "the first");
        batches.withdraw(other);
        assert!(!batches.is_done(other) && batches.piece_of(other).is_none());
    }

    #[test]
    fn a_break_down_fails_what_is_out_and_leaves_the_rest() {
        let mut batches = Batches::new();
        let [begun, queued] = [(); 2].map(|()| batches.add((), pieces(2)));
        let (_, lost) = batches.piece_of(begun).expect("queued");
        batches.break_down(&Error::internal("broken"));
        std::mem::forget(lost);
        assert_eq!(batches.take(begun).expect_err("lost").message(), "broken");
        assert_eq!(batches.take(queued).expect("untouched").len(), 2);
        assert!(batches.next_piece().is_none());
    }
}
