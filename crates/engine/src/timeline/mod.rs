//! When a statement read, waited, inflated and computed, as spans that its workers note: for EXPLAIN ANALYZE and for pages
//! that draw them.
//!
//! Off unless a statement asks for it: without a [`SourceTimeline`] a scan pays one branch per chunk and morsel. With one, the
//! clock is read per chunk and morsel, never per row or block. Invariants: memory is bounded: where there are more spans than
//! [`limits::TIMELINE_SPANS`], neighbours of one kind become one, which keeps the time that they took; totals are
//! exact. Must not know: SQL, how spans are drawn.

mod lanes;
mod spans;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use forebay_base::{ColumnId, limits};
use forebay_store::Table;

use crate::chunks::{ChunkKey, Place};

pub use lanes::Lanes;
pub use spans::{Span, SpanKind};

/// Of a recorder that is not told yet when its statement ended.
const RUNNING: u64 = u64::MAX;

/// To wait for less than this is not to wait: the lock was free.
const LEAST_WAIT_NS: u64 = 1000;

/// Notes when a statement did what; shared by its scans and workers.
#[derive(Debug)]
pub struct Recorder {
    started: Instant,
    ended_ns: AtomicU64,
    state: Mutex<State>,
}

/// What a recorder noted.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// From the statement's start to its end, or to now.
    pub elapsed_ns: u64,
    /// Workers that the statement may use.
    pub workers: usize,
    /// Threads that worked; spans number them from 0.
    pub threads: usize,
    /// What was scanned, in the order in which it began.
    pub sources: Vec<SourceTimes>,
    /// By their ends, unless some were joined.
    pub spans: Vec<Span>,
    /// Spans that are in the totals alone.
    pub left_out: u64,
}

/// Exact totals of a scan, or of a pipeline that reads a state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceTimes {
    /// The table with its schema, or words for the state.
    pub name: String,
    /// The table's columns; none of a state.
    pub columns: Vec<String>,
    /// Chunks that were read and used.
    pub chunks: u64,
    /// Their bytes on disk.
    pub read_bytes: u64,
    /// Bytes of chunks that were read ahead and turned out not to be needed.
    pub let_go_bytes: u64,
    /// Their bytes once inflated.
    pub inflated_bytes: u64,
    /// Time that workers, one after the other, waited for chunks.
    pub wait_ns: u64,
    /// Time that they inflated.
    pub inflate_ns: u64,
    /// Time that they computed: pruned, tested, loaded and ran the pipeline.
    pub compute_ns: u64,
    /// Time that the pipeline took to compile.
    pub compile_ns: u64,
    /// Time that it took to make its state of what the workers left.
    pub finish_ns: u64,
}

#[derive(Debug)]
struct State {
    workers: usize,
    threads: Vec<Thread>,
    sources: Vec<SourceTimes>,
    spans: Vec<Span>,
    /// Spans that are kept at most.
    most_spans: usize,
    /// No more spans are kept.
    is_full: bool,
    left_out: u64,
}

#[derive(Debug)]
struct Thread {
    id: ThreadId,
    /// What it computes at present, apart from what it waits for and inflates.
    computes: Option<Span>,
}

impl Recorder {
    /// A recorder of a statement that began at `started`.
    pub fn new(started: Instant) -> Self {
        let state = State {
            workers: 1,
            threads: Vec::new(),
            sources: Vec::new(),
            spans: Vec::new(),
            most_spans: limits::TIMELINE_SPANS,
            is_full: false,
            left_out: 0,
        };
        Self { started, ended_ns: AtomicU64::new(RUNNING), state: Mutex::new(state) }
    }

    /// Says that a part of the statement may use so many workers.
    pub fn uses(&self, workers: usize) {
        let mut state = self.lock();
        state.workers = state.workers.max(workers);
    }

    /// Says that the statement is planned and begins to run.
    pub fn planned(self: &Arc<Self>) {
        let planning = self.source("planning".to_owned(), Vec::new(), Vec::new());
        planning.note(SpanKind::Plan, self.started, Instant::now());
    }

    /// Says that the statement has ended, before its timeline is shown.
    pub fn end(&self) {
        self.ended_ns.store(self.at(Instant::now()), Ordering::Relaxed);
    }

    /// A timeline for a scan of `table`.
    pub fn scan_of(self: &Arc<Self>, table: &Table) -> SourceTimeline {
        let names = table.columns.iter().map(|column| column.name.clone()).collect();
        self.source(table.full_name(), names, table.columns.iter().map(|column| column.id).collect())
    }

