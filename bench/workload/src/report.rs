//! Plain text for people: aligned tables, bars, and lines that go out at once.
//!
//! Must not know: queries, databases.

use std::io::Write;

use forebay::{Error, Result};

/// Cells of the longest bar.
const BAR_CELLS: f64 = 20.0;

/// Writes one line and flushes it, so that a pipe shows progress too.
pub(crate) fn line(out: &mut dyn Write, text: &str) -> Result<()> {
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|e| Error::io("write the report", &e))
}

/// A bar of full and partial blocks; `share` of the longest one, 0 to 1.
pub(crate) fn bar(share: f64) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * BAR_CELLS * 8.0).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8]);
    }
    // A measured value is never shown as nothing.
    if bar.is_empty() && share > 0.0 {
        bar.push(EIGHTHS[1]);
    }
    bar
}

/// Columns of fixed width, the first one left-aligned, the others right-aligned.
pub(crate) struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    pub(crate) fn new(widths: &[usize]) -> Self {
        Self { widths: widths.to_vec() }
    }

    /// One row. Cells beyond the widths (a bar) follow as they are.
    pub(crate) fn row(&self, cells: &[&str]) -> String {
        let mut row = String::new();
        for (index, cell) in cells.iter().enumerate() {
            let separator = if index == 0 { "" } else { "  " };
            let text = match self.widths.get(index) {
                Some(&width) if index == 0 => format!("{cell:<width$}"),
                Some(&width) => format!("{cell:>width$}"),
                None => (*cell).to_owned(),
            };
            row.push_str(separator);
            row.push_str(&text);
        }
        row.trim_end().to_owned()
    }

    /// A rule under the headings.
    pub(crate) fn rule(&self) -> String {
        "─".repeat(self.widths.iter().sum::<usize>() + 2 * (self.widths.len() - 1))
    }
}

/// The share of `part` in `whole`, such as `45 %`; `–` of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "–".to_owned() } else { format!("{:.0} %", 100.0 * part as f64 / whole as f64) }
}

/// Bytes per second as `18.2 GB/s`, decimal as bandwidths are.
pub(crate) fn bandwidth(bytes: u64, seconds: f64) -> String {
    if seconds <= 0.0 {
        return "–".to_owned();
    }
    let gigabytes = bytes as f64 / seconds / 1e9;
    match gigabytes {
        rate if rate >= 100.0 => format!("{rate:.0} GB/s"),
        rate if rate >= 10.0 => format!("{rate:.1} GB/s"),
        rate => format!("{rate:.2} GB/s"),
    }
}

/// `name` as a word of a shell command.
pub(crate) fn shell_word(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else if name.contains('\'') && !name.contains(['"', '$', '`', '\\', '!']) {
        format!("\"{name}\"")
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion() {
        assert_eq!(bar(1.0).chars().count(), 20);
        assert_eq!(bar(0.5), "██████████");
        assert_eq!(bar(0.51), "██████████▎");
        assert_eq!(bar(1e-9), "▏");
        assert_eq!(bar(0.0), "");
    }

    #[test]
    fn rows_are_aligned() {
        let columns = Columns::new(&[5, 8]);
        assert_eq!(columns.row(&["q1", "12", "██"]), "q1           12  ██");
        assert_eq!(columns.rule().chars().count(), 15);
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(percent(1, 3), "33 %");
        assert_eq!(percent(0, 0), "–");
        assert_eq!(bandwidth(1_820_000_000, 0.1), "18.2 GB/s");
        assert_eq!(shell_word("my db"), "'my db'");
        assert_eq!(shell_word("FROM 'a'"), "\"FROM 'a'\"");
        assert_eq!(shell_word("FROM '$a'"), r"'FROM '\''$a'\'''");
        assert_eq!(shell_word("data/x.parquet"), "data/x.parquet");
    }
}
