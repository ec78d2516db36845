//! One account of memory: a total, and a tree of clients that reserve bytes of it: parts of the process, below one of them
//! statements, and below these their operators.
//!
//! What a client reserves counts for all clients above it. A client may have bytes *set aside*: those above keep them free for it
//! among their own, so that they are there when it needs them, while others of the process may use them until then: who
//! reserves memory that others can do without has them [give it back](GivesBack). Memory of the heap that was given back stays with
//! the allocator for a while, and counts until then as the process's.
//!
//! Invariants: what is reserved never exceeds the total, nor what a client and those below it claim its limit; what is overdrawn
//! is counted with the rest, so that nothing more is reserved before it is given back. Every [`Reservation`] gives its bytes
//! back when it is dropped. Nobody ever waits here for memory, so nobody can wait for ever.
//! Must not know: what the memory is for, and where it comes from.

mod accounts;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::units::format_bytes;
use crate::{Error, ErrorKind, Result, limits};

use accounts::{Accounts, Entry};

/// Holders that an error names.
const NAMED_HOLDERS: usize = 6;

/// An account of bytes. Clones share it.
#[derive(Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

struct Shared {
    total_bytes: usize,
    accounts: Mutex<Accounts>,
    givers: Mutex<Vec<Weak<dyn GivesBack>>>,
}

/// Who holds memory that others may need more.
pub trait GivesBack: Send + Sync {
    /// Gives about so many bytes back, if it can; false where it gave none. Called without locks of the account, by whoever
    /// needs memory.
    fn give_back(&self, bytes: usize) -> bool;
}

/// Where memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// From the system, and back to it at once.
    System,
    /// From the allocator, which keeps for a while what it gets back.
    Heap,
}

/// What a client is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The process.
    Process,
    /// A statement.
    Query,
    /// What a statement does.
    Operator,
}

impl Tier {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Query => "query",
            Self::Operator => "operator",
        }
    }
}

/// What one client may hold, and holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFigures {
    /// What it is a part of.
    pub tier: Tier,
    /// What the memory is for, as a plural: `read buffers`; of a statement, its text.
    pub name: Arc<str>,
    /// The client above it, if there is one.
    pub part_of: Option<Arc<str>>,
    /// Bytes that it may reserve.
    pub limit_bytes: usize,
    /// Bytes that are kept free for it, reserved or not.
    pub set_aside_bytes: usize,
    /// Bytes that it holds with those below it, reserved and overdrawn.
    pub held_bytes: usize,
    /// The most that it ever held.
    pub peak_bytes: usize,
    /// Of what it holds, bytes that it took without asking ([`Client::overdraw`]).
    pub overdrawn_bytes: usize,
}

impl Budget {
    /// An account of `total_bytes`.
    pub fn new(total_bytes: usize) -> Self {
        Self { shared: Arc::new(Shared { total_bytes, accounts: Mutex::default(), givers: Mutex::default() }) }
    }

    /// A new client of the process, as long as somebody has it, which may reserve up to `limit_bytes` as long as others leave as
    /// many.
    pub fn client(&self, name: &str, limit_bytes: usize, backing: Backing) -> Client {
        Client::new(&self.shared, None, Entry::new(Tier::Process, name, limit_bytes, backing))
    }

    /// Has this one give memory back when others need more than there is.
    pub fn takes_from(&self, giver: Weak<dyn GivesBack>) {
        self.shared.givers.lock().unwrap_or_else(PoisonError::into_inner).push(giver);
    }

    /// Bytes that all clients together may reserve.
    pub fn total_bytes(&self) -> usize {
        self.shared.total_bytes
    }

    /// Bytes that all clients hold together. More than the total only by what is overdrawn.
    pub fn held_bytes(&self) -> usize {
        self.shared.lock().held_bytes()
    }

    /// Bytes of the heap that were given back and that the allocator still has.
    pub fn kept_bytes(&self) -> usize {
        self.shared.lock().kept_bytes()
    }

    /// A while is over after which the allocator has no more than was held since the last one: so many bytes less than before are
    /// the process's.
    pub fn forget_kept(&self) -> usize {
        self.shared.lock().forget_kept()
    }

