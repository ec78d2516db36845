//! Runs scripts, statements and meta commands against one session and writes their results.
//!
//! Invariants: a script stops at its first error, which is reported where its text is known; ^C cancels a statement; rows
//! are written as they come. Must not know: how lines are edited.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::rc::Rc;

use forebay::arrow::array::RecordBatch;
use forebay::arrow::datatypes::SchemaRef;
use forebay::{Error, ErrorKind, QueryResult, Result, ResultKind, Session, Statement};

use crate::format::{Format, Kind, Layout, Plan};
use crate::interrupt::{Interrupt, Watch};
use crate::lexer::{Splitter, beginnings};
use crate::output::Output;
use crate::progress::Ticker;
use crate::report::{self, Source};
use crate::terminal::{self, Paint, paint};
use crate::timeline::Page;

/// Rows of a table on a terminal, unless `.maxrows` says otherwise.
const TERMINAL_ROWS: usize = 40;

/// Scripts that read scripts that read scripts; more is a script that reads itself.
const SCRIPT_DEPTH: usize = 16;

/// Why a script ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// An error, which has been reported.
    Failed,
    /// ^C.
    Cancelled,
    /// The user asked to leave.
    Quit,
    /// Nobody reads the output any more.
    Closed,
}

/// How a step of a script ended.
pub(crate) type Step = std::result::Result<(), Halt>;

/// How results are shown.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Format of rows.
    pub(crate) format: Kind,
    /// Column names are written.
    pub(crate) header: bool,
    /// Text for NULL instead of the format's own.
    pub(crate) null: Option<String>,
    /// Rows of a table; 0 is no limit, `None` depends on where it goes.
    pub(crate) max_rows: Option<usize>,
    /// Figures after each statement.
    pub(crate) timer: bool,
    /// Nothing but results and errors.
    pub(crate) quiet: bool,
}

/// One session with everything that its user sees.
pub(crate) struct Shell {
    pub(crate) session: Rc<Session>,
    pub(crate) settings: Settings,
    pub(crate) output: Output,
    /// Where the database lies; `None` in memory.
    pub(crate) database: Option<PathBuf>,
    interrupt: Interrupt,
    depth: usize,
    /// Where the timelines of statements are shown.
    page: Option<Page>,
}

