//! Programs with their tables and results, as text: tests that every execution runs.
//!
//! A file holds cases, each a head `== case name of words`, a program, and then in any number `== table 0` with its rows
//! and one `== result` with the rows of the result or `== error text`. A row stands in parentheses: `(1, "a", null)`. Its
//! values are the table's columns by position (ids for columns with a dictionary). `#` begins a comment.

use forebay_base::{Error, ErrorKind, Result};

use crate::interpret::Counts;
use crate::ir::*;
use crate::parse::constant;
use crate::tokens::{Token, Tokens};
use crate::verify::register_types;
use crate::{Machine, Scalar};

/// A program with what it gives.
#[derive(Debug, Clone)]
pub struct Case {
    /// What the case shows.
    pub name: String,
    /// The program.
    pub program: Program,
    /// Rows of each table, each with all columns of the table.
    pub tables: Vec<Vec<Vec<Scalar>>>,
    /// The rows of the result in ascending order, or the error's text.
    pub expect: std::result::Result<Vec<Vec<Scalar>>, String>,
}

impl Case {
    /// Reads the cases of a file.
    pub fn read(text: &str) -> Result<Vec<Self>> {
        let mut cases = Vec::new();
        let mut sections = sections(text).into_iter().peekable();
        while let Some(head) = sections.next() {
            let Some(name) = head.title.strip_prefix("case ") else {
                return Err(Error::input(format!("`== {}` before a `== case`", head.title)).context(head.place()));
            };
            let program = Program::parse_from(head.text, head.line + 1)?;
            let mut own = Vec::new();
            while let Some(section) = sections.next_if(|section| !section.title.starts_with("case ")) {
                own.push(section);
            }
            cases.push(case(name, program, &own).map_err(|error| error.context(format!("case {name}")))?);
        }
        Ok(cases)
    }

    /// The rows that a scan gives: those that pass its tests, with its columns only.
    pub fn rows(&self, source: &TableSource) -> Vec<Vec<Scalar>> {
        let passes =
            |row: &&Vec<Scalar>| source.tests.iter().all(|test| test.test.passes(row[test.column].to_value().as_ref()));
        let cut = |row: &Vec<Scalar>| source.columns.iter().map(|column| row[column.column].clone()).collect();
        self.tables[source.table].iter().filter(passes).map(cut).collect()
    }

    /// Runs the program by the interpreter; rows in ascending order.
    pub fn interpret(&self) -> Result<Vec<Vec<Scalar>>> {
        Ok(self.interpret_counted()?.0)
    }

    /// The same, with the rows that each pipeline had.
    pub fn interpret_counted(&self) -> Result<(Vec<Vec<Scalar>>, Vec<Counts>)> {
        let mut counts = Vec::with_capacity(self.program.pipelines.len());
        let mut machine = Machine::new(&self.program);
        for (number, pipeline) in self.program.pipelines.iter().enumerate() {
            match &pipeline.source {
                Source::Table(table) => machine.run(number, &mut self.rows(table).into_iter().map(Ok))?,
                _ => machine.run_state(number)?,
            }
            counts.push(machine.counts().clone());
        }
        let mut rows = machine.into_result();
        rows.sort();
        Ok((rows, counts))
    }
}

/// Whether both have the same rows. Sums of floats may differ in their last digits.
fn same(a: &[Vec<Scalar>], b: &[Vec<Scalar>]) -> bool {
    let close = |a: &Scalar, b: &Scalar| match (a, b) {
        (Scalar::F64(x), Scalar::F64(y)) => a == b || (x - y).abs() <= 1e-9 * x.abs().max(y.abs()),
        _ => a == b,
    };
    let alike = |a: &Vec<Scalar>, b: &Vec<Scalar>| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| close(a, b));
    if a.len() != b.len() {
        return false;
    }
    if a == b {
        return true;
    }
    // Rows that are only close may be sorted otherwise.
    let mut left: Vec<&Vec<Scalar>> = b.iter().collect();
    a.iter().all(|row| match left.iter().position(|other| alike(row, other)) {
        Some(at) => {
            left.swap_remove(at);
            true
        }
        None => false,
    })
}

