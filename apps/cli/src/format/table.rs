//! A box-drawn table with the types under the names.
//!
//! Invariants: with a row limit only the first and the last rows are kept; without one, the first [`MEASURED_ROWS`] rows
//! fix the widths and the rest streams past them (a later, wider cell then pushes its line to the right and is never
//! cut). So memory is bounded whatever the result's size. Must not know: where the terminal is.

use std::collections::VecDeque;
use std::io::{self, Write};

use forebay::arrow::array::RecordBatch;
use forebay::arrow::datatypes::Schema;
use forebay::units::format_count;

use super::{Format, Layout};
use crate::terminal::{Paint, RESET, paint, push_visible, truncate, width};
use forebay::render::types::{is_number, sql_name};
use forebay::render::value::{Cells, Notation, cells};

/// Rows that are measured before the first is written.
const MEASURED_ROWS: usize = 10_000;

/// A column is not squeezed below this width; columns in the middle are left out instead.
const NARROWEST: usize = 8;

pub(crate) struct Table {
    layout: Layout,
    columns: Vec<Column>,
    /// The first rows, until they are written.
    head: Vec<Row>,
    /// The latest batches, just enough of them for the last rows of a limited table.
    tail: VecDeque<RecordBatch>,
    tail_rows: usize,
    rows: u64,
    /// Fixed when the first row is written.
    frame: Option<Frame>,
}

struct Column {
    name: String,
    type_name: String,
    right: bool,
    width: usize,
}

/// One text per column; `None` is NULL.
type Row = Vec<Option<String>>;

/// What is drawn of each row, left to right.
struct Frame {
    slots: Vec<Slot>,
    /// Texts that are too wide are cut: there is a terminal, whose lines must not wrap.
    cut: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Slot {
    /// The column of this index, this wide.
    Column { index: usize, width: usize },
    /// Columns that do not fit.
    Gap,
}

#[derive(Clone, Copy)]
enum Align {
    Left,
    Right,
    Center,
}

impl Table {
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            layout,
            columns: Vec::new(),
            head: Vec::new(),
            tail: VecDeque::new(),
            tail_rows: 0,
            rows: 0,
            frame: None,
        }
    }

    /// Rows shown from the start and from the end.
    fn limits(&self) -> (usize, usize) {
        match self.layout.max_rows {
            Some(limit) => (limit.div_ceil(2), limit / 2),
            None => (MEASURED_ROWS, 0),
        }
    }

    fn null(&self) -> &str {
        self.layout.null.as_deref().unwrap_or("NULL")
    }

    /// Keeps as many of the latest batches as the last rows need.
    fn keep_tail(&mut self, batch: &RecordBatch, rows: usize) {
        self.tail.push_back(batch.clone());
        self.tail_rows += batch.num_rows();
        while let Some(oldest) = self.tail.front().map(RecordBatch::num_rows)
            && self.tail_rows - oldest >= rows
        {
            self.tail.pop_front();
            self.tail_rows -= oldest;
        }
    }

    /// The last rows, those of `head` excluded.
    fn last_rows(&self) -> Vec<Row> {
        let (_, limit) = self.limits();
        let beyond_head = usize::try_from(self.rows).unwrap_or(usize::MAX) - self.head.len();
        let mut skip = self.tail_rows - limit.min(beyond_head).min(self.tail_rows);
        let mut rows = Vec::new();
        for batch in &self.tail {
            let from = skip.min(batch.num_rows());
            skip -= from;
            rows.extend(texts(batch, from, batch.num_rows()));
        }
        rows
    }

    fn measure<'a>(columns: &mut [Column], rows: impl Iterator<Item = &'a Row>, null: &str) {
        for row in rows {
            for (column, cell) in columns.iter_mut().zip(row) {
                column.width = column.width.max(width(cell.as_deref().unwrap_or(null)));
            }
        }
    }

    /// Fixes the widths and writes the header.
    fn start(&mut self, last: &[Row], out: &mut dyn Write) -> io::Result<()> {
        let null = self.null().to_owned();
        Self::measure(&mut self.columns, self.head.iter().chain(last), &null);
        let widths: Vec<usize> = self.columns.iter().map(|column| column.width).collect();
        let frame = Frame::fit(&widths, self.layout.width);
        let mut text = frame.rule('┌', '┬', '┐');
        if self.layout.header {
            frame.line(&mut text, |index| (self.columns[index].name.clone(), Align::Center, None));
            frame.line(&mut text, |index| (self.columns[index].type_name.clone(), Align::Center, self.grey()));
            text.push_str(&frame.rule('├', '┼', '┤'));
        }
        self.frame = Some(frame);
        out.write_all(text.as_bytes())
    }

    fn grey(&self) -> Option<Paint> {
        self.layout.color.then_some(Paint::Grey)
    }

    fn write_rows(&self, rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
        let Some(frame) = &self.frame else { return Ok(()) };
        let mut text = String::new();
        for row in rows {
            frame.line(&mut text, |index| {
                let align = if self.columns[index].right { Align::Right } else { Align::Left };
                match &row[index] {
                    Some(value) => (value.clone(), align, None),
                    None => (self.null().to_owned(), align, self.grey()),
                }
            });
        }
        out.write_all(text.as_bytes())
    }

    fn write_end(&self, shown: usize, out: &mut dyn Write) -> io::Result<()> {
        let Some(frame) = &self.frame else { return Ok(()) };
        out.write_all(frame.rule('└', '┴', '┘').as_bytes())?;
        let mut notes = Vec::new();
        if shown as u64 != self.rows {
            notes.push(format!("{} rows ({shown} shown; .maxrows 0 shows all)", format_count(self.rows)));
        }
        let columns = frame.slots.iter().filter(|slot| matches!(slot, Slot::Column { .. })).count();
        if columns != self.columns.len() {
            notes.push(format!("{} columns ({columns} shown; .mode line shows all)", self.columns.len()));
        }
        if notes.is_empty() {
            return Ok(());
        }
        writeln!(out, "{}", paint(&notes.join(", "), Paint::Grey, self.layout.color))
    }
}

