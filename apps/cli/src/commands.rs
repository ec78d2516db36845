//! Does what meta commands ask for.
//!
//! Invariants: what needs data asks for it in SQL, through the session. Must not know: how a command is spelled.

use std::fs::File;
use std::io::{BufReader, IsTerminal};
use std::path::Path;

use forebay::arrow::array::RecordBatch;
use forebay::{Error, Result};

use crate::format::Kind;
use crate::lexer::{State, Token, tokens};
use crate::meta::{self, Meta};
use crate::names::quoted;
use crate::shell::{Halt, Shell, Step};
use forebay::render::value::{Cells, Notation, cells};

const TABLES: &str = "SELECT table_schema AS schema, table_name AS name, table_type AS type \
     FROM information_schema.tables WHERE table_schema <> 'information_schema' ORDER BY 1, 2";

const VIEWS: &str = "SELECT table_schema AS schema, table_name AS name FROM information_schema.tables \
     WHERE table_schema <> 'information_schema' AND table_type = 'VIEW' ORDER BY 1, 2";

/// Views last: they are made of tables.
const ALL_NAMES: &str = "SELECT table_schema, table_name FROM information_schema.tables \
     WHERE table_schema <> 'information_schema' ORDER BY table_type = 'VIEW', 1, 2";

impl Shell {
    /// Parses and does the meta command in `line`.
    pub(crate) fn run_meta(&mut self, line: &str) -> Step {
        match meta::parse(line) {
            Ok(meta) => self.run_command(meta),
            Err(error) => Err(self.report(&error, None)),
        }
    }

    fn run_command(&mut self, meta: Meta) -> Step {
        match meta {
            Meta::Help => self.write_text(meta::HELP),
            Meta::Quit => Err(Halt::Quit),
            Meta::Tables => self.show_query(TABLES),
            Meta::Views => self.show_query(VIEWS),
            Meta::Describe(name) => self.show_query(&format!("DESCRIBE {name}")),
            Meta::Databases => self.write_text(&self.databases()),
            Meta::Schema(name) => {
                let text = self.schemas(name.as_deref()).map_err(|error| self.report(&error, None))?;
                self.write_text(&text)
            }
            Meta::Read(path) => self.read(&path),
            Meta::Output(path) => {
                let redirected = self.output.redirect(path.as_deref().map(Path::new));
                redirected.map_err(|error| self.report(&error, None))
            }
            Meta::Expanded => {
                let line = self.settings.format == Kind::Line;
                self.settings.format = if line { Kind::Table } else { Kind::Line };
                self.confirm("expanded display", !line)
            }
            Meta::Timer(on) => {
                self.settings.timer = on.unwrap_or(!self.settings.timer);
                self.confirm("timing", self.settings.timer)
            }
            Meta::Mode(format) => {
                self.settings.format = format;
                Ok(())
            }
            Meta::Headers(on) => {
                self.settings.header = on;
                Ok(())
            }
            Meta::NullValue(text) => {
                self.settings.null = Some(text);
                Ok(())
            }
            Meta::MaxRows(rows) => {
                self.settings.max_rows = Some(rows);
                Ok(())
            }
        }
    }

    /// Says how a switch stands that was perhaps only turned over.
    fn confirm(&self, what: &str, on: bool) -> Step {
        if !self.settings.quiet && std::io::stderr().is_terminal() {
            self.note(&format!("{what} is {}", if on { "on" } else { "off" }));
        }
        Ok(())
    }

    fn show_query(&mut self, sql: &str) -> Step {
        match self.query(sql) {
            Ok((schema, batches)) => self.show(&schema, &batches),
            Err(error) => Err(self.report(&error, None)),
        }
    }

    fn databases(&self) -> String {
        match &self.database {
            Some(path) => format!("{}\n", path.display()),
            None => "a database in memory, gone when you leave\n".into(),
        }
    }

    /// The CREATE statement of one table or view, or of all.
    fn schemas(&self, name: Option<&str>) -> Result<String> {
        let names = match name {
            Some(name) => vec![name.to_owned()],
            None => texts(&self.query(ALL_NAMES)?.1)
                .into_iter()
                .map(|row| match row.as_slice() {
                    [Some(schema), Some(name)] if schema != "main" => format!("{}.{}", quoted(schema), quoted(name)),
                    [_, name] => quoted(name.as_deref().unwrap_or_default()),
                    _ => String::new(),
                })
                .collect(),
        };
        names.iter().map(|name| self.definition(name)).collect()
    }

    /// The CREATE statement of the table or view `name`.
    fn definition(&self, name: &str) -> Result<String> {
        let (schema, batches) = self.query(&format!("DESCRIBE {name}"))?;
        // The columns of a table are compressed, those of a view are not stored.
        if schema.field_with_name("compression").is_ok() {
            return Ok(create_table(name, &texts(&batches)));
        }
        let parts = name_parts(name);
        let mut query =
            "SELECT view_definition FROM information_schema.views WHERE view_definition IS NOT NULL".to_owned();
        for (part, column) in parts.iter().rev().zip(["table_name", "table_schema"]) {
            query.push_str(&format!(" AND lower({column}) = lower('{}')", part.replace('\'', "''")));
        }
        let found = texts(&self.query(&query)?.1).into_iter().flatten().flatten().next();
        let definition = found.ok_or_else(|| Error::internal(format!("view {name} has no definition")))?;
        Ok(definition + "\n")
    }

