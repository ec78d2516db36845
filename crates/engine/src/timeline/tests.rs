//! Recorders with made-up times, and threads that really compute.

use std::time::Duration;

use super::*;

/// A recorder that keeps few spans, and a source of it.
fn recorder(most_spans: usize) -> (Arc<Recorder>, SourceTimeline) {
    let recorder = Arc::new(Recorder::new(Instant::now()));
    recorder.lock().most_spans = most_spans;
    let source = recorder.state_of("groups #0".to_owned());
    (recorder, source)
}

impl Recorder {
    fn moment(&self, ns: u64) -> Instant {
        self.started + Duration::from_nanos(ns)
    }
}

/// Adds a span of the calling thread.
fn note(source: &SourceTimeline, kind: SpanKind, from: u64, to: u64) {
    source.note(kind, source.recorder.moment(from), source.recorder.moment(to));
}

#[test]
fn what_a_thread_notes_while_it_computes_is_not_computing() {
    let (recorder, source) = recorder(100);
    recorder.lock().begin_computing(source.span(SpanKind::Compute, (10, 10)));
    note(&source, SpanKind::Wait, 30, 40);
    note(&source, SpanKind::Inflate, 40, 70);
    recorder.lock().end_computing(100);
    let timeline = recorder.timeline();
    let of_kind = |kind| {
        let spans = timeline.spans.iter().filter(move |span| span.kind == kind);
        spans.map(|span| (span.start_ns, span.end_ns)).collect::<Vec<_>>()
    };
    assert_eq!(of_kind(SpanKind::Compute), [(10, 30), (70, 100)]);
    assert_eq!(of_kind(SpanKind::Wait), [(30, 40)]);
    let times = source.times();
    assert_eq!((times.compute_ns, times.wait_ns, times.inflate_ns), (50, 10, 30));
    assert_eq!(timeline.threads, 1);
}

#[test]
fn computing_rests_and_goes_on_on_any_thread() {
    let (recorder, source) = recorder(100);
    let mut computing = source.compute(Some((0, 3)));
    computing.rest();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            computing.go_on();
            std::thread::sleep(Duration::from_micros(10));
            drop(computing);
        });
    });
    let timeline = recorder.timeline();
    let last = timeline.spans.last().expect("ten microseconds");
    assert_eq!((last.kind, last.row_group, last.pieces), (SpanKind::Compute, Some((0, 3)), 1));
    assert!(last.busy_ns >= 10_000 && last.end_ns <= timeline.elapsed_ns);
    assert_eq!((timeline.threads, last.thread), (2, Some(1)));
}

#[test]
fn too_many_spans_are_joined_and_totals_stay_exact() {
    let (recorder, source) = recorder(16);
    for number in 0..1000 {
        note(&source, SpanKind::Inflate, 10 * number, 10 * number + 4);
        note(&source, SpanKind::Wait, 10 * number + 4, 10 * number + 5);
    }
    let timeline = recorder.timeline();
    assert!(timeline.spans.len() <= 16 && timeline.left_out == 0, "{timeline:?}");
    let sum =
        |kind, of: fn(&Span) -> u64| -> u64 { timeline.spans.iter().filter(|span| span.kind == kind).map(of).sum() };
    assert_eq!(sum(SpanKind::Inflate, |span| span.busy_ns), 4000);
    assert_eq!(sum(SpanKind::Wait, |span| span.pieces.into()), 1000);
    assert_eq!((source.times().inflate_ns, source.times().wait_ns), (4000, 1000));
}

#[test]
fn what_cannot_be_joined_is_counted() {
    let (recorder, _) = recorder(16);
    for number in 0..100 {
        note(&recorder.state_of(format!("groups #{number}")), SpanKind::Compute, number, number + 1);
    }
    let timeline = recorder.timeline();
    assert_eq!((timeline.spans.len() as u64 + timeline.left_out, timeline.spans.len()), (100, 16));
    assert!(timeline.sources[1..].iter().all(|source| source.compute_ns == 1));
}

#[test]
fn overlapping_reads_are_joined_without_counting_twice() {
    let (_, source) = recorder(16);
    let read = |from, to| source.span(SpanKind::Read, (from, to)).of_chunk((Some(1), (0, 0), 2), 5);
    let mut spans = vec![read(100, 150), read(0, 60), read(20, 50), read(140, 170)];
    spans::join_neighbours(&mut spans);
    let seen: Vec<_> = spans.iter().map(|span| (span.start_ns, span.end_ns, span.busy_ns, span.bytes)).collect();
    assert_eq!(seen, [(0, 60, 60, 10), (100, 170, 70, 10)]);
    spans::join_neighbours(&mut spans);
    assert_eq!((spans[0].busy_ns, spans[0].pieces, spans.len()), (130, 4, 1));
}

#[test]
fn an_ended_statement_grows_no_longer() {
    let (recorder, source) = recorder(16);
    note(&source, SpanKind::Compute, 0, 500);
    recorder.end();
    let ended = source.lanes(10).elapsed_ns;
    std::thread::sleep(Duration::from_micros(50));
    assert_eq!((recorder.timeline().elapsed_ns, source.lanes(10).elapsed_ns), (ended.max(500), ended));
}
