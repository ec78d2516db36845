//! PRAGMA, SET and RESET, as DuckDB has them.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::{Error, Result};

use crate::words::is_word;

/// Extensions of DuckDB that are part of this program, as far as it has what they bring.
const BUILT_IN: [&str; 4] = ["CORE_FUNCTIONS", "ICU", "JSON", "PARQUET"];

/// What a PRAGMA asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pragma {
    /// What has no meaning here: verification, profiling, progress.
    Nothing,
    /// As SET variable = value.
    Set {
        /// The setting.
        variable: String,
        /// The value as text.
        value: String,
    },
    /// The columns of a table.
    TableInfo(String),
    /// As SHOW TABLES, or SHOW ALL TABLES.
    ShowTables {
        /// Of every schema.
        all: bool,
    },
    /// As SHOW DATABASES.
    ShowDatabases,
    /// As CHECKPOINT.
    Checkpoint,
    /// What this program is.
    Version,
    /// The rows of a query.
    Query(&'static str),
}

/// Pragmas that change how DuckDB works and shows its work, and nothing about answers.
const INERT: [&str; 24] = [
    "disable_checkpoint_on_shutdown",
    "disable_object_cache",
    "disable_optimizer",
    "disable_print_progress_bar",
    "disable_profile",
    "disable_profiling",
    "disable_progress_bar",
    "disable_verification",
    "disable_verify_external",
    "disable_verify_fetch_row",
    "disable_verify_parallelism",
    "enable_checkpoint_on_shutdown",
    "enable_object_cache",
    "enable_optimizer",
    "enable_print_progress_bar",
    "enable_profile",
    "enable_profiling",
    "enable_progress_bar",
    "enable_verification",
    "verify_external",
    "verify_fetch_row",
    "verify_parallelism",
    "verify_serializer",
    "disable_verify_serializer",
];

/// The PRAGMA of these tokens, without blanks. Errors: one that is not known.
pub fn pragma(tokens: &[Token]) -> Result<Pragma> {
    let wrong = || Error::input("PRAGMA takes a name, name = value, or name('argument')");
    let Some(Token::Word(name)) = tokens.get(1) else { return Err(wrong()) };
    let name = name.value.to_lowercase();
    if tokens.get(2) == Some(&Token::Eq) {
        let value = tokens.get(3).and_then(text).ok_or_else(wrong)?;
        // Profiles are shown by EXPLAIN ANALYZE alone.
        return Ok(match name.as_str() {
            "enable_profiling" | "profiling_mode" | "profile_output" | "profiling_output" => Pragma::Nothing,
            _ => Pragma::Set { variable: name, value },
        });
    }
    let argument = match tokens.get(2..) {
        Some([Token::LParen, argument, Token::RParen]) => Some(text(argument).ok_or_else(wrong)?),
        Some([]) | None => None,
        Some(_) => return Err(wrong()),
    };
    match (name.as_str(), argument) {
        (known, None) if INERT.contains(&known) => Ok(Pragma::Nothing),
        ("table_info", Some(table)) => Ok(Pragma::TableInfo(table)),
        ("show_tables", None) => Ok(Pragma::ShowTables { all: false }),
        ("show_tables_expanded", None) => Ok(Pragma::ShowTables { all: true }),
        ("show_databases", None) => Ok(Pragma::ShowDatabases),
        ("force_checkpoint", None) => Ok(Pragma::Checkpoint),
        ("version", None) => Ok(Pragma::Version),
        ("database_list", None) => Ok(Pragma::Query("FROM pragma_database_list")),
        _ => Err(Error::input(format!("there is no PRAGMA {name}"))
            .hint("PRAGMA setting = value is SET; PRAGMA table_info('t'), show_tables and version tell something")),
    }
}

/// Whether a statement of these words, in capitals, has nothing to do here: what is no longer needed goes by itself, what these
/// extensions bring is there, and comments on what is no table are not kept.
pub fn is_inert(words: &[&str]) -> bool {
    match words {
        ["VACUUM"] | ["VACUUM", _] | ["COMMENT", "ON", "VIEW" | "INDEX" | "SEQUENCE" | "TYPE" | "MACRO", ..] => true,
        ["LOAD" | "INSTALL", name] => BUILT_IN.contains(&name.trim_matches(['\'', '"'])),
        _ => false,
    }
}

/// The setting that RESET names.
pub fn reset(tokens: &[Token]) -> Result<String> {
    let names: Vec<&Token> = tokens.iter().skip(1).filter(|token| !is_scope(token)).collect();
    match names[..] {
        [Token::Word(name)] => Ok(name.value.to_lowercase()),
        _ => Err(Error::input("RESET takes the name of a setting")),
    }
}

/// GLOBAL and SESSION: the session is what has settings.
pub fn is_scope(token: &Token) -> bool {
    is_word(token, "global") || is_word(token, "session")
}

/// The text of a value.
fn text(token: &Token) -> Option<String> {
    match token {
        Token::Word(word) => Some(word.value.clone()),
        Token::SingleQuotedString(text) | Token::Number(text, _) => Some(text.clone()),
        _ => None,
    }
}

/// Whether this is a MERGE, perhaps behind a WITH.
pub fn is_merge(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0;
    let mut outside: Vec<&Token> = Vec::new();
    for TokenWithSpan { token, .. } in tokens {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Whitespace(_) => {}
            token if depth == 0 => outside.push(token),
            _ => {}
        }
    }
    let is = |token: &Token, keyword| matches!(token, Token::Word(word) if word.keyword == keyword);
    outside.windows(2).any(|pair| is(pair[0], Keyword::MERGE) && is(pair[1], Keyword::INTO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn tokens(text: &str) -> Vec<Token> {
        let tokens = Tokenizer::new(&DuckDbDialect {}, text).tokenize().expect("tokens");
        tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_) | Token::EOF)).collect()
    }

    #[test]
    fn pragmas_are_told() {
        let check = |text: &str| pragma(&tokens(text)).expect("known");
        assert_eq!(check("PRAGMA enable_verification"), Pragma::Nothing);
        let (variable, value) = ("threads".to_owned(), "4".to_owned());
        assert_eq!(check("pragma Threads=4"), Pragma::Set { variable, value });
        assert_eq!(check("PRAGMA table_info('t')"), Pragma::TableInfo("t".to_owned()));
        assert!(pragma(&tokens("PRAGMA nothing_like_it")).is_err());
        assert!(pragma(&tokens("PRAGMA table_info")).is_err());
    }

    #[test]
    fn settings_are_reset_by_name() {
        assert_eq!(reset(&tokens("RESET SESSION Threads")).expect("a name"), "threads");
        assert!(reset(&tokens("RESET")).is_err());
    }
}
