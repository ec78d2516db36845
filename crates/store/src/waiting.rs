//! Waiting for the transaction whose change was in the way, and what is said where that does not end.
//!
//! Must not know: who tries again, and what.

use std::time::{Duration, Instant};

use forebay_base::{Error, ErrorKind, Result};
use forebay_hot::{Blocker, TransactionId, Waited};

/// How long transactions wait for others unless they are told otherwise.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until a transaction ends that has changed the same, or takes that back. `met` is the conflict; `own` is who waits, if others may wait
/// for it. `cancelled` says when nobody waits any more.
///
/// # Errors
/// `Busy` if that has not happened by `until`; `Conflict` if the other one waits for `own`; that of `cancelled`.
pub fn wait_for_writer(
    met: &Error,
    (blocker, own): (&Blocker, Option<TransactionId>),
    until: Instant,
    cancelled: &dyn Fn() -> Result<()>,
) -> Result<()> {
    match blocker.wait(own, until, &|| cancelled().is_err()) {
        Waited::Ended => cancelled(),
        Waited::Cancelled => cancelled().and_then(|()| Err(met.clone())),
        Waited::Deadlock => {
            let message = format!("{}, which waits for this one: a deadlock", met.message());
            Err(Error::new(ErrorKind::Conflict, message).hint("Run the transaction again"))
        }
        Waited::TimedOut => {
            let message = format!("{}, and has not ended in time", met.message());
            let hint = "Run the transaction again, or have it wait longer (SET lock_timeout)";
            Err(Error::new(ErrorKind::Busy, message).hint(hint))
        }
    }
}