/// Compares outcomes of executions, their rows in ascending order: an error says why `found` is not what was expected.
pub fn compare(
    expected: &Result<Vec<Vec<Scalar>>>,
    found: &Result<Vec<Vec<Scalar>>>,
) -> std::result::Result<(), String> {
    match (expected, found) {
        (Ok(expected), Ok(found)) if same(expected, found) => Ok(()),
        (Ok(expected), Ok(found)) => {
            let show =
                |rows: &[Vec<Scalar>]| rows.iter().take(40).map(|row| format!("  {row:?}\n")).collect::<String>();
            Err(format!("{} rows\n{}not {}\n{}", found.len(), show(found), expected.len(), show(expected)))
        }
        // Which of several rows fails first is not said.
        (Err(expected), Err(found)) if is_fault(expected.kind()) && is_fault(found.kind()) => Ok(()),
        (Ok(_), Err(error)) => Err(format!("fails: {error}")),
        (Err(expected), Ok(rows)) => Err(format!("gives {} rows, but should fail: {expected}", rows.len())),
        (Err(expected), Err(found)) => Err(format!("fails: {found}, but should: {expected}")),
    }
}

/// Whether an error is one that a program's values lead to.
pub fn is_fault(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Overflow | ErrorKind::Input)
}

/// What stands below a line `== title`.
struct Section<'a> {
    title: &'a str,
    text: &'a str,
    /// The number of the title's line.
    line: usize,
}

impl Section<'_> {
    fn place(&self) -> String {
        format!("line {}", self.line)
    }
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut at = 0;
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        let after = at + line.len();
        if let Some(title) = line.strip_prefix("== ") {
            sections.push(Section { title: title.trim_end(), text: &text[after..after], line: number });
        } else if let Some(section) = sections.last_mut() {
            section.text = &text[after - line.len() - section.text.len()..after];
        }
        at = after;
    }
    sections
}

fn case(name: &str, program: Program, sections: &[Section<'_>]) -> Result<Case> {
    let mut tables = Vec::new();
    let mut expect = None;
    for section in sections {
        if section.title == format!("table {}", tables.len()) {
            tables.push(rows(section, &column_types(&program, tables.len()))?);
        } else if section.title == "result" {
            let mut result = rows(section, &result_types(&program)?)?;
            result.sort();
            expect = Some(Ok(result));
        } else if let Some(error) = section.title.strip_prefix("error ") {
            expect = Some(Err(error.to_owned()));
        } else {
            let message = format!("`== {}` is no title, or not the next table", section.title);
            return Err(Error::input(message).context(section.place()));
        }
    }
    let expect = expect.ok_or_else(|| Error::input("no `== result` and no `== error`"))?;
    Ok(Case { name: name.to_owned(), program, tables, expect })
}

/// The types of a table's columns by position; columns that are only tested have none.
fn column_types(program: &Program, table: usize) -> Vec<Option<ValueType>> {
    let mut types = Vec::new();
    for pipeline in &program.pipelines {
        let Source::Table(source) = &pipeline.source else { continue };
        for column in source.columns.iter().filter(|_| source.table == table) {
            if types.len() <= column.column {
                types.resize(column.column + 1, None);
            }
            types[column.column] = Some(column.typed.value);
        }
    }
    types
}

/// The types of the result's columns.
fn result_types(program: &Program) -> Result<Vec<Option<ValueType>>> {
    let Some(Pipeline { sink: Sink::Collect { columns }, .. }) = program.pipelines.last() else {
        return Err(Error::input("the program collects nothing"));
    };
    let types = register_types(program, &program.pipelines[program.pipelines.len() - 1])?;
    Ok(columns.iter().map(|register| types[register.0 as usize].map(|typed| typed.value)).collect())
}

fn rows(section: &Section<'_>, types: &[Option<ValueType>]) -> Result<Vec<Vec<Scalar>>> {
    let tokens = &mut Tokens::new(section.text, section.line + 1)?;
    let mut rows = Vec::new();
    while *tokens.peek() != Token::End {
        let mut position = 0;
        rows.push(tokens.list("(", ")", |tokens| {
            let constant = constant(tokens)?;
            let value = types.get(position).copied().flatten().unwrap_or_else(|| own_type(&constant));
            position += 1;
            Scalar::of_constant(&constant, value).ok_or_else(|| tokens.reject("a value of the column's type"))
        })?);
        if position < types.len() {
            return Err(tokens.reject(&format!("{} values", types.len())));
        }
    }
    Ok(rows)
}

/// The type of a value that nothing loads.
fn own_type(constant: &Constant) -> ValueType {
    match constant {
        Constant::Null | Constant::Bool(_) => ValueType::Bool,
        Constant::Int(_) => ValueType::I128,
        Constant::Float(_) => ValueType::F64,
        Constant::Bytes(_) => ValueType::Bytes,
    }
}
