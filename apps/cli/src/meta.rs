//! Meta commands: what is not SQL. Each has a name after `\` as in psql, or after `.` as in SQLite and DuckDB.
//!
//! Invariants: parsing is pure; an unknown command says what was probably meant. Must not know: how a command is done.

use forebay::{Error, Result};

use crate::format::Kind;
use crate::names::quoted;

/// One parsed meta command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meta {
    /// Shows the commands.
    Help,
    /// Leaves the program.
    Quit,
    /// Shows the columns of a table, whose name is written as in SQL.
    Describe(String),
    /// Lists tables and views.
    Tables,
    /// Lists views.
    Views,
    /// Shows which database is open.
    Databases,
    /// Shows the CREATE statement of one table or view, whose name is written as in SQL, or of all.
    Schema(Option<String>),
    /// Switches between a table and one value per line.
    Expanded,
    /// Switches the line of figures, or turns it over.
    Timer(Option<bool>),
    /// Runs a script.
    Read(String),
    /// Sends results to a file, or to stdout again.
    Output(Option<String>),
    /// Changes the format.
    Mode(Kind),
    /// Switches column names.
    Headers(bool),
    /// Changes the text for NULL.
    NullValue(String),
    /// Limits the rows of a table; 0 is no limit.
    MaxRows(usize),
}

/// All names, for completion and suggestions.
pub(crate) const NAMES: &[&str] = &[
    ".databases",
    ".exit",
    ".headers",
    ".help",
    ".maxrows",
    ".mode",
    ".nullvalue",
    ".output",
    ".quit",
    ".read",
    ".schema",
    ".tables",
    ".timer",
    "\\?",
    "\\d",
    "\\dt",
    "\\dv",
    "\\format",
    "\\i",
    "\\l",
    "\\o",
    "\\q",
    "\\timing",
    "\\x",
];

/// What `\?` shows.
pub(crate) const HELP: &str = "\
Statements end with a semicolon. TAB completes, ^C cancels, ^D leaves.

  \\d NAME             .schema [NAME]   columns of a table; its CREATE statement
  \\d  \\dt             .tables          tables and views
  \\dv                                  views
  \\l                  .databases       the open database
  \\x                                   one value per line, on or off
  \\format FORMAT      .mode FORMAT     table, csv, json, jsonl, markdown, line
  \\timing             .timer on|off    time, bytes read and pruning after each statement
                      .headers on|off  column names
                      .nullvalue TEXT  text for NULL
                      .maxrows N       rows of a table at most (0: all)
  \\i FILE             .read FILE       run a script
  \\o [FILE]           .output [FILE]   results to a file, or back here
  \\?                  .help            this text
  \\q                  .quit            leave

  SELECT * FROM 'file.parquet';        query a file where it lies
  COPY t TO 'file.csv';                write a table to a file
";

/// Parses `line`, which begins with `\` or `.`.
pub(crate) fn parse(line: &str) -> Result<Meta> {
    let words = split(line.trim().trim_end_matches(';').trim_end())?;
    let mut words = words.into_iter();
    let name = words.next().unwrap_or_default().text;
    let written: Vec<Word> = words.collect();
    let arguments: Vec<String> = written.iter().map(|word| word.text.clone()).collect();
    let optional = || match arguments.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        [_, extra, ..] => Err(Error::input(format!("{name} takes one argument, not also {extra:?}"))),
    };
    let table = || Ok::<_, Error>(optional()?.and(written.first()).map(Word::as_table));
    let one = |what: &str| {
        optional()?.ok_or_else(|| Error::input(format!("{name} needs {what}, for example {name} {}", example(what))))
    };
    let switch = |text: &str| match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err(Error::input(format!("{name} takes on or off, not {text:?}"))),
    };
    let meta = match name.as_str() {
        "\\?" | "\\h" | ".help" => return Ok(Meta::Help),
        "\\q" | ".quit" | ".exit" => Meta::Quit,
        "\\d" | "\\dt" | ".tables" => return Ok(table()?.map_or(Meta::Tables, Meta::Describe)),
        "\\dv" => Meta::Views,
        "\\l" | ".databases" => Meta::Databases,
        ".schema" => return Ok(Meta::Schema(table()?)),
        "\\x" => Meta::Expanded,
        "\\timing" | ".timer" => return Ok(Meta::Timer(optional()?.map(|text| switch(&text)).transpose()?)),
        "\\i" | ".read" => return Ok(Meta::Read(one("a file")?)),
        "\\o" | ".output" => return Ok(Meta::Output(optional()?)),
        "\\format" | ".mode" => return mode(&one("a format")?),
        ".headers" | ".header" => return Ok(Meta::Headers(switch(&one("on or off")?)?)),
        ".nullvalue" => return Ok(Meta::NullValue(one("a text")?)),
        ".maxrows" => {
            let text = one("a number")?;
            let rows = text.parse().map_err(|_| Error::input(format!(".maxrows takes a number, not {text:?}")))?;
            return Ok(Meta::MaxRows(rows));
        }
        "\\copy" => {
            let hint = "Write COPY t FROM 'file.csv' or COPY t TO 'file.parquet': files are read and written here";
            return Err(Error::unsupported("\\copy is not needed").hint(hint));
        }
        _ => return Err(unknown(&name)),
    };
    match arguments.first() {
        None => Ok(meta),
        Some(extra) => Err(Error::input(format!("{name} takes no argument, but got {extra:?}"))),
    }
}

