//! Which work happens before which: vector clocks of streams, and what touched a piece of memory.
//!
//! Invariants: two accesses of overlapping bytes, one of them writing, are in an order that streams, events or waits of the
//! host enforce; else the program is wrong, whatever the bytes were this time. Bytes of a launch are those from the first
//! to behind the last one that it read or wrote in a buffer.
//! Must not know: what is done.

use std::ops::Range;

use forebay_base::{Error, Result};

/// How much of each stream is over, by number of pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Clock(Vec<u64>);

impl Clock {
    /// Takes over what another one knows.
    pub(super) fn join(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = (*own).max(*other));
    }

    /// One more piece of a stream; its number.
    pub(super) fn tick(&mut self, stream: usize) -> u64 {
        self.0.resize(self.0.len().max(stream + 1), 0);
        self.0[stream] += 1;
        self.0[stream]
    }

    fn knows(&self, access: &Access) -> bool {
        access.stream.is_none_or(|stream| self.0.get(stream).is_some_and(|time| *time >= access.time))
    }
}

/// Bytes that somebody touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Access {
    /// Addresses.
    pub(super) bytes: Range<u64>,
    pub(super) writes: bool,
    /// `None` is the host.
    pub(super) stream: Option<usize>,
    /// The number of the piece in its stream.
    pub(super) time: u64,
}

impl Access {
    /// The host may do anything with what it looks at.
    pub(super) fn by_host(bytes: Range<u64>) -> Self {
        Self { bytes, writes: true, stream: None, time: 0 }
    }
}

/// What touched an allocation so far.
#[derive(Debug, Default)]
pub(super) struct History(Vec<Access>);

impl History {
    /// Whether an access comes after all that it must come after, for somebody who knows this much.
    pub(super) fn check(&self, access: &Access, clock: &Clock) -> Result<()> {
        let meets = |other: &&Access| {
            (other.writes || access.writes)
                && other.bytes.start < access.bytes.end
                && access.bytes.start < other.bytes.end
                && !clock.knows(other)
        };
        let Some(other) = self.0.iter().find(meets) else { return Ok(()) };
        let who = |access: &Access| match access.stream {
            Some(stream) => format!("stream {stream}"),
            None => "the host".to_owned(),
        };
        let verb = |writes: bool| if writes { "writes" } else { "reads" };
        Err(Error::internal(format!(
            "{} {} memory that {} {}, with no event between them",
            who(access),
            verb(access.writes),
            who(other),
            verb(other.writes)
        )))
    }

    /// Checks an access of a stream and remembers it.
    pub(super) fn add(&mut self, access: Access, clock: &Clock) -> Result<()> {
        self.check(&access, clock)?;
        // Whoever comes after this one comes after what this one replaces.
        let is_replaced = |other: &Access| {
            (access.writes || !other.writes)
                && access.bytes.start <= other.bytes.start
                && other.bytes.end <= access.bytes.end
                && clock.knows(other)
        };
        self.0.retain(|other| !is_replaced(other));
        self.0.push(access);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(bytes: Range<u64>, writes: bool, stream: usize, time: u64) -> Access {
        Access { bytes, writes, stream: Some(stream), time }
    }

    #[test]
    fn only_unordered_writes_meet() {
        let mut clocks = [Clock::default(), Clock::default()];
        let mut history = History::default();
        let time = clocks[0].tick(0);
        history.add(access(0..10, true, 0, time), &clocks[0]).unwrap();
        let time = clocks[1].tick(1);
        assert!(history.check(&access(9..12, false, 1, time), &clocks[1]).is_err());
        assert!(history.check(&access(10..12, true, 1, time), &clocks[1]).is_ok(), "other bytes");
        assert!(history.check(&Access::by_host(0..1), &Clock::default()).is_err());
        let known = clocks[0].clone();
        clocks[1].join(&known);
        history.add(access(0..10, false, 1, time), &clocks[1]).unwrap();
        // Readers do not disturb each other, but a writer comes after them.
        let time = clocks[0].tick(0);
        history.add(access(0..10, false, 0, time), &clocks[0]).unwrap();
        let error = history.check(&access(0..1, true, 0, time), &clocks[0]).unwrap_err();
        assert!(error.to_string().contains("stream 0 writes memory that stream 1 reads"), "{error}");
    }
}
