//! Statements that fail.

use forebay::{ErrorKind, Session};

use crate::texts::run;

/// What the error of this kind says that a statement fails with.
#[track_caller]
pub(crate) fn fails(session: &Session, text: &str, kind: ErrorKind) -> String {
    let error = run(session, text).expect_err(text);
    assert_eq!(error.kind(), kind, "{text}: {error}");
    error.to_string()
}
