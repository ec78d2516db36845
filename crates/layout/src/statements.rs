//! The statements as text: `ALTER TABLE table CLUSTER BY (column, …)`, `CLUSTER BY AUTO`, `ANALYZE`.

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use forebay_base::Result;
use forebay_engine::analyze::Curve;

use forebay_syntax::dialect::ForebayDialect;
use forebay_syntax::syntax_error::{expected, parser_error};

/// ALTER TABLE … CLUSTER BY.
#[derive(Debug)]
pub struct ClusterBy {
    /// The table.
    pub name: ObjectName,
    /// A missing table is no error.
    pub if_exists: bool,
    /// The columns, with the table that they are of or the foreign key that leads there in front where that is said; `None`
    /// for AUTO.
    pub columns: Option<Vec<ObjectName>>,
    /// How the columns go together.
    pub curve: Curve,
}

/// What ANALYZE is to look at.
#[derive(Debug, PartialEq, Eq)]
pub struct Analyze {
    /// The table; `None` for all.
    pub table: Option<ObjectName>,
    /// Only what is known of the rows that its own join with.
    pub sideways_only: bool,
}

/// The statement that is ALTER TABLE and this text, which has the words CLUSTER BY.
///
/// # Errors
/// `Input` where it is none.
pub fn cluster_by(text: &str) -> Result<ClusterBy> {
    let mut parser = Parser::new(&ForebayDialect).try_with_sql(text).map_err(parser_error)?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parser.parse_object_name(false).map_err(parser_error)?;
    if !parser.parse_keywords(&[Keyword::CLUSTER, Keyword::BY]) {
        return Err(expected(&parser, "CLUSTER BY"));
    }
    let is_auto = matches!(&parser.peek_token().token, Token::Word(word) if word.value.eq_ignore_ascii_case("auto"));
    let (columns, curve) = if is_auto {
        let _ = parser.next_token();
        (None, Curve::default())
    } else {
        let curve = if is_curve(&parser) { curve(&mut parser)? } else { Curve::default() };
        parser.expect_token(&Token::LParen).map_err(|_| expected(&parser, "(column, …), AUTO, ZORDER or HILBERT"))?;
        let columns = parser.parse_comma_separated(|parser| parser.parse_object_name(false)).map_err(parser_error)?;
        parser.expect_token(&Token::RParen).map_err(parser_error)?;
        (Some(columns), curve)
    };
    match parser.peek_token().token {
        Token::EOF | Token::SemiColon => Ok(ClusterBy { name, if_exists, columns, curve }),
        _ => Err(expected(&parser, "the end of the statement")),
    }
}

/// Whether a word follows and a list behind it.
fn is_curve(parser: &Parser<'_>) -> bool {
    matches!(parser.peek_token().token, Token::Word(_)) && parser.peek_nth_token(1).token == Token::LParen
}

fn curve(parser: &mut Parser<'_>) -> Result<Curve> {
    match parser.next_token().token {
        Token::Word(word) => Curve::named(&word.value),
        _ => Ok(Curve::default()),
    }
}

/// An order as the option of a table has it.
pub(crate) fn order_text(columns: &str, curve: Curve) -> String {
    match curve.name() {
        Some(name) => format!("{name} ({columns})"),
        None => columns.to_owned(),
    }
}

