//! `CREATE MACRO name(parameters) AS expression` and `… AS TABLE query`, also with several definitions.

use std::ops::Range;

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{DataType, Expr, ObjectName, Query, SelectItem, SetExpr, Statement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::{Error, Result};
use forebay_syntax::dialect::ForebayDialect;
use forebay_syntax::parse::parse_plan;
use forebay_syntax::syntax_error::parser_error;
use forebay_syntax::tokens::{Offsets, tokens};

/// A CREATE MACRO statement.
#[derive(Debug)]
pub struct CreateMacro {
    /// A macro of this name is replaced.
    pub or_replace: bool,
    /// Nothing happens where there is one.
    pub if_not_exists: bool,
    /// Of this session only.
    pub is_temporary: bool,
    /// What it is called.
    pub name: ObjectName,
    /// Its calls stand for tables.
    pub is_table: bool,
    /// Texts of its definitions: `(a, b := 1) AS a + b`.
    pub definitions: Vec<String>,
}

/// One definition.
#[derive(Debug, Clone)]
pub struct Definition {
    /// In their order.
    pub parameters: Vec<Parameter>,
    /// What stands for a call.
    pub body: Body,
}

/// A parameter.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What arguments are cast to.
    pub data_type: Option<DataType>,
    /// What it is where a call does not say.
    pub default: Option<Expr>,
}

/// What stands for a call.
#[derive(Debug, Clone)]
pub enum Body {
    /// A value.
    Value(Box<Expr>),
    /// A table.
    Table(Box<Query>),
}

/// A text and its tokens, none of which is blank.
struct Words<'a> {
    text: &'a str,
    offsets: Offsets<'a>,
    tokens: Vec<TokenWithSpan>,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Result<Self> {
        let is_blank = |token: &Token| matches!(token, Token::Whitespace(_) | Token::SemiColon | Token::EOF);
        let tokens = tokens(text)?.into_iter().filter(|token| !is_blank(&token.token)).collect();
        Ok(Self { text, offsets: Offsets::new(text), tokens })
    }

    fn token(&self, index: usize) -> Option<&Token> {
        self.tokens.get(index).map(|token| &token.token)
    }

    fn is(&self, index: usize, keyword: Keyword) -> bool {
        matches!(self.token(index), Some(Token::Word(word)) if word.keyword == keyword && word.quote_style.is_none())
    }

    /// The text of these tokens.
    fn text(&self, range: Range<usize>) -> &'a str {
        match self.tokens.get(range.clone()) {
            Some([first, .., last]) => self.slice(first, last),
            Some([only]) => self.slice(only, only),
            _ => "",
        }
    }

    fn slice(&self, first: &TokenWithSpan, last: &TokenWithSpan) -> &'a str {
        &self.text[self.offsets.byte(first.span.start)..self.offsets.byte(last.span.end)]
    }

    /// The place of the parenthesis that closes the one at `open`.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for index in open..self.tokens.len() {
            match self.token(index)? {
                Token::LParen => depth += 1,
                Token::RParen if depth == 1 => return Some(index),
                Token::RParen => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// Where the body of a definition begins whose parameters begin at `open`.
    fn body(&self, open: usize, is_table: bool) -> Option<usize> {
        if self.token(open) != Some(&Token::LParen) {
            return None;
        }
        let close = self.closing(open)?;
        match self.is(close + 1, Keyword::AS) && (!is_table || self.is(close + 2, Keyword::TABLE)) {
            true => Some(close + 2 + usize::from(is_table)),
            false => None,
        }
    }
}

fn malformed() -> Error {
    Error::input("CREATE MACRO needs a name, parameters in parentheses and AS")
        .hint("Write CREATE MACRO add(a, b := 1) AS a + b, or CREATE MACRO first(n) AS TABLE SELECT * FROM t LIMIT n")
}

