//! `--timeline`: a page that shows when statements read, waited, inflated and computed. It needs no network: the picture is
//! drawn by the page's own script from the JSON in it.
//!
//! Invariants: whether the page can be written is known before anything runs; what was there is replaced when the run ends,
//! and stays if the run begins nothing. Must not know: how times are noted.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay::timeline::{SourceTimes, Span, SpanKind, Timeline};
use forebay::{Error, Result};
use serde_json::json;

/// The page with a mark where its data go.
const TEMPLATE: &str = include_str!("timeline.html");
const MARK: &str = "{{DATA}}";

/// Spans of all statements of a page: some ten megabytes, which browsers draw at once.
const MOST_SPANS: usize = 1 << 18;

/// Characters of a statement that are shown.
const SHOWN_CHARACTERS: usize = 4000;

/// What a span's numbers are, in order; -1 where there is none.
const FIELDS: [&str; 12] = [
    "kind",
    "source",
    "thread",
    "column",
    "segment",
    "row_group",
    "chunk",
    "bytes",
    "start_ns",
    "end_ns",
    "busy_ns",
    "pieces",
];

/// A page that is written when the run ends.
#[derive(Debug)]
pub(crate) struct Page {
    path: PathBuf,
    file: File,
    /// It is empty, and goes again if nothing is written.
    is_new: bool,
    /// As JSON.
    statements: Vec<String>,
    spans: usize,
    /// Statements of which there is nothing to show.
    without_spans: u64,
    /// Statements that the page had no room for.
    left_out: u64,
}

impl Page {
    /// Opens the file at `path`, which keeps what it holds until [`Page::write`].
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let is_new = !path.exists();
        // What is there may be a page that is worth more than none.
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| {
            Error::io(format_args!("write the timeline {}", path.display()), &error)
                .hint("Give --timeline the path of a file in a folder that exists and that you may write to")
        })?;
        let (path, statements) = (path.to_owned(), Vec::new());
        Ok(Self { path, file, is_new, statements, spans: 0, without_spans: 0, left_out: 0 })
    }

    /// Adds a statement; `elapsed` is `None` where it ended with an error.
    pub(crate) fn add(&mut self, sql: &str, elapsed: Option<Duration>, timeline: &Timeline) {
        if timeline.spans.iter().all(|span| span.kind == SpanKind::Plan) {
            self.without_spans += 1;
        } else if self.spans + timeline.spans.len() > MOST_SPANS {
            self.left_out += 1;
        } else {
            self.spans += timeline.spans.len();
            self.statements.push(statement(sql, elapsed, timeline));
        }
    }

    /// Writes the page.
    pub(crate) fn write(mut self) -> Result<()> {
        let kinds = SpanKind::ALL.map(SpanKind::name);
        let data = format!(
            r#"{{"version":{},"fields":{},"kinds":{},"without_spans":{},"left_out":{},"statements":[{}]}}"#,
            json!(env!("CARGO_PKG_VERSION")),
            json!(FIELDS),
            json!(kinds),
            self.without_spans,
            self.left_out,
            self.statements.join(",")
        );
        let page = filled(&data);
        let written = self.replace(page.as_bytes());
        self.is_new = false;
        written.map_err(|error| Error::io(format_args!("write the timeline {}", self.path.display()), &error))
    }
}

