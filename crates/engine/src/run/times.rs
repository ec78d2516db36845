//! What a scan notes for a timeline, where it has one.

use std::time::Instant;

use super::{MorselRows, Scan};
use crate::chunks::Costs;
use crate::morsel::Morsel;
use crate::timeline::{Computing, SourceTimeline};

impl Scan {
    /// The same scan, which notes when it does what.
    pub fn with_timeline(self, timeline: Option<SourceTimeline>) -> Self {
        Self { timeline, ..self }
    }

    /// Where it notes when it does what.
    pub fn timeline(&self) -> Option<&SourceTimeline> {
        self.timeline.as_ref()
    }

    /// Where it notes what chunks cost.
    pub(super) fn costs(&self) -> Costs<'_> {
        Costs { metrics: &self.metrics, timeline: self.timeline.as_ref() }
    }

    /// Notes that this thread computes on a morsel, until the result is dropped.
    pub(super) fn computing(&self, morsel: Morsel) -> Option<Computing> {
        self.timeline.as_ref().map(|timeline| timeline.compute(Some((morsel.segment, morsel.group))))
    }

    /// Does what may have to wait for other workers, and notes how long it waited.
    pub(super) fn noting_waits<T>(&self, claim: impl FnOnce() -> T) -> T {
        let Some(timeline) = &self.timeline else { return claim() };
        let started = Instant::now();
        let claimed = claim();
        timeline.waited(started, Instant::now());
        claimed
    }
}

impl MorselRows {
    /// Notes that nobody works on these rows until [`MorselRows::go_on`], which another thread may call.
    pub fn rest(&mut self) {
        self.computing.iter_mut().for_each(Computing::rest);
    }

    /// Notes that this thread works on these rows again.
    pub fn go_on(&mut self) {
        self.computing.iter_mut().for_each(Computing::go_on);
    }
}