/// The rows `from..to` of `batch` as texts.
fn texts(batch: &RecordBatch, from: usize, to: usize) -> Vec<Row> {
    let columns: Vec<Cells<'_>> = batch.columns().iter().map(|column| cells(column.as_ref(), Notation::Text)).collect();
    let mut raw = String::new();
    let mut cell = |column: &Cells<'_>, row: usize| {
        raw.clear();
        column(row, &mut raw).then(|| {
            let mut visible = String::with_capacity(raw.len());
            push_visible(&raw, &mut visible);
            visible
        })
    };
    (from..to).map(|row| columns.iter().map(|column| cell(column, row)).collect()).collect()
}

impl Format for Table {
    fn begin(&mut self, schema: &Schema, _out: &mut dyn Write) -> io::Result<()> {
        for field in schema.fields() {
            let mut name = String::new();
            push_visible(field.name(), &mut name);
            let type_name = sql_name(field.data_type()).to_lowercase();
            let width = if self.layout.header { width(&name).max(width(&type_name)) } else { 1 };
            self.columns.push(Column { name, type_name, right: is_number(field.data_type()), width });
        }
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        self.rows += batch.num_rows() as u64;
        if self.frame.is_some() {
            return self.write_rows(&texts(batch, 0, batch.num_rows()), out);
        }
        let (first, last) = self.limits();
        let taken = (first - self.head.len()).min(batch.num_rows());
        self.head.extend(texts(batch, 0, taken));
        if self.layout.max_rows.is_some() {
            self.keep_tail(batch, last);
        } else if taken < batch.num_rows() {
            self.start(&[], out)?;
            let head = std::mem::take(&mut self.head);
            self.write_rows(&head, out)?;
            self.write_rows(&texts(batch, taken, batch.num_rows()), out)?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        if self.frame.is_some() {
            let all = usize::try_from(self.rows).unwrap_or(usize::MAX);
            return self.write_end(all, out);
        }
        let last = self.last_rows();
        self.start(&last, out)?;
        self.write_rows(&self.head, out)?;
        let shown = self.head.len() + last.len();
        if shown as u64 != self.rows
            && let Some(frame) = &self.frame
        {
            let mut text = String::new();
            frame.line(&mut text, |_| ("·".to_owned(), Align::Center, self.grey()));
            out.write_all(text.as_bytes())?;
        }
        self.write_rows(&last, out)?;
        self.write_end(shown, out)
    }
}

impl Frame {
    /// Fits columns of these natural widths into `limit` terminal columns: first the widest are squeezed to a common
    /// width, then columns in the middle make room.
    fn fit(natural: &[usize], limit: Option<usize>) -> Self {
        let whole = || natural.iter().enumerate().map(|(index, &width)| Slot::Column { index, width }).collect();
        let Some(limit) = limit else { return Self { slots: whole(), cut: false } };
        // Each column costs its text, two spaces and a border; one border more closes the line.
        let fixed = |columns: usize| 3 * columns + 1;
        if natural.iter().sum::<usize>() + fixed(natural.len()) <= limit {
            return Self { slots: whole(), cut: true };
        }
        let mut kept: Vec<usize> = (0..natural.len()).collect();
        let mut cost: usize = natural.iter().map(|&width| width.min(NARROWEST)).sum::<usize>() + fixed(kept.len());
        let mut gap = 0;
        while kept.len() > 1 && cost + gap > limit {
            let middle = kept.remove(kept.len() / 2);
            cost -= natural[middle].min(NARROWEST) + 3;
            gap = 4;
        }
        let room = limit.saturating_sub(fixed(kept.len()) + gap);
        let cap = largest_cap(&kept.iter().map(|&index| natural[index]).collect::<Vec<_>>(), room);
        let split = if gap > 0 { Some(kept.len().div_ceil(2)) } else { None };
        let mut slots: Vec<Slot> =
            kept.into_iter().map(|index| Slot::Column { index, width: natural[index].min(cap) }).collect();
        if let Some(at) = split {
            slots.insert(at, Slot::Gap);
        }
        Self { slots, cut: true }
    }

