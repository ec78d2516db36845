//! Spans of one scan as shares of the statement's time, part by part: what EXPLAIN ANALYZE draws.

use super::{Span, SpanKind};

/// What was done in each part of a statement's time, as shares from 0 to 1. A lane of which there was nothing is empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lanes {
    /// The time that all parts together stand for.
    pub elapsed_ns: u64,
    /// The share of the time in which at least one read was on its way.
    pub read: Vec<f64>,
    /// The share of all workers' time that went into inflating.
    pub inflate: Vec<f64>,
    /// The same of computing.
    pub compute: Vec<f64>,
}

impl Lanes {
    /// Of these spans of a statement that took `elapsed_ns` and had so many workers.
    pub(super) fn new<'a>(
        spans: impl Iterator<Item = &'a Span>,
        parts: usize,
        elapsed_ns: u64,
        workers: usize,
    ) -> Self {
        let (mut reads, mut inflates, mut computes) = (Vec::new(), Vec::new(), Vec::new());
        for span in spans {
            match span.kind {
                SpanKind::Read | SpanKind::LetGo => reads.push(*span),
                SpanKind::Inflate => inflates.push(*span),
                SpanKind::Compute => computes.push(*span),
                SpanKind::Plan | SpanKind::Wait | SpanKind::Compile | SpanKind::Finish => {}
            }
        }
        Self {
            elapsed_ns,
            read: shares(&apart(reads), parts, elapsed_ns, 1),
            inflate: shares(&inflates, parts, elapsed_ns, workers),
            compute: shares(&computes, parts, elapsed_ns, workers),
        }
    }
}

/// The share of each part of the time that the spans took, of so many that could go on at once.
fn shares(spans: &[Span], parts: usize, elapsed_ns: u64, at_once: usize) -> Vec<f64> {
    if spans.is_empty() || parts == 0 || elapsed_ns == 0 {
        return Vec::new();
    }
    let part_ns = elapsed_ns as f64 / parts as f64;
    let mut shares = vec![0.0; parts];
    for span in spans.iter().filter(|span| span.end_ns > span.start_ns) {
        let density = span.busy_ns as f64 / (span.end_ns - span.start_ns) as f64;
        let part_of = |ns: u64| ((ns as f64 / part_ns) as usize).min(parts - 1);
        let (first, last) = (part_of(span.start_ns), part_of(span.end_ns));
        for (part, share) in shares.iter_mut().enumerate().take(last + 1).skip(first) {
            let (from, to) = (part as f64 * part_ns, (part + 1) as f64 * part_ns);
            let inside = to.min(span.end_ns as f64) - from.max(span.start_ns as f64);
            *share += inside.max(0.0) * density / (part_ns * at_once.max(1) as f64);
        }
    }
    shares.iter_mut().for_each(|share: &mut f64| *share = share.min(1.0));
    shares
}

/// The same time covered, but each moment by one span at most.
fn apart(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| span.start_ns);
    let mut covered_ns = 0;
    for span in &mut spans {
        let length_ns = span.end_ns - span.start_ns;
        let start_ns = span.start_ns.max(covered_ns).min(span.end_ns);
        covered_ns = covered_ns.max(span.end_ns);
        if length_ns > 0 {
            span.busy_ns = (span.busy_ns as f64 * (span.end_ns - start_ns) as f64 / length_ns as f64) as u64;
        }
        span.start_ns = start_ns;
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(kind: SpanKind, start_ns: u64, end_ns: u64) -> Span {
        Span {
            kind,
            source: 0,
            thread: None,
            column: None,
            row_group: None,
            chunk: None,
            bytes: 0,
            start_ns,
            end_ns,
            busy_ns: end_ns - start_ns,
            pieces: 1,
        }
    }

    fn lanes(spans: &[Span], workers: usize) -> Lanes {
        Lanes::new(spans.iter(), 4, 100, workers)
    }

    #[test]
    fn without_spans_or_time_lanes_are_empty() {
        assert_eq!(lanes(&[], 2), Lanes { elapsed_ns: 100, ..Lanes::default() });
        assert_eq!(Lanes::new([span(SpanKind::Read, 0, 0)].iter(), 4, 0, 1), Lanes::default());
        assert_eq!(Lanes::new([span(SpanKind::Read, 0, 9)].iter(), 0, 9, 1).read, [0.0; 0]);
    }

    #[test]
    fn one_span_fills_the_parts_that_it_covers() {
        let lanes = lanes(&[span(SpanKind::Compute, 20, 75)], 1);
        assert_eq!(lanes.compute, [0.2, 1.0, 1.0, 0.0]);
        assert_eq!((lanes.read.len(), lanes.inflate.len()), (0, 0));
    }

    #[test]
    fn work_adds_up_over_workers_and_reads_do_not() {
        let two = [span(SpanKind::Inflate, 0, 50), span(SpanKind::Inflate, 25, 50), span(SpanKind::Wait, 0, 100)];
        assert_eq!(lanes(&two, 2).inflate, [0.5, 1.0, 0.0, 0.0]);
        assert_eq!(lanes(&two, 1).inflate, [1.0, 1.0, 0.0, 0.0], "never more than all of it");
        let reads = [
            span(SpanKind::Read, 50, 60),
            span(SpanKind::Read, 0, 40),
            span(SpanKind::LetGo, 10, 20),
            span(SpanKind::Read, 30, 45),
        ];
        assert_eq!(lanes(&reads, 2).read, [1.0, 0.8, 0.4, 0.0]);
    }

    #[test]
    fn joined_spans_are_as_busy_as_their_pieces() {
        let joined = Span { busy_ns: 25, pieces: 2, ..span(SpanKind::Compute, 0, 50) };
        assert_eq!(lanes(&[joined], 1).compute, [0.5, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn a_span_beyond_the_end_stays_inside() {
        assert_eq!(lanes(&[span(SpanKind::Read, 90, 150)], 1).read, [0.0, 0.0, 0.0, 0.4]);
    }
}
