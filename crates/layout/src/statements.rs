//! The statements as text: `ALTER TABLE table CLUSTER BY (column, …)`, `CLUSTER BY AUTO`, `ADD PROJECTION`, `DROP PROJECTION`, `ANALYZE`.

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

/// ALTER TABLE … ADD PROJECTION or DROP PROJECTION.
#[derive(Debug)]
pub struct AlterProjection {
    /// The table.
    pub table: ObjectName,
    /// A missing table is no error.
    pub if_exists: bool,
    /// The projection.
    pub name: String,
    /// What becomes of it.
    pub change: ProjectionChange,
}

/// What becomes of a projection.
#[derive(Debug)]
pub enum ProjectionChange {
    /// It is made.
    Add {
        /// One that is there already is no error.
        if_not_exists: bool,
        /// What its rows are ordered by.
        order: Vec<ObjectName>,
        /// Its columns; `None` for all.
        columns: Option<Vec<String>>,
    },
    /// It goes.
    Drop {
        /// One that is not there is no error.
        if_exists: bool,
    },
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

/// The statement that is ALTER TABLE and this text, which has the words ADD or DROP PROJECTION.
///
/// # Errors
/// `Input` where it is none.
pub fn alter_projection(text: &str) -> Result<AlterProjection> {
    let mut parser = Parser::new(&ForebayDialect).try_with_sql(text).map_err(parser_error)?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let table = parser.parse_object_name(false).map_err(parser_error)?;
    let is_added = parser.parse_keyword(Keyword::ADD);
    if !is_added && !parser.parse_keyword(Keyword::DROP) || !parser.parse_keyword(Keyword::PROJECTION) {
        return Err(expected(&parser, "ADD PROJECTION or DROP PROJECTION"));
    }
    let if_not_exists = is_added && parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let if_there = !is_added && parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parser.parse_identifier().map_err(parser_error)?.value;
    let change = match is_added {
        true => {
            let (order, columns) = order_and_columns(&mut parser)?;
            ProjectionChange::Add { if_not_exists, order, columns }
        }
        false => ProjectionChange::Drop { if_exists: if_there },
    };
    match parser.peek_token().token {
        Token::EOF | Token::SemiColon => Ok(AlterProjection { table, if_exists, name, change }),
        _ => Err(expected(&parser, "the end of the statement")),
    }
}

/// `(ORDER BY column, …) [(column, …)]`.
fn order_and_columns(parser: &mut Parser<'_>) -> Result<(Vec<ObjectName>, Option<Vec<String>>)> {
    parser.expect_token(&Token::LParen).map_err(|_| expected(parser, "(ORDER BY column, …)"))?;
    if !parser.parse_keywords(&[Keyword::ORDER, Keyword::BY]) {
        return Err(expected(parser, "ORDER BY column, …"));
    }
    let order = parser.parse_comma_separated(|parser| parser.parse_object_name(false)).map_err(parser_error)?;
    parser.expect_token(&Token::RParen).map_err(parser_error)?;
    let columns = if parser.consume_token(&Token::LParen) {
        let columns = parser.parse_comma_separated(Parser::parse_identifier).map_err(parser_error)?;
        parser.expect_token(&Token::RParen).map_err(parser_error)?;
        Some(columns.into_iter().map(|column| column.value).collect())
    } else {
        None
    };
    Ok((order, columns))
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
    fn projections_are_read() {
        let read = |text: &str| alter_projection(text).map(|read| (read.table.to_string(), read.name, read.change));
        match read("s.t ADD PROJECTION p (ORDER BY a, d.b) (a, \"C\");").expect("valid") {
            (table, name, ProjectionChange::Add { if_not_exists: false, order, columns }) => {
                assert_eq!((table.as_str(), name.as_str(), order.len()), ("s.t", "p", 2));
                assert_eq!(columns, Some(vec!["a".to_owned(), "C".to_owned()]));
            }
            other => panic!("{other:?}"),
        }
        let added = |text| matches!(read(text), Ok((_, _, ProjectionChange::Add { columns: None, .. })));
        assert!(added("t add projection if not exists \"P q\" (order by a)"));
        let dropped = |text| read(text).is_ok_and(|(_, _, change)| matches!(change, ProjectionChange::Drop { .. }));
        assert!(dropped("t DROP PROJECTION p") && dropped("IF EXISTS t DROP PROJECTION IF EXISTS p;"));
        for text in [
            "t ADD PROJECTION",
            "t ADD PROJECTION p",
            "t ADD PROJECTION p (a)",
            "t ADD PROJECTION p (ORDER BY)",
            "t ADD PROJECTION p (ORDER BY a) ()",
            "t ADD PROJECTION p (ORDER BY a) (b) c",
            "t ADD PROJECTION p (ORDER BY a DESC)",
            "t DROP PROJECTION",
            "t DROP PROJECTION p q",
            "t RENAME PROJECTION p",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

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