    fn rule(&self, left: char, middle: char, right: char) -> String {
        let mut text = String::from(left);
        for (position, slot) in self.slots.iter().enumerate() {
            if position > 0 {
                text.push(middle);
            }
            let width = if let Slot::Column { width, .. } = slot { *width } else { 1 };
            text.extend(std::iter::repeat_n('─', width + 2));
        }
        text.push(right);
        text.push('\n');
        text
    }

    /// Appends one line; `cell` gives the text of a column and how it stands.
    fn line(&self, text: &mut String, cell: impl Fn(usize) -> (String, Align, Option<Paint>)) {
        text.push('│');
        for slot in &self.slots {
            text.push(' ');
            match slot {
                Slot::Gap => text.push('…'),
                Slot::Column { index, width } => {
                    let (content, align, color) = cell(*index);
                    let content = if self.cut { truncate(&content, *width) } else { content };
                    push_aligned(&content, *width, align, color, text);
                }
            }
            text.push_str(" │");
        }
        text.push('\n');
    }
}

/// The largest width that leaves columns of these widths, each cut to it, within `room`.
fn largest_cap(widths: &[usize], room: usize) -> usize {
    let mut sorted = widths.to_vec();
    sorted.sort_unstable();
    let mut left = room;
    for (index, &width) in sorted.iter().enumerate() {
        let share = left / (sorted.len() - index);
        if width > share {
            return share.max(1);
        }
        left -= width;
    }
    usize::MAX
}

fn push_aligned(content: &str, room: usize, align: Align, color: Option<Paint>, out: &mut String) {
    let free = room.saturating_sub(width(content));
    let before = match align {
        Align::Left => 0,
        Align::Right => free,
        Align::Center => free / 2,
    };
    out.extend(std::iter::repeat_n(' ', before));
    match color {
        Some(color) => out.extend([color.begin(), content, RESET]),
        None => out.push_str(content),
    }
    out.extend(std::iter::repeat_n(' ', free - before));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::expect;
    use forebay::arrow::array::{ArrayRef, Int32Array, StringArray};

    use super::super::Kind;
    use super::super::tests::{batch, header, render, sample};
    use super::*;

    fn numbers(from: i32, to: i32) -> RecordBatch {
        batch(vec![("n", Arc::new(Int32Array::from_iter_values(from..to)))])
    }

    #[test]
    fn all_types_and_nulls() {
        expect![[r#"
            ┌──────────────────┬───────────────┬────────┬─────────┬──────────┬────────┬────────────┬─────────────────────────┐
            │        id        │    amount     │ ratio  │   ok    │   name   │  raw   │    day     │           at            │
            │      bigint      │ decimal(10,2) │ double │ boolean │ varchar  │  blob  │    date    │        timestamp        │
            ├──────────────────┼───────────────┼────────┼─────────┼──────────┼────────┼────────────┼─────────────────────────┤
            │ 9007199254740993 │        -12.05 │    1.0 │ true    │ a|b, "c" │ \x00ff │ 2024-01-31 │ 2024-01-31 12:34:56.123 │
            │             NULL │          NULL │   NULL │ NULL    │ NULL     │ NULL   │ NULL       │ NULL                    │
            └──────────────────┴───────────────┴────────┴─────────┴──────────┴────────┴────────────┴─────────────────────────┘
        "#]]
        .assert_eq(&render(Kind::Table, header(), &[sample()]));
    }

    #[test]
    fn the_middle_of_a_long_result_is_left_out() {
        let layout = Layout { max_rows: Some(5), ..header() };
        let batches = [numbers(0, 2), numbers(2, 7), numbers(7, 8), numbers(8, 1000)];
        expect![[r#"
            ┌─────────┐
            │    n    │
            │ integer │
            ├─────────┤
            │       0 │
            │       1 │
            │       2 │
            │    ·    │
            │     998 │
            │     999 │
            └─────────┘
            1,000 rows (5 shown; .maxrows 0 shows all)
        "#]]
        .assert_eq(&render(Kind::Table, layout, &batches));
    }

    #[test]
    fn a_result_of_just_the_limit_is_whole_in_any_batching() {
        for cut in 0..=6 {
            for limit in [6, 7] {
                let layout = Layout { max_rows: Some(limit), ..Layout::default() };
                let text = render(Kind::Table, layout, &[numbers(0, cut), numbers(cut, 6)]);
                assert_eq!(text, "┌───┐\n│ 0 │\n│ 1 │\n│ 2 │\n│ 3 │\n│ 4 │\n│ 5 │\n└───┘\n", "cut {cut} limit {limit}");
            }
        }
    }

    #[test]
    fn an_unlimited_result_streams_and_cuts_nothing() {
        let count = 2 * MEASURED_ROWS as i32;
        let text = render(Kind::Table, Layout::default(), &[numbers(0, 9999), numbers(9999, count)]);
        assert_eq!(text.lines().count(), 2 + count as usize);
        assert!(text.contains(&format!(" {} │", count - 1)), "a wide late number is whole");
    }

    #[test]
    fn wide_tables_are_squeezed_to_the_terminal() {
        let wide = |text: &str| Arc::new(StringArray::from(vec![text.repeat(10)])) as ArrayRef;
        let rows = batch(vec![("a", wide("x")), ("b", wide("日本")), ("c", wide("z"))]);
        let layout = Layout { width: Some(40), ..header() };
        let text = render(Kind::Table, layout, &[rows]);
        expect![[r#"
            ┌────────────┬────────────┬────────────┐
            │     a      │     b      │     c      │
            │  varchar   │  varchar   │  varchar   │
            ├────────────┼────────────┼────────────┤
            │ xxxxxxxxxx │ 日本日本…  │ zzzzzzzzzz │
            └────────────┴────────────┴────────────┘
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn columns_in_the_middle_make_room() {
        let names: Vec<String> = (0..30).map(|index| format!("column_{index}")).collect();
        let columns = names.iter().map(|name| (name.as_str(), Arc::new(Int32Array::from(vec![1])) as ArrayRef));
        let layout = Layout { width: Some(50), ..header() };
        let text = render(Kind::Table, layout, &[batch(columns.collect())]);
        expect![[r#"
            ┌──────────┬──────────┬───┬──────────┬──────────┐
            │ column_0 │ column_1 │ … │ column_… │ column_… │
            └
        "#]]
        .assert_eq(&(text.lines().take(2).collect::<Vec<_>>().join("\n") + "\n└\n"));
        assert!(text.contains("30 columns (4 shown"), "{text}");
        assert!(text.lines().take(6).all(|line| width(line) <= 50), "{text}");
    }

    #[test]
    fn values_cannot_steer_the_terminal() {
        let rows = batch(vec![("a\x1b[2J", Arc::new(StringArray::from(vec!["x\n\x1b[31m"])))]);
        let text = render(Kind::Table, Layout { color: true, ..header() }, &[rows]);
        assert!(text.contains("│ x\\n\\u{1b}[31m │"), "{text}");
    }

    #[test]
    fn null_is_grey_on_a_terminal() {
        let rows = batch(vec![("a", Arc::new(Int32Array::from(vec![None])))]);
        let layout = Layout { color: true, null: Some("-".into()), ..Layout::default() };
        assert!(render(Kind::Table, layout, &[rows]).contains("\x1b[90m-\x1b[0m"));
    }
}
