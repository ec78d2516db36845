//! Blocks of a scan that facts rule out, once per scan.

use std::collections::{HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_base::{ColumnId, FactId, Result, SegmentId, TableId, Value};
use forebay_pipeline::Predicate;
use forebay_prune::bins::{BinSet, apart_from};
use forebay_prune::blocks::BlockBits;
use forebay_prune::bloom::hash_of;
use forebay_store::{BlockLayout, Catalog, Fact, Hop, OrderKey, TableSnapshot};

use super::FactUse;
use super::bin_sets::{self, BinSets};
use super::bloom_filters::{self, BloomFilters};

/// The contents of facts that were asked for, as long as the catalog has them.
#[derive(Debug, Default)]
pub(crate) struct KnownFacts {
    /// `None` where the file is not what was written, which `forebay check` tells: no answer needs it.
    contents: Mutex<HashMap<FactId, Option<Content>>>,
    /// What scans were asked, each question once, the latest ones last.
    asked: Mutex<VecDeque<Asked>>,
}

/// What a fact says.
#[derive(Debug, Clone)]
enum Content {
    BinSets(Arc<BinSets>),
    BloomFilters(Arc<BloomFilters>),
}

/// Values that filters are asked for, for one test.
const MOST_VALUES: usize = 64;

/// Questions that are remembered.
const ASKED: usize = 256;

/// What scans of a table were asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The table.
    pub table: TableId,
    /// What rows had to pass.
    pub tests: Vec<(OrderKey, Predicate)>,
    /// The columns that are read of them, besides those that are tested; none where that is not known.
    pub columns: Vec<ColumnId>,
    /// How often.
    pub times: u64,
}

/// Takes a question into those that are remembered: it is the latest one then.
pub(crate) fn remember(asked: &mut VecDeque<Asked>, mut new: Asked) {
    let same = |old: &Asked| (old.table, &old.tests, &old.columns) == (new.table, &new.tests, &new.columns);
    if let Some(known) = asked.iter().position(same).and_then(|place| asked.remove(place)) {
        new.times += known.times;
    }
    if asked.len() == ASKED {
        asked.pop_front();
    }
    asked.push_back(new);
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
    /// By their numbers in the table's [`BlockLayout`]; of no blocks where none is ruled out.
    pub(crate) blocks: BlockBits,
    /// The columns that told, each once.
    pub(crate) by: Vec<String>,
}

impl KnownFacts {
    /// The blocks of `table` that have no row that passes all of `tests`. Facts count that were made from these versions of
    /// other tables, and that are of use here.
    pub(crate) fn rule_out(
        &self,
        (catalog, facts): (&Catalog, FactUse),
        table: &TableSnapshot,
        tests: &[PartnerTest<'_>],
        version: &dyn Fn(TableId) -> Option<u64>,
    ) -> RuledOut {
        let mut ruled_out = RuledOut::default();
        // What a footer that cannot be read says is told by who scans the table.
        let Some(layout) = table.layout().filter(|_| !tests.is_empty()) else { return ruled_out };
        let facts: Vec<&Arc<Fact>> = catalog.facts_of(table.id).filter(|fact| is_of_use(fact, facts)).collect();
        for test in tests {
            let first = test.hops.first().map_or(test.column, |hop| hop.column);
            for fact in facts.iter().filter(|fact| fact.definition().columns.contains(&first)) {
                let others = fact.definition().sources.iter().filter(|source| source.table != table.id);
                if !others.clone().all(|source| version(source.table) == Some(source.version)) {
                    continue;
                }
                let is_any = match self.content(catalog, fact) {
                    Some(Content::BinSets(known)) => ruled_out.add((table, layout), &known, test),
                    Some(Content::BloomFilters(known)) => ruled_out.add_filtered((table, layout), (fact, &known), test),
                    None => false,
                };
                if is_any && !ruled_out.by.contains(&test.name) {
                    ruled_out.by.push(test.name.clone());
                }
            }
        }
        ruled_out
    }

    /// Takes note that a scan of these columns of a table was asked this. Gives the question; `None` where there was none.
    pub(crate) fn note(&self, table: TableId, tests: &[PartnerTest<'_>], columns: Vec<ColumnId>) -> Option<Asked> {
        if tests.is_empty() {
            return None;
        }
        let test =
            |test: &PartnerTest<'_>| (OrderKey { hops: test.hops.clone(), column: test.column }, test.test.clone());
        let new = Asked { table, tests: tests.iter().map(test).collect(), columns, times: 1 };
        remember(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner), new.clone());
        Some(new)
    }

    /// What scans of a table were asked.
    pub(crate) fn asked(&self, table: TableId) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().filter(|question| question.table == table).cloned().collect()
    }

    fn content(&self, catalog: &Catalog, fact: &Fact) -> Option<Content> {
        // Whatever a panicking holder left is whole.
        let known = self.contents.lock().unwrap_or_else(PoisonError::into_inner).get(&fact.id()).cloned();
        known.unwrap_or_else(|| {
            let content = match kind(fact) {
                bloom_filters::KIND => BloomFilters::read(fact).map(|known| Content::BloomFilters(Arc::new(known))),
                _ => fact
                    .read()
                    .and_then(|content| BinSets::from_bytes(&content))
                    .map(|known| Content::BinSets(Arc::new(known))),
            };
            let content = content.ok();
            let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
            contents.retain(|id, _| catalog.fact(*id).is_some());
            contents.insert(fact.id(), content.clone());
            content
        })
    }
}