/// The CREATE MACRO statement of a text.
///
/// # Errors
/// What is not one, and definitions that [`definition`] does not take.
pub fn create(text: &str) -> Result<CreateMacro> {
    let words = Words::of(text)?;
    let mut index = 1;
    let or_replace = words.is(index, Keyword::OR) && words.is(index + 1, Keyword::REPLACE);
    index += if or_replace { 2 } else { 0 };
    let is_temporary = words.is(index, Keyword::TEMP) || words.is(index, Keyword::TEMPORARY);
    index += 1 + usize::from(is_temporary);
    let if_not_exists = words.is(index, Keyword::IF);
    index += if if_not_exists { 3 } else { 0 };
    let named = index;
    while words.token(index).ok_or_else(malformed)? != &Token::LParen {
        index += 1;
    }
    let name = parse_name(words.text(named..index))?;
    let is_table = words.body(index, true).is_some();
    let mut definitions = Vec::new();
    let mut begun = index;
    let mut depth = 0_usize;
    for index in words.body(index, is_table).ok_or_else(malformed)?..words.tokens.len() {
        match words.token(index) {
            Some(Token::LParen | Token::LBracket | Token::LBrace) => depth += 1,
            Some(Token::RParen | Token::RBracket | Token::RBrace) => depth = depth.saturating_sub(1),
            Some(Token::Comma) if depth == 0 && words.body(index + 1, is_table).is_some() => {
                definitions.push(words.text(begun..index).to_owned());
                begun = index + 1;
            }
            _ => {}
        }
    }
    definitions.push(words.text(begun..words.tokens.len()).to_owned());
    definitions.iter().try_for_each(|text| definition(text, is_table).map(|_| ()))?;
    Ok(CreateMacro { or_replace, if_not_exists, is_temporary, name, is_table, definitions })
}

/// A DROP MACRO statement.
#[derive(Debug)]
pub struct DropMacro {
    /// Nothing happens where there is none.
    pub if_exists: bool,
    /// Those that stand for tables.
    pub is_table: bool,
    /// What they are called.
    pub names: Vec<ObjectName>,
}

/// `[IF EXISTS] name, …`, the text behind DROP MACRO and DROP FUNCTION, with TABLE before it where tables are meant.
///
/// # Errors
/// Another text.
pub fn drop(text: &str) -> Result<DropMacro> {
    let words = Words::of(text)?;
    let is_table = words.is(0, Keyword::TABLE);
    let if_exists = words.is(usize::from(is_table), Keyword::IF);
    let first = usize::from(is_table) + if if_exists { 2 } else { 0 };
    // Nothing else depends on a macro.
    let is_last = |index: usize| words.is(index, Keyword::CASCADE) || words.is(index, Keyword::RESTRICT);
    let end = words.tokens.len() - usize::from(words.tokens.len().checked_sub(1).is_some_and(is_last));
    let (mut names, mut begun) = (Vec::new(), first);
    for index in first..=end {
        if index == end || words.token(index) == Some(&Token::Comma) {
            names.push(parse_name(words.text(begun..index))?);
            begun = index + 1;
        }
    }
    Ok(DropMacro { if_exists, is_table, names })
}

fn parse_name(text: &str) -> Result<ObjectName> {
    let mut parser = Parser::new(&ForebayDialect).try_with_sql(text).map_err(parser_error)?;
    let name = parser.parse_object_name(false).map_err(|_| Error::input("the name of a macro is missing"))?;
    match parser.peek_token().token {
        Token::EOF => Ok(name),
        _ => Err(Error::input(format!("{text} is not the name of a macro"))),
    }
}

/// The definition that a text is.
///
/// # Errors
/// A text that is none, parameters that are named twice, and those without a default behind one that has it.
pub fn definition(text: &str, is_table: bool) -> Result<Definition> {
    let words = Words::of(text)?;
    let body = words.body(0, is_table).ok_or_else(malformed)?;
    let close = words.closing(0).ok_or_else(malformed)?;
    let mut parameters: Vec<Parameter> = Vec::new();
    let (mut begun, mut depth) = (1, 0_usize);
    for index in 1..=close {
        match words.token(index) {
            Some(Token::Comma) if depth == 0 => {}
            Some(_) if index == close => {}
            Some(Token::LParen | Token::LBracket | Token::LBrace) => {
                depth += 1;
                continue;
            }
            Some(Token::RParen | Token::RBracket | Token::RBrace) => {
                depth = depth.saturating_sub(1);
                continue;
            }
            _ => continue,
        }
        if begun < index {
            let next = parameter(&words, begun..index)?;
            if parameters.iter().any(|known| known.name.eq_ignore_ascii_case(&next.name)) {
                return Err(Error::input(format!("the macro has two parameters that are called {}", next.name)));
            }
            if next.default.is_none() && parameters.iter().any(|known| known.default.is_some()) {
                return Err(Error::input(format!("parameter {} has no default, but one before it has", next.name))
                    .hint("Parameters with defaults come last"));
            }
            parameters.push(next);
        }
        begun = index + 1;
    }
    let body = words.text(body..words.tokens.len());
    let body = match is_table {
        true => Body::Table(Box::new(query(body)?)),
        false => Body::Value(Box::new(value(body)?)),
    };
    Ok(Definition { parameters, body })
}

