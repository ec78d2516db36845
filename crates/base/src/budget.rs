//! One account of memory: a total, clients that reserve bytes of it, and figures that say who holds how much.
//!
//! Invariants: what is reserved never exceeds the total, nor a client its own limit; what is overdrawn is counted with the
//! rest, so that nothing more is reserved before it is given back. Every [`Reservation`] gives its bytes back when it is
//! dropped. Nobody ever waits here for memory, so nobody can wait for ever.
//! Must not know: what the memory is for, and where it comes from.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::units::format_bytes;
use crate::{Error, ErrorKind, Result};

/// An account of bytes. Clones share it.
#[derive(Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

struct Shared {
    total_bytes: usize,
    accounts: Mutex<Accounts>,
}

#[derive(Default)]
struct Accounts {
    /// The sum over all clients.
    held_bytes: usize,
    clients: Vec<ClientFigures>,
}

/// What one client may hold, and holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientFigures {
    /// What the memory is for, as a plural: `read buffers`.
    pub name: &'static str,
    /// Bytes that it may reserve.
    pub limit_bytes: usize,
    /// Bytes that it holds, reserved and overdrawn.
    pub held_bytes: usize,
    /// The most that it ever held.
    pub peak_bytes: usize,
    /// Of what it holds, bytes that it took without asking ([`Client::overdraw`]).
    pub overdrawn_bytes: usize,
}

impl Budget {
    /// An account of `total_bytes`.
    pub fn new(total_bytes: usize) -> Self {
        Self { shared: Arc::new(Shared { total_bytes, accounts: Mutex::default() }) }
    }

    /// A new client for the life of the account, which may reserve up to `limit_bytes` as long as others leave as many.
    pub fn client(&self, name: &'static str, limit_bytes: usize) -> Client {
        let mut accounts = self.shared.lock();
        let figures = ClientFigures { name, limit_bytes, held_bytes: 0, peak_bytes: 0, overdrawn_bytes: 0 };
        accounts.clients.push(figures);
        Client { shared: Arc::clone(&self.shared), index: accounts.clients.len() - 1 }
    }

    /// Bytes that all clients together may reserve.
    pub fn total_bytes(&self) -> usize {
        self.shared.total_bytes
    }

    /// Bytes that all clients hold together. More than the total only by what is overdrawn.
    pub fn held_bytes(&self) -> usize {
        self.shared.lock().held_bytes
    }

    /// What each client holds, in the order in which they were made.
    pub fn figures(&self) -> Vec<ClientFigures> {
        self.shared.lock().clients.clone()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Accounts> {
        // Every change leaves the sums whole, so a panicking holder is no reason to stop.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Accounts {
    /// Whether a client may hold `bytes` more. Nothing always fits.
    fn fits(&self, total_bytes: usize, index: usize, bytes: usize) -> bool {
        let client = &self.clients[index];
        let is_within = |held: usize, limit: usize| held.checked_add(bytes).is_some_and(|sum| sum <= limit);
        bytes == 0 || (is_within(client.held_bytes, client.limit_bytes) && is_within(self.held_bytes, total_bytes))
    }

    fn add(&mut self, index: usize, bytes: usize) {
        let client = &mut self.clients[index];
        client.held_bytes += bytes;
        client.peak_bytes = client.peak_bytes.max(client.held_bytes);
        self.held_bytes += bytes;
    }

    fn give_back(&mut self, index: usize, bytes: usize, overdrawn_bytes: usize) {
        self.clients[index].held_bytes -= bytes;
        self.clients[index].overdrawn_bytes -= overdrawn_bytes;
        self.held_bytes -= bytes;
    }
}

/// Who takes memory of a budget. Clones are the same client.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    index: usize,
}

impl Client {
    /// Bytes that it may reserve.
    pub fn limit_bytes(&self) -> usize {
        self.shared.lock().clients[self.index].limit_bytes
    }

    /// A reservation of nothing, to grow.
    pub fn nothing(&self) -> Reservation {
        Reservation { client: self.clone(), bytes: 0, overdrawn_bytes: 0 }
    }

    /// Reserves `bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`], which says who holds what, if that is more than is left to this client.
    pub fn reserve(&self, bytes: usize) -> Result<Reservation> {
        self.try_reserve(bytes).ok_or_else(|| self.exhausted(bytes))
    }

    /// Reserves `bytes`, or `None` if that is more than is left to this client.
    pub fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut reservation = self.nothing();
        reservation.try_grow(bytes).then_some(reservation)
    }

    /// Takes `bytes` whether they are left or not: for who cannot go on without them and holds what others need. Until they
    /// are given back less is left to everybody.
    pub fn overdraw(&self, bytes: usize) -> Reservation {
        let mut accounts = self.shared.lock();
        accounts.add(self.index, bytes);
        accounts.clients[self.index].overdrawn_bytes += bytes;
        Reservation { client: self.clone(), bytes, overdrawn_bytes: bytes }
    }

