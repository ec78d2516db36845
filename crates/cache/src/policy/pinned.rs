//! Tables that are to stay whatever others are read: their units do not go before those of others have, as far as the budget has
//! room for them. What goes of the others is another policy's matter.
//!
//! Invariant: a unit is either here or with the other policy. Must not know: who chose the tables, how the other policy decides.

use std::collections::BTreeSet;

use forebay_base::TableId;

use super::queue::Queue;
use super::{Facts, Form, Goals, Policy, ScanProgress, UnitKey};

/// Another policy for all but some tables.
#[derive(Debug)]
pub struct Pinned<K> {
    tables: BTreeSet<TableId>,
    /// Units of these tables, by use.
    units: Queue<K>,
    others: Box<dyn Policy<K>>,
    /// The other policy is to save memory.
    saves: bool,
    budget_bytes: usize,
}

impl<K: UnitKey> Pinned<K> {
    /// Without tables; `others` has all units.
    pub fn new(others: Box<dyn Policy<K>>, budget_bytes: usize) -> Self {
        Self { tables: BTreeSet::new(), units: Queue::new(), others, saves: false, budget_bytes }
    }

    /// Another policy for all other tables. It is told of no units.
    pub fn set_others(&mut self, others: Box<dyn Policy<K>>) {
        self.others = others;
        self.others.save(self.saves);
        self.units = Queue::new();
    }

    /// The tables that are to stay.
    pub fn tables(&self) -> &BTreeSet<TableId> {
        &self.tables
    }

    /// A table is to stay, or no longer; false where it was so before. Its units have to go and come again.
    pub fn set(&mut self, table: TableId, is_pinned: bool) -> bool {
        match is_pinned {
            true => self.tables.insert(table),
            false => self.tables.remove(&table),
        }
    }

    /// Bytes of units of these tables.
    pub fn bytes(&self) -> usize {
        self.units.bytes()
    }

    fn is_pinned(&self, facts: &Facts) -> bool {
        self.tables.contains(&facts.column.table)
    }

    fn has_room(&self, facts: &Facts) -> bool {
        self.units.bytes().saturating_add(facts.bytes) <= self.budget_bytes
    }
}

impl<K: UnitKey> Policy<K> for Pinned<K> {
    fn wants(&self, facts: &Facts) -> Option<Form> {
        match self.is_pinned(facts) {
            true => self.has_room(facts).then_some(Form::Inflated),
            false => self.others.wants(facts),
        }
    }

    fn admits(&self, facts: &Facts, free_bytes: usize) -> bool {
        match self.is_pinned(facts) {
            true => self.has_room(facts),
            false => self.others.admits(facts, free_bytes),
        }
    }

    fn insert(&mut self, key: K, facts: Facts) {
        match self.is_pinned(&facts) {
            true => self.units.push(key, facts.bytes),
            false => self.others.insert(key, facts),
        }
    }

    fn touch(&mut self, key: &K) {
        if self.units.bytes() == 0 || !self.units.renew(key) {
            self.others.touch(key);
        }
    }

    fn counts_uses(&self) -> bool {
        self.others.counts_uses()
    }

    fn forget(&mut self, key: &K) {
        if self.units.remove(key).is_none() {
            self.others.forget(key);
        }
    }

    fn evict(&mut self, incoming: Option<&Facts>, take: &mut dyn FnMut(&K) -> bool) -> bool {
        // For one that is to stay others go, whatever they are worth.
        let is_pinned = incoming.is_some_and(|facts| self.is_pinned(facts));
        let incoming_of_others = incoming.filter(|_| !is_pinned);
        self.others.evict(incoming_of_others, take)
            // Who needs the memory for something else than chunks gets it.
            || (incoming.is_none() && self.units.take_first(take).is_some())
    }

    fn resize(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        self.others.resize(budget_bytes);
    }

    fn save(&mut self, saves: bool) {
        self.saves = saves;
        self.others.save(saves);
    }

    fn chooses_forms(&self) -> bool {
        self.others.chooses_forms()
    }

    fn shed(&mut self, take: &mut dyn FnMut(&K) -> bool) -> bool {
        self.others.shed(take)
    }

    fn foresee(&mut self, progress: &ScanProgress) {
        self.others.foresee(progress);
    }

    fn aim(&mut self, goals: &Goals) {
        self.others.aim(goals);
    }

    fn watches_scans(&self) -> bool {
        self.others.watches_scans()
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::ColumnId;

    use super::*;
    use crate::policy::traces::evicted;
    use crate::policy::{ColumnKey, PolicyKind};

    fn facts(table: u64, bytes: usize) -> Facts {
        Facts { column: ColumnKey { table: TableId(table), column: ColumnId(0) }, ..Facts::of_bytes(bytes) }
    }

    #[test]
    fn units_of_pinned_tables_go_last() {
        let mut policy = Pinned::<u32>::new(PolicyKind::Lru.policy(100), 100);
        assert!(policy.set(TableId(1), true) && !policy.set(TableId(1), true));
        for key in 0..4 {
            policy.insert(key, facts(u64::from(key % 2), 10));
        }
        assert_eq!(
            (policy.bytes(), policy.wants(&facts(1, 80)), policy.wants(&facts(0, 1))),
            (20, Some(Form::Inflated), None)
        );
        assert!(policy.wants(&facts(1, 81)).is_none() && !policy.admits(&facts(1, 81), 1000));
        policy.touch(&1);
        assert_eq!(evicted(&mut policy, Some(&facts(0, 10))), Some(0));
        assert_eq!(evicted(&mut policy, Some(&facts(1, 10))), Some(2));
        assert_eq!(evicted(&mut policy, Some(&facts(1, 10))), None, "one that is to stay for another");
        assert_eq!(evicted(&mut policy, None), Some(3), "queries need memory");
        assert_eq!((evicted(&mut policy, None), evicted(&mut policy, None)), (Some(1), None));
    }

    #[test]
    fn a_table_may_be_let_go_of() {
        let mut policy = Pinned::new(PolicyKind::Lru.policy(100), 100);
        policy.set(TableId(1), true);
        policy.insert(1, facts(1, 10));
        policy.insert(2, facts(2, 10));
        assert!(policy.set(TableId(1), false) && policy.tables().is_empty());
        policy.forget(&1);
        policy.insert(1, facts(1, 10));
        assert_eq!((evicted(&mut policy, Some(&facts(2, 10))), policy.bytes()), (Some(2), 0));
        assert_eq!(evicted(&mut policy, Some(&facts(2, 10))), Some(1));
    }
}
