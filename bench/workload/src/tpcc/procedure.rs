//! What the five transactions have in common.

use forebay::Result;

use super::connection::{Access, Connection};
use crate::random::RowRandom;

/// Where a terminal stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) warehouse: i32,
    /// The district whose stock it watches (clause 2.8.1.1).
    pub(super) district: i32,
    /// All warehouses.
    pub(super) warehouses: i32,
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Commit,
    /// As its input says (clause 2.4.1.4).
    RollBack,
}

/// What a user enters for a transaction. If a transaction conflicts with another one it is run again, with the same input.
pub(super) trait Draw {
    fn draw(place: Place, random: &mut RowRandom) -> Self;
}

/// One of the five transactions, its statements prepared by a connection.
pub(super) trait Procedure<C: Connection>: Sized {
    type Input: Draw;

    const ACCESS: Access;

    fn prepare(connection: &C) -> Result<Self>;

    /// Its statements, within a transaction that the caller begins and ends.
    fn run(&self, connection: &C, input: &Self::Input) -> Result<Ending>;
}

/// A customer, as users enter one.
#[derive(Debug, Clone)]
pub(super) enum CustomerInput {
    Id(i32),
    LastName(String),
}

impl CustomerInput {
    /// Six of ten by name (clauses 2.5.1.2 and 2.6.1.2).
    pub(super) fn draw(random: &mut RowRandom) -> Self {
        if super::random::happens(random, 60) {
            return Self::LastName(super::random::last_name(random));
        }
        Self::Id(super::random::customer(random))
    }
}

/// The place of the customer that a name stands for, among those of the name in the order of first names (clause 2.5.2.2).
pub(super) fn middle(customers: usize) -> usize {
    customers.div_ceil(2).saturating_sub(1)
}
