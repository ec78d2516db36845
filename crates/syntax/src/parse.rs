//! Scripts to statements, and the few statements that DataFusion's parser does not know.

use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::sql::parser::{DFParserBuilder, Statement as PlanStatement};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::{Error, Result};
use forebay_context::error::from_datafusion;
use forebay_grammar::from_first::add_select;
use forebay_grammar::layout_words::{self, Layout};
use forebay_grammar::statements::{self, Pragma};
use forebay_grammar::{clauses, phrases};
use forebay_transactions::{Control, control, is_control};

use crate::backup;
use crate::depth;
use crate::dialect::ForebayDialect;
use crate::parameters::{self, Argument};
use crate::read_options;
use crate::syntax_error::{expected, parser_error};
use crate::table_options::{self, AlterOptions};
use crate::tokens::{Offsets, tokens};
use forebay_forms::file_options::{COPY_OPTIONS, Format, Options};

/// Nesting of parentheses and subqueries that the parser follows before it gives up with an error.
const RECURSION_LIMIT: usize = 200;

/// One statement.
#[derive(Debug)]
pub enum Command {
    /// COPY … FROM or COPY … TO.
    Copy(Box<Copy>),
    /// CHECKPOINT.
    Checkpoint,
    /// CHECK DATABASE.
    CheckDatabase,
    /// BACKUP [DATABASE] TO directory.
    BackUp(String),
    /// OPTIMIZE TABLE table: the text behind the words.
    Optimize(String),
    /// ALTER TABLE table CLUSTER BY …: the text behind the first two words.
    ClusterBy(String),
    /// ALTER TABLE table ADD PROJECTION or DROP PROJECTION: the text behind the first two words.
    AlterProjection(String),
    /// ANALYZE: the text behind the word.
    Analyze(String),
    /// ALTER TABLE … of a field of a struct: the text.
    AlterField(String),
    /// ALTER TABLE table SET (…) or RESET (…), for the table or its columns.
    AlterOptions(Box<AlterOptions>),
    /// SUMMARIZE table-or-query: the text behind the word.
    Summarize(String),
    /// DESCRIBE table-or-query: the text behind the word.
    Describe(String),
    /// SHOW TABLES, and SHOW ALL TABLES.
    ShowTables {
        /// Of every schema.
        all: bool,
    },
    /// SHOW TABLES FROM schema.
    ShowTablesOf(String),
    /// SHOW STATS table: the text behind the words.
    ShowStatistics(String),
    /// SHOW SCHEMAS.
    ShowSchemas,
    /// SHOW DATABASES.
    ShowDatabases,
    /// SHOW MEMORY.
    ShowMemory,
    /// USE schema.
    Use(String),
    /// PREPARE name AS statement.
    Prepare {
        /// What it is called from now on.
        name: String,
        /// The statement, with parameters.
        statement: String,
    },
    /// EXECUTE name (values).
    Execute {
        /// What was prepared.
        name: String,
        /// Values of its parameters.
        arguments: Vec<Argument>,
    },
    /// DEALLOCATE name.
    Deallocate(String),
    /// SET VARIABLE name = value.
    SetVariable {
        /// Its name.
        name: String,
        /// The text of an expression.
        value: String,
    },
    /// RESET VARIABLE name.
    ResetVariable(String),
    /// CREATE MACRO: the whole text.
    CreateMacro(String),
    /// CREATE TYPE: the whole text.
    CreateType(String),
    /// DROP MACRO: the text behind the words.
    DropMacro(String),
    /// MERGE: the whole text.
    Merge(String),
    /// BEGIN, COMMIT, ROLLBACK, SAVEPOINT or RELEASE.
    Transaction(Control),
    /// PRAGMA.
    Pragma(Pragma),
    /// RESET setting.
    Reset(String),
    /// Whatever DataFusion's parser knows.
    Plan(Box<PlanStatement>),
}

/// A COPY statement.
#[derive(Debug)]
pub struct Copy {
    /// The table or query.
    pub source: CopySource,
    /// The file is written.
    pub to: bool,
    /// The file or glob.
    pub path: String,
    /// How to read or write it.
    pub options: Options,
}

