//! Blocks of a scan that facts rule out, once per scan.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_base::{ColumnId, FactId, TableId};
use forebay_block::BlockSet;
use forebay_pipeline::Predicate;
use forebay_prune::bins::BinSet;
use forebay_store::{Catalog, Fact, TableSnapshot};

use super::bin_sets::{BinSets, Hop, KIND, OrderKey};

/// The contents of facts that were asked for, as long as the catalog has them.
#[derive(Debug, Default)]
pub(crate) struct KnownFacts {
    /// `None` where the file is not what was written, which `forebay check` tells: no answer needs it.
    contents: Mutex<HashMap<FactId, Option<Arc<BinSets>>>>,
    /// What scans were asked, each question once, the latest ones last.
    asked: Mutex<VecDeque<Asked>>,
}

/// Questions that are remembered.
const ASKED: usize = 256;

/// What scans of a table were asked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    table: TableId,
    /// What rows had to pass.
    pub(crate) tests: Vec<(OrderKey, Predicate)>,
    /// The columns that are read of them.
    pub(crate) columns: usize,
    /// How often.
    pub(crate) times: u64,
}

/// What rows of a scan must pass: a test of a column of their own, or of the rows that they join with.
#[derive(Debug, Clone)]
pub(crate) struct PartnerTest<'q> {
    /// The way to the column's table.
    pub(crate) hops: Vec<Hop>,
    /// The column.
    pub(crate) column: ColumnId,
    /// The test.
    pub(crate) test: &'q Predicate,
    /// Table and column, for people.
    pub(crate) name: String,
}

impl<'q> PartnerTest<'q> {
    /// A test of a column of the table itself, which nobody asks the name of.
    pub(crate) fn own(column: ColumnId, test: &'q Predicate) -> Self {
        Self { hops: Vec::new(), column, test, name: String::new() }
    }
}

/// Blocks that have no row that passes.
#[derive(Debug, Default)]
pub(crate) struct RuledOut {
    /// By segment and row group of the table.
    blocks: BTreeMap<(usize, usize), BlockSet>,
    /// The columns that told, each once.
    pub(crate) by: Vec<String>,
}

impl KnownFacts {
    /// The blocks of `table` that have no row that passes all of `tests`. Facts count that were made from these versions of
    /// other tables.
    pub(crate) fn rule_out(
        &self,
        catalog: &Catalog,
        table: &TableSnapshot,
        tests: &[PartnerTest<'_>],
        version: &dyn Fn(TableId) -> Option<u64>,
    ) -> RuledOut {
        let mut ruled_out = RuledOut::default();
        if tests.is_empty() {
            return ruled_out;
        }
        let facts: Vec<&Arc<Fact>> = catalog.facts_of(table.id).filter(|fact| is_bin_sets(fact)).collect();
        for test in tests {
            let first = test.hops.first().map_or(test.column, |hop| hop.column);
            for fact in facts.iter().filter(|fact| fact.definition().columns.contains(&first)) {
                let others = fact.definition().sources.iter().filter(|source| source.table != table.id);
                if !others.clone().all(|source| version(source.table) == Some(source.version)) {
                    continue;
                }
                let Some(known) = self.content(catalog, fact) else { continue };
                if ruled_out.add(table, &known, test) && !ruled_out.by.contains(&test.name) {
                    ruled_out.by.push(test.name.clone());
                }
            }
        }
        ruled_out
    }

    /// Takes note that a scan of so many columns of a table was asked this.
    pub(crate) fn note(&self, table: TableId, tests: &[PartnerTest<'_>], columns: usize) {
        if tests.is_empty() {
            return;
        }
        let test =
            |test: &PartnerTest<'_>| (OrderKey { hops: test.hops.clone(), column: test.column }, test.test.clone());
        let mut new = Asked { table, tests: tests.iter().map(test).collect(), columns, times: 1 };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |old: &Asked| (old.table, &old.tests, old.columns) == (table, &new.tests, columns);
        if let Some(known) = asked.iter().position(same).and_then(|place| asked.remove(place)) {
            new.times += known.times;
        }
        if asked.len() == ASKED {
            asked.pop_front();
        }
        asked.push_back(new);
    }

    /// What scans of a table were asked.
    pub(crate) fn asked(&self, table: TableId) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().filter(|question| question.table == table).cloned().collect()
    }

    fn content(&self, catalog: &Catalog, fact: &Fact) -> Option<Arc<BinSets>> {
        // Whatever a panicking holder left is whole.
        let known = self.contents.lock().unwrap_or_else(PoisonError::into_inner).get(&fact.id()).cloned();
        known.unwrap_or_else(|| {
            let read = fact.read().and_then(|content| BinSets::from_bytes(&content)).ok().map(Arc::new);
            let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
            contents.retain(|id, _| catalog.fact(*id).is_some());
            contents.insert(fact.id(), read.clone());
            read
        })
    }
}

fn is_bin_sets(fact: &Fact) -> bool {
    (fact.definition().kind, fact.definition().version) == KIND
}

impl RuledOut {
    /// Rules out what one fact rules out. False where that is nothing.
    fn add(&mut self, table: &TableSnapshot, known: &BinSets, test: &PartnerTest<'_>) -> bool {
        if known.hops != test.hops {
            return false;
        }
        let mut is_any = false;
        for attribute in known.attributes.iter().filter(|attribute| attribute.column == test.column) {
            let passing: BinSet = attribute.bins.passing(test.test);
            for (number, segment) in table.segments.iter().enumerate() {
                let Some(sets) = known.sets_of(segment.id()) else { continue };
                // What a footer that cannot be read says is told by who scans the segment.
                let Ok(groups) = segment.groups() else { continue };
                let blocks: usize = groups.iter().map(|group| group.block_rows.len()).sum();
                if blocks != sets.len() {
                    continue;
                }
                let mut sets = &attribute.sets[sets];
                for (group, layout) in groups.iter().enumerate() {
                    let (mine, rest) = sets.split_at(layout.block_rows.len());
                    let out: BlockSet = (0..mine.len()).filter(|block| !mine[*block].meets(&passing)).collect();
                    if !out.is_empty() {
                        let known = self.blocks.entry((number, group)).or_default();
                        out.iter().for_each(|block| known.insert(block));
                        is_any = true;
                    }
                    sets = rest;
                }
            }
        }
        is_any
    }

    /// The blocks of a row group that are ruled out.
    pub(crate) fn of_group(&self, group: (usize, usize)) -> Option<&BlockSet> {
        self.blocks.get(&group)
    }

    /// The number of blocks that are ruled out.
    pub(crate) fn len(&self) -> usize {
        self.blocks.values().map(BlockSet::len).sum()
    }
}