    /// A timeline for a pipeline that reads a state, which `name` describes.
    pub(crate) fn state_of(self: &Arc<Self>, name: String) -> SourceTimeline {
        self.source(name, Vec::new(), Vec::new())
    }

    /// What was noted so far.
    pub fn timeline(&self) -> Timeline {
        let state = self.lock();
        let end = state.spans.iter().map(|span| span.end_ns).max().unwrap_or(0);
        Timeline {
            elapsed_ns: self.elapsed_ns().max(end),
            workers: state.workers,
            threads: state.threads.len(),
            sources: state.sources.clone(),
            spans: state.spans.clone(),
            left_out: state.left_out,
        }
    }

    fn source(self: &Arc<Self>, name: String, columns: Vec<String>, ids: Vec<ColumnId>) -> SourceTimeline {
        let mut state = self.lock();
        let number = state.sources.len() as u32;
        state.sources.push(SourceTimes { name, columns, ..SourceTimes::default() });
        SourceTimeline { recorder: Arc::clone(self), number, columns: ids.into() }
    }

    fn elapsed_ns(&self) -> u64 {
        match self.ended_ns.load(Ordering::Relaxed) {
            RUNNING => self.at(Instant::now()),
            ended => ended,
        }
    }

    fn at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.started).as_nanos() as u64
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Spans are added whole, so a panicking holder is no reason to stop.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where one scan, or one pipeline over a state, notes what it does.
#[derive(Debug, Clone)]
pub struct SourceTimeline {
    recorder: Arc<Recorder>,
    number: u32,
    /// The table's columns.
    columns: Arc<[ColumnId]>,
}

/// When a chunk was read, waited for and inflated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkTimes {
    /// Its read was begun, and seen to be complete.
    pub(crate) read: (Instant, Instant),
    /// A worker began to wait for it.
    pub(crate) wanted: Instant,
    /// That worker had it.
    pub(crate) arrived: Instant,
    /// It was inflated.
    pub(crate) inflated: Instant,
}

impl SourceTimeline {
    /// Notes what became of a chunk of so many bytes, stored and inflated, on the thread that inflated it.
    pub(crate) fn chunk(&self, place: &Place, times: &ChunkTimes, (stored, inflated): (usize, usize)) {
        let at = |moment| self.recorder.at(moment);
        let span = |kind, (from, to), bytes: usize| {
            self.span(kind, (at(from), at(to))).of_chunk(self.place(&place.key, place.segment), bytes)
        };
        let read = span(SpanKind::Read, times.read, stored);
        let wait = span(SpanKind::Wait, (times.wanted, times.arrived), stored);
        let inflate = span(SpanKind::Inflate, (times.arrived, times.inflated), inflated);
        let mut state = self.recorder.lock();
        state.add(read);
        state.work([wait, inflate]);
    }

    /// Notes a chunk that was read and that nobody needed.
    pub(crate) fn let_go(&self, key: &ChunkKey, segment: usize, (begun, complete): (Instant, Instant), bytes: usize) {
        let span = self.span(SpanKind::LetGo, (self.recorder.at(begun), self.recorder.at(complete)));
        self.recorder.lock().add(span.of_chunk(self.place(key, segment), bytes));
    }

    /// Notes that this thread waited for a chunk that another one loads, if it did.
    pub(crate) fn waited(&self, from: Instant, to: Instant) {
        if to.saturating_duration_since(from).as_nanos() as u64 >= LEAST_WAIT_NS {
            self.note(SpanKind::Wait, from, to);
        }
    }

    /// Notes work of this thread that belongs to no chunk.
    pub(crate) fn note(&self, kind: SpanKind, from: Instant, to: Instant) {
        let span = self.span(kind, (self.recorder.at(from), self.recorder.at(to)));
        self.recorder.lock().work([span]);
    }

    /// This thread computes from now on, as long as the result lives and apart from what else it notes; for a row group, where
    /// there is one.
    pub(crate) fn compute(&self, row_group: Option<(usize, usize)>) -> Computing {
        let mut computing = Computing { timeline: self.clone(), row_group, is_resting: true };
        computing.go_on();
        computing
    }

    /// The shares of the statement's time, in so many parts, in which this source was read, inflated and computed on.
    pub fn lanes(&self, parts: usize) -> Lanes {
        let elapsed_ns = self.recorder.elapsed_ns();
        let state = self.recorder.lock();
        let mine = state.spans.iter().filter(|span| span.source == self.number);
        Lanes::new(mine, parts, elapsed_ns, state.workers)
    }