/// What a COPY statement reads or fills.
#[derive(Debug)]
pub enum CopySource {
    /// A table, or some of its columns.
    Table(ObjectName, Vec<Ident>),
    /// A query.
    Query(Box<Query>),
}

/// The texts of the statements of a script, without their semicolons. Positions in errors count in `script`.
pub fn split(script: &str) -> Result<Vec<String>> {
    let tokens = tokens(script)?;
    let offsets = Offsets::new(script);
    let mut statements = Vec::new();
    let mut start = 0;
    let mut is_empty = true;
    for token in &tokens {
        match &token.token {
            Token::SemiColon => {
                let end = offsets.byte(token.span.start);
                if !is_empty {
                    statements.push(script[start..end].trim().to_owned());
                }
                start = offsets.byte(token.span.end);
                is_empty = true;
            }
            Token::Whitespace(_) | Token::EOF => {}
            _ => is_empty = false,
        }
    }
    if !is_empty {
        statements.push(script[start..].trim().to_owned());
    }
    Ok(statements)
}

/// Whether a script ends with a finished statement: outside of strings and comments, behind a semicolon.
pub fn is_complete(script: &str) -> bool {
    match tokens(script) {
        Ok(tokens) => {
            let last = tokens.iter().rfind(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
            last.is_none_or(|token| token.token == Token::SemiColon)
        }
        // An open string or comment goes on in the next line; other errors are the parser's to report.
        Err(error) => !["unterminated", "unexpected eof"].iter().any(|open| error.message().contains(open)),
    }
}

/// ALTER TABLE of this text and these tokens, with `behind` behind the words.
fn alter_table(text: &str, behind: String, tokens: Vec<TokenWithSpan>) -> Result<Command> {
    if table_options::names_field(&tokens) {
        return Ok(Command::AlterField(text.to_owned()));
    }
    if let Some(alter) = table_options::parse_alter(&tokens)? {
        return Ok(Command::AlterOptions(Box::new(alter)));
    }
    Ok(match layout_words::told(&tokens) {
        Some(Layout::Order) => Command::ClusterBy(behind),
        Some(Layout::Projection) => Command::AlterProjection(behind),
        None => Command::Plan(Box::new(parse_tokens(tokens)?)),
    })
}

/// Parses one statement.
pub fn parse(text: &str) -> Result<Command> {
    let tokens = known(text)?;
    let words: Vec<String> = tokens
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF))
        .map(|token| token.token.to_string().to_uppercase())
        .take(BEGINNING)
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match made(&words) {
        Some("MACRO" | "FUNCTION") => return Ok(Command::CreateMacro(text.to_owned())),
        Some("TYPE") => return Ok(Command::CreateType(text.to_owned())),
        _ => {}
    }
    let behind = |count: usize| -> String {
        let mut seen = 0;
        let offsets = Offsets::new(text);
        for token in &tokens {
            if !matches!(token.token, Token::Whitespace(_) | Token::EOF) {
                seen += 1;
                if seen == count {
                    return text[offsets.byte(token.span.end)..].trim().to_owned();
                }
            }
        }
        String::new()
    };
    Ok(match words.get(..4).unwrap_or(&words) {
        ["COPY", ..] => Command::Copy(Box::new(parse_copy(tokens)?)),
        ["CHECKPOINT"] | ["FORCE", "CHECKPOINT"] => Command::Checkpoint,
        ["CHECK", "DATABASE"] => Command::CheckDatabase,
        ["BACKUP", ..] => Command::BackUp(backup::directory(tokens)?),
        ["OPTIMIZE", "TABLE", _, ..] => Command::Optimize(behind(2)),
        ["SUMMARIZE" | "SUMMARISE", _, ..] => Command::Summarize(behind(1)),
        ["DESCRIBE" | "DESC", "TABLE", _, ..] => Command::Describe(behind(2)),
        ["DESCRIBE" | "DESC", _, ..] => Command::Describe(behind(1)),
        ["SHOW", "COLUMNS", "FROM" | "IN", _] => Command::Describe(behind(3)),
        ["SHOW", "TABLES"] => Command::ShowTables { all: false },
        ["SHOW", "TABLES", "FROM", _] => Command::ShowTablesOf(name_at(&tokens, 3)?),
        ["SHOW" | "DESCRIBE" | "DESC"] | ["SHOW", "ALL", "TABLES"] => Command::ShowTables { all: true },
        ["SHOW", "STATS", "FOR", _, ..] => Command::ShowStatistics(behind(3)),
        ["SHOW", "STATS", _, ..] => Command::ShowStatistics(behind(2)),
        ["SHOW", "SCHEMAS"] => Command::ShowSchemas,
        ["SHOW", "DATABASES"] => Command::ShowDatabases,
        ["SHOW", "MEMORY"] => Command::ShowMemory,
        ["USE", _] => Command::Use(behind(1)),
        ["PREPARE", _, "AS", _, ..] => Command::Prepare { name: name_at(&tokens, 1)?, statement: behind(3) },
        ["EXECUTE", _, ..] => execute(&tokens, &behind(2))?,
        ["DEALLOCATE", "PREPARE", _] | ["DEALLOCATE", _] => Command::Deallocate(name_at(&tokens, words.len() - 1)?),
        ["VACUUM", "ANALYZE", ..] => Command::Analyze(behind(2)),
        ["ANALYZE", ..] => Command::Analyze(behind(1)),
        words if statements::is_inert(words) => Command::Pragma(Pragma::Nothing),
        ["CALL", _, "(", ..] => Command::Plan(Box::new(parse_plan(&format!("SELECT * FROM {}", behind(1)))?)),
        ["SET", "VARIABLE", _, "=" | "TO"] => Command::SetVariable { name: name_at(&tokens, 2)?, value: behind(4) },
        ["RESET", "VARIABLE", _] => Command::ResetVariable(name_at(&tokens, 2)?),
        ["DROP", "MACRO" | "FUNCTION", _, ..] => Command::DropMacro(behind(2)),
        [first, ..] if is_control(first) => Command::Transaction(control(&unspaced(tokens))?),
        ["MERGE" | "WITH", ..] if statements::is_merge(&tokens) => Command::Merge(text.to_owned()),
        ["PRAGMA", ..] => Command::Pragma(statements::pragma(&unspaced(tokens))?),
        ["RESET", ..] => Command::Reset(statements::reset(&unspaced(tokens))?),
        ["SET", "GLOBAL" | "SESSION", _, "=" | "TO"] => {
            let mut tokens = tokens;
            tokens.retain(|token| !statements::is_scope(&token.token));
            Command::Plan(Box::new(parse_tokens(tokens)?))
        }
        ["ALTER", "TABLE", ..] => alter_table(text, behind(2), tokens)?,
        _ => Command::Plan(Box::new(parse_tokens(tokens)?)),
    })
}