impl Page {
    /// Writes `bytes` in place of what the file holds, if it is one and not a device.
    fn replace(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
            self.file.rewind()?;
        }
        self.file.write_all(bytes)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if self.is_new {
            // It is empty; where it cannot go, that does no harm.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The page with these data. No text of theirs can end the element that they lie in.
fn filled(data: &str) -> String {
    TEMPLATE.replacen(MARK, &data.replace('<', "\\u003c"), 1)
}

/// A statement as JSON.
fn statement(sql: &str, elapsed: Option<Duration>, timeline: &Timeline) -> String {
    let mut shown: String = sql.trim().chars().take(SHOWN_CHARACTERS).collect();
    if shown.len() < sql.trim().len() {
        shown.push('…');
    }
    let elapsed_ns = elapsed.map_or(0, |elapsed| elapsed.as_nanos() as u64).max(timeline.elapsed_ns);
    let sources: Vec<_> = timeline.sources.iter().map(source).collect();
    let mut text = format!(
        r#"{{"sql":{},"failed":{},"elapsed_ns":{elapsed_ns},"workers":{},"threads":{},"left_out":{},"sources":{},"spans":["#,
        json!(shown),
        elapsed.is_none(),
        timeline.workers,
        timeline.threads,
        timeline.left_out,
        json!(sources)
    );
    for (number, span) in timeline.spans.iter().enumerate() {
        if number > 0 {
            text.push(',');
        }
        push_span(&mut text, span);
    }
    text.push_str("]}");
    text
}

fn source(source: &SourceTimes) -> serde_json::Value {
    json!({
        "name": source.name,
        "columns": source.columns,
        "chunks": source.chunks,
        "read_bytes": source.read_bytes,
        "let_go_bytes": source.let_go_bytes,
        "inflated_bytes": source.inflated_bytes,
        "wait_ns": source.wait_ns,
        "inflate_ns": source.inflate_ns,
        "compute_ns": source.compute_ns,
        "compile_ns": source.compile_ns,
        "finish_ns": source.finish_ns,
    })
}

/// A span as a list of the numbers that [`FIELDS`] names: much smaller than an object.
fn push_span(text: &mut String, span: &Span) {
    let or_none = |number: Option<u32>| number.map_or(-1, i64::from);
    let kind = SpanKind::ALL.iter().position(|kind| *kind == span.kind).unwrap_or_default();
    let (segment, group) = span.row_group.unzip();
    let [thread, column, chunk] = [span.thread, span.column, span.chunk].map(or_none);
    let [segment, group] = [segment, group].map(or_none);
    let Span { source, bytes, start_ns, end_ns, busy_ns, pieces, .. } = span;
    write!(
        text,
        "[{kind},{source},{thread},{column},{segment},{group},{chunk},{bytes},{start_ns},{end_ns},{busy_ns},{pieces}]"
    )
    .expect("a string takes all that is written");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(kind: SpanKind) -> Timeline {
        let span = Span {
            kind,
            source: 0,
            thread: Some(1),
            column: None,
            row_group: Some((0, 7)),
            chunk: None,
            bytes: 5,
            start_ns: 10,
            end_ns: 30,
            busy_ns: 20,
            pieces: 1,
        };
        let sources = vec![SourceTimes { name: "main.t".into(), columns: vec!["a".into()], ..SourceTimes::default() }];
        Timeline { elapsed_ns: 30, workers: 2, threads: 2, sources, spans: vec![span], left_out: 0 }
    }

    fn data(page: &str) -> serde_json::Value {
        let begin = page.find("id=\"data\">").expect("an element for the data") + "id=\"data\">".len();
        let end = begin + page[begin..].find("</script>").expect("its end");
        serde_json::from_str(&page[begin..end]).expect("JSON")
    }

    #[test]
    fn a_page_holds_what_was_added() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.html");
        let mut page = Page::create(&path).expect("a new file");
        let sql = "SELECT '</script>' FROM t";
        page.add(sql, Some(Duration::from_nanos(40)), &timeline(SpanKind::Compute));
        page.add("SELECT 1", None, &timeline(SpanKind::Plan));
        page.write().expect("a page");
        let data = data(&std::fs::read_to_string(&path).expect("it is there"));
        assert_eq!(data["statements"].as_array().map(Vec::len), Some(1));
        assert_eq!(data["without_spans"], 1);
        let statement = &data["statements"][0];
        assert_eq!((&statement["sql"], &statement["elapsed_ns"]), (&json!(sql), &json!(40)));
        assert_eq!(statement["spans"], json!([[5, 0, 1, -1, 0, 7, -1, 5, 10, 30, 20, 1]]));
        assert_eq!(data["kinds"][5], "compute");
        assert_eq!(data["fields"].as_array().map(Vec::len), Some(12));
    }

    #[test]
    fn a_page_that_is_full_counts_the_rest() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut page = Page::create(&folder.path().join("t.html")).expect("a new file");
        page.spans = MOST_SPANS;
        page.add("SELECT", None, &timeline(SpanKind::Compute));
        assert_eq!((page.statements.len(), page.left_out), (0, 1));
    }

    #[test]
    fn a_page_replaces_another_only_when_it_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.html");
        drop(Page::create(&path).expect("a new file"));
        assert!(!path.exists(), "nothing was written");
        std::fs::write(&path, "x".repeat(1 << 20)).expect("a long file");
        drop(Page::create(&path).expect("the same file"));
        assert_eq!(std::fs::metadata(&path).expect("it is there").len(), 1 << 20);
        Page::create(&path).expect("the same file").write().expect("a page without statements");
        assert!(std::fs::read_to_string(&path).expect("it is there").ends_with("</html>\n"));
        let error = Page::create(&folder.path().join("none/t.html")).expect_err("there is no such folder");
        assert!(error.to_string().contains("none/t.html"), "{error}");
        assert!(Page::create(folder.path()).is_err(), "a folder is no file");
    }

    #[test]
    fn the_page_needs_no_network() {
        for reference in ["http:", "https:", "src=", "href=", "@import", "url("] {
            assert!(!TEMPLATE.contains(reference), "{reference}");
        }
        assert_eq!(TEMPLATE.matches(MARK).count(), 1);
    }
}
