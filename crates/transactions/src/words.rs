//! BEGIN, COMMIT, ROLLBACK, SAVEPOINT and RELEASE as words, in DuckDB's forms and PostgreSQL's.

use forebay_base::{Error, Result};

use crate::{Access, Isolation, Modes};

/// What a statement does with the transaction of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// BEGIN or START TRANSACTION.
    Begin(Modes),
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
    /// KILL TRANSACTION number: ends one of another session.
    Kill(u64),
}

/// The words that such statements begin with.
const BEGINNINGS: [&str; 9] = ["ABORT", "BEGIN", "COMMIT", "END", "KILL", "RELEASE", "ROLLBACK", "SAVEPOINT", "START"];

/// Whether a statement is one of these that begins with this word, in capitals.
pub fn is_control(word: &str) -> bool {
    BEGINNINGS.contains(&word)
}

/// What a statement says that begins with one of these words: its words and signs, names in quotes where they were written so.
///
/// # Errors
/// Other words.
pub fn control(words: &[impl ToString]) -> Result<Control> {
    let texts: Vec<String> = words.iter().map(ToString::to_string).collect();
    let mut words = Words(&texts);
    let control = match () {
        () if words.take("BEGIN") => {
            let _ = words.take("TRANSACTION") || words.take("WORK");
            Control::Begin(words.modes()?)
        }
        () if words.take("START") => {
            words.expect("TRANSACTION")?;
            Control::Begin(words.modes()?)
        }
        () if words.take("COMMIT") || words.take("END") => {
            let _ = words.take("TRANSACTION") || words.take("WORK");
            Control::Commit
        }
        () if words.take("KILL") => {
            words.expect("TRANSACTION")?;
            Control::Kill(words.number()?)
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
struct Words<'t>(&'t [String]);

impl Words<'_> {
    /// Whether the next word is this one, which is taken then.
    fn take(&mut self, word: &str) -> bool {
        match self.0 {
            [first, rest @ ..] if first.eq_ignore_ascii_case(word) => {
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
        let is_name =
            |word: &String| word.starts_with(|first: char| first == '"' || first == '_' || first.is_alphabetic());
        match self.0 {
            [name, rest @ ..] if is_name(name) => {
                self.0 = rest;
                let quoted = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
                Ok(quoted.map_or_else(|| name.clone(), |name| name.replace("\"\"", "\"")))
            }
            _ => Err(self.wrong("the name of a savepoint")),
        }
    }

    fn number(&mut self) -> Result<u64> {
        match self.0 {
            [number, rest @ ..] if let Ok(number) = number.parse() => {
                self.0 = rest;
                Ok(number)
            }
            _ => Err(self.wrong("the number of a transaction (SELECT transaction_id FROM forebay.transactions)")),
        }
    }

    /// READ ONLY, READ WRITE and ISOLATION LEVEL ….
    fn modes(&mut self) -> Result<Modes> {
        let Modes { mut access, mut isolation } = Modes::default();
        while !self.0.is_empty() {
            if self.take("READ") {
                access = if self.take("ONLY") { Access::ReadOnly } else { Access::ReadWrite };
                if access == Access::ReadWrite {
                    self.expect("WRITE")?;
                }
            } else {
                self.expect("ISOLATION")?;
                self.expect("LEVEL")?;
                isolation = Some(self.level()?);
            }
            if self.take(",") && self.0.is_empty() {
                return Err(self.wrong("READ ONLY, READ WRITE or ISOLATION LEVEL"));
            }
        }
        Ok(Modes { access, isolation })
    }

    /// A level.
    fn level(&mut self) -> Result<Isolation> {
        match () {
            () if self.take("SERIALIZABLE") => Ok(Isolation::Serializable),
            () if self.take("SNAPSHOT") => Ok(Isolation::Snapshot),
            () if self.take("REPEATABLE") => self.expect("READ").map(|()| Isolation::Snapshot),
            () => {
                self.expect("READ")?;
                if !self.take("UNCOMMITTED") {
                    self.expect("COMMITTED")?;
                }
                Ok(Isolation::ReadCommitted)
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
    use super::*;

    fn told(text: &str) -> Result<Control> {
        control(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn all_forms_are_known() {
        let access = |is_read_only| if is_read_only { Access::ReadOnly } else { Access::ReadWrite };
        let begin = |is_read_only| Control::Begin(Modes { access: access(is_read_only), ..Modes::default() });
        let at = |isolation, is_read_only| {
            Control::Begin(Modes { access: access(is_read_only), isolation: Some(isolation) })
        };
        for (text, expect) in [
            ("BEGIN", begin(false)),
            ("begin work", begin(false)),
            ("BEGIN TRANSACTION READ ONLY", begin(true)),
            ("START TRANSACTION READ WRITE", begin(false)),
            ("BEGIN ISOLATION LEVEL REPEATABLE READ , READ ONLY", at(Isolation::Snapshot, true)),
            ("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", at(Isolation::ReadCommitted, false)),
            ("BEGIN ISOLATION LEVEL READ UNCOMMITTED", at(Isolation::ReadCommitted, false)),
            ("START TRANSACTION ISOLATION LEVEL SNAPSHOT", at(Isolation::Snapshot, false)),
            ("BEGIN ISOLATION LEVEL SERIALIZABLE", at(Isolation::Serializable, false)),
            ("START TRANSACTION READ ONLY , ISOLATION LEVEL SERIALIZABLE", at(Isolation::Serializable, true)),
            ("COMMIT", Control::Commit),
            ("COMMIT WORK", Control::Commit),
            ("END TRANSACTION", Control::Commit),
            ("ROLLBACK", Control::Rollback),
            ("ABORT WORK", Control::Rollback),
            ("SAVEPOINT a", Control::Savepoint("a".to_owned())),
            ("ROLLBACK TO \"b\"\"c\"", Control::RollbackTo("b\"c".to_owned())),
            ("ROLLBACK WORK TO SAVEPOINT a", Control::RollbackTo("a".to_owned())),
            ("RELEASE a", Control::Release("a".to_owned())),
            ("kill transaction 12", Control::Kill(12)),
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
            "BEGIN READ ONLY ,",
            "SAVEPOINT 1",
            "KILL 7",
            "KILL TRANSACTION seven",
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
