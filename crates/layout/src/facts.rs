//! The facts about a table's blocks that are made anew, and those that tell of nothing any more.
//!
//! Invariant: facts about a projection are facts about its table that know the projection's segments.

use std::sync::Arc;

use forebay_base::{FactId, ProjectionId, Result, TableId};
use forebay_engine::CancelToken;
use forebay_engine::analyze::{
    build, build_filters, hops_of, worth_filtering, worth_making, worth_making_of_referencing,
};
use forebay_engine::facts::{BLOOM_KIND, KIND, hops_of_fact, segments_of};
use forebay_store::{Catalog, Fact, Hop, TableSnapshot, Transaction};

use crate::maintenance::Maintenance;

/// Facts about a table that are found out anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MadeAnew {
    /// All of them.
    All,
    /// Those about the rows that its own join with.
    OfOthers,
    /// Those, and filters: the table lies in another order.
    Moved,
    /// The same of one projection, of which there are none yet.
    OfCopy(ProjectionId),
}

impl Maintenance<'_> {
    /// Makes facts about a table as it is now.
    pub(crate) fn make_facts_of(&self, table: TableId, made_anew: MadeAnew) -> Result<()> {
        let catalog = self.engine.store().catalog();
        catalog.table_by_id(table).map_or(Ok(()), |table| self.make_facts(&catalog, table, made_anew))
    }

    /// Makes the facts about a table that are worth it, in the place of those that there are, and those of its rows about the tables
    /// that it refers to.
    pub(crate) fn make_facts(&self, catalog: &Catalog, table: &Arc<TableSnapshot>, made_anew: MadeAnew) -> Result<()> {
        let is_copy = matches!(made_anew, MadeAnew::OfCopy(_));
        let is_wanted = |copy: &&Arc<TableSnapshot>| match made_anew {
            MadeAnew::OfCopy(id) => copy.copy_id() == id,
            MadeAnew::All | MadeAnew::OfOthers | MadeAnew::Moved => true,
        };
        let mut made = Vec::new();
        for copy in copies_of(table).filter(is_wanted) {
            let mut wanted = worth_making(catalog, copy, made_anew != MadeAnew::All);
            wanted.extend(worth_making_of_referencing(catalog, copy));
            made.extend(build(self.engine, catalog, copy, &wanted, self.how())?);
            if made_anew != MadeAnew::OfOthers {
                let wanted = worth_filtering(self.engine, copy)?;
                made.extend(build_filters(self.engine, catalog, copy, &wanted, self.how())?);
            }
        }
        let is_replaced = |fact: &&Arc<Fact>| {
            let definition = fact.definition();
            match (definition.kind, definition.version) {
                _ if is_copy => false,
                KIND => made_anew == MadeAnew::All || definition.sources.len() > 1,
                BLOOM_KIND => made_anew != MadeAnew::OfOthers,
                _ => false,
            }
        };
        let referred = if is_copy { Vec::new() } else { referred_by(catalog, table) };
        for (back, referred) in &referred {
            for copy in copies_of(referred) {
                let mut wanted = worth_making_of_referencing(catalog, copy);
                wanted.retain(|wanted| wanted.hops == [*back]);
                made.extend(build(self.engine, catalog, copy, &wanted, self.how())?);
            }
        }
        let mut transaction = self.engine.store().begin()?;
        let known = Arc::clone(transaction.catalog());
        let mut replaced: Vec<FactId> = known.facts_of(table.id).filter(is_replaced).map(|fact| fact.id()).collect();
        for (back, referred) in &referred {
            // `forebay check` tells of a fact that cannot be read.
            let is_told_by = |fact: &&Arc<Fact>| matches!(hops_of_fact(fact), Ok(Some(hops)) if hops == [*back]);
            replaced.extend(known.facts_of(referred.id).filter(is_told_by).map(|fact| fact.id()));
        }
        if replaced.is_empty() && made.is_empty() {
            return Ok(());
        }
        replaced.into_iter().try_for_each(|fact| transaction.drop_fact(fact))?;
        for fact in made {
            transaction.publish_fact(fact)?;
        }
        transaction.commit()
    }

    fn how(&self) -> (usize, &CancelToken) {
        (self.threads, self.cancel)
    }

    /// Drops the facts about a table that know none of the segments which it and its projections have.
    pub(crate) fn drop_idle_facts(transaction: &mut Transaction, table: TableId) -> Result<()> {
        let catalog = Arc::clone(transaction.catalog());
        let Some(known) = catalog.table_by_id(table) else { return Ok(()) };
        let here: Vec<_> = known.all_segments().map(|segment| segment.id()).collect();
        for fact in catalog.facts_of(table) {
            // `forebay check` tells of one that cannot be read.
            let Ok(Some(segments)) = segments_of(fact) else { continue };
            if !segments.iter().any(|segment| here.contains(segment)) {
                transaction.drop_fact(fact.id())?;
            }
        }
        Ok(())
    }
}

/// The tables that a table refers to, each with the way from it to the rows that do.
fn referred_by(catalog: &Catalog, table: &TableSnapshot) -> Vec<(Hop, Arc<TableSnapshot>)> {
    let referred = |(hop, _): (Hop, &TableSnapshot)| {
        let back = Hop { column: hop.key, table: table.id, key: hop.column };
        Some((back, Arc::clone(catalog.table_by_id(hop.table)?)))
    };
    hops_of(catalog, table).into_iter().filter_map(referred).collect()
}

/// A table, and the copies of its rows in other orders.
fn copies_of(table: &Arc<TableSnapshot>) -> impl Iterator<Item = &Arc<TableSnapshot>> {
    std::iter::once(table).chain(table.copies())
}
