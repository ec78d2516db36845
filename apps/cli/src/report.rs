//! Errors and figures as users read them.
//!
//! Invariants: an error is one line, plus the line of SQL with a caret where its position is known; SQL text cannot steer
//! the terminal. Must not know: how statements run.

use forebay::units::{format_bytes, format_count, format_seconds};
use forebay::{Error, Position, QueryMetrics, ResultKind};

use crate::terminal::{Paint, char_width, paint, push_visible};

/// The text that an error's position counts in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// SQL.
    pub(crate) sql: &'a str,
    /// File that it stands in.
    pub(crate) file: Option<&'a str>,
    /// Line of the file where it begins, from 1.
    pub(crate) line: u64,
}

/// The report of `error`, with a final line end; `columns` is the width of the terminal.
pub(crate) fn error(error: &Error, source: Option<Source<'_>>, columns: usize, color: bool) -> String {
    let mut one_line = String::new();
    push_visible(&error.to_string().replace(['\n', '\r', '\t'], " "), &mut one_line);
    let mut text = format!("{} {one_line}\n", paint("Error:", Paint::Red, color));
    if let Some(source) = source {
        match error.position() {
            Some(position) => text.push_str(&excerpt(source, position, columns, color)),
            None => text.push_str(&file_line(source, source.line, "", color)),
        }
    }
    text
}

fn file_line(source: Source<'_>, line: u64, indent: &str, color: bool) -> String {
    match source.file {
        Some(file) => format!("{indent}{}\n", paint(&format!("--> {file}, line {line}"), Paint::Grey, color)),
        None => String::new(),
    }
}

/// The line of `position` with a caret under its character.
fn excerpt(source: Source<'_>, position: Position, columns: usize, color: bool) -> String {
    let index = usize::try_from(position.line.saturating_sub(1)).unwrap_or(usize::MAX);
    let Some(sql) = source.sql.lines().nth(index).or_else(|| source.sql.lines().last()) else {
        return String::new();
    };
    let number = source.line + position.line.saturating_sub(1);
    let margin = number.to_string();
    let room = columns.saturating_sub(margin.len() + 4).max(20);
    let (shown, caret) = window(sql, position.column, room);
    let indent = " ".repeat(margin.len() + 1);
    let bar = paint("│", Paint::Grey, color);
    format!(
        "{}{} {bar} {shown}\n{indent}{bar} {}{}\n",
        file_line(source, number, &indent, color),
        paint(&margin, Paint::Grey, color),
        " ".repeat(caret),
        paint("^", Paint::Red, color),
    )
}

/// At most `room` columns of `line` around its character `column` (from 1), and the caret's column among them (from 0).
fn window(line: &str, column: u64, room: usize) -> (String, usize) {
    let mut cells: Vec<(char, usize)> = Vec::new();
    let mut caret = None;
    for (index, character) in line.chars().enumerate() {
        if index as u64 + 1 == column {
            caret = Some(cells.len());
        }
        match character {
            '\t' => cells.extend([(' ', 1); 4]),
            control if control.is_control() => cells.push(('·', 1)),
            other => cells.push((other, char_width(other))),
        }
    }
    let caret = caret.unwrap_or(cells.len());
    let columns = |cells: &[(char, usize)]| cells.iter().map(|(_, width)| width).sum::<usize>();
    // The caret may stand one column behind the end.
    if columns(&cells) < room {
        return (cells.iter().map(|(character, _)| character).collect(), columns(&cells[..caret]));
    }
    let mut from = caret;
    while from > 0 && columns(&cells[from - 1..caret]) <= room / 2 {
        from -= 1;
    }
    let mut to = from;
    while to < cells.len() && columns(&cells[from..=to]) < room.saturating_sub(2) {
        to += 1;
    }
    let (before, after) = (if from > 0 { "…" } else { "" }, if to < cells.len() { "…" } else { "" });
    let middle: String = cells[from..to].iter().map(|(character, _)| character).collect();
    (format!("{before}{middle}{after}"), before.chars().count() + columns(&cells[from..caret]))
}

/// What a statement did: `12 rows`, `3 rows changed`, `CREATE TABLE`.
pub(crate) fn outcome(kind: &ResultKind, rows: u64) -> String {
    let count = |rows: u64| format!("{} row{}", format_count(rows), if rows == 1 { "" } else { "s" });
    match kind {
        ResultKind::Rows => count(rows),
        ResultKind::Changed(rows) => format!("{} changed", count(*rows)),
        ResultKind::Done(text) => text.clone(),
    }
}