    /// The error of who wants `bytes` that are not left.
    pub fn exhausted(&self, bytes: usize) -> Error {
        let accounts = self.shared.lock();
        let client = &accounts.clients[self.index];
        let shown = |bytes: usize| format_bytes(bytes as u64);
        let holders = accounts.clients.iter().filter(|client| client.held_bytes > 0);
        let mut holders: Vec<String> =
            holders.map(|client| format!("{} {}", client.name, shown(client.held_bytes))).collect();
        if holders.is_empty() {
            holders.push("nobody anything".to_owned());
        }
        let message = format!(
            "the memory budget is exhausted: {} more are wanted for {}, which may have {}, and of {} for all hold {}",
            shown(bytes),
            client.name,
            shown(client.limit_bytes),
            shown(self.shared.total_bytes),
            holders.join(", ")
        );
        Error::new(ErrorKind::OutOfMemory, message).hint("Raise the memory limit, or run fewer queries at once")
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accounts = self.shared.lock();
        f.debug_struct("Budget")
            .field("total_bytes", &self.shared.total_bytes)
            .field("clients", &accounts.clients)
            .finish()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shared.lock().clients[self.index], f)
    }
}

/// Bytes that a client holds until this is dropped.
#[derive(Debug)]
#[must_use = "bytes are given back when the reservation is dropped"]
pub struct Reservation {
    client: Client,
    bytes: usize,
    /// Of these, bytes that were taken without asking.
    overdrawn_bytes: usize,
}

