//! Does what meta commands ask for.
//!
//! Invariants: what needs data asks for it in SQL, through the session. Must not know: how a command is spelled.

use std::fs::File;
use std::io::{BufReader, IsTerminal};
use std::path::Path;

use forebay::arrow::array::RecordBatch;
use forebay::arrow::datatypes::SchemaRef;
use forebay::{Error, Result};

use crate::complete::quoted;
use crate::format::Kind;
use crate::format::types::sql_name;
use crate::format::value::{Notation, cells};
use crate::meta::{self, Meta};
use crate::shell::{Halt, Shell, Step};

const TABLES: &str = "SELECT table_schema AS schema, table_name AS name, table_type AS type \
     FROM information_schema.tables WHERE table_schema <> 'information_schema' ORDER BY 1, 2";

const VIEWS: &str = "SELECT table_schema AS schema, table_name AS name FROM information_schema.tables \
     WHERE table_schema <> 'information_schema' AND table_type = 'VIEW' ORDER BY 1, 2";

const BASE_TABLES: &str = "SELECT table_schema, table_name FROM information_schema.tables \
     WHERE table_schema <> 'information_schema' AND table_type = 'BASE TABLE' ORDER BY 1, 2";

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
            Meta::Describe(name) => self.show_query(&format!("DESCRIBE {}", as_table(&name))),
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

    /// CREATE TABLE of one table or of all.
    fn schemas(&self, name: Option<&str>) -> Result<String> {
        let names = match name {
            Some(name) => vec![as_table(name)],
            None => two_texts(&self.query(BASE_TABLES)?.1)
                .into_iter()
                .map(|(schema, name)| match schema.as_str() {
                    "public" | "main" => quoted(&name),
                    _ => format!("{}.{}", quoted(&schema), quoted(&name)),
                })
                .collect(),
        };
        let mut text = String::new();
        for name in names {
            let (schema, _) = self.query(&format!("SELECT * FROM {name} LIMIT 0"))?;
            text.push_str(&create_table(&name, &schema));
        }
        Ok(text)
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

/// `name` as the user wrote it where it can be SQL (`t`, `main.t`, `"t"`), else quoted.
fn as_table(name: &str) -> String {
    let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    if name.split('.').all(plain) { name.to_owned() } else { quoted(name) }
}

/// The rows of two text columns.
fn two_texts(batches: &[RecordBatch]) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch.columns().iter().map(|column| cells(column.as_ref(), Notation::Text)).collect();
        for row in 0..batch.num_rows() {
            let mut texts = columns.iter().map(|column| {
                let mut text = String::new();
                column(row, &mut text);
                text
            });
            rows.push((texts.next().unwrap_or_default(), texts.next().unwrap_or_default()));
        }
    }
    rows
}

fn create_table(name: &str, schema: &SchemaRef) -> String {
    let columns: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| {
            let required = if field.is_nullable() { "" } else { " NOT NULL" };
            format!("    {} {}{required}", quoted(field.name()), sql_name(field.data_type()))
        })
        .collect();
    format!("CREATE TABLE {name} (\n{}\n);\n", columns.join(",\n"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::expect;
    use forebay::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn create_table_can_be_run_again() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("Full Name", DataType::Utf8View, true),
            Field::new("price", DataType::Decimal128(15, 2), true),
        ]));
        expect![[r#"
            CREATE TABLE t (
                id BIGINT NOT NULL,
                "Full Name" VARCHAR,
                price DECIMAL(15,2)
            );
        "#]]
        .assert_eq(&create_table("t", &schema));
    }

    #[test]
    fn names_are_quoted_only_where_needed() {
        assert_eq!(as_table("main.t"), "main.t");
        assert_eq!(as_table("my table"), "\"my table\"");
    }
}
