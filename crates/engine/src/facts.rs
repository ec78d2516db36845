//! Facts that rule out blocks beside their zones: which values the rows of a block have, of its own columns or of rows of other
//! tables that they join with (sideways pruning, GOLAP §4.3), as sets of [bins](forebay_prune::bins); or which values they do not have,
//! by [Bloom filters](forebay_prune::bloom).
//!
//! A fact is made from rows as they were: of segments, which do not change, and of versions of the other tables, which
//! its row in the manifest names. It is used for the segments that it knows, while the other tables have these versions.
//! Invariant: no answer depends on a fact. Must not know: SQL; how facts are made.

mod bin_sets;
mod bloom_filters;
mod rule_out;

pub use bin_sets::{Attribute, BinSets, KIND};
pub use bloom_filters::{BloomFilters, FilteredBlocks, KIND as BLOOM_KIND};
pub use forebay_store::{Hop, OrderKey};
pub use rule_out::{Asked, hops_of_fact, segments_of};
pub(crate) use rule_out::{KnownFacts, PartnerTest, RuledOut, asks_for_values, remember};

/// Which facts about a table's blocks rule them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactUse {
    /// None.
    None,
    /// Bloom filters of the values of its own columns.
    BloomFilters,
    /// Histograms of the values of its own columns.
    Histograms,
    /// Also those about the rows of other tables that its rows join with.
    All,
}