impl Reservation {
    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves `bytes` more.
    ///
    /// # Errors
    /// As [`Client::reserve`]; it then holds what it held before.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        if self.try_grow(bytes) { Ok(()) } else { Err(self.client.exhausted(bytes)) }
    }

    /// Reserves `bytes` more; false, and nothing is changed, if that is more than is left to the client.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let Client { shared, index } = &self.client;
        let mut accounts = shared.lock();
        let fits = accounts.fits(shared.total_bytes, *index, bytes);
        if fits {
            accounts.add(*index, bytes);
            self.bytes += bytes;
        }
        fits
    }

    /// Gives `bytes` of it back, what was overdrawn first.
    ///
    /// # Panics
    /// If it holds fewer.
    pub fn shrink(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes, "no more is given back than is held");
        let mut accounts = self.client.shared.lock();
        let overdrawn = bytes.min(self.overdrawn_bytes);
        accounts.give_back(self.client.index, bytes, overdrawn);
        self.bytes -= bytes;
        self.overdrawn_bytes -= overdrawn;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits_hold_to_the_byte_and_all_comes_back() {
        let budget = Budget::new(100);
        let (reads, chunks) = (budget.client("reads", 60), budget.client("chunks", 80));
        let mut first = reads.reserve(40).expect("in budget");
        assert!(reads.try_reserve(21).is_none(), "beyond its own limit");
        let second = chunks.reserve(60).expect("in budget");
        assert!(chunks.try_reserve(1).is_none() && reads.try_reserve(1).is_none(), "beyond the total");
        assert!(reads.try_reserve(0).is_some());
        first.shrink(10);
        first.grow(10).expect("what was given back");
        assert!(!first.try_grow(1) && first.bytes() == 40);
        drop(second);
        first.grow(20).expect("to its limit");
        assert!(first.grow(1).is_err() && chunks.try_reserve(40).is_some());
        drop(first);
        assert_eq!(budget.held_bytes(), 0);
        let figures: Vec<_> = budget.figures().iter().map(|client| (client.name, client.peak_bytes)).collect();
        assert_eq!(figures, [("reads", 60), ("chunks", 60)]);
    }

    #[test]
    fn an_error_says_who_holds_what() {
        let budget = Budget::new(3 << 20);
        let (reads, chunks) = (budget.client("read buffers", 3 << 20), budget.client("inflated chunks", 2 << 20));
        let _held = reads.reserve(2 << 20).expect("in budget");
        let error = chunks.reserve(2 << 20).expect_err("too much");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(
            error.to_string(),
            "the memory budget is exhausted: 2.00 MiB more are wanted for inflated chunks, which may have 2.00 MiB, and of \
             3.00 MiB for all hold read buffers 2.00 MiB. Raise the memory limit, or run fewer queries at once"
        );
        assert!(
            Budget::new(0).client("rows", 1).reserve(1).expect_err("nothing").message().contains("nobody anything")
        );
    }

    #[test]
    fn what_is_overdrawn_is_taken_from_what_is_left() {
        let budget = Budget::new(100);
        let (reads, chunks) = (budget.client("reads", 50), budget.client("chunks", 100));
        let held = chunks.reserve(90).expect("in budget");
        let mut overdrawn = reads.overdraw(60);
        assert_eq!((budget.held_bytes(), budget.figures()[0].overdrawn_bytes), (150, 60));
        assert!(chunks.try_reserve(1).is_none() && reads.try_reserve(1).is_none() && reads.try_reserve(0).is_some());
        drop(held);
        assert!(reads.try_reserve(1).is_none() && chunks.try_reserve(40).is_some());
        overdrawn.shrink(30);
        assert!(reads.try_reserve(20).is_some());
        drop(overdrawn);
        assert_eq!((budget.held_bytes(), budget.figures()[0].overdrawn_bytes), (0, 0));
    }

    #[test]
    fn sums_do_not_wrap() {
        let budget = Budget::new(usize::MAX);
        let client = budget.client("all", usize::MAX);
        let _one = client.reserve(1).expect("in budget");
        assert!(client.try_reserve(usize::MAX).is_none());
        assert!(client.try_reserve(usize::MAX - 1).is_some());
    }

    /// Many threads grow and shrink at once: an independent count of what was granted is never above the total.
    #[test]
    fn threads_never_hold_more_than_the_total() {
        const TOTAL: usize = 1000;
        let budget = Budget::new(TOTAL);
        let granted = AtomicUsize::new(0);
        let refused = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8_usize {
                let client = budget.client("a thread", 400);
                let (granted, refused) = (&granted, &refused);
                scope.spawn(move || {
                    let mut held = client.reserve(0).expect("nothing");
                    for step in 0..20_000_usize {
                        let bytes = (step * 7919 + thread * 104_729) % 300;
                        if step % 3 == 2 {
                            let bytes = bytes.min(held.bytes());
                            // Counted as gone before it is, and as there after it is: never too high.
                            granted.fetch_sub(bytes, Ordering::SeqCst);
                            held.shrink(bytes);
                        } else if held.try_grow(bytes) {
                            let sum = granted.fetch_add(bytes, Ordering::SeqCst) + bytes;
                            assert!(sum <= TOTAL, "{sum} of {TOTAL}");
                        } else {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    granted.fetch_sub(held.bytes(), Ordering::SeqCst);
                });
            }
        });
        assert!(refused.into_inner() > 0, "the total was never reached");
        assert_eq!((budget.held_bytes(), granted.into_inner()), (0, 0));
        assert!(budget.figures().iter().all(|client| client.held_bytes == 0 && client.peak_bytes <= 400));
    }

    proptest! {
        /// Beside a plain model: a list of what each reservation holds.
        #[test]
        fn it_counts_as_a_list_does(
            total in 0..2000_usize,
            limits in proptest::collection::vec(0..1500_usize, 1..4),
            steps in proptest::collection::vec((0..5_u8, any::<usize>(), 0..700_usize), 1..200),
        ) {
            let budget = Budget::new(total);
            let clients: Vec<_> = limits.iter().map(|limit| budget.client("a client", *limit)).collect();
            let mut held: Vec<(usize, Reservation)> = Vec::new();
            for (action, at, bytes) in steps {
                let of = |held: &[(usize, Reservation)], client: usize| -> usize {
                    held.iter().filter(|(owner, _)| *owner == client).map(|(_, reservation)| reservation.bytes()).sum()
                };
                let all: usize = held.iter().map(|(_, reservation)| reservation.bytes()).sum();
                let client = at % clients.len();
                let fits =
                    |client: usize| bytes == 0 || (of(&held, client) + bytes <= limits[client] && all + bytes <= total);
                match action {
                    0 => {
                        let expected = fits(client);
                        let reservation = clients[client].try_reserve(bytes);
                        prop_assert_eq!(reservation.is_some(), expected);
                        held.extend(reservation.map(|reservation| (client, reservation)));
                    }
                    1 if !held.is_empty() => {
                        let position = at % held.len();
                        let expected = fits(held[position].0);
                        prop_assert_eq!(held[position].1.try_grow(bytes), expected);
                    }
                    2 if !held.is_empty() => {
                        let position = at % held.len();
                        let reservation = &mut held[position].1;
                        reservation.shrink(bytes.min(reservation.bytes()));
                    }
                    3 => held.push((client, clients[client].overdraw(bytes / 10))),
                    _ if !held.is_empty() => drop(held.swap_remove(at % held.len())),
                    _ => {}
                }
                let sum: usize = held.iter().map(|(_, reservation)| reservation.bytes()).sum();
                prop_assert_eq!(budget.held_bytes(), sum);
                for (client, figures) in budget.figures().iter().enumerate() {
                    prop_assert_eq!(figures.held_bytes, of(&held, client));
                    prop_assert!(figures.overdrawn_bytes <= figures.held_bytes && figures.held_bytes <= figures.peak_bytes);
                }
            }
            drop(held);
            prop_assert_eq!(budget.held_bytes(), 0);
        }
    }
}
