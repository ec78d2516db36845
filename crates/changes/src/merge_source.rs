//! The source of a MERGE that stands behind a WITH, whose tables it may read.

use datafusion::sql::sqlparser::ast::{ObjectNamePart, TableFactor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use forebay_syntax::dialect::ForebayDialect;

/// The text of a WITH that comes next; `None` where none does.
pub(crate) fn with_text(parser: &mut Parser<'_>) -> Result<Option<String>, ParserError> {
    if !parser.parse_keyword(Keyword::WITH) {
        return Ok(None);
    }
    let recursive = if parser.parse_keyword(Keyword::RECURSIVE) { "RECURSIVE " } else { "" };
    let tables = parser.parse_comma_separated(Parser::parse_cte)?;
    let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
    Ok(Some(format!("WITH {recursive}{}", tables.join(", "))))
}

/// A source that may read the tables of a WITH.
pub(crate) fn with_tables(with: Option<&str>, source: TableFactor) -> Result<TableFactor, ParserError> {
    let Some(with) = with else { return Ok(source) };
    let alias = match &source {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            alias.name.to_string()
        }
        TableFactor::Table { name, .. } => {
            name.0.last().and_then(ObjectNamePart::as_ident).map(ToString::to_string).unwrap_or_default()
        }
        _ => "source".to_owned(),
    };
    let text = format!("({with} SELECT * FROM {source}) AS {alias}");
    Parser::new(&ForebayDialect).try_with_sql(&text)?.parse_table_factor()
}