    /// Runs the script at `path`.
    pub(crate) fn read(&mut self, path: &str) -> Step {
        let opened = match File::open(path) {
            // A folder opens, but cannot be read.
            Ok(file) if file.metadata().is_ok_and(|data| data.is_dir()) => {
                Err(Error::input(format!("{path} is a folder, not a script")))
            }
            Ok(file) => Ok(file),
            Err(error) => Err(Error::io(format_args!("read {path}"), &error)),
        };
        match opened {
            Ok(file) => self.run_script(BufReader::new(file), Some(path)),
            Err(error) => Err(self.report(&error, None)),
        }
    }
}

/// The values of all rows as text.
fn texts(batches: &[RecordBatch]) -> Vec<Vec<Option<String>>> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch.columns().iter().map(|column| cells(column.as_ref(), Notation::Text)).collect();
        for row in 0..batch.num_rows() {
            let text = |cell: &Cells<'_>| {
                let mut text = String::new();
                cell(row, &mut text).then_some(text)
            };
            rows.push(columns.iter().map(text).collect());
        }
    }
    rows
}

/// The parts of a name as SQL writes it, without their quotes.
fn name_parts(name: &str) -> Vec<String> {
    let parts = tokens(name, &mut State::default()).into_iter().filter_map(|(token, range)| match token {
        Token::Word => Some(name[range].to_owned()),
        Token::QuotedName => {
            let inner = name[range].strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            inner.map(|inner| inner.replace("\"\"", "\""))
        }
        _ => None,
    });
    parts.collect()
}

/// CREATE TABLE from the rows of DESCRIBE: name, type, NULL allowed, key, default, compression. One compression of all columns
/// is written as the table's.
fn create_table(name: &str, rows: &[Vec<Option<String>>]) -> String {
    let mut lines = Vec::new();
    let mut key = Vec::new();
    let compression = |row: &[Option<String>]| {
        let name = row.get(5).cloned().flatten();
        name.map(|name| format!(" WITH (compression = '{name}')")).unwrap_or_default()
    };
    let of_table = rows.first().map(|first| compression(first)).unwrap_or_default();
    let is_of_all = rows.iter().all(|row| compression(row) == of_table);
    for row in rows {
        let cell = |index: usize| row.get(index).and_then(Option::as_deref);
        let column = quoted(cell(0).unwrap_or_default());
        let required = if cell(2) == Some("NO") { " NOT NULL" } else { "" };
        let default = cell(4).map(|text| format!(" DEFAULT {text}")).unwrap_or_default();
        let own = if is_of_all { String::new() } else { compression(row) };
        lines.push(format!("    {column} {}{required}{default}{own}", cell(1).unwrap_or_default()));
        if cell(3) == Some("PRI") {
            key.push(column);
        }
    }
    if !key.is_empty() {
        lines.push(format!("    PRIMARY KEY ({})", key.join(", ")));
    }
    let of_table = if is_of_all { of_table } else { String::new() };
    format!("CREATE TABLE {name} (\n{}\n){of_table};\n", lines.join(",\n"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn create_table_can_be_run_again() {
        let row = |cells: [&str; 5]| cells.map(|cell| (!cell.is_empty()).then(|| cell.to_owned())).to_vec();
        let rows = [
            row(["id", "BIGINT", "NO", "PRI", ""]),
            row(["Full Name", "VARCHAR", "YES", "", ""]),
            row(["order", "DECIMAL(15,2)", "YES", "", "0.5"]),
        ];
        expect![[r#"
            CREATE TABLE t (
                id BIGINT NOT NULL,
                "Full Name" VARCHAR,
                "order" DECIMAL(15,2) DEFAULT 0.5,
                PRIMARY KEY (id)
            );
        "#]]
        .assert_eq(&create_table("t", &rows));
    }

    #[test]
    fn create_table_tells_compression() {
        let row = |cells: [&str; 6]| cells.map(|cell| (!cell.is_empty()).then(|| cell.to_owned())).to_vec();
        let mut rows = vec![
            row(["id", "BIGINT", "YES", "", "", "best_ratio"]),
            row(["name", "VARCHAR", "YES", "", "'x'", "best_ratio"]),
        ];
        expect![[r#"
            CREATE TABLE t (
                id BIGINT,
                name VARCHAR DEFAULT 'x'
            ) WITH (compression = 'best_ratio');
        "#]]
        .assert_eq(&create_table("t", &rows));
        rows[0][5] = None;
        rows[1][5] = Some("zstd".into());
        expect![[r#"
            CREATE TABLE t (
                id BIGINT,
                name VARCHAR DEFAULT 'x' WITH (compression = 'zstd')
            );
        "#]]
        .assert_eq(&create_table("t", &rows));
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(name_parts("main.\"my.\"\"t\"\"\""), ["main", "my.\"t\""]);
    }
}