/// Why a result was not written to its end.
enum Stop {
    Error(Error),
    Write(io::Error),
    /// The user closed the pager: nothing is wrong.
    PagerClosed,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Shell {
    pub(crate) fn new(session: Session, settings: Settings, database: Option<PathBuf>, interrupt: Interrupt) -> Self {
        Self {
            session: Rc::new(session),
            settings,
            output: Output::default(),
            database,
            interrupt,
            depth: 0,
            page: None,
        }
    }

    /// Has statements from now on note when they did what, and puts it on this page.
    pub(crate) fn write_timelines_to(&mut self, page: Page) {
        self.session.record_timelines(true);
        self.page = Some(page);
    }

    /// Writes the page of timelines, if there is one.
    pub(crate) fn write_page(&mut self) -> Step {
        let written = self.page.take().map_or(Ok(()), Page::write);
        written.map_err(|error| self.report(&error, None))
    }

    /// Runs a script of SQL and meta commands, statement by statement as its lines come; `file` names it in errors.
    pub(crate) fn run_script(&mut self, script: impl BufRead, file: Option<&str>) -> Step {
        if self.depth >= SCRIPT_DEPTH {
            let error = Error::input(format!("scripts read scripts more than {SCRIPT_DEPTH} deep"));
            return Err(self.report(&error.hint("Look for a script that reads itself"), None));
        }
        self.depth += 1;
        let step = self.run_lines(script, file);
        self.depth -= 1;
        step
    }

    fn run_lines(&mut self, mut script: impl BufRead, file: Option<&str>) -> Step {
        let mut splitter = Splitter::default();
        let mut pending = String::new();
        let mut pending_line = 1;
        for number in 1.. {
            let line = match read_line(&mut script, number) {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => return Err(self.report(&error.context(file.unwrap_or("input").to_owned()), None)),
            };
            let line = if number == 1 { line.trim_start_matches('\u{feff}') } else { &line };
            if splitter.is_between_statements() && line.starts_with(['\\', '.']) {
                // No more than comments.
                pending.clear();
                self.run_meta(line)?;
                continue;
            }
            if pending.is_empty() {
                pending_line = number;
            }
            pending.push_str(line);
            if splitter.feed(line) {
                self.run_sql(&std::mem::take(&mut pending), file, pending_line)?;
            }
        }
        if pending.trim().is_empty() { Ok(()) } else { self.run_sql(&pending, file, pending_line) }
    }

    /// Runs the statements of `sql`, which begins at `line` of `file`, without the comments before each.
    fn run_sql(&mut self, sql: &str, file: Option<&str>, line: u64) -> Step {
        let statements = match self.session.statements(sql) {
            Ok(statements) => statements,
            Err(error) => return Err(self.report(&error, Some(Source { sql, file, line }))),
        };
        let starts = beginnings(sql);
        for (index, statement) in statements.iter().enumerate() {
            let start = starts.get(index).copied().unwrap_or(0);
            let comments = beginnings(&statement.text).first().copied().unwrap_or(0);
            let statement = Statement { text: statement.text[comments..].to_owned() };
            let before = sql[..start].bytes().filter(|&byte| byte == b'\n').count() as u64;
            self.run_statement(&statement, Source { sql: &statement.text, file, line: line + before })?;
        }
        Ok(())
    }

    /// Runs one statement, writes its rows, then its figures.
    fn run_statement(&mut self, statement: &Statement, source: Source<'_>) -> Step {
        let interrupt = self.interrupt.clone();
        let watch = interrupt.watch(self.session.canceller());
        let watcher = self.session.watcher();
        let ticker = (!self.settings.quiet)
            .then(|| Ticker::start(move || watcher.progress().map(|now| (now.activity, now.fraction))));
        let outcome = self.session.execute(statement).map_err(Stop::from).and_then(|mut result| {
            let rows = match result.kind() {
                ResultKind::Rows => self.write_rows(&statement.text, &mut result, &watch, ticker)?,
                ResultKind::Changed(_) | ResultKind::Done(_) => {
                    drop(ticker);
                    0
                }
            };
            Ok((result, rows))
        });
        let elapsed = outcome.as_ref().ok().map(|(result, _)| result.metrics().elapsed);
        if let (Some(page), Some(timeline)) = (&mut self.page, self.session.timeline()) {
            page.add(&statement.text, elapsed, &timeline);
        }
        match outcome {
            Ok((result, rows)) => {
                self.write_figures(&result, rows);
                Ok(())
            }
            Err(Stop::PagerClosed) => Ok(()),
            Err(Stop::Write(error)) => Err(self.report_write(&error)),
            Err(Stop::Error(error)) => Err(self.report(&error, Some(source))),
        }
    }

    /// Writes all rows; returns their number.
    fn write_rows(
        &mut self,
        sql: &str,
        result: &mut QueryResult,
        watch: &Watch<'_>,
        ticker: Option<Ticker>,
    ) -> std::result::Result<u64, Stop> {
        let layout = self.layout();
        let mut format: Box<dyn Format> = if self.settings.format == Kind::Table && Plan::fits(sql, &result.schema()) {
            Box::new(Plan::new(layout.color))
        } else {
            self.settings.format.writer(layout)
        };
        let first = result.next_batch()?;
        // On a terminal the bar makes room for the rows; in front of a file it goes on.
        let ticker = ticker.filter(|_| !self.output.is_terminal());
        let mut writer = self.output.writer();
        let rows = match write_batches(format.as_mut(), result, first, watch, &mut writer) {
            Err(Stop::Write(error)) if writer.is_closed_pager(&error) => return Err(Stop::PagerClosed),
            other => other?,
        };
        drop(ticker);
        writer.finish().map_err(Stop::Write)?;
        Ok(rows)
    }

    fn layout(&self) -> Layout {
        let terminal = self.output.is_terminal();
        let max_rows = match self.settings.max_rows {
            Some(0) => None,
            None => terminal.then_some(TERMINAL_ROWS),
            chosen => chosen,
        };
        Layout {
            header: self.settings.header,
            null: self.settings.null.clone(),
            color: self.output.has_color(),
            width: if terminal { terminal::size().map(|(width, _)| width) } else { None },
            max_rows,
        }
    }

    /// The grey line after a statement. A statement without rows says what it did, but only to a terminal.
    fn write_figures(&self, result: &QueryResult, rows: u64) {
        let outcome = report::outcome(result.kind(), rows);
        let text = if self.settings.timer {
            report::figures(&outcome, &result.metrics())
        } else if *result.kind() != ResultKind::Rows && !self.settings.quiet && io::stderr().is_terminal() {
            outcome
        } else {
            return;
        };
        self.note(&paint(&text, Paint::Grey, terminal::has_color(&io::stderr())));
    }

    /// Writes a line to stderr; where that is closed, nobody misses it.
    pub(crate) fn note(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Reports `error`; the script ends.
    pub(crate) fn report(&self, error: &Error, source: Option<Source<'_>>) -> Halt {
        let columns = terminal::size().map_or(100, |(width, _)| width);
        let text = report::error(error, source, columns, terminal::has_color(&io::stderr()));
        let _ = io::stderr().write_all(text.as_bytes());
        if error.kind() == ErrorKind::Cancelled { Halt::Cancelled } else { Halt::Failed }
    }

    /// Reports that results could not be written, quietly where their reader went away.
    pub(crate) fn report_write(&self, error: &io::Error) -> Halt {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Halt::Closed;
        }
        self.report(&Error::io(format_args!("write to {}", self.output.name()), error), None)
    }

    /// Writes `text` to where results go.
    pub(crate) fn write_text(&mut self, text: &str) -> Step {
        let mut writer = self.output.writer();
        let written = writer.write_all(text.as_bytes());
        let closed = written.as_ref().is_err_and(|error| writer.is_closed_pager(error));
        match written.and_then(|()| writer.finish()) {
            Err(error) if !closed => Err(self.report_write(&error)),
            _ => Ok(()),
        }
    }

    /// All rows of one statement, for meta commands.
    pub(crate) fn query(&self, sql: &str) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let statements = self.session.statements(sql)?;
        let statement = statements.first().ok_or_else(|| Error::internal("no statement to run"))?;
        let _watch = self.interrupt.watch(self.session.canceller());
        let mut result = self.session.execute(statement)?;
        let mut batches = Vec::new();
        while let Some(batch) = result.next_batch()? {
            batches.push(batch);
        }
        Ok((result.schema(), batches))
    }

