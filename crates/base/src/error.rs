//! The one error type: what failed, where, and what the user can do about it.
//!
//! Bugs assert; the world returns an [`Error`]. Context is added on the way up with [`Context`].

use std::fmt;

/// Result with the one [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What kind of failure this is; callers branch on it, users read the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The SQL text, a value or an input file is wrong.
    Input,
    /// A table, column, file or other named thing does not exist.
    NotFound,
    /// A named thing exists already.
    AlreadyExists,
    /// A valid request that Forebay does not serve (yet).
    Unsupported,
    /// A constraint (NOT NULL, …) would be violated.
    Constraint,
    /// Arithmetic left the range of its type.
    Overflow,
    /// Stored bytes are not what was written.
    Corrupt,
    /// The operating system refused or failed an operation.
    Io,
    /// The disk is full.
    OutOfSpace,
    /// The memory budget is exhausted.
    OutOfMemory,
    /// Another transaction has changed the same rows or definitions meanwhile, and committed first.
    Conflict,
    /// Another transaction has changed the same rows, and has not ended in time.
    Busy,
    /// A statement of the transaction has failed, so that it can only be rolled back.
    Aborted,
    /// The database is held by another process, or opened read-only.
    Locked,
    /// The format version of the database is not one this program reads.
    Version,
    /// The user cancelled the query.
    Cancelled,
    /// A bug in Forebay.
    Internal,
}

/// One failure. Displays as a single line: `message (context; context). Hint`.
#[derive(Debug, Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    context: Vec<String>,
    hint: Option<String>,
    position: Option<Position>,
}

/// A place in the SQL text, counted from 1 in lines and characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: u64,
    /// Character in the line, from 1.
    pub column: u64,
}

impl Error {
    /// A failure of `kind`; `message` says what failed, in lower case and without a final stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), context: Vec::new(), hint: None, position: None }))
    }

    /// Stored bytes are wrong; `message` says which and why.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// The user's text or data is wrong.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    /// A valid request that is not served.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// A bug in Forebay.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// An operating-system error of `operation` (for example `read 4096 bytes at 8192 of data.seg`).
    pub fn io(operation: impl fmt::Display, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Os;
        // One of ours on its way through a reader.
        if let Some(ours) = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            return ours.clone();
        }
        let (kind, hint) = match error.kind() {
            Os::NotFound => (ErrorKind::NotFound, None),
            Os::AlreadyExists => (ErrorKind::AlreadyExists, None),
            Os::StorageFull | Os::QuotaExceeded => {
                (ErrorKind::OutOfSpace, Some("Free some disk space and try again; nothing was lost"))
            }
            Os::PermissionDenied => (ErrorKind::Io, Some("Check the permissions of the path")),
            _ => (ErrorKind::Io, None),
        };
        let built = Self::new(kind, format!("cannot {operation}: {error}"));
        match hint {
            Some(hint) => built.hint(hint),
            None => built,
        }
    }

    /// Adds where it happened (`table lineorder`, `line 7, column 3`); outermost last.
    #[must_use]
    pub fn context(mut self, place: impl Into<String>) -> Self {
        self.0.context.push(place.into());
        self
    }

    /// Says what the user can do. The innermost hint wins.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint.get_or_insert(hint.into());
        self
    }

    /// Says where in the SQL text the failure lies. The innermost position wins.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.0.position.get_or_insert(position);
        self
    }

    /// Where in the SQL text the failure lies, if that is known. Not part of the displayed line.
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The bare message, without context and hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if !self.0.context.is_empty() {
            write!(f, " ({})", self.0.context.join("; "))?;
        }
        if let Some(hint) = &self.0.hint {
            write!(f, ". {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Adds context to a failing result.
pub trait Context<T> {
    /// `place` is only built on failure.
    fn context<S: Into<String>>(self, place: impl FnOnce() -> S) -> Result<T>;
}

impl<T> Context<T> for Result<T> {
    fn context<S: Into<String>>(self, place: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|error| error.context(place()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_one_line_with_context_and_hint() {
        let error = Error::corrupt("checksum mismatch").context("chunk 3").context("column a").hint("Restore it");
        assert_eq!(error.to_string(), "checksum mismatch (chunk 3; column a). Restore it");
    }

    #[test]
    fn full_disk_is_its_own_kind() {
        let os = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(Error::io("write x", &os).kind(), ErrorKind::OutOfSpace);
    }
}
