//! The facts about a table's blocks that are made anew, and those that tell of nothing any more.
//!
//! Invariant: facts about a projection are facts about its table that know the projection's segments.

use std::sync::Arc;

use forebay_base::{ProjectionId, Result, TableId};
use forebay_engine::analyze::{build, build_filters, worth_filtering, worth_making};
use forebay_engine::facts::{BLOOM_KIND, KIND, segments_of};
use forebay_store::{Catalog, TableSnapshot, Transaction};

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

    /// Makes the facts about a table that are worth it, in the place of those that there are.
    pub(crate) fn make_facts(&self, catalog: &Catalog, table: &Arc<TableSnapshot>, made_anew: MadeAnew) -> Result<()> {
        let how = (self.threads, self.cancel);
        let is_wanted = |copy: &&Arc<TableSnapshot>| match made_anew {
            MadeAnew::OfCopy(id) => copy.copy_id() == id,
            MadeAnew::All | MadeAnew::OfOthers | MadeAnew::Moved => true,
        };
        let mut made = Vec::new();
        for copy in std::iter::once(table).chain(table.copies()).filter(is_wanted) {
            let wanted = worth_making(catalog, copy, made_anew != MadeAnew::All);
            made.extend(build(self.engine, catalog, copy, &wanted, how)?);
            if made_anew != MadeAnew::OfOthers {
                let wanted = worth_filtering(self.engine, copy)?;
                made.extend(build_filters(self.engine, catalog, copy, &wanted, how)?);
            }
        }
        let mut transaction = self.engine.store().begin()?;
        let known = transaction.catalog().facts_of(table.id).filter(|fact| {
            let definition = fact.definition();
            match (definition.kind, definition.version) {
                _ if matches!(made_anew, MadeAnew::OfCopy(_)) => false,
                KIND => made_anew == MadeAnew::All || definition.sources.len() > 1,
                BLOOM_KIND => made_anew != MadeAnew::OfOthers,
                _ => false,
            }
        });
        let known: Vec<_> = known.map(|fact| fact.id()).collect();
        if known.is_empty() && made.is_empty() {
            return Ok(());
        }
        known.into_iter().try_for_each(|fact| transaction.drop_fact(fact))?;
        for fact in made {
            transaction.publish_fact(fact)?;
        }
        transaction.commit()
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