/// Words that tell what kind of statement one is: CREATE OR REPLACE TEMPORARY MACRO.
const BEGINNING: usize = 5;

/// What a CREATE statement makes.
fn made<'a>(words: &[&'a str]) -> Option<&'a str> {
    let mut others = words.iter().filter(|word| !matches!(**word, "OR" | "REPLACE" | "TEMP" | "TEMPORARY"));
    others.next().filter(|word| **word == "CREATE").and_then(|_| others.next()).copied()
}

/// The name that this word of a statement is, counted from 0.
fn name_at(tokens: &[TokenWithSpan], word: usize) -> Result<String> {
    let mut words = tokens.iter().map(|token| &token.token);
    match words.by_ref().filter(|token| !matches!(token, Token::Whitespace(_))).nth(word) {
        Some(Token::Word(name)) => Ok(name.value.clone()),
        Some(other) => Err(Error::input(format!("{other} is not a name"))),
        None => Err(Error::input("a name is missing")),
    }
}

/// EXECUTE name(arguments), of which `behind` is what stands behind the name.
fn execute(tokens: &[TokenWithSpan], behind: &str) -> Result<Command> {
    Ok(Command::Execute { name: name_at(tokens, 1)?, arguments: parameters::arguments(behind)? })
}

/// Parses a statement that DataFusion knows.
pub fn parse_plan(text: &str) -> Result<PlanStatement> {
    parse_tokens(known(text)?)
}