/// `name`, `name type`, or either with `:= default`.
fn parameter(words: &Words<'_>, range: Range<usize>) -> Result<Parameter> {
    let Some(Token::Word(name)) = words.token(range.start) else {
        return Err(Error::input(format!("{} is not the name of a parameter", words.text(range))));
    };
    let assigned = range.clone().find(|index| words.token(*index) == Some(&Token::Assignment));
    let typed = range.start + 1..assigned.unwrap_or(range.end);
    let data_type = match typed.is_empty() {
        true => None,
        false => {
            let mut parser = Parser::new(&ForebayDialect).try_with_sql(words.text(typed)).map_err(parser_error)?;
            Some(parser.parse_data_type().map_err(parser_error)?)
        }
    };
    let default = assigned.map(|assigned| value(words.text(assigned + 1..range.end))).transpose()?;
    Ok(Parameter { name: name.value.clone(), data_type, default })
}

pub(crate) fn query(text: &str) -> Result<Query> {
    match parse_plan(text)? {
        PlanStatement::Statement(statement) => match *statement {
            Statement::Query(query) => Ok(*query),
            other => Err(Error::input(format!("the macro is to be a table, which {other} is not"))),
        },
        other => Err(Error::input(format!("the macro is to be a table, which {other} is not"))),
    }
}

fn value(text: &str) -> Result<Expr> {
    let wrong = || Error::input(format!("{text} is not an expression")).hint("A macro that is a table has AS TABLE");
    let SetExpr::Select(mut select) = *query(&format!("SELECT {text}"))?.body else { return Err(wrong()) };
    match (select.projection.pop(), select.projection.pop()) {
        (Some(SelectItem::UnnamedExpr(expr)), None) if select.from.is_empty() && select.selection.is_none() => Ok(expr),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_taken_apart() {
        let made =
            create("CREATE OR REPLACE TEMP MACRO s.f(a, b INTEGER := g(1, 2)) AS a + b, (x) AS (x, 1);").expect("one");
        assert!(made.or_replace && made.is_temporary && !made.if_not_exists && !made.is_table);
        assert_eq!(made.name.to_string(), "s.f");
        assert_eq!(made.definitions, ["(a, b INTEGER := g(1, 2)) AS a + b", "(x) AS (x, 1)"]);
        let made = create("create function if not exists t() as table select 1, (a) as b").expect("one");
        assert!(made.is_table && made.if_not_exists);
        assert_eq!(made.definitions, ["() as table select 1, (a) as b"]);
        for wrong in [
            "CREATE MACRO f AS 1",
            "CREATE MACRO f(a, A) AS 1",
            "CREATE MACRO f(a := 1, b) AS a",
            "CREATE MACRO f() AS",
        ] {
            assert!(create(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn definitions_have_parameters_and_bodies() {
        let read = definition("(a, b DECIMAL(4, 2) := [1, 2][1]) AS a + b", false).expect("one");
        let shown: Vec<(String, bool, bool)> =
            read.parameters.iter().map(|p| (p.name.clone(), p.data_type.is_some(), p.default.is_some())).collect();
        assert_eq!(shown, [("a".to_owned(), false, false), ("b".to_owned(), true, true)]);
        assert!(matches!(read.body, Body::Value(_)));
        assert!(matches!(definition("() AS TABLE FROM t", true).expect("one").body, Body::Table(_)));
    }

    #[test]
    fn drops_name_several() {
        let drop = drop("TABLE IF EXISTS s.f, g CASCADE").expect("one");
        assert!(drop.is_table && drop.if_exists);
        assert_eq!(drop.names.iter().map(ToString::to_string).collect::<Vec<_>>(), ["s.f", "g"]);
    }
}
