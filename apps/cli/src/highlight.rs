//! SQL in colours, while it is typed.
//!
//! Invariants: only escape sequences are added, so the width stays. Must not know: the database.

use crate::lexer::{State, Token, tokens};
use crate::terminal::{Paint, RESET};

/// Words in colour and in completion.
pub(crate) const KEYWORDS: &[&str] = &[
    "ADD",
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "ANTI",
    "ANY",
    "AS",
    "ASC",
    "BEGIN",
    "BETWEEN",
    "BIGINT",
    "BLOB",
    "BOOLEAN",
    "BY",
    "CASE",
    "CAST",
    "CHAR",
    "CHECK",
    "COLUMN",
    "COMMIT",
    "CONSTRAINT",
    "COPY",
    "CREATE",
    "CROSS",
    "CUBE",
    "CURRENT",
    "CURRENT_DATE",
    "CURRENT_TIMESTAMP",
    "DATE",
    "DECIMAL",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DOUBLE",
    "DROP",
    "ELSE",
    "END",
    "ESCAPE",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTRACT",
    "FALSE",
    "FILTER",
    "FIRST",
    "FLOAT",
    "FOLLOWING",
    "FOREIGN",
    "FORMAT",
    "FROM",
    "FULL",
    "GROUP",
    "GROUPING",
    "HAVING",
    "HEADER",
    "IF",
    "ILIKE",
    "IN",
    "INNER",
    "INSERT",
    "INTEGER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "LAST",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NATURAL",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PRAGMA",
    "PRECEDING",
    "PRIMARY",
    "QUALIFY",
    "RANGE",
    "REAL",
    "RECURSIVE",
    "REFERENCES",
    "RENAME",
    "REPLACE",
    "RIGHT",
    "ROLLBACK",
    "ROLLUP",
    "ROW",
    "ROWS",
    "SCHEMA",
    "SELECT",
    "SEMI",
    "SET",
    "SETS",
    "SHOW",
    "SIMILAR",
    "SMALLINT",
    "TABLE",
    "TABLES",
    "TEMPORARY",
    "THEN",
    "TIME",
    "TIMESTAMP",
    "TINYINT",
    "TO",
    "TRANSACTION",
    "TRUE",
    "TRUNCATE",
    "UNBOUNDED",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USING",
    "VALUES",
    "VARCHAR",
    "VERBOSE",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
    "ZONE",
];

/// Whether `word` is a keyword, in any case.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.binary_search_by(|keyword| (*keyword).cmp(word.to_ascii_uppercase().as_str())).is_ok()
}

/// `sql` with colours.
pub(crate) fn highlight(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() * 2);
    for (token, range) in tokens(sql, &mut State::default()) {
        let text = &sql[range];
        let color = match token {
            Token::Word if is_keyword(text) => Some(Paint::Blue),
            Token::Text => Some(Paint::Green),
            Token::Number => Some(Paint::Cyan),
            Token::Comment => Some(Paint::Grey),
            _ => None,
        };
        match color {
            Some(color) => out.extend([color.begin(), text, RESET]),
            None => out.push_str(text),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keywords_are_sorted() {
        assert!(KEYWORDS.is_sorted());
    }

    #[test]
    fn keywords_strings_numbers_and_comments_have_colours() {
        assert_eq!(
            highlight("Select a, 'from' -- 1"),
            "\x1b[1;34mSelect\x1b[0m a, \x1b[32m'from'\x1b[0m \x1b[90m-- 1\x1b[0m"
        );
        assert_eq!(highlight("x = 1.5"), "x = \x1b[36m1.5\x1b[0m");
        assert_eq!(highlight("'open"), "\x1b[32m'open\x1b[0m");
    }
}
