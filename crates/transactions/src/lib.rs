//! The transactions of sessions: what the statements of one see, what they have changed so far, and how it ends. A statement outside of
//! BEGIN … COMMIT is a transaction of its own.
//!
//! Invariants: statements of a transaction see one catalog, with what the transaction itself has changed; nothing of it is kept unless it is
//! committed, and then all of it. Nobody waits for a transaction between its statements. Must not know: plans, files, of SQL more than the words of
//! these statements.
#![forbid(unsafe_code)]

mod activity;
mod open;
mod phase;
mod retries;
mod session;
mod sessions;
mod words;

pub use activity::{TransactionState, TransactionStatus, Working};
pub use open::{CheckAgain, OpenTransaction};
pub use retries::Retries;
pub use session::{Cancel, Ended, SessionTransactions};
pub use sessions::Sessions;
pub use words::{Control, control, is_control};

/// How a transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// What its statements may do.
    pub access: Access,
    /// What it sees of others; as its session has it where `None`.
    pub isolation: Option<Isolation>,
}

/// What a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// The database as it was when its first statement began.
    #[default]
    Snapshot,
    /// The same, and it commits only if it would see the same at that moment.
    Serializable,
    /// Each of its statements the database as it is when that statement begins.
    ReadCommitted,
}

impl Isolation {
    /// The level of this name, in small letters; `None` where there is none. Snapshots are what REPEATABLE READ asks for, and more.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "serializable" => Some(Self::Serializable),
            "snapshot" | "repeatable read" => Some(Self::Snapshot),
            "read committed" | "read uncommitted" => Some(Self::ReadCommitted),
            _ => None,
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Serializable => "serializable",
            Self::ReadCommitted => "read committed",
        }
    }
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
