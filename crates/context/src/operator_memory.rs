//! The memory that DataFusion's operators take of the account of their statement.
//!
//! Operators that can spill share evenly what those that cannot leave to them, as in DataFusion's own `FairSpillPool`; how much
//! that is changes with what other statements need. Amounts are small and many, so the account is asked in steps.
//! Invariant: the account has at least what the operators take. Must not know: which operators there are.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use forebay_base::budget::{Client, Reservation};
use forebay_base::units::format_bytes;

/// Bytes that the operators of a statement may take however many others there are: two that sort need as many to get on, by way of
/// the disk.
const LEAST_BYTES: usize = 24 << 20;

/// The pool of a statement's operators.
#[derive(Debug)]
pub struct OperatorMemory {
    client: Client,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    held: Reservation,
    /// Operators that can spill.
    spilling: usize,
    /// Bytes that they take.
    spillable_bytes: usize,
    /// Bytes that the others take.
    other_bytes: usize,
    /// What all of them may take, as it was when the account was asked last.
    share_bytes: usize,
}

impl State {
    fn taken_bytes(&self) -> usize {
        self.spillable_bytes + self.other_bytes
    }

    fn add(&mut self, can_spill: bool, bytes: usize) {
        match can_spill {
            true => self.spillable_bytes += bytes,
            false => self.other_bytes += bytes,
        }
    }

    /// Bytes that an operator which takes `own_bytes` may take besides.
    fn left_bytes(&self, can_spill: bool, own_bytes: usize) -> usize {
        match can_spill {
            true => {
                let even = self.share_bytes.saturating_sub(self.other_bytes) / self.spilling.max(1);
                even.saturating_sub(own_bytes)
            }
            false => self.share_bytes.saturating_sub(self.taken_bytes()),
        }
    }
}

impl OperatorMemory {
    /// A pool of this client's memory, which others do not take.
    pub fn new(client: Client) -> Self {
        let (held, share_bytes) = (client.nothing(), client.share_bytes());
        let state = State { held, spilling: 0, spillable_bytes: 0, other_bytes: 0, share_bytes };
        Self { client, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Sums are changed by what cannot panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryPool for OperatorMemory {
    fn name(&self) -> &'static str {
        "account"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.state().spilling += usize::from(consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.state().spilling -= usize::from(consumer.can_spill());
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let mut state = self.state();
        state.add(reservation.consumer().can_spill(), additional);
        let taken_bytes = state.taken_bytes();
        state.held.follow_in_any_case(taken_bytes);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let mut state = self.state();
        match reservation.consumer().can_spill() {
            true => state.spillable_bytes -= shrink,
            false => state.other_bytes -= shrink,
        }
        let taken_bytes = state.taken_bytes();
        state.held.follow(taken_bytes);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let can_spill = reservation.consumer().can_spill();
        let mut state = self.state();
        let wanted_bytes = state.taken_bytes().saturating_add(additional);
        if wanted_bytes > state.held.bytes() {
            state.share_bytes = self.client.share_bytes();
        }
        let left_bytes = state.left_bytes(can_spill, reservation.size());
        let is_granted = additional <= left_bytes && state.held.follow(wanted_bytes);
        if !is_granted && wanted_bytes <= LEAST_BYTES {
            state.held.follow_in_any_case(wanted_bytes);
        }
        if is_granted || wanted_bytes <= LEAST_BYTES {
            state.add(can_spill, additional);
            return Ok(());
        }
        drop(state);
        let place = format!("{}, which has {}", reservation.consumer().name(), format_bytes(reservation.size() as u64));
        Err(DataFusionError::ResourcesExhausted(self.client.exhausted(additional).context(place).to_string()))
    }

    fn reserved(&self) -> usize {
        self.state().taken_bytes()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.client.share_bytes())
    }
}

impl fmt::Display for OperatorMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the account", format_bytes(self.client.share_bytes() as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_base::Budget;
    use forebay_base::budget::{Backing, Tier};

    use super::*;

    const MIB: usize = 1 << 20;

    /// The pool of a statement, of 300 MiB for all.
    fn pool(budget: &Budget) -> (Client, Arc<dyn MemoryPool>) {
        let queries = budget.client("queries", 300 * MIB, Backing::Heap);
        let pool = OperatorMemory::new(queries.part(Tier::Query, "SELECT 1").part(Tier::Operator, "sorts"));
        (queries, Arc::new(pool))
    }

    #[test]
    fn those_that_spill_share_evenly_what_others_leave() {
        let budget = Budget::new(400 * MIB);
        let (queries, pool) = pool(&budget);
        let spilling = |name: &str| MemoryConsumer::new(name).with_can_spill(true).register(&pool);
        let (join, first, second) = (MemoryConsumer::new("join").register(&pool), spilling("a"), spilling("b"));
        join.try_grow(100 * MIB).expect("two thirds of all are 200 MiB");
        first.try_grow(50 * MIB).expect("half of what is left");
        let error = first.try_grow(MIB).expect_err("more than its part").to_string();
        assert!(error.contains("a, which has 50.0 MiB") && error.contains("wanted for sorts"), "{error}");
        second.try_grow(50 * MIB).expect("the other half");
        assert!(join.try_grow(MIB).is_err());
        assert!(pool.reserved() == 200 * MIB && queries.held_bytes() >= 200 * MIB);
        second.grow(MIB);
        assert_eq!(pool.reserved(), 201 * MIB);
        drop((join, first));
        assert_eq!(pool.reserved(), 51 * MIB);
        second.try_grow(100 * MIB).expect("it is alone");
        drop(second);
        assert_eq!((pool.reserved(), budget.held_bytes()), (0, 0));
    }

    #[test]
    fn other_statements_leave_less() {
        let budget = Budget::new(400 * MIB);
        let (queries, pool) = pool(&budget);
        let other = queries.part(Tier::Query, "SELECT 2");
        let held = other.reserve(150 * MIB).expect("in budget");
        let sort = MemoryConsumer::new("sort").with_can_spill(true).register(&pool);
        sort.try_grow(100 * MIB).expect("two thirds of what is free");
        assert!(sort.try_grow(30 * MIB).is_err());
        let rest = other.reserve(40 * MIB).expect("in budget");
        assert!(sort.try_grow(MIB).is_err());
        let least = OperatorMemory::new(other.part(Tier::Operator, "sorts"));
        let least: Arc<dyn MemoryPool> = Arc::new(least);
        let small = MemoryConsumer::new("merge").register(&least);
        small.try_grow(24 * MIB).expect("as many as two sorts need");
        assert!(small.try_grow(MIB).is_err());
        drop((held, rest, small));
        sort.try_grow(100 * MIB).expect("two thirds of all");
    }
}