    /// Shows rows that a meta command has.
    pub(crate) fn show(&mut self, schema: &SchemaRef, batches: &[RecordBatch]) -> Step {
        let mut format = self.settings.format.writer(self.layout());
        let mut bytes = Vec::new();
        let written = format
            .begin(schema, &mut bytes)
            .and_then(|()| batches.iter().try_for_each(|batch| format.batch(batch, &mut bytes)))
            .and_then(|()| format.end(&mut bytes));
        match written {
            Ok(()) => self.write_text(&String::from_utf8_lossy(&bytes)),
            Err(error) => Err(self.report_write(&error)),
        }
    }
}

/// Writes `first` and all batches after it; returns the number of rows.
fn write_batches(
    format: &mut dyn Format,
    result: &mut QueryResult,
    first: Option<RecordBatch>,
    watch: &Watch<'_>,
    out: &mut dyn Write,
) -> std::result::Result<u64, Stop> {
    format.begin(&result.schema(), out).map_err(Stop::Write)?;
    let mut rows = 0;
    let mut next = first;
    while let Some(batch) = next {
        rows += batch.num_rows() as u64;
        format.batch(&batch, out).and_then(|()| out.flush()).map_err(Stop::Write)?;
        if watch.is_pressed() {
            return Err(cancelled().into());
        }
        next = result.next_batch()?;
    }
    format.end(out).map_err(Stop::Write)?;
    Ok(rows)
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the query was cancelled")
}

/// The next line with its end; `None` at the end of the script.
fn read_line(script: &mut impl BufRead, number: u64) -> Result<Option<String>> {
    let mut bytes = Vec::new();
    let read = script.read_until(b'\n', &mut bytes).map_err(|error| Error::io("read the script", &error))?;
    if read == 0 {
        return Ok(None);
    }
    let wrong = |_| Error::input(format!("line {number} is not UTF-8 text"));
    String::from_utf8(bytes).map(Some).map_err(wrong)
}
