//! What decides which units go when there is no room: policies behind one trait.
//!
//! A unit is a chunk in one of its forms. Whoever holds the units tells a policy of every one that comes, is used or goes, and
//! asks it for one to let go of. Reading order: this trait; [`by_use`], [`two_q`], [`s3_fifo`], [`w_tiny_lfu`] and [`pbm`] are
//! those of others, to compare with; [`proportional`] is ours; [`pinned`] keeps tables out of the hands of any of them.
//! Invariants: no locks, clocks, I/O or chance: the same calls have the same effect. A policy names only units that it was told of
//! and that have not gone. Must not know: the units' values, threads, the disk.

pub mod by_use;
pub mod pbm;
pub mod pinned;
pub mod proportional;
mod queue;
pub mod s3_fifo;
pub mod two_q;
pub mod w_tiny_lfu;

#[cfg(test)]
mod naive;
#[cfg(test)]
mod traces;

use std::fmt;
use std::hash::Hash;

use forebay_base::{ColumnId, Error, Result, TableId};

pub use proportional::{Goal, Goals};

/// What names a unit.
pub trait UnitKey: Hash + Eq + Clone + fmt::Debug + Send + 'static {}

impl<K: Hash + Eq + Clone + fmt::Debug + Send + 'static> UnitKey for K {}

/// A column of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnKey {
    /// Its table.
    pub table: TableId,
    /// The column of that.
    pub column: ColumnId,
}

/// The two forms of a chunk in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// Ready to be computed on.
    Inflated,
    /// As it lies on disk: smaller, and inflated for every use.
    Stored,
}

/// What is known of a unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Facts {
    /// The column that it is a part of.
    pub column: ColumnKey,
    /// Where its row group stands in a fixed order of the row groups by chance: in [0, 1), the same for all columns of a table.
    pub fraction: f64,
    /// Where its rows stand in the order in which scans read the table; distances between units count.
    pub ordinal: u64,
    /// Its form.
    pub form: Form,
    /// Bytes of memory that it takes in this form.
    pub bytes: usize,
    /// What it cost to make: nanoseconds of reading and, of an inflated one, inflating.
    pub make_ns: u64,
}

impl Facts {
    /// Of a unit of `bytes` of which nothing else is known.
    pub fn of_bytes(bytes: usize) -> Self {
        let column = ColumnKey { table: TableId(0), column: ColumnId(0) };
        Self { column, fraction: 0.0, ordinal: 0, form: Form::Inflated, bytes, make_ns: 0 }
    }
}

/// How far a scan is.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanProgress {
    /// Names the scan.
    pub scan: u64,
    /// The table that it reads.
    pub table: TableId,
    /// The columns of that which it may read.
    pub columns: Vec<ColumnId>,
    /// The ordinal up to which all is read.
    pub position: u64,
    /// Ordinals that it passes in a second; more than 0.
    pub speed: f64,
    /// It reads nothing more.
    pub is_over: bool,
}

/// What decides which units stay.
pub trait Policy<K>: fmt::Debug + Send {
    /// The form in which a chunk of these facts, which was just read, is to stay for sure; `None` where that is nobody's goal. The
    /// facts' own form and bytes do not matter.
    fn wants(&self, facts: &Facts) -> Option<Form> {
        let _ = facts;
        None
    }

    /// Whether a unit that would be welcome is to be kept where so many bytes are free.
    fn admits(&self, facts: &Facts, free_bytes: usize) -> bool {
        let _ = (facts, free_bytes);
        true
    }

    /// A unit came, for which there is room.
    fn insert(&mut self, key: K, facts: Facts);

    /// A unit was used. One that has gone meanwhile is none of the policy's business.
    fn touch(&mut self, key: &K);

    /// Whether it matters how often a unit was used, and not only when last.
    fn counts_uses(&self) -> bool {
        true
    }

    /// A unit went without being asked for.
    fn forget(&mut self, key: &K);

    /// Lets go of one unit, to make room for one of these facts, or for something else. Units are offered to `take`, the one
    /// first that is worth least, until it takes one; it takes none that is in use. False where it took none.
    fn evict(&mut self, incoming: Option<&Facts>, take: &mut dyn FnMut(&K) -> bool) -> bool;

    /// There is another budget.
    fn resize(&mut self, budget_bytes: usize) {
        let _ = budget_bytes;
    }

    /// A scan began, went on or is over.
    fn foresee(&mut self, progress: &ScanProgress) {
        let _ = progress;
    }

    /// There are other goals.
    fn aim(&mut self, goals: &Goals) {
        let _ = goals;
    }

    /// Memory that no goal needs is to be saved from now on, or to be used.
    fn save(&mut self, saves: bool) {
        let _ = saves;
    }

    /// Lets go of one unit that no goal needs where memory is to be saved, as [`Policy::evict`] does. False where it took none.
    fn shed(&mut self, take: &mut dyn FnMut(&K) -> bool) -> bool {
        let _ = take;
        false
    }

    /// Whether the policy knows in which form a chunk that is there in both is to stay.
    fn chooses_forms(&self) -> bool {
        false
    }

    /// Whether the policy wants to know how far scans are.
    fn watches_scans(&self) -> bool {
        false
    }
}

/// The policies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum PolicyKind {
    /// [`by_use`]: the longest unused goes first.
    #[default]
    Lru,
    /// [`by_use`]: the last used goes first.
    Mru,
    /// [`two_q`].
    TwoQ,
    /// [`s3_fifo`].
    S3Fifo,
    /// [`w_tiny_lfu`].
    WTinyLfu,
    /// [`pbm`].
    Pbm,
    /// [`proportional`].
    Proportional,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Lru, Self::Mru, Self::TwoQ, Self::S3Fifo, Self::WTinyLfu, Self::Pbm, Self::Proportional];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Mru => "mru",
            Self::TwoQ => "two_q",
            Self::S3Fifo => "s3_fifo",
            Self::WTinyLfu => "w_tiny_lfu",
            Self::Pbm => "pbm",
            Self::Proportional => "proportional",
        }
    }

    /// The policy of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn parse(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::input(format!("the cache policy {name} does not exist")).hint(format!("Use one of {names}"))
        })
    }

    /// A new policy of this kind, for a budget of so many bytes.
    pub fn policy<K: UnitKey>(self, budget_bytes: usize) -> Box<dyn Policy<K>> {
        match self {
            Self::Lru => Box::new(by_use::ByUse::least_recent()),
            Self::Mru => Box::new(by_use::ByUse::most_recent()),
            Self::TwoQ => Box::new(two_q::TwoQ::new(budget_bytes)),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::new(budget_bytes)),
            Self::WTinyLfu => Box::new(w_tiny_lfu::WTinyLfu::new(budget_bytes)),
            Self::Pbm => Box::new(pbm::Pbm::new()),
            Self::Proportional => Box::new(proportional::Proportional::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        for kind in PolicyKind::ALL {
            assert_eq!(PolicyKind::parse(&kind.name().to_uppercase()).ok(), Some(kind));
        }
        let error = PolicyKind::parse("fifo").expect_err("there is none");
        assert!(error.to_string().contains("lru, mru, two_q, s3_fifo, w_tiny_lfu, pbm, proportional"), "{error}");
    }
}
