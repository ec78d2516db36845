//! Options of tables and columns: `WITH (compression = …)` in CREATE TABLE and behind columns, `USING COMPRESSION …` as in
//! DuckDB, and ALTER TABLE … SET (…) and RESET (…).
//!
//! Must not know: what compression does.

use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, CreateTable, CreateTableOptions, Expr, Ident, ObjectName, SqlOption, Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::{ColumnId, Error, ErrorKind, Result, TableId};
use forebay_engine::Goal;
use forebay_engine::goal::COMPRESSION_OPTION;
use forebay_store::{TableOptions, Transaction};

use crate::catalog::Planner;
use crate::ddl::{QualifiedName, find_column, find_table, ident};
use crate::dialect::ForebayDialect;
use crate::error::suggestion;
use crate::parse::{expected, parser_error};

/// The options that there are.
const OPTIONS: [&str; 1] = [COMPRESSION_OPTION];

/// ALTER TABLE table with actions that change options only.
#[derive(Debug)]
pub struct AlterOptions {
    name: ObjectName,
    if_exists: bool,
    actions: Vec<Action>,
}

/// Sets options of a table, or of one of its columns, or takes them back.
#[derive(Debug)]
struct Action {
    column: Option<Ident>,
    change: Change,
}

#[derive(Debug)]
enum Change {
    Set(Vec<SqlOption>),
    Reset(Vec<Ident>),
}

/// An option of a column, if that is what comes next: `WITH (…)` or `USING COMPRESSION name`.
pub fn parse_column_option(parser: &mut Parser<'_>) -> std::result::Result<Option<ColumnOption>, ParserError> {
    if parser.peek_keyword(Keyword::WITH) && parser.peek_nth_token(1).token == Token::LParen {
        return parser.parse_options(Keyword::WITH).map(|options| Some(ColumnOption::Options(options)));
    }
    let is_compression =
        |token: &Token| matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case(COMPRESSION_OPTION));
    if parser.peek_keyword(Keyword::USING) && is_compression(&parser.peek_nth_token(1).token) {
        let _ = (parser.next_token(), parser.next_token());
        let value = Expr::Identifier(parser.parse_identifier()?);
        return Ok(Some(ColumnOption::Options(vec![SqlOption::KeyValue {
            key: Ident::new(COMPRESSION_OPTION),
            value,
        }])));
    }
    Ok(None)
}