/// The tokens of a statement, in words that the parser knows. Errors: texts that are no tokens, or nested too deeply.
pub fn known(text: &str) -> Result<Vec<TokenWithSpan>> {
    Ok(clauses::known(phrases::known(depth::check(tokens(text)?)?)))
}

/// Tokens without blanks and places.
fn unspaced(tokens: Vec<TokenWithSpan>) -> Vec<Token> {
    let tokens = tokens.into_iter().map(|token| token.token);
    tokens.filter(|token| !matches!(token, Token::Whitespace(_) | Token::EOF)).collect()
}

fn parse_tokens(tokens: Vec<TokenWithSpan>) -> Result<PlanStatement> {
    let mut statements = DFParserBuilder::new(add_select(tokens))
        .with_dialect(&ForebayDialect)
        .with_recursion_limit(RECURSION_LIMIT)
        .build()
        .and_then(|mut parser| parser.parse_statements())
        .map_err(from_datafusion)?;
    match (statements.pop_front(), statements.pop_front()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Error::input("there is no statement")),
        (Some(_), Some(_)) => Err(Error::internal("a script was not split")),
    }
}

fn parse_copy(tokens: Vec<TokenWithSpan>) -> Result<Copy> {
    let dialect = ForebayDialect;
    let parser = Parser::new(&dialect).with_recursion_limit(RECURSION_LIMIT);
    let mut parser = parser.with_tokens_with_locations(add_select(tokens));
    parser.expect_keyword(Keyword::COPY).map_err(parser_error)?;
    let source = if parser.consume_token(&Token::LParen) {
        let query = parser.parse_query().map_err(parser_error)?;
        parser.expect_token(&Token::RParen).map_err(parser_error)?;
        CopySource::Query(query)
    } else {
        let name = parser.parse_object_name(false).map_err(parser_error)?;
        let columns = parser.parse_parenthesized_column_list(IsOptional::Optional, false).map_err(parser_error)?;
        CopySource::Table(name, columns)
    };
    let to = match parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::TO]) {
        Some(Keyword::TO) => true,
        Some(_) => false,
        None => return Err(expected(&parser, "FROM or TO")),
    };
    let path = parser.parse_literal_string().map_err(parser_error)?;
    let mut options = Options::default();
    parse_options(&mut parser, &mut options)?;
    if parser.peek_token().token != Token::EOF {
        return Err(expected(&parser, "the end of the statement"));
    }
    if !to && matches!(source, CopySource::Query(_)) {
        return Err(Error::input("COPY (query) FROM is not possible").hint("Use COPY table FROM, or COPY (query) TO"));
    }
    Ok(Copy { source, to, path, options })
}

/// `[WITH] (FORMAT csv, DELIMITER '|', HEADER)`, or the same without parentheses and commas.
fn parse_options(parser: &mut Parser<'_>, options: &mut Options) -> Result<()> {
    let _ = parser.parse_keyword(Keyword::WITH);
    let in_parentheses = parser.consume_token(&Token::LParen);
    loop {
        let token = parser.peek_token().token;
        match &token {
            Token::EOF => return Ok(()),
            Token::RParen if in_parentheses => {
                let _ = parser.next_token();
                return Ok(());
            }
            Token::Comma => {
                let _ = parser.next_token();
                continue;
            }
            Token::Word(_) | Token::SingleQuotedString(_) => {}
            _ => return Err(expected(parser, "an option")),
        }
        let key = option_word(parser)?;
        parse_option(parser, &key.to_lowercase(), options)?;
    }
}

fn option_word(parser: &mut Parser<'_>) -> Result<String> {
    match parser.peek_token().token {
        Token::Word(word) => {
            let _ = parser.next_token();
            Ok(word.value)
        }
        Token::Mul => {
            let _ = parser.next_token();
            Ok("*".to_owned())
        }
        Token::SingleQuotedString(text) | Token::Number(text, _) => {
            let _ = parser.next_token();
            Ok(text)
        }
        _ => Err(expected(parser, "a word")),
    }
}

