//! What becomes of a statement that has met the change of another transaction: it waits for that one to end and tries again, or fails.
//!
//! A statement that is a transaction of its own, and one of a transaction at READ COMMITTED, sees more at each try, so that a change that was committed is
//! no reason to fail. A transaction at a snapshot goes on where the other one has rolled back, and fails where it has committed.
//!
//! Must not know: statements, sessions' settings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_base::{Error, ErrorKind, Result};
use forebay_store::wait_for_writer;

use crate::{OpenTransaction, SessionTransactions};

/// How often a statement is tried that nobody was to wait for: each time that it fails another one has committed.
const TRIES: u32 = 100;

/// The tries of a statement.
#[derive(Debug)]
pub struct Retries {
    tries: u32,
    timeout: Duration,
    /// When waiting is over; `None` before it has begun.
    until: Option<Instant>,
}

impl Retries {
    /// Those of a statement that waits so long in all; 0 = not at all.
    pub fn new(timeout: Duration) -> Self {
        Self { tries: 1, timeout, until: None }
    }

    /// Returns once a statement that has failed is worth another try: in `transaction`, which is another one from then on where it was the
    /// statement's own. Nothing is left of the try before. `cancelled` says when nobody wants it any more.
    ///
    /// # Errors
    /// The statement's own where it has failed for good; `Busy` where the other transaction does not end in time; `Conflict` where the two
    /// wait for each other; that of `cancelled`.
    pub fn again(
        &mut self,
        error: Error,
        session: &SessionTransactions,
        transaction: &mut Arc<OpenTransaction>,
        cancelled: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        if error.kind() != ErrorKind::Conflict {
            return Err(error);
        }
        let blocker = transaction.take_blocker();
        match transaction.is_block() {
            true => transaction.undo_statement()?,
            // Others may wait for it, too.
            false => transaction.fail(),
        }
        match blocker {
            Some((blocker, writer)) if !self.timeout.is_zero() => {
                let until = *self.until.get_or_insert_with(|| Instant::now() + self.timeout);
                let own = writer.filter(|_| transaction.is_block());
                session.set_waiting(true);
                let waited = wait_for_writer(&error, (&blocker, own), until, cancelled);
                session.set_waiting(false);
                waited?;
            }
            None if transaction.sees_more() && self.tries < TRIES => {
                cancelled()?;
                pause(self.tries);
                self.tries += 1;
            }
            _ => return Err(error),
        }
        transaction.store().wait_for_commits();
        *transaction = session.of_statement();
        Ok(())
    }
}

/// Waits before a statement is tried again: who has changed the same may not have come to its end, and may need the processor for that. All
/// tries take about a second.
fn pause(tries: u32) {
    /// So often somebody else is let run only; then it is a time that doubles up to 10 ms.
    const YIELDS: u32 = 4;
    match tries.checked_sub(YIELDS) {
        None | Some(0) => std::thread::yield_now(),
        Some(more) => std::thread::sleep(Duration::from_micros(20 << more.min(9))),
    }
}