/// `[TABLE] [table [(column, …)]] [SIDEWAYS]`, the text behind ANALYZE. Columns that are named, as in PostgreSQL and DuckDB, are
/// analysed with the others.
///
/// # Errors
/// `Input` where it is something else.
pub fn analyze(text: &str) -> Result<Analyze> {
    let mut parser = Parser::new(&ForebayDialect).try_with_sql(text).map_err(parser_error)?;
    let is_end = |parser: &Parser<'_>| matches!(parser.peek_token().token, Token::EOF | Token::SemiColon);
    let _ = parser.parse_keyword(Keyword::TABLE);
    if is_end(&parser) {
        return Ok(Analyze { table: None, sideways_only: false });
    }
    let table = Some(parser.parse_object_name(false).map_err(parser_error)?);
    if parser.consume_token(&Token::LParen) {
        parser.parse_comma_separated(Parser::parse_identifier).map_err(parser_error)?;
        parser.expect_token(&Token::RParen).map_err(parser_error)?;
    }
    let sideways_only =
        matches!(&parser.peek_token().token, Token::Word(word) if word.value.eq_ignore_ascii_case("sideways"));
    if sideways_only {
        let _ = parser.next_token();
    }
    match is_end(&parser) {
        true => Ok(Analyze { table, sideways_only }),
        false => Err(expected(&parser, "SIDEWAYS or the end of the statement")),
    }
}

/// The columns of the option of a table that tells its order, and how they go together.
///
/// # Errors
/// `Input` where it is no list of columns.
pub fn order(text: &str) -> Result<(Vec<ObjectName>, Curve)> {
    let mut parser = Parser::new(&ForebayDialect).try_with_sql(text).map_err(parser_error)?;
    let is_curve = is_curve(&parser);
    let curve = if is_curve { curve(&mut parser)? } else { Curve::default() };
    if is_curve {
        parser.expect_token(&Token::LParen).map_err(parser_error)?;
    }
    let columns = parser.parse_comma_separated(|parser| parser.parse_object_name(false)).map_err(parser_error)?;
    if is_curve {
        parser.expect_token(&Token::RParen).map_err(parser_error)?;
    }
    match parser.peek_token().token {
        Token::EOF => Ok((columns, curve)),
        _ => Err(expected(&parser, "the end of the list of columns")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_read() {
        let read =
            |text| cluster_by(text).map(|read| (read.name.to_string(), read.columns.map(|columns| columns.len())));
        assert_eq!(read("s.t CLUSTER BY (a, d.b, \"C\");").expect("valid"), ("s.t".to_owned(), Some(3)));
        assert_eq!(read("t cluster by auto").expect("valid"), ("t".to_owned(), None));
        for text in ["t CLUSTER BY", "t CLUSTER BY a", "t CLUSTER BY ()", "t CLUSTER BY (a) x", "t CLUSTER (a)"] {
            assert!(read(text).is_err(), "{text}");
        }
        let curve = |text| cluster_by(text).map(|read| (read.columns.map(|columns| columns.len()), read.curve));
        assert_eq!(curve("t CLUSTER BY hilbert (a, b)").expect("valid"), (Some(2), Curve::Hilbert));
        assert_eq!(curve("t CLUSTER BY ZORDER (a)").expect("valid"), (Some(1), Curve::ZOrder));
        assert_eq!(curve("t CLUSTER BY (hilbert, b)").expect("valid"), (Some(2), Curve::Lexicographic));
        assert!(curve("t CLUSTER BY PEANO (a)").expect_err("unknown").to_string().contains("HILBERT"));
        assert!(curve("t CLUSTER BY HILBERT AUTO").is_err() && curve("t CLUSTER BY HILBERT ()").is_err());
        for (text, kept) in [("\"a\", b.c", Curve::Lexicographic), ("hilbert, zorder", Curve::ZOrder)] {
            let (columns, read) = order(&order_text(text, kept)).expect("its own text");
            assert_eq!((columns.len(), read), (2, kept));
        }
        assert_eq!(order("hilbert, b").expect("columns").1, Curve::Lexicographic);
        let read = |text| analyze(text).map(|read| (read.table.map(|name| name.to_string()), read.sideways_only));
        assert_eq!(read("").expect("valid"), (None, false));
        assert_eq!(read("t (a, b);").expect("valid"), (Some("t".to_owned()), false));
        assert_eq!(read("TABLE s.t SIDEWAYS").expect("valid"), (Some("s.t".to_owned()), true));
        assert!(read("t u").is_err() && read("t (a").is_err());
    }
}