/// The texts that stand for NULL: one, or a list.
fn null_texts(parser: &mut Parser<'_>) -> Result<Vec<String>> {
    if parser.peek_token_ref().token == Token::LBracket {
        let list = parser.parse_expr().map_err(parser_error)?.to_string();
        return read_options::texts(&list).ok_or_else(|| Error::input(format!("NULLSTR {list} is no list of texts")));
    }
    let word = option_word(parser)?;
    let list = if word.starts_with('[') { read_options::texts(&word) } else { None };
    Ok(list.unwrap_or_else(|| vec![word]))
}

/// One word, or several between parentheses.
fn words(parser: &mut Parser<'_>) -> Result<Vec<String>> {
    if !parser.consume_token(&Token::LParen) {
        return Ok(vec![option_word(parser)?]);
    }
    let mut words = vec![option_word(parser)?];
    while parser.consume_token(&Token::Comma) {
        words.push(option_word(parser)?);
    }
    parser.expect_token(&Token::RParen).map_err(parser_error)?;
    Ok(words)
}

fn parse_option(parser: &mut Parser<'_>, key: &str, options: &mut Options) -> Result<()> {
    let _ = parser.consume_token(&Token::Eq) || parser.parse_keyword(Keyword::AS);
    match key {
        "csv" | "parquet" | "json" | "tbl" => options.format = Some(Format::of_name(key)?),
        "format" => options.format = Some(Format::of_name(&option_word(parser)?)?),
        "delimiter" | "delim" | "sep" => options.delimiter = Some(one_byte(&option_word(parser)?, "DELIMITER")?),
        "quote" => options.quote = Some(one_byte(&option_word(parser)?, "QUOTE")?),
        "escape" => options.escape = Some(one_byte(&option_word(parser)?, "ESCAPE")?),
        "null" | "nullstr" => {
            let mut nulls = null_texts(parser)?.into_iter();
            (options.null, options.more_nulls) = (nulls.next(), nulls.collect());
        }
        "ignore_errors" => options.ignore_errors = flag(parser)?,
        "null_padding" => options.null_padding = flag(parser)?,
        "decimal_separator" => options.decimal = Some(one_byte(&option_word(parser)?, "DECIMAL_SEPARATOR")?),
        "thousands" => options.thousands = Some(one_byte(&option_word(parser)?, "THOUSANDS")?),
        "header" => options.header = Some(flag(parser)?),
        "compression" | "codec" => options.compression = Some(compression(&option_word(parser)?)?),
        "max_line_size" | "maximum_line_size" | "maximum_object_size" => {
            options.line_bytes = Some(bytes(&option_word(parser)?, key)?);
        }
        "partition_by" => options.partition_by = words(parser)?,
        "force_quote" => options.force_quote = words(parser)?,
        "array" => options.is_array = flag(parser)?,
        "overwrite_or_ignore" => options.overwrites = flag(parser)?,
        "row_group_size" => options.row_group_rows = Some(bytes(&option_word(parser)?, key)?),
        _ if read_options::set(options, key, || option_word(parser))? => {}
        _ => {
            let error = Error::input(format!("there is no option {key}"));
            let known = COPY_OPTIONS.into_iter().chain(read_options::NAMES);
            return Err(match forebay_context::error::suggestion(key, known.clone()) {
                Some(other) => error.hint(format!("Did you mean {}?", other.to_uppercase())),
                None => {
                    let known: Vec<String> = known.map(str::to_uppercase).collect();
                    error.hint(format!("Options are {}", known.join(", ")))
                }
            });
        }
    }
    Ok(())
}

/// Sets an option that is given by its name and the text of its value.
pub fn set_option(options: &mut Options, name: &str, value: &str) -> Result<()> {
    let dialect = ForebayDialect;
    let value = Token::SingleQuotedString(value.to_owned());
    parse_option(&mut Parser::new(&dialect).with_tokens(vec![value]), &name.to_lowercase(), options)
}