/// `12 rows in 34.5 ms · read 12.3 MiB · 45 % of chunks pruned · 18.2 GB/s effective`; figures that are zero are left
/// out. Effective bandwidth is plain bytes of the touched columns per second.
pub(crate) fn figures(outcome: &str, metrics: &QueryMetrics) -> String {
    let seconds = metrics.elapsed.as_secs_f64();
    let mut parts = vec![format!("{outcome} in {}", format_seconds(seconds))];
    if metrics.read_bytes > 0 {
        parts.push(format!("read {}", format_bytes(metrics.read_bytes)));
    }
    if metrics.chunks_pruned > 0 && metrics.chunks > 0 {
        let share = metrics.chunks_pruned as f64 / metrics.chunks as f64;
        parts.push(format!("{:.0} % of chunks pruned", share * 100.0));
    }
    if metrics.plain_bytes > 0 && seconds > 0.0 {
        parts.push(format!("{:.1} GB/s effective", metrics.plain_bytes as f64 / seconds / 1e9));
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;

    use super::*;

    fn report(sql: &str, line: u64, column: u64, file: Option<&str>) -> String {
        let failure = Error::input("column \"x\" does not exist").at(Position { line, column });
        error(&failure, Some(Source { sql, file, line: 11 }), 60, false)
    }

    #[test]
    fn the_caret_stands_under_the_character() {
        expect![[r#"
            Error: column "x" does not exist
            12 │ from x
               │      ^
        "#]]
        .assert_eq(&report("select 1\nfrom x", 2, 6, None));
    }

    #[test]
    fn tabs_and_wide_characters_keep_the_caret_in_place() {
        expect![[r#"
            Error: column "x" does not exist
               --> load.sql, line 11
            11 │     '日本', x
               │             ^
        "#]]
        .assert_eq(&report("\t'日本', x", 1, 8, Some("load.sql")));
    }

    #[test]
    fn the_end_of_the_text_has_a_place() {
        expect![[r#"
            Error: column "x" does not exist
            11 │ select
               │       ^
        "#]]
        .assert_eq(&report("select", 1, 7, None));
        assert!(report("select", 9, 99, None).ends_with("      ^\n"));
        assert_eq!(report("", 1, 1, None), "Error: column \"x\" does not exist\n");
    }

    #[test]
    fn long_lines_are_cut_around_the_caret() {
        let sql = format!("select {}x{}", "a, ".repeat(100), ", b".repeat(100));
        let column = sql.find('x').expect("it is there") as u64 + 1;
        let text = report(&sql, 1, column, None);
        expect![[r#"
            Error: column "x" does not exist
            11 │ …a, a, a, a, a, a, a, a, a, x, b, b, b, b, b, b, b, …
               │                             ^
        "#]]
        .assert_eq(&text);
        assert!(text.lines().all(|line| crate::terminal::width(line) <= 60));
    }

    #[test]
    fn errors_are_one_line_and_name_their_file() {
        let failure = Error::input("two\nlines\x1b[2J");
        let source = Source { sql: "select", file: Some("a.sql"), line: 3 };
        assert_eq!(error(&failure, Some(source), 80, false), "Error: two lines\\u{1b}[2J\n--> a.sql, line 3\n");
        assert_eq!(error(&failure, None, 80, true), "\x1b[1;31mError:\x1b[0m two lines\\u{1b}[2J\n");
    }

    #[test]
    fn figures_leave_out_what_is_zero() {
        let mut metrics = QueryMetrics { elapsed: Duration::from_micros(34_500), ..QueryMetrics::default() };
        assert_eq!(figures(&outcome(&ResultKind::Rows, 1), &metrics), "1 row in 34.5 ms");
        metrics.read_bytes = 12_897_485;
        (metrics.chunks, metrics.chunks_pruned) = (100, 45);
        metrics.plain_bytes = 627_900_000;
        assert_eq!(
            figures(&outcome(&ResultKind::Rows, 1200), &metrics),
            "1,200 rows in 34.5 ms · read 12.3 MiB · 45 % of chunks pruned · 18.2 GB/s effective"
        );
        assert_eq!(outcome(&ResultKind::Changed(3), 0), "3 rows changed");
        assert_eq!(outcome(&ResultKind::Done("CREATE TABLE".into()), 0), "CREATE TABLE");
    }
}