fn example(what: &str) -> &'static str {
    match what {
        "a file" => "queries.sql",
        "a format" => "csv",
        "on or off" => "on",
        "a text" => "-",
        _ => "100",
    }
}

fn mode(name: &str) -> Result<Meta> {
    let unknown = || {
        Error::input(format!("there is no format {name:?}")).hint(format!("Formats are {}", Kind::names().join(", ")))
    };
    Kind::named(name).map(Meta::Mode).ok_or_else(unknown)
}

fn unknown(name: &str) -> Error {
    let alike = |known: &&&str| (strsim::jaro_winkler(name, known) * 1000.0) as u64;
    let nearest = NAMES.iter().max_by_key(alike).filter(|known| alike(known) >= 800);
    let help = if name.starts_with('\\') { "\\?" } else { ".help" };
    let hint = match nearest {
        Some(known) => format!("Did you mean {known}? {help} lists all commands"),
        None => format!("{help} lists all commands"),
    };
    Error::input(format!("there is no command {name}")).hint(hint)
}

/// One word of a command.
#[derive(Debug, Clone, Default)]
struct Word {
    /// Without its quotes.
    text: String,
    /// As it was written.
    source: String,
}

impl Word {
    /// The name of a table as SQL takes it: with double quotes as it was written (`"my.t"`, `main."my t"`), with single
    /// ones or strange characters one name (`'my t'`), else as it is (`t`, `main.t`).
    fn as_table(&self) -> String {
        let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
        if self.source.contains('"') {
            self.source.clone()
        } else if !self.source.contains('\'') && self.text.split('.').all(plain) {
            let parts: Vec<String> = self.text.split('.').map(named).collect();
            parts.join(".")
        } else {
            quoted(&self.text)
        }
    }
}

/// One part of a name, quoted only where it means something else: names are found in any case.
fn named(part: &str) -> String {
    let lower = quoted(&part.to_lowercase());
    if lower.starts_with('"') { lower } else { part.to_owned() }
}

/// Words between blanks; quotes hold blanks together.
fn split(line: &str) -> Result<Vec<Word>> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote = None;
    for character in line.chars() {
        if quote.is_none() && character.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        word.source.push(character);
        match quote {
            Some(open) if character == open => quote = None,
            None if character == '\'' || character == '"' => quote = Some(character),
            _ => word.text.push(character),
        }
    }
    if let Some(open) = quote {
        return Err(Error::input(format!("a quote {open} is not closed")));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_mean_the_same() {
        for (a, b) in [("\\q", ".quit"), ("\\dt", ".tables;"), ("\\i a.sql", ".read  'a.sql' ;"), ("\\?", ".help")] {
            assert_eq!(parse(a).expect("a command"), parse(b).expect("a command"));
        }
        assert_eq!(parse(".mode CSV").expect("a command"), Meta::Mode(Kind::Csv));
        assert_eq!(parse("\\timing").expect("a command"), Meta::Timer(None));
        assert_eq!(parse(".timer off").expect("a command"), Meta::Timer(Some(false)));
        assert_eq!(parse(".nullvalue ''").expect("a command"), Meta::NullValue(String::new()));
        assert_eq!(parse(".maxrows 0").expect("a command"), Meta::MaxRows(0));
    }

    #[test]
    fn names_of_tables_become_sql() {
        for (written, name) in [
            ("t", "t"),
            ("main.T", "main.T"),
            ("order", "\"order\""),
            ("main.order", "main.\"order\""),
            ("'My Table'", "\"My Table\""),
            ("my-table", "\"my-table\""),
            ("\"my.t\"", "\"my.t\""),
            ("main.\"my t\";", "main.\"my t\""),
            ("'my.t'", "\"my.t\""),
        ] {
            assert_eq!(parse(&format!("\\d {written}")).expect("a command"), Meta::Describe(name.into()));
            assert_eq!(parse(&format!(".schema {written}")).expect("a command"), Meta::Schema(Some(name.into())));
        }
    }

    #[test]
    fn mistakes_are_told_clearly() {
        for (line, expected) in [
            (".tabels", "there is no command .tabels. Did you mean .tables? .help lists all commands"),
            ("\\zzz", "there is no command \\zzz. \\? lists all commands"),
            (".read", ".read needs a file, for example .read queries.sql"),
            (".read a b", ".read takes one argument, not also \"b\""),
            (".quit now", ".quit takes no argument, but got \"now\""),
            (".timer maybe", ".timer takes on or off, not \"maybe\""),
            (".mode xml", "there is no format \"xml\". Formats are table, csv, json, jsonl, markdown, line"),
            (".read 'a", "a quote ' is not closed"),
            (".maxrows many", ".maxrows takes a number, not \"many\""),
        ] {
            assert_eq!(parse(line).expect_err("a mistake").to_string(), expected);
        }
    }

    #[test]
    fn every_listed_name_is_a_command() {
        for name in NAMES {
            let told = parse(name).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(!told.contains("there is no command"), "{told}");
        }
        assert!(NAMES.is_sorted());
    }
}
