//! What a thread or the drive did from when to when.

/// What a span is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpanKind {
    /// The statement was planned.
    Plan,
    /// A chunk was on its way, from the submission of its read until somebody saw that it was complete.
    Read,
    /// The same of a chunk that turned out not to be needed.
    LetGo,
    /// A worker waited for a chunk.
    Wait,
    /// A worker verified and inflated a chunk.
    Inflate,
    /// A worker computed: it pruned, tested, loaded vectors and ran the pipeline.
    Compute,
    /// A pipeline was compiled.
    Compile,
    /// The state of a pipeline, or its result, was made of what its workers left.
    Finish,
}

impl SpanKind {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Plan, Self::Read, Self::LetGo, Self::Wait, Self::Inflate, Self::Compute, Self::Compile, Self::Finish];

    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Read => "read",
            Self::LetGo => "let go",
            Self::Wait => "wait",
            Self::Inflate => "inflate",
            Self::Compute => "compute",
            Self::Compile => "compile",
            Self::Finish => "finish",
        }
    }
}

/// What happened from when to when. Times are nanoseconds since the statement began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// What it is about.
    pub kind: SpanKind,
    /// The number of the scan among the timeline's sources.
    pub source: u32,
    /// The number of the thread; `None` for the drive.
    pub thread: Option<u32>,
    /// The column's position in the table's list.
    pub column: Option<u32>,
    /// Segment of the table and row group of the segment.
    pub row_group: Option<(u32, u32)>,
    /// Chunk of the column in the row group.
    pub chunk: Option<u32>,
    /// Bytes on disk of what was read or waited for; bytes that were inflated to.
    pub bytes: u64,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// How long it took: less than from start to end where several spans were joined.
    pub busy_ns: u64,
    /// The spans that were joined; 1 for what it was in the beginning.
    pub pieces: u32,
}

impl Span {
    /// The same, but that it ended at `end_ns`, unless it had not begun then.
    pub(super) fn until(self, end_ns: u64) -> Self {
        let end_ns = end_ns.max(self.start_ns);
        Self { end_ns, busy_ns: end_ns - self.start_ns, ..self }
    }

    /// The same about a chunk: its column of the table, its row group, its number and so many bytes of it.
    pub(super) fn of_chunk(self, (column, row_group, chunk): (Option<u32>, (u32, u32), u32), bytes: usize) -> Self {
        Self { column, row_group: Some(row_group), chunk: Some(chunk), bytes: bytes as u64, ..self }
    }

    /// Whether both are of the same thread, scan and kind.
    fn is_like(&self, other: &Self) -> bool {
        (self.thread, self.source, self.kind) == (other.thread, other.source, other.kind)
    }

    /// One span for two, of which `later` did not begin before.
    fn joined(&self, later: &Self) -> Self {
        let end_ns = self.end_ns.max(later.end_ns);
        let both = self.end_ns.min(later.end_ns).saturating_sub(later.start_ns);
        let busy_ns = (self.busy_ns + later.busy_ns).saturating_sub(both).max(self.busy_ns).max(later.busy_ns);
        Self {
            column: self.column.filter(|column| Some(*column) == later.column),
            row_group: self.row_group.filter(|group| Some(*group) == later.row_group),
            chunk: None,
            bytes: self.bytes + later.bytes,
            end_ns,
            busy_ns: busy_ns.min(end_ns - self.start_ns),
            pieces: self.pieces.saturating_add(later.pieces),
            ..*self
        }
    }
}

/// Makes one span of every two neighbours of one thread, scan and kind.
pub(super) fn join_neighbours(spans: &mut Vec<Span>) {
    spans.sort_unstable_by_key(|span| (span.thread, span.source, span.kind, span.start_ns));
    let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
    let mut is_alone = false;
    for span in spans.drain(..) {
        match joined.last_mut() {
            Some(last) if is_alone && last.is_like(&span) => {
                *last = last.joined(&span);
                is_alone = false;
            }
            _ => {
                joined.push(span);
                is_alone = true;
            }
        }
    }
    *spans = joined;
}
