//! How an attempt to make a commit durable ended.

use forebay_base::Error;

/// How a commit ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is durable.
    Committed,
    /// Nothing changed, and the next commit may succeed.
    Failed(Error),
    /// Only reopening the database can tell; nothing may be written until then.
    Unknown(Error),
}