fn flag(parser: &mut Parser<'_>) -> Result<bool> {
    let value = match parser.peek_token().token {
        Token::Word(word) => word.value.to_lowercase(),
        Token::SingleQuotedString(text) | Token::Number(text, _) => text.to_lowercase(),
        _ => return Ok(true),
    };
    let value = match value.as_str() {
        "true" | "on" | "1" | "yes" => true,
        "false" | "off" | "0" | "no" => false,
        _ => return Ok(true),
    };
    let _ = parser.next_token();
    Ok(value)
}

fn one_byte(text: &str, option: &str) -> Result<u8> {
    match text {
        "\\t" => Ok(b'\t'),
        _ if text.len() == 1 => Ok(text.as_bytes()[0]),
        _ => Err(Error::input(format!("{option} must be one single-byte character, not {text:?}"))),
    }
}

fn bytes(text: &str, option: &str) -> Result<usize> {
    let bytes = text.parse().ok().filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| Error::input(format!("{option} must be a number above 0, not {text:?}")))
}

fn compression(name: &str) -> Result<CompressionTypeVariant> {
    Ok(match name.to_lowercase().as_str() {
        "none" | "uncompressed" => CompressionTypeVariant::UNCOMPRESSED,
        "gzip" | "gz" => CompressionTypeVariant::GZIP,
        "zstd" | "zst" => CompressionTypeVariant::ZSTD,
        _ => return Err(Error::input(format!("compression {name} does not exist")).hint("Use none, gzip or zstd")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_split_at_semicolons_outside_of_strings_and_comments() {
        let script = "select 'a;b'; -- no; statement\n;;\nselect \"x;y\" /* ; */ from t";
        let expected = ["select 'a;b'".to_owned(), "select \"x;y\" /* ; */ from t".to_owned()];
        let got = split(script).expect("splits");
        assert_eq!(got[0], expected[0]);
        assert!(got[1].ends_with(&expected[1]), "{got:?}");
        assert_eq!(got.len(), 2);
    }

    #[test]
    fn prompts_know_when_a_statement_is_finished() {
        for (script, complete) in [
            ("select 1", false),
            ("select 1;", true),
            ("select ';", false),
            ("/* ;", false),
            ("/* /* ; */ ;", false),
            ("/* /* ; */ */ ;", true),
            ("", true),
            ("a; -- b", true),
        ] {
            assert_eq!(is_complete(script), complete, "{script}");
        }
    }

    #[test]
    fn copy_takes_both_styles_of_options() {
        for text in [
            "COPY t (a, b) FROM 'x.csv' (FORMAT csv, DELIMITER ';', HEADER false, NULL 'N/A')",
            "copy t(a,b) from 'x.csv' with csv delimiter as ';' header off null 'N/A'",
        ] {
            let Command::Copy(copy) = parse(text).expect("parses") else { panic!("not a COPY") };
            assert_eq!(copy.options.delimiter, Some(b';'));
            assert_eq!(copy.options.header, Some(false));
            assert_eq!(copy.options.null.as_deref(), Some("N/A"));
            assert!(!copy.to && matches!(&copy.source, CopySource::Table(_, columns) if columns.len() == 2));
        }
        let error = parse("COPY t FROM 'x' (DELIMTER ';')").expect_err("unknown option");
        assert!(error.to_string().contains("Did you mean DELIMITER"), "{error}");
    }

    #[test]
    fn syntax_errors_have_a_place() {
        let error = parse("select\n  from from").expect_err("not SQL");
        assert!(error.position().is_some(), "{error}");
    }

    #[test]
    fn comments_nest() {
        assert_eq!(split("select /* a /* ; */ b; */ 1; select 2").expect("splits").len(), 2);
        assert!(parse("select /* a /* b */ 1").is_err());
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let text = format!("select {}1{}", "(".repeat(10_000), ")".repeat(10_000));
        assert!(parse(&text).is_err());
        for (operator, end) in [("+", ""), (" and ", ""), (" union all select ", ""), ("+", " from from")] {
            let text = format!("select {}{end}", vec!["a"; 100_000].join(operator));
            let error = parse(&text).expect_err("too deep").to_string();
            assert!(error.contains("nested too deeply: 99999 levels; at most 1000"), "{error}");
            let copy = format!("copy ({text}) to 'x.csv'");
            assert!(parse(&copy).is_err());
        }
    }
}
