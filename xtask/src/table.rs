//! Markdown tables that are checked: each follows a line `<!-- table: name -->`.
//!
//! Must not know: what a table says.

/// One row below the head: its line, from 1, and its cells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) cells: Vec<String>,
}

/// The rows of the table marked `name`; none if it is missing.
pub(crate) fn rows(markdown: &str, name: &str) -> Vec<Row> {
    let marker = format!("<!-- table: {name} -->");
    let lines = markdown.lines().enumerate().skip_while(|(_, line)| line.trim() != marker).skip(1);
    let table = lines.skip_while(|(_, line)| line.trim().is_empty()).take_while(|(_, line)| line.starts_with('|'));
    table.skip(2).map(|(at, line)| Row { line: at + 1, cells: cells(line) }).collect()
}

fn cells(line: &str) -> Vec<String> {
    line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// The texts between backticks in a cell.
pub(crate) fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_marked_table() {
        let markdown = "| not | this |\n|---|---|\n| x | y |\n\n<!-- table: crates -->\n\n| a | b |\n|---|---|\n| `c`, (`d`) | e |\nend\n| f |";
        assert_eq!(rows(markdown, "crates"), [Row { line: 9, cells: vec!["`c`, (`d`)".into(), "e".into()] }]);
        assert_eq!(rows(markdown, "other"), []);
        assert_eq!(quoted("`c`, (`d`)"), ["c", "d"]);
    }
}