/// An ALTER TABLE statement that changes options; `None` where its first action does something else.
pub fn parse_alter(tokens: &[TokenWithSpan]) -> Result<Option<AlterOptions>> {
    let mut parser = Parser::new(&ForebayDialect).with_tokens_with_locations(tokens.to_vec());
    if !parser.parse_keywords(&[Keyword::ALTER, Keyword::TABLE]) {
        return Ok(None);
    }
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    // What is no name is for the other parser to report.
    let Ok(name) = parser.parse_object_name(false) else { return Ok(None) };
    let mut actions = Vec::new();
    loop {
        match parse_action(&mut parser)? {
            Some(action) => actions.push(action),
            None if actions.is_empty() => return Ok(None),
            None => return Err(expected(&parser, "SET (…) or RESET (…), of the table or of a column")),
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    match parser.peek_token().token {
        Token::EOF | Token::SemiColon => Ok(Some(AlterOptions { name, if_exists, actions })),
        _ => Err(expected(&parser, "the end of the statement")),
    }
}

/// `[ALTER [COLUMN] column] SET (name = value, …)`, or RESET (name, …).
fn parse_action(parser: &mut Parser<'_>) -> Result<Option<Action>> {
    let column = match parser.parse_keyword(Keyword::ALTER) {
        true => {
            let _ = parser.parse_keyword(Keyword::COLUMN);
            match parser.parse_identifier() {
                Ok(column) => Some(column),
                Err(_) => return Ok(None),
            }
        }
        false => None,
    };
    if parser.peek_nth_token(1).token != Token::LParen {
        return Ok(None);
    }
    if parser.peek_keyword(Keyword::SET) {
        let options = parser.parse_options(Keyword::SET).map_err(parser_error)?;
        return Ok(Some(Action { column, change: Change::Set(options) }));
    }
    if parser.parse_keyword(Keyword::RESET) {
        let _ = parser.next_token();
        let names = parser.parse_comma_separated(Parser::parse_identifier).map_err(parser_error)?;
        parser.expect_token(&Token::RParen).map_err(parser_error)?;
        return Ok(Some(Action { column, change: Change::Reset(names) }));
    }
    Ok(None)
}

/// Runs ALTER TABLE … SET (…) or RESET (…).
pub fn alter(planner: &Planner, alter: &AlterOptions, schema: &str) -> Result<()> {
    let name = QualifiedName::of(&alter.name, schema)?;
    let found = match find_table(planner, &name) {
        Err(error) if alter.if_exists && error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let mut transaction = planner.engine().store().begin()?;
    // As the table is now that no other transaction runs.
    let table = transaction.catalog().table_by_id(found.id).cloned().unwrap_or(found);
    for Action { column, change } in &alter.actions {
        let column = column.as_ref().map(|column| find_column(&table, column)).transpose()?;
        match change {
            Change::Set(options) => {
                let mut set = TableOptions::default();
                add(&mut set, column, options)?;
                store(&mut transaction, table.id, &set)?;
            }
            Change::Reset(names) => {
                for name in names {
                    transaction.set_option(table.id, column, known(name)?, None)?;
                }
            }
        }
    }
    transaction.commit()
}

/// What a CREATE TABLE statement asks of the table and its columns, which have the ids 0, 1, … in their order.
pub fn of_statement(create: &CreateTable) -> Result<TableOptions> {
    let mut all = TableOptions::default();
    match &create.table_options {
        CreateTableOptions::None => {}
        // As comments of columns, they are read over.
        CreateTableOptions::Plain(options) if options.iter().all(|option| matches!(option, SqlOption::Comment(_))) => {}
        CreateTableOptions::With(options) => add(&mut all, None, options)?,
        other => {
            return Err(Error::unsupported(format!("the table options {other} are not supported"))
                .hint("Options stand in WITH (name = value)"));
        }
    }
    for (index, column) in create.columns.iter().enumerate() {
        add_of_column(&mut all, ColumnId(index as u32), column)?;
    }
    Ok(all)
}

/// Adds what the definition of a column asks.
pub fn add_of_column(all: &mut TableOptions, id: ColumnId, column: &ColumnDef) -> Result<()> {
    for option in &column.options {
        if let ColumnOption::Options(options) = &option.option {
            add(all, Some(id), options).map_err(|error| error.context(format!("column {}", column.name)))?;
        }
    }
    Ok(())
}

/// Puts options into the catalog.
pub fn store(transaction: &mut Transaction, table: TableId, options: &TableOptions) -> Result<()> {
    options.iter().try_for_each(|(column, name, value)| transaction.set_option(table, column, name, Some(value)))
}

/// Adds options of a table or a column, none twice.
fn add(all: &mut TableOptions, column: Option<ColumnId>, options: &[SqlOption]) -> Result<()> {
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(Error::input(format!("the option {option} has no value")).hint("Write WITH (name = value)"));
        };
        let name = known(key)?;
        if all.get(column, name).is_some() {
            return Err(Error::input(format!("option {name} is given twice")));
        }
        let goal = Goal::parse(&text(value).ok_or_else(|| {
            Error::input(format!("{name} = {value} is not possible"))
                .hint("Give a name, as in WITH (compression = 'zstd')")
        })?)?;
        all.set(column, name, Some(goal.name()));
    }
    Ok(())
}

/// The option of this name.
fn known(name: &Ident) -> Result<&'static str> {
    let found = OPTIONS.into_iter().find(|option| option.eq_ignore_ascii_case(&ident(name)));
    found.ok_or_else(|| {
        let error = Error::input(format!("there is no option {name} of tables and columns"));
        match suggestion(&ident(name), OPTIONS.into_iter()) {
            Some(other) => error.hint(format!("Did you mean {other}?")),
            None => error.hint(format!("They have the option {}", OPTIONS.join(", "))),
        }
    })
}

/// The text of a string or a word.
fn text(value: &Expr) -> Option<String> {
    match value {
        Expr::Identifier(word) => Some(ident(word)),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}