    /// What each client holds: those of the process in the order in which they were made, each before those below it.
    pub fn figures(&self) -> Vec<ClientFigures> {
        self.shared.lock().figures()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Accounts> {
        // Every change leaves the sums whole, so a panicking holder is no reason to stop.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has others give about so many bytes back; false where nobody did.
    fn ask(&self, bytes: usize) -> bool {
        // Those who give take the account's lock, and others may ask meanwhile.
        let givers: Vec<_> = {
            let givers = self.givers.lock().unwrap_or_else(PoisonError::into_inner);
            givers.iter().filter_map(Weak::upgrade).collect()
        };
        givers.iter().any(|giver| giver.give_back(bytes))
    }
}

/// Who takes memory of a budget. Clones are the same client.
#[derive(Clone)]
pub struct Client {
    registered: Arc<Registered>,
}

/// A place in the account, as long as somebody has it.
struct Registered {
    shared: Arc<Shared>,
    index: usize,
    /// The client above, which stays as long as this one.
    _above: Option<Client>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.lock().close(self.index);
    }
}

impl Client {
    fn new(shared: &Arc<Shared>, above: Option<Client>, entry: Entry) -> Self {
        let index = shared.lock().open(above.as_ref().map(Client::index), entry);
        Self { registered: Arc::new(Registered { shared: Arc::clone(shared), index, _above: above }) }
    }

    fn shared(&self) -> &Shared {
        &self.registered.shared
    }

    fn index(&self) -> usize {
        self.registered.index
    }

    /// A client below this one, with memory of the same kind, which may reserve as much as is left to this one.
    pub fn part(&self, tier: Tier, name: &str) -> Self {
        let backing = self.shared().lock().entry(self.index()).backing;
        Self::new(&self.registered.shared, Some(self.clone()), Entry::new(tier, name, usize::MAX, backing))
    }

    /// Bytes that it may reserve.
    pub fn limit_bytes(&self) -> usize {
        self.shared().lock().entry(self.index()).limit_bytes
    }

    /// Bytes that it holds with those below it.
    pub fn held_bytes(&self) -> usize {
        self.shared().lock().entry(self.index()).held_bytes
    }

    /// The part of its process's client that this one may claim now: two thirds of an even part among the statements that claim
    /// something, and no more than two thirds of what is free.
    pub fn share_bytes(&self) -> usize {
        self.shared().lock().share_bytes(self.index())
    }

    /// Sets its share aside, at least `least_bytes` whoever has claimed the rest, which it may then hold and no more; gives how many.
    /// It is set free when the last clone of the client goes.
    pub fn set_share_aside(&self, least_bytes: usize, most_bytes: usize) -> usize {
        self.shared().lock().set_share_aside(self.index(), least_bytes, most_bytes)
    }

    /// Sets no more aside than it holds.
    pub fn set_rest_free(&self) {
        self.shared().lock().set_aside(self.index(), 0);
    }

    /// A reservation of nothing, to grow.
    pub fn nothing(&self) -> Reservation {
        Reservation { client: self.clone(), bytes: 0, overdrawn_bytes: 0 }
    }

    /// Reserves `bytes`, for which others give some back if need be.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`], which says who holds what, if that is more than is left to this client.
    pub fn reserve(&self, bytes: usize) -> Result<Reservation> {
        let mut reservation = self.nothing();
        reservation.grow(bytes)?;
        Ok(reservation)
    }

    /// Reserves `bytes`, or `None` if that is more than is left to this client. Nobody is asked to give any back.
    pub fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut reservation = self.nothing();
        reservation.try_grow(bytes).then_some(reservation)
    }

    /// Takes `bytes` whether they are left or not: for who cannot go on without them and holds what others need. Until they
    /// are given back less is left to everybody.
    pub fn overdraw(&self, bytes: usize) -> Reservation {
        let mut reservation = self.nothing();
        reservation.overdraw(bytes);
        reservation
    }