/// The segments that a fact knows; `None` where it is of no kind that is known here.
///
/// # Errors
/// Where its file cannot be read.
pub fn segments_of(fact: &Fact) -> Result<Option<Vec<SegmentId>>> {
    Ok(match kind(fact) {
        bin_sets::KIND => {
            let known = BinSets::from_bytes(&fact.read()?)?;
            Some(known.segments.into_iter().map(|(segment, _)| segment).collect())
        }
        bloom_filters::KIND => Some(BloomFilters::read(fact)?.units.into_iter().map(|blocks| blocks.segment).collect()),
        _ => None,
    })
}

/// The way from the table of a fact to the rows that it tells of; `None` where it is of no kind that is known here.
///
/// # Errors
/// Where its file cannot be read.
pub fn hops_of_fact(fact: &Fact) -> Result<Option<Vec<Hop>>> {
    Ok(match kind(fact) {
        bin_sets::KIND => Some(BinSets::from_bytes(&fact.read()?)?.hops),
        bloom_filters::KIND => Some(Vec::new()),
        _ => None,
    })
}

fn kind(fact: &Fact) -> (u16, u32) {
    (fact.definition().kind, fact.definition().version)
}

fn is_of_use(fact: &Fact, facts: FactUse) -> bool {
    match facts {
        FactUse::None => false,
        FactUse::BloomFilters => kind(fact) == bloom_filters::KIND,
        FactUse::Histograms => kind(fact) == bin_sets::KIND,
        FactUse::All => [bin_sets::KIND, bloom_filters::KIND].contains(&kind(fact)),
    }
}

/// Whether only some single values pass, and no range of them.
pub(crate) fn asks_for_values(test: &Predicate) -> bool {
    let is_range = matches!(test, Predicate::Range { low, high } if low != high);
    !is_range && values_of(test).is_some()
}

/// The integers of a range, where both ends are there and they are few.
fn integers_between(low: &Bound<Value>, high: &Bound<Value>) -> Option<Vec<Value>> {
    let end = |bound: &Bound<Value>, inward: i128| match bound {
        Bound::Included(Value::Int(value)) => Some(*value),
        Bound::Excluded(Value::Int(value)) => value.checked_add(inward),
        _ => None,
    };
    let (low, high) = (end(low, 1)?, end(high, -1)?);
    let are_few = high.checked_sub(low).is_some_and(|between| (0..MOST_VALUES as i128).contains(&between));
    are_few.then(|| (low..=high).map(Value::Int).collect())
}

/// The values of which a row has one that passes; `None` where they are many, or where others pass.
fn values_of(test: &Predicate) -> Option<Vec<Value>> {
    let values = match test {
        Predicate::Range { low: Bound::Included(low), high: Bound::Included(high) } if low == high => vec![low.clone()],
        Predicate::Range { low, high } => integers_between(low, high)?,
        Predicate::In(values) => values.clone(),
        Predicate::Keys(keys) if keys.count() <= MOST_VALUES => {
            let words = keys.words().iter().enumerate();
            let places = words.flat_map(|(word, bits)| {
                (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
            });
            places.map(|place| Value::Int(keys.low() + place as i128)).collect()
        }
        _ => return None,
    };
    (values.len() <= MOST_VALUES).then_some(values)
}

impl RuledOut {
    /// Rules out what one fact rules out. False where that is nothing.
    fn add(
        &mut self,
        (table, layout): (&TableSnapshot, &BlockLayout),
        known: &BinSets,
        test: &PartnerTest<'_>,
    ) -> bool {
        if known.hops != test.hops {
            return false;
        }
        let mut is_any = false;
        for attribute in known.attributes.iter().filter(|attribute| attribute.column == test.column) {
            let passing: BinSet = attribute.bins.passing(test.test);
            for (number, segment) in table.segments.iter().enumerate() {
                let (Some(sets), blocks) = (known.sets_of(segment.id()), layout.of_segment(number)) else { continue };
                if sets.len() != blocks.len() {
                    continue;
                }
                let out = apart_from(&attribute.sets[sets], &passing);
                if !out.is_empty() {
                    self.blocks_of(layout).add_at(blocks.start, &out);
                    is_any = true;
                }
            }
        }
        is_any
    }

    /// Rules out the blocks whose filters have no value that passes. False where that is nothing, or where the filters cannot be
    /// read: no answer needs them, and `forebay check` tells.
    fn add_filtered(
        &mut self,
        (table, layout): (&TableSnapshot, &BlockLayout),
        (fact, known): (&Fact, &BloomFilters),
        test: &PartnerTest<'_>,
    ) -> bool {
        if !test.hops.is_empty() || known.column != test.column {
            return false;
        }
        let hashes = values_of(test.test).map(|values| values.iter().map(hash_of).collect::<Option<Vec<u64>>>());
        let Some(Some(hashes)) = hashes else { return false };
        let mut may = vec![false; known.units.len()];
        for hash in hashes {
            let Ok(with) = known.with(fact, &known.shape.bits_of(hash)) else { return false };
            with.into_iter().for_each(|unit| may[unit] = true);
        }
        let numbers: HashMap<_, _> =
            table.segments.iter().enumerate().map(|(number, segment)| (segment.id(), number)).collect();
        let mut is_any = false;
        for (unit, _) in known.units.iter().zip(may).filter(|(_, may)| !may) {
            let Some(segment) = numbers.get(&unit.segment) else { continue };
            let group = layout.of_group((*segment, unit.group as usize));
            let out = group.start + unit.blocks.0 as usize..(group.start + unit.blocks.1 as usize).min(group.end);
            self.blocks_of(layout).fill(out, true);
            is_any = true;
        }
        is_any
    }

    fn blocks_of(&mut self, layout: &BlockLayout) -> &mut BlockBits {
        if self.blocks.blocks() == 0 {
            self.blocks = BlockBits::none(layout.blocks());
        }
        &mut self.blocks
    }
}