    /// The totals so far.
    pub fn times(&self) -> SourceTimes {
        self.recorder.lock().sources[self.number as usize].clone()
    }

    /// A span of nobody yet, and of no chunk.
    fn span(&self, kind: SpanKind, (start_ns, end_ns): (u64, u64)) -> Span {
        let busy_ns = end_ns.saturating_sub(start_ns);
        let end_ns = start_ns + busy_ns;
        let source = self.number;
        let (thread, column, row_group, chunk) = (None, None, None, None);
        Span { kind, source, thread, column, row_group, chunk, bytes: 0, start_ns, end_ns, busy_ns, pieces: 1 }
    }

    /// Column of the table, row group and chunk.
    fn place(&self, key: &ChunkKey, segment: usize) -> (Option<u32>, (u32, u32), u32) {
        let column = self.columns.iter().position(|id| *id == key.column);
        (column.map(|column| column as u32), (segment as u32, key.group), key.chunk)
    }
}

/// A thread that computes.
#[derive(Debug)]
pub(crate) struct Computing {
    timeline: SourceTimeline,
    row_group: Option<(usize, usize)>,
    is_resting: bool,
}

impl Computing {
    /// Says that the thread does something else, before it may be another one that goes on.
    pub(crate) fn rest(&mut self) {
        if !std::mem::replace(&mut self.is_resting, true) {
            let now = self.timeline.recorder.at(Instant::now());
            self.timeline.recorder.lock().end_computing(now);
        }
    }

    /// Says that this thread computes again.
    pub(crate) fn go_on(&mut self) {
        if std::mem::replace(&mut self.is_resting, false) {
            let now = self.timeline.recorder.at(Instant::now());
            let row_group = self.row_group.map(|(segment, group)| (segment as u32, group as u32));
            let span = Span { row_group, ..self.timeline.span(SpanKind::Compute, (now, now)) };
            self.timeline.recorder.lock().begin_computing(span);
        }
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        self.rest();
    }
}

impl State {
    /// The number of the calling thread.
    fn thread(&mut self) -> usize {
        let id = std::thread::current().id();
        self.threads.iter().position(|thread| thread.id == id).unwrap_or_else(|| {
            self.threads.push(Thread { id, computes: None });
            self.threads.len() - 1
        })
    }

    fn begin_computing(&mut self, span: Span) {
        self.end_computing(span.start_ns);
        let thread = self.thread();
        self.threads[thread].computes = Some(Span { thread: Some(thread as u32), ..span });
    }

    fn end_computing(&mut self, now: u64) {
        let thread = self.thread();
        if let Some(span) = self.threads[thread].computes.take() {
            self.add(span.until(now));
        }
    }

    /// Adds what the calling thread did, in order: it did not compute meanwhile.
    fn work<const N: usize>(&mut self, spans: [Span; N]) {
        let thread = self.thread();
        for span in spans {
            if let Some(computes) = self.threads[thread].computes {
                self.add(computes.until(span.start_ns));
                self.threads[thread].computes = Some(Span { start_ns: span.end_ns.max(computes.start_ns), ..computes });
            }
            self.add(Span { thread: Some(thread as u32), ..span });
        }
    }

    /// Adds a span, and where there are too many makes one of two.
    fn add(&mut self, span: Span) {
        self.sources[span.source as usize].add(&span);
        if span.busy_ns == 0 {
            return;
        }
        if self.spans.len() >= self.most_spans && !self.is_full {
            spans::join_neighbours(&mut self.spans);
            // So many threads and scans have few neighbours: to join them again and again would take longer than the rest.
            self.is_full = self.spans.len() > self.most_spans / 4 * 3;
        }
        if self.is_full {
            self.left_out += 1;
            return;
        }
        self.spans.push(span);
    }
}

impl SourceTimes {
    fn add(&mut self, span: &Span) {
        match span.kind {
            SpanKind::Read => {
                self.chunks += 1;
                self.read_bytes += span.bytes;
            }
            SpanKind::LetGo => self.let_go_bytes += span.bytes,
            SpanKind::Wait => self.wait_ns += span.busy_ns,
            SpanKind::Inflate => {
                self.inflated_bytes += span.bytes;
                self.inflate_ns += span.busy_ns;
            }
            SpanKind::Compute => self.compute_ns += span.busy_ns,
            SpanKind::Compile => self.compile_ns += span.busy_ns,
            SpanKind::Finish => self.finish_ns += span.busy_ns,
            SpanKind::Plan => {}
        }
    }
}

#[cfg(test)]
mod tests;