    /// The error of who wants `bytes` that are not left.
    pub fn exhausted(&self, bytes: usize) -> Error {
        let accounts = self.shared().lock();
        let shown = |bytes: usize| format_bytes(bytes as u64);
        let client = accounts.entry(self.index());
        let narrowest = accounts.narrowest(self.index(), bytes);
        let holders: Vec<String> = accounts.holders().map(|(name, bytes)| format!("{name} {}", shown(bytes))).collect();
        let mut holders = match holders.len() {
            0 => "nobody anything".to_owned(),
            _ => holders[..holders.len().min(NAMED_HOLDERS)].join(", "),
        };
        let kept_bytes = accounts.kept_bytes();
        if kept_bytes > 0 {
            holders += &format!(", and {} are the allocator's", shown(kept_bytes));
        }
        let (tier, limit, hint) = match narrowest {
            Some(limited) => {
                let hint = match limited.tier {
                    Tier::Process => "Give the database more with --memory, or run fewer queries at once",
                    Tier::Query | Tier::Operator => "Raise memory_limit, or run fewer queries at once",
                };
                (limited.tier, limited.limit_bytes, hint)
            }
            None => {
                let hint = "Give the database more with --memory, or run fewer queries at once";
                (Tier::Process, self.shared().total_bytes, hint)
            }
        };
        let message = format!(
            "the memory of the {} is exhausted: {} more are wanted for {}, where there may be {}, and of {} for all hold {holders}",
            tier.name(),
            shown(bytes),
            client.name,
            shown(limit),
            shown(self.shared().total_bytes),
        );
        Error::new(ErrorKind::OutOfMemory, message).hint(hint)
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("total_bytes", &self.total_bytes())
            .field("clients", &self.figures())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.shared().lock().entry(self.index()), f)
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

    /// Whose they are.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reserves `bytes` more, for which others give some back if need be.
    ///
    /// # Errors
    /// As [`Client::reserve`]; it then holds what it held before.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        if self.grow_asking(bytes) { Ok(()) } else { Err(self.client.exhausted(bytes)) }
    }

    /// Reserves `bytes` more; false, and nothing is changed, if that is more than is left to the client. Nobody is asked to give
    /// any back.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let shared = self.client.shared();
        let mut accounts = shared.lock();
        let fits = accounts.fits(shared.total_bytes, self.client.index(), bytes);
        if fits {
            accounts.add(self.client.index(), bytes);
            self.bytes += bytes;
        }
        fits
    }

    fn grow_asking(&mut self, bytes: usize) -> bool {
        loop {
            if self.try_grow(bytes) {
                return true;
            }
            let shared = self.client.shared();
            let missing = shared.lock().missing(shared.total_bytes, self.client.index(), bytes);
            let Some(missing) = missing else { return false };
            if !shared.ask(missing) {
                return false;
            }
        }
    }

    /// Reserves `bytes` more, for which others give some back if need be; what they do not is overdrawn.
    pub fn require(&mut self, bytes: usize) {
        if !self.grow_asking(bytes) {
            self.overdraw(bytes);
        }
    }

    fn overdraw(&mut self, bytes: usize) {
        self.client.shared().lock().overdraw(self.client.index(), bytes);
        self.bytes += bytes;
        self.overdrawn_bytes += bytes;
    }

    /// Holds at least `bytes`, and not many more, in steps: for amounts that change a little very often. Others give some back if
    /// need be; false where that is not enough, and then it holds what it held before.
    pub fn follow(&mut self, bytes: usize) -> bool {
        match bytes.checked_sub(self.bytes) {
            None | Some(0) => {
                let (rest, ample) = (self.bytes - bytes, self.bytes / 4 + 4 * limits::RESERVED_STEP_BYTES);
                if rest > ample || bytes == 0 {
                    self.shrink(self.bytes - in_steps(bytes).min(self.bytes));
                }
                true
            }
            Some(more) => self.grow_asking(in_steps(bytes) - self.bytes) || self.grow_asking(more),
        }
    }

    /// As [`Reservation::follow`]; what others do not give back is overdrawn.
    pub fn follow_in_any_case(&mut self, bytes: usize) {
        if !self.follow(bytes) {
            self.overdraw(bytes - self.bytes);
        }
    }

    /// Gives `bytes` of it back, what was overdrawn first.
    ///
    /// # Panics
    /// If it holds fewer.
    pub fn shrink(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes, "no more is given back than is held");
        let overdrawn = bytes.min(self.overdrawn_bytes);
        self.client.shared().lock().give_back(self.client.index(), bytes, overdrawn);
        self.bytes -= bytes;
        self.overdrawn_bytes -= overdrawn;
    }
}

/// A little more than so many bytes, in whole steps; nothing for nothing.
fn in_steps(bytes: usize) -> usize {
    let with_some_more = bytes.saturating_add(bytes / 16);
    with_some_more.checked_next_multiple_of(limits::RESERVED_STEP_BYTES).unwrap_or(bytes)
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests;
