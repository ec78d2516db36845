//! The transactions of sessions: what the statements of one see, what they have changed so far, and how it ends. A statement outside of
//! BEGIN … COMMIT is a transaction of its own.
//!
//! Invariants: statements of a transaction see one catalog, with what the transaction itself has changed; nothing of it is kept unless it is
//! committed, and then all of it. Nobody waits for a transaction between its statements. Must not know: plans, files, of SQL more than the words of
//! these statements.
#![forbid(unsafe_code)]

mod open;
mod session;
mod words;

pub use open::{CheckAgain, OpenTransaction};
pub use session::{Ended, SessionTransactions};
pub use words::{Control, control, is_control};

/// How a transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// What its statements may do.
    pub access: Access,
    /// What it sees of others.
    pub isolation: Isolation,
}

/// What a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// The database as it was when its first statement began.
    #[default]
    Snapshot,
    /// The same, and it commits only if it would see the same at that moment.
    Serializable,
}

/// What the statements of a transaction may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// Read and write.
    #[default]
    ReadWrite,
    /// Read.
    ReadOnly,
}
