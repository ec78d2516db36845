//! How far a transaction is, and what is said where no statement of it may run.

use forebay_base::{Error, ErrorKind, Result};

/// How far a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Statements may run.
    Running,
    /// A statement has failed.
    Aborted,
    /// Ended from outside; its session does not know yet.
    Killed(Killed),
    /// Committed or rolled back.
    Ended,
}

/// Why a transaction was ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Killed {
    /// Another session asked for it.
    Asked,
    /// It waited too long for its next statement.
    Idle,
}

impl Phase {
    /// Whether it may go on, or could after ROLLBACK TO.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Aborted)
    }

    /// An error where no statement may run.
    ///
    /// # Errors
    /// `Aborted`.
    pub(crate) fn check_usable(self) -> Result<()> {
        match self {
            Self::Running => Ok(()),
            Self::Aborted => Err(aborted()),
            Self::Killed(why) => Err(why.error()),
            Self::Ended => Err(ended()),
        }
    }
}

impl Killed {
    /// What its session is told.
    pub(crate) fn error(self) -> Error {
        let message = match self {
            Self::Asked => "the transaction was ended by another session (KILL TRANSACTION), and nothing of it is kept",
            Self::Idle => {
                "the transaction was idle for longer than idle_in_transaction_session_timeout and was ended; nothing of it is kept"
            }
        };
        Error::new(ErrorKind::Aborted, message).hint("ROLLBACK, and run it again")
    }
}

fn aborted() -> Error {
    Error::new(ErrorKind::Aborted, "the transaction is aborted, since a statement of it failed")
        .hint("ROLLBACK ends it; ROLLBACK TO goes back to a savepoint")
}

fn ended() -> Error {
    Error::new(ErrorKind::Aborted, "the transaction of the statement has ended meanwhile")
}
