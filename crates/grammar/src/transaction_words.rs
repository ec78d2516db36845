//! BEGIN, COMMIT, ROLLBACK, SAVEPOINT and RELEASE, in DuckDB's forms and PostgreSQL's.

use datafusion::sql::sqlparser::tokenizer::Token;
use forebay_base::{Error, Result};

use crate::words::is_word;

/// What a statement does with the transaction of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// BEGIN or START TRANSACTION.
    Begin {
        /// It changes nothing.
        is_read_only: bool,
    },
    /// COMMIT or END.
    Commit,
    /// ROLLBACK or ABORT.
    Rollback,
    /// SAVEPOINT name.
    Savepoint(String),
    /// ROLLBACK TO SAVEPOINT name.
    RollbackTo(String),
    /// RELEASE SAVEPOINT name.
    Release(String),
}

/// What a statement says that begins with one of these words, from its tokens without blanks.
///
/// # Errors
/// Other words, and SERIALIZABLE.
pub fn control(tokens: &[Token]) -> Result<Control> {
    let mut words = Words(tokens);
    let control = match () {
        () if words.take("BEGIN") => {
            let _ = words.take("TRANSACTION") || words.take("WORK");
            Control::Begin { is_read_only: words.modes()? }
        }
        () if words.take("START") => {
            words.expect("TRANSACTION")?;
            Control::Begin { is_read_only: words.modes()? }
        }
        () if words.take("COMMIT") || words.take("END") => {
            let _ = words.take("TRANSACTION") || words.take("WORK");
            Control::Commit
        }
        () if words.take("SAVEPOINT") => Control::Savepoint(words.name()?),
        () if words.take("RELEASE") => {
            words.take("SAVEPOINT");
            Control::Release(words.name()?)
        }
        () if words.take("ROLLBACK") || words.take("ABORT") => {
            let _ = words.take("TRANSACTION") || words.take("WORK");
            match words.take("TO") {
                true => {
                    words.take("SAVEPOINT");
                    Control::RollbackTo(words.name()?)
                }
                false => Control::Rollback,
            }
        }
        () => return Err(words.wrong("BEGIN, COMMIT or ROLLBACK")),
    };
    match words.0 {
        [] => Ok(control),
        _ => Err(words.wrong("the end of the statement")),
    }
}

/// What is left of a statement.
struct Words<'t>(&'t [Token]);

impl Words<'_> {
    /// Whether the next word is this one, which is taken then.
    fn take(&mut self, word: &str) -> bool {
        match self.0 {
            [first, rest @ ..] if is_word(first, word) => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.take(word) { Ok(()) } else { Err(self.wrong(word)) }
    }

    fn name(&mut self) -> Result<String> {
        match self.0 {
            [Token::Word(name), rest @ ..] => {
                self.0 = rest;
                Ok(name.value.clone())
            }
            _ => Err(self.wrong("the name of a savepoint")),
        }
    }

    /// READ ONLY, READ WRITE and ISOLATION LEVEL …; whether the first of them is there.
    fn modes(&mut self) -> Result<bool> {
        let mut is_read_only = false;
        while !self.0.is_empty() {
            if self.take("READ") {
                is_read_only = self.take("ONLY");
                if !is_read_only {
                    self.expect("WRITE")?;
                }
            } else {
                self.expect("ISOLATION")?;
                self.expect("LEVEL")?;
                self.level()?;
            }
            if let [Token::Comma, rest @ ..] = self.0 {
                self.0 = rest;
                if rest.is_empty() {
                    return Err(self.wrong("READ ONLY, READ WRITE or ISOLATION LEVEL"));
                }
            }
        }
        Ok(is_read_only)
    }

    /// A level that snapshots give, or more than it asks for.
    fn level(&mut self) -> Result<()> {
        if self.take("SERIALIZABLE") {
            return Err(Error::unsupported("transactions are not serializable yet: they see a snapshot")
                .hint("Leave the level out; two transactions that each change what the other one has read may both be committed"));
        }
        match self.take("SNAPSHOT") {
            true => Ok(()),
            false if self.take("REPEATABLE") => self.expect("READ"),
            false => {
                self.expect("READ")?;
                if self.take("UNCOMMITTED") { Ok(()) } else { self.expect("COMMITTED") }
            }
        }
    }

    fn wrong(&self, expected: &str) -> Error {
        let found = self.0.first().map_or_else(|| "the end".to_owned(), ToString::to_string);
        Error::input(format!("expected {expected}, found {found}"))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn told(text: &str) -> Result<Control> {
        let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().expect("tokens");
        let tokens: Vec<Token> = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
        control(&tokens)
    }

    #[test]
    fn all_forms_are_known() {
        let begin = |is_read_only| Control::Begin { is_read_only };
        for (text, expect) in [
            ("BEGIN", begin(false)),
            ("begin work", begin(false)),
            ("BEGIN TRANSACTION READ ONLY", begin(true)),
            ("START TRANSACTION READ WRITE", begin(false)),
            ("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", begin(true)),
            ("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", begin(false)),
            ("START TRANSACTION ISOLATION LEVEL SNAPSHOT", begin(false)),
            ("COMMIT", Control::Commit),
            ("COMMIT WORK", Control::Commit),
            ("END TRANSACTION", Control::Commit),
            ("ROLLBACK", Control::Rollback),
            ("ABORT WORK", Control::Rollback),
            ("SAVEPOINT a", Control::Savepoint("a".to_owned())),
            ("ROLLBACK TO \"b c\"", Control::RollbackTo("b c".to_owned())),
            ("ROLLBACK WORK TO SAVEPOINT a", Control::RollbackTo("a".to_owned())),
            ("RELEASE a", Control::Release("a".to_owned())),
            ("RELEASE SAVEPOINT a", Control::Release("a".to_owned())),
        ] {
            assert_eq!(told(text).expect(text), expect, "{text}");
        }
    }

    #[test]
    fn other_words_are_errors() {
        for text in [
            "BEGIN now",
            "START",
            "BEGIN READ",
            "BEGIN READ ONLY,",
            "BEGIN ISOLATION LEVEL SERIALIZABLE",
            "BEGIN ISOLATION LEVEL CHAOS",
            "COMMIT AND CHAIN",
            "ROLLBACK TO",
            "SAVEPOINT",
            "SAVEPOINT a b",
            "RELEASE SAVEPOINT",
        ] {
            assert!(told(text).is_err(), "{text}");
        }
    }
}
